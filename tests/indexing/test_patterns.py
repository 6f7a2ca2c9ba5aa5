"""The patterns of slices: those of the selected coordinates, in every format, and those that scipy finds."""

import numpy as np
import pytest
import scipy.sparse as sp
from indexing.cases import FORMATS, as_dense

import jsparse
from jsparse import Pattern, SparseTensor

SLICES = [
    slice(None),
    slice(2, None),
    slice(None, -3),
    slice(3, 9),
    slice(None, None, -1),
    slice(9, 2, -1),
    slice(None, None, 2),
    slice(None, None, -3),
    slice(1, None, 100),
    slice(None, None, -100),
    slice(-100, 100),
    slice(100, -100, -2),
    slice(50, 60),
    slice(4, 4),
]


def random_item(rng, integers):
    return int(rng.integers(0, 9)) if rng.random() < integers else SLICES[rng.integers(len(SLICES))]


@pytest.mark.parametrize("format", [*FORMATS[2], *FORMATS[3]])
def test_the_pattern_is_that_of_the_selected_coordinates(format):
    rng = np.random.default_rng(0)
    shape = (11, 9, 10)[: 2 if format in FORMATS[2] else 3]
    for density in (0.02, 0.15, 0.5):
        x = (rng.integers(0, 9, shape) * (rng.random(shape) < density)).astype(np.float32)
        coords = np.stack(np.nonzero(rng.random(shape) < density))  # of which some have a 0
        A = SparseTensor.from_coords(coords, x[tuple(coords)], shape, format=format)
        slots = np.full(shape, -1)
        slots[tuple(A.pattern.to_coords())] = np.arange(A.nse)
        for _ in range(12):
            index = tuple(random_item(rng, 0.15) for _ in shape)
            found, wanted = A[index], slots[index]
            if not isinstance(found, SparseTensor):
                continue
            assert found.shape == wanted.shape
            selected = np.stack(np.nonzero(wanted >= 0))
            assert found.pattern is Pattern.from_coordinates(selected, wanted.shape, found.format)[0]
            own = wanted[tuple(found.pattern.to_coords())]
            np.testing.assert_array_equal(found.values, np.where(own < 0, 0, np.asarray(A.values)[own]))


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("shape, nse", [((300, 200), 2500), ((3, 4000), 5000), ((4000, 3), 5000), ((2000, 2000), 300)])
def test_agrees_with_scipy(format, shape, nse):
    rng = np.random.default_rng(0)
    S = sp.random_array(shape, density=nse / np.prod(shape), format=format, rng=rng, dtype=np.float32)
    S.sort_indices()
    A = jsparse.asarray(S, format)
    for _ in range(25):
        index = []
        for size in shape:
            start, stop = rng.integers(-size - 5, size + 6, 2)
            step = int(rng.choice([1, 1, 2, 7, size + 3]) * rng.choice([1, -1]))
            index.append(slice(int(start), int(stop), step) if rng.random() < 0.7 else slice(None, None, step))
        found, wanted = A[tuple(index)], S[tuple(index)]
        wanted.sort_indices()
        np.testing.assert_array_equal(found.pattern.pointers(1), wanted.indptr)
        np.testing.assert_array_equal(found.pattern.coordinates(1), wanted.indices)
        np.testing.assert_array_equal(found.values, wanted.data)


@pytest.mark.parametrize("format", ["coo", "dcsr", "dcsc"])
@pytest.mark.parametrize(
    "index", [np.s_[::-1], np.s_[5:, ::-1], np.s_[::-1, ::-7], np.s_[10**9 :: 3, : 2 * 10**9]], ids=str
)
def test_int64_index_arrays(format, index):
    rng = np.random.default_rng(0)
    size, small = 3 * 10**9, rng.integers(0, 40, (2, 100))
    coords = np.concatenate([small, rng.integers(0, size, (2, 100)), [[5, size - 1], [size - 1, 5]]], axis=1)
    A = SparseTensor.from_coords(coords, np.arange(coords.shape[1], dtype=np.float32), (size, size), format=format)
    assert A.pattern.index_dtype == np.int64
    chosen = [range(size)[item] for item in (*index, slice(None))[:2]] if isinstance(index, tuple) else None
    chosen = chosen or [range(size)[index], range(size)]
    wanted = {}
    for coord, value in zip(A.pattern.to_coords().T.tolist(), np.asarray(A.values), strict=True):
        if all(c in own for c, own in zip(coord, chosen, strict=True)):
            wanted[tuple(own.index(c) for c, own in zip(coord, chosen, strict=True))] = value
    found = A[index]
    found.validate()
    assert found.shape == tuple(map(len, chosen))
    assert dict(zip(map(tuple, found.pattern.to_coords().T.tolist()), np.asarray(found.values), strict=True)) == wanted


def test_empty_segments_are_left_out():
    A = SparseTensor(
        np.arange(3, dtype=np.float32), Pattern((6, 6), "dcsr", ([0, 3], [0, 2, 5], [0, 1, 1, 3], [4, 0, 5]))
    )
    for index in [np.s_[:5], np.s_[::-1], np.s_[:, 1:], np.s_[:, :1]]:
        selected = A[index]
        assert (np.diff(selected.pattern.pointers(1)) > 0).all()
        wanted = np.zeros((6, 6))
        wanted[[0, 5, 5], [4, 0, 5]] = [0, 1, 2]
        np.testing.assert_array_equal(as_dense(selected), wanted[index])
