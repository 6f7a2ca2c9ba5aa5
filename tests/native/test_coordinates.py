"""Sorting and compressing coordinates, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.amount import amount

from jsparse.base import _native

SIZES = [1, 2, 7, 255, 256, 257, 70_000, 2**31 - 1, 2**31 + 5, 2**62]


@st.composite
def tuples(draw: st.DrawFn) -> tuple[list[np.ndarray], list[int]]:
    n = draw(st.sampled_from([0, 1, 2, 3, 10, 100, 1000]))
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    distinct = draw(st.sampled_from([3, 2**62]))  # few distinct values show whether the sort is stable
    keys = []
    for size in sizes:
        dtype = draw(st.sampled_from([np.int32, np.int64])) if size <= 2**31 - 1 else np.int64
        pool = rng.integers(0, size, distinct) if distinct < 10 else None
        keys.append((rng.choice(pool, n) if pool is not None else rng.integers(0, size, n)).astype(dtype))
    if draw(st.booleans()):
        order = np.lexsort(keys[::-1])
        keys = [key[order] for key in keys]
    return keys, sizes


@settings(max_examples=amount(75, 300), deadline=None)
@given(tuples())
def test_lexsort(case: tuple[list[np.ndarray], list[int]]) -> None:
    keys, sizes = case
    order = _native.lexsort(keys, sizes)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(order, np.lexsort(keys[::-1]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [50, 3000, 2**40])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lexsort_on_several_threads(size: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, min(size, 2**31 - 1), (1 << 20) + 3).astype(dtype) for _ in range(2)]
    np.testing.assert_array_equal(_native.lexsort(keys, [size, size]), np.lexsort(keys[::-1]))


def test_lexsort_of_keys_that_only_differ_between_slices() -> None:
    n = 1 << 20
    key = np.where(np.arange(n) < n // 2, 5, 3)
    other = np.zeros(n, int)
    np.testing.assert_array_equal(_native.lexsort([other, key], [1, 6]), np.argsort(key, kind="stable"))


def test_lexsort_takes_any_integers() -> None:
    key = np.arange(20)[::-2]
    np.testing.assert_array_equal(_native.lexsort([key], [20]), np.argsort(key))
    for dtype in (np.uint8, np.int16, np.uint64, ">i4", ">i8"):
        np.testing.assert_array_equal(_native.lexsort([key.astype(dtype)], [20]), np.argsort(key))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 1, 2, 5000])
@pytest.mark.parametrize("parents", [1, 3, 1000])
def test_compress(dtype: type, n: int, parents: int) -> None:
    entries = np.sort(np.random.default_rng(n).integers(0, parents, n)).astype(dtype)
    expected = np.concatenate([[0], np.cumsum(np.bincount(entries, minlength=parents))])
    for pointers in (np.int32, np.int64, "int32"):
        result = _native.compress(entries, parents, pointers)
        assert result.dtype == np.dtype(pointers)
        np.testing.assert_array_equal(result, expected)


def test_compress_without_parents() -> None:
    np.testing.assert_array_equal(_native.compress(np.zeros(0, int), 0, np.int64), [0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("at", [0, 1, 1023, 1024, 4999])
@pytest.mark.parametrize("bad", [-1, 100, 2**31 - 1, -(2**31)])
def test_out_of_range(dtype: type, at: int, bad: int) -> None:
    keys = np.random.default_rng(0).integers(0, 100, 5000).astype(dtype)
    assert _native.out_of_range(keys, 100) == -1
    keys[at] = keys[-1] = bad
    assert _native.out_of_range(keys, 100) == at


def test_out_of_range_at_the_limits() -> None:
    assert _native.out_of_range(np.zeros(0, np.int32), 0) == -1
    assert _native.out_of_range(np.zeros(1, np.int32), 0) == 0
    assert _native.out_of_range(np.array([2**62 - 1]), 2**62) == -1
    assert _native.out_of_range(np.array([2**62]), 2**62) == 0
    assert _native.out_of_range(np.array([2**31 - 1], np.int32), 2**62) == -1
