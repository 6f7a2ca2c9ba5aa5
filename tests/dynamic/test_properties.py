"""Properties of all formats: no conversion between them loses an entry, static or dynamic, traced or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.amount import amount
from strategies import formats

from jsparse import einsum
from jsparse.convert.creation import asarray
from jsparse.errors import FormatError
from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED, SINGLETON
from jsparse.tensor.sparse_tensor import SparseTensor

SHAPES = st.sampled_from([(3,), (4, 3), (3, 4, 2), (1, 5), (0, 3)])


@st.composite
def cases(draw):
    shape = draw(SHAPES)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(1, 9, shape) * (rng.random(shape) < draw(st.sampled_from([0, 0.3, 1])))
    return x.astype(np.float32), [draw(formats(len(shape))) for _ in range(3)]


def stored(A):
    """The entries, without the zeros that dense levels store."""
    coords, values = A.to_coords()
    kept = np.flatnonzero(values)
    order = np.lexsort(coords[::-1, kept]) if len(kept) else kept
    return coords[:, kept][:, order].tolist(), np.asarray(values)[kept][order].tolist()


def check(A, x):
    coords = np.nonzero(x)
    assert stored(A) == (np.stack(coords).tolist(), x[coords].tolist())
    A.validate()


@settings(max_examples=amount(40, 120), deadline=None)
@given(cases(), st.booleans(), st.data())
def test_chains_of_conversions(case, dynamic, data):
    x, chain = case
    A = asarray(x, chain[0], dynamic=dynamic, nse=x.size)
    check(A, x)
    for format in chain[1:]:
        A = A.asformat(format)
        assert A.format == format
        check(A, x)
        step = data.draw(st.sampled_from(["", "static", "dynamic", "transpose", "tree"]))
        if step == "static":
            A = A.static()
        elif step == "dynamic" and not A.format.is_dense:
            A = A.dynamic(x.size)
        elif step == "transpose":
            check(A.T, x.T)
            assert A.T.T.format == A.format
            check(A.T.T, x)
        elif step == "tree":
            A = jax.tree.unflatten(jax.tree.structure(A), jax.tree.leaves(A))
    check(A.static(), x)


@settings(max_examples=amount(20, 60), deadline=None)
@given(cases())
def test_sentinels_in_trees(case):
    x, chain = case
    A = asarray(x, chain[0], dynamic=not chain[0].is_dense)
    leaves, tree = jax.tree.flatten(A)
    marks = [object() for _ in leaves]
    assert jax.tree.leaves(jax.tree.unflatten(tree, marks)) == marks
    assert jax.tree.structure(jax.tree.map(lambda _: None, A), is_leaf=lambda leaf: leaf is None) == tree


@settings(max_examples=amount(8, 25), deadline=None)
@given(cases(), st.booleans())
def test_inside_jit(case, shuffled):
    x, chain = case
    convert = jax.jit(lambda x: asarray(x, chain[0], dynamic=True, nse=x.size).asformat(chain[1]))
    check(convert(x), x)
    coords = np.stack(np.nonzero(x))
    values = x[tuple(coords)]
    twice = np.concatenate([coords, np.full((x.ndim, 2), -1), coords[:, ::-1]], axis=1)
    both = np.concatenate([values, [7, 7], values[::-1]]).astype(np.float32)
    make = lambda c, v: SparseTensor.from_coords(c, v, x.shape, chain[2], nse=x.size)  # noqa: E731
    check(jax.jit(make)(twice, both), 2 * x)
    weights = jnp.arange(float(x.size)).reshape(x.shape)
    gradient = jax.jit(jax.grad(lambda v: (make(twice, v).todense() * weights).sum()))(both)
    expected = np.asarray(weights)[tuple(coords)]
    np.testing.assert_array_equal(gradient, np.concatenate([expected, [0, 0], expected[::-1]]))


def test_a_unique_level_above_a_singleton_is_refused_where_it_repeats():
    format = Format((Level(COMPRESSED, 0), Level(SINGLETON, 1)))
    try:
        asarray(np.ones((2, 2)), format)
    except FormatError as error:
        assert "nonunique" in str(error)  # noqa: PT017


@pytest.mark.parametrize("nse", [7, 8, 9, 20])
def test_a_capacity_above_the_size_of_a_unique_level_above_a_singleton(nse):
    rows, columns = [0, 2, 1, 0, 0, 0, 2], [0, 1, 2, 3, 5, 6, 7]
    A = SparseTensor.from_coords(
        np.array([rows, columns]),
        np.arange(1.0, 8, dtype=np.float32),
        (3, 8),
        "(i, j) -> (j : compressed, i : singleton)",
    )
    padded = A.dynamic(nse)
    assert {array.shape for array in padded.pattern.arrays[1:]} == {(nse,)}
    x = np.arange(1.0, 9, dtype=np.float32)
    np.testing.assert_array_equal(jax.jit(lambda A, x: A @ x)(padded, x), np.asarray(A.todense()) @ x)
    squares = jax.jit(lambda A, B: einsum("ij,ij->i", A, B))(padded, padded)
    np.testing.assert_array_equal(squares, (np.asarray(A.todense()) ** 2).sum(1))
