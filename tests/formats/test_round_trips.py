"""Random formats of random tensors against dense arrays of integers."""

import copy
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.amount import amount
from strategies import formats

from jsparse.formats import Format, Pattern, Relayout
from jsparse.formats.relayout import relayout_to, with_order

SIZES = st.sampled_from([0, 1, 2, 3, 5, 7])


@st.composite
def tensors(draw):
    """(coords, values, shape) with duplicates, for ranks 0 to 5."""
    shape = tuple(draw(st.lists(SIZES, max_size=5)))
    most = 2 * int(np.prod(shape, dtype=int))
    count = draw(st.integers(0, min(most, 30)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    coords = np.stack([rng.integers(0, max(size, 1), count) for size in shape]) if shape else np.zeros((0, count), int)
    return coords, rng.integers(1, 100, count), shape


def dense(coords, values, shape):
    flat = np.zeros(int(np.prod(shape, dtype=int)), int)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1][: len(shape)]
    np.add.at(flat, (strides[:, None] * coords).sum(axis=0).astype(int), values)
    return flat.reshape(shape)


def summed(values, slots, nse):
    out = np.zeros(nse, int)
    np.add.at(out, slots, values)
    return out


@settings(max_examples=amount(100, 400), deadline=None)
@given(tensors(), st.data())
def test_patterns(tensor, data):
    coords, values, shape = tensor
    format = data.draw(formats(len(shape)))
    assert Format.of(format.notation, len(shape)) == format
    assert Format.of(format.name, len(shape)) == format
    pattern, slots = Pattern.from_coordinates(coords, shape, format)
    stored = pattern.to_coords()
    assert stored.shape == (len(shape), pattern.nse)
    assert slots.shape == values.shape
    assert (stored[:, slots] == coords).all()
    np.testing.assert_array_equal(
        dense(stored, summed(values, slots, pattern.nse), shape), dense(coords, values, shape)
    )
    in_order = [tuple(column) for column in stored[list(format.order)].T.tolist()]
    assert in_order == sorted(set(in_order))
    assert Pattern(shape, format, pattern.arrays) is pattern
    assert pickle.loads(pickle.dumps(pattern)) is pattern
    assert copy.deepcopy(pattern) is pattern
    assert pattern.level_sizes[-1:] in ((), (pattern.nse,))
    assert all(not array.flags.writeable and array.dtype == np.int32 for array in pattern.arrays)


@settings(max_examples=amount(100, 400), deadline=None)
@given(tensors(), st.data())
def test_relayouts(tensor, data):
    coords, values, shape = tensor
    source, slots = Pattern.from_coordinates(coords, shape, data.draw(formats(len(shape))))
    values = summed(values, slots, source.nse)
    relayout = relayout_to(source, data.draw(formats(len(shape))))
    gather, scatter = relayout.gather, relayout.scatter
    moved = np.where(gather >= 0, np.append(values, 0)[gather], 0)
    np.testing.assert_array_equal(
        dense(relayout.target.to_coords(), moved, shape), dense(source.to_coords(), values, shape)
    )
    np.testing.assert_array_equal(gather[scatter], np.arange(source.nse))
    np.testing.assert_array_equal(moved[scatter], values)
    assert not relayout.is_identity or np.array_equal(gather, np.arange(source.nse))
    merged = Relayout(source, relayout.target)
    assert merged == relayout
    assert merged.is_identity == relayout.is_identity
    np.testing.assert_array_equal(merged.scatter, scatter)
    np.testing.assert_array_equal(merged.gather, gather)


@settings(max_examples=amount(50, 200), deadline=None)
@given(tensors(), st.data())
def test_transposed_patterns_and_transposed_indices(tensor, data):
    coords, _, shape = tensor
    pattern, _ = Pattern.from_coordinates(coords, shape, data.draw(formats(len(shape))))
    axes = data.draw(st.permutations(range(len(shape))))
    transposed = pattern.transposed(axes)
    assert transposed.shape == tuple(shape[axis] for axis in axes)
    assert np.array_equal(transposed.to_coords(), pattern.to_coords()[list(axes)])
    assert transposed.transposed(np.argsort(axes) if axes else []) is pattern
    derived = with_order(pattern, axes)
    assert derived.format.order == tuple(axes)
    assert derived.shape == shape
    assert set(map(tuple, pattern.to_coords().T.tolist())) <= set(map(tuple, derived.to_coords().T.tolist()))
    extended = pattern.extended((2, 3))
    assert extended.shape == (*shape, 2, 3)
    assert np.array_equal(extended.to_coords()[: len(shape), ::6], pattern.to_coords())
