"""Conversions on host arrays, against NumPy and SciPy."""

import hashlib

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse as sp

from jsparse.base import _native

CSR = [(0, 0, 1, 1000), (1, 1, 1, 70_000)]


@pytest.mark.parametrize("n", [0, 1, 100, 300_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("skew", [1, 6])
@pytest.mark.parametrize("sorted_already", [False, True])
def test_assemble_agrees_with_scipy(n, dtype, skew, sorted_already):
    rng = np.random.default_rng(n)
    rows, columns = ((rng.random(n) ** skew * size).astype(dtype) for size in (1000, 70_000))
    if sorted_already:
        order = np.lexsort([columns, rows])
        rows, columns = rows[order], columns[order]
    (pointers, found), nse, first, slots, extra, extra_group = _native.assemble([rows, columns], CSR)
    values = rng.integers(1, 9, n)
    expected = sp.coo_array((values, (rows, columns)), shape=(1000, 70_000)).tocsr()
    np.testing.assert_array_equal(pointers, expected.indptr)
    np.testing.assert_array_equal(found, expected.indices)
    assert slots is None
    assert nse == expected.nnz
    summed = values.copy() if first is None else _native.take(values, first)
    if extra is not None:
        np.add.at(summed, extra_group, values[extra])
    np.testing.assert_array_equal(summed, expected.data)
    assert (first is None) == (sorted_already and extra is None) or n < 2


def test_entries_in_a_corner_of_a_large_matrix():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 3000, (2, 200_000))
    levels = [(1, 0, 1, 2**20), (1, 1, 1, 2**20)]
    arrays, *_ = _native.assemble([rows, columns], levels)
    assert _native.faults(list(arrays), levels) == 0
    keys = np.unique(rows * 2**20 + columns)
    np.testing.assert_array_equal(arrays[3], keys % 2**20)


def test_assemble_leaves_wrong_coordinates_to_its_caller():
    assert _native.assemble([np.array([1000]), np.array([0])], CSR) is None
    assert _native.assemble([np.array([0]), np.array([-1])], CSR) is None


def accumulated_slowly(rows, levels, values):
    arrays, _, first, _, extra, extra_group = _native.assemble(rows, levels)
    wide = {"f": np.float64, "c": np.complex128}.get(values.dtype.kind, values.dtype)  # rounded once
    sums = _native.take(values, first).astype(wide)
    if extra is not None:
        np.add.at(sums, extra_group, values[extra].astype(wide))
    return *arrays, sums.astype(values.dtype)


ACCUMULATED = {
    "csr": [(0, 0, 1, 1000), (1, 1, 1, 70_000)],
    "csc": [(0, 1, 1, 70_000), (1, 0, 1, 1000)],
    "coo": [(1, 0, 0, 1000), (2, 1, 1, 70_000)],
    "keys of more than 32 bits in a part": [(1, 0, 0, 2**30), (2, 1, 1, 2**30)],
    "three levels": [(0, 0, 1, 1000), (0, 1, 1, 700), (1, 2, 1, 300)],
    "few coordinates": [(0, 0, 1, 1000), (1, 2, 1, 3)],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("levels", ACCUMULATED.values(), ids=list(ACCUMULATED))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint64, np.complex64])
@pytest.mark.parametrize(("n", "skew"), [(5000, 1), (300_000, 1), (300_000, 2)])
def test_accumulate_adds_in_the_order_of_the_inputs(levels, dtype, n, skew):
    rng = np.random.default_rng(n)
    sizes = {dim: size for _, dim, _, size in levels}
    rows = [(rng.random(n) ** skew * sizes[dim]).astype(np.int64 if dim else np.int32) for dim in sorted(sizes)]
    levels = [(kind, sorted(sizes).index(dim), unique, size) for kind, dim, unique, size in levels]
    values = (rng.standard_normal(n) * 1e6).astype(np.int64).astype(dtype) / np.array(7, dtype)
    values = values.astype(dtype)
    arrays, nse, sums = _native.accumulate(rows, levels, values)
    for found, expected in zip((*arrays, sums), accumulated_slowly(rows, levels, values), strict=True):
        assert found.dtype == expected.dtype
        assert found.ctypes.data % 64 == 0
        np.testing.assert_array_equal(found, expected)
    assert nse == len(sums)


def test_accumulate_leaves_the_rest_to_assemble():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 1000, (2, 10_000))
    values = np.ones(10_000, np.float32)
    assert _native.accumulate([rows, columns], CSR, values) is not None
    refused = [
        ([np.sort(rows), columns * 0], CSR, values),
        ([np.zeros(100_000, int), rng.integers(0, 1000, 100_000)], CSR, np.ones(100_000)),  # one row has all entries
        ([rows + 1, columns], [(0, 0, 1, 1000), (1, 1, 1, 70_000)], values),
        ([rows, columns - 1], CSR, values),
        ([rows, columns], [(1, 0, 1, 1000), (1, 1, 1, 70_000)], values),
        ([rows, columns], [(0, 0, 1, 2**40), (1, 1, 1, 70_000)], values),
        ([rows, columns], CSR, values.astype(np.float16)),
        ([rows, columns], CSR, values.astype(">f4")),
        ([rows[:9], columns[:9]], CSR, values[:9]),
    ]
    for arguments in refused:
        assert _native.accumulate(*arguments) is None


@pytest.mark.parametrize("n", [0, 5, 400_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_transpose(n, dtype):
    rng = np.random.default_rng(0)
    shape = (500, 9000)
    numbers = np.sort(rng.choice(shape[0] * shape[1], n, replace=False))
    matrix = sp.csr_array((np.arange(n), (numbers // shape[1], numbers % shape[1])), shape=shape)
    pointers, columns = matrix.indptr.astype(dtype), matrix.indices.astype(dtype)
    expected = matrix.tocsc()
    by_pointers = _native.transpose(columns, shape[1], pointers, True)
    by_rows = _native.transpose(columns, shape[1], (numbers // shape[1]).astype(dtype), False)
    for found in (by_pointers, by_rows):
        for a, b in zip(found, (expected.indptr, expected.indices, expected.data), strict=True):
            np.testing.assert_array_equal(a, b)


TYPES = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 130), (300, 1000)])
def test_compress_dense(dtype, shape):
    rng = np.random.default_rng(0)
    x = (rng.integers(-2, 3, shape) * (rng.random(shape) < 0.2)).astype(dtype)
    kind = {"c": "complex", "f": "floating", "V": "floating"}.get(x.dtype.kind, "integer")
    if kind != "integer" and x.size:
        x[x == 0] = -0.0
        x.flat[0] = np.nan
    pointers, columns, values = _native.compress_dense(x, shape[0], kind, False)
    coords = np.nonzero(x)
    np.testing.assert_array_equal(columns, coords[1])
    assert values.tobytes() == x[coords].tobytes()
    assert values.dtype == x.dtype
    assert pointers[0] == 0
    np.testing.assert_array_equal(np.diff(pointers), np.bincount(coords[0], minlength=shape[0]))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 10, 100_000])
def test_take_and_invert(dtype, n):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, n).astype(dtype)
    order = rng.permutation(n)
    for index in (order.astype(np.int32), order):
        taken = _native.take(values, index)
        np.testing.assert_array_equal(taken, values[order])
        assert taken.ctypes.data % 64 == 0
        np.testing.assert_array_equal(_native.invert(index, n), np.argsort(order))
    if n:
        assert not _native.take(values, np.array([-1]))[0]
        np.testing.assert_array_equal(_native.invert(np.array([2]), 4), [-1, -1, 0, -1])


def test_images_differ_and_do_not_depend_on_threads():
    x = np.arange(1_000_003, dtype=np.int32)
    image = _native.image(x)
    assert hashlib.sha256(image).hexdigest() == "65d631188710ee053a98f1f41c80903616472163fbab6972c390658932e1094b"
    seen = {image}
    for at in (0, 1023, 1024, 500_000, 1_000_002):
        for bit in (0, 7, 31):
            y = x.copy()
            y[at] ^= np.array(1 << bit, np.uint32).view(np.int32)
            seen.add(_native.image(y))
    seen.update(_native.image(y) for y in (np.roll(x, 1), x[::-1].copy(), np.zeros_like(x)))
    assert len(seen) == 19
    swapped = x.copy()
    swapped[[8, 9, 10, 11]] = swapped[[10, 11, 8, 9]]
    assert _native.image(swapped) not in seen
    assert _native.image(x[:0]) == b""


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("case", [(0, 5, 0), (7, 0, 0), (1, 1, 1), (50, 41, 300), (3000, 2000, 200_000)])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (4, 1), (1, 7), (3, 5), (100, 100)])
def test_blocks_agree_with_scipy(dtype, case, height, width):
    rows, columns, n = case
    rng = np.random.default_rng(n)
    coords = rng.integers(0, max(rows, 1), n), rng.integers(0, max(columns, 1), n)
    matrix = sp.csr_array((np.ones(n), coords), shape=(rows, columns))
    matrix.sum_duplicates()
    given = matrix.indptr.astype(dtype), matrix.indices.astype(dtype)
    pointers, found, slots = _native.block(*given, columns, height, width)
    whole = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    whole.resize(-(-rows // height) * height, -(-columns // width) * width)
    expected = sp.bsr_array(whole, blocksize=(height, width)) if whole.size else whole
    expected.sort_indices()
    np.testing.assert_array_equal(pointers, expected.indptr[:: 1 if whole.size else height])
    np.testing.assert_array_equal(found, expected.indices)
    filled = np.zeros(len(found) * height * width)
    filled[slots] = matrix.data
    np.testing.assert_array_equal(filled, np.ravel(expected.data))
    assert pointers.dtype == found.dtype == slots.dtype == dtype
