"""Numbers in segments: their order and the largest ones, against numpy's stable sort of each segment."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.primitives.segments import largest, sort_segments

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool"]
LENGTHS = [[0, 0], [5, 0, 3, 1], [190, 0, 200, 7], [3000, 2, 40_000]]
WIDTH = 50_000


def numbers_of(dtype, count, seed=0):
    """Many ties, and everything that has no plain order."""
    rng, dtype = np.random.default_rng(seed), jnp.dtype(dtype)
    if dtype.kind in "iub":
        found = rng.integers(0 if dtype.kind != "i" else -4, 5, count).astype(dtype)
        if dtype.kind != "b":
            info = np.iinfo(dtype)
            found[rng.random(count) < 0.1] = info.max
            found[rng.random(count) < 0.1] = info.min
        return found
    found = np.where(rng.random(count) < 0.5, rng.integers(-3, 4, count), rng.standard_normal(count)).astype(dtype)
    for x in (np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf):
        found[rng.random(count) < 0.04] = x
    return found


def starts_of(lengths):
    return (2 + np.cumsum([0, *lengths])).astype(np.int32)


def comparable(x, by_magnitude=False, descending=False):
    """The numbers in a dtype whose stable sort by numpy is the order: NaN is the largest number."""
    if x.dtype.kind == "b":
        x = x.astype(np.uint8)
    if x.dtype.kind in "iu":
        x = x.astype(object)  # integers of any size
        x = np.array([abs(n) for n in x], object) if by_magnitude else x
        return -x if descending else x
    x = x.astype(np.float64)
    x = np.abs(x) if by_magnitude else x
    rank = np.unique(x)  # one NaN, at the end
    rank = np.searchsorted(rank, x)
    return -rank if descending else rank


def expected_order(x, starts, descending):
    order, places = np.arange(len(x)), np.full(len(x), WIDTH)
    for begin, end in itertools.pairwise(starts):
        mine = begin + np.argsort(comparable(x[begin:end], descending=descending), kind="stable")
        order[begin:end] = mine
        front = (x[mine].astype(np.float64) < 0) ^ descending
        rank = np.arange(end - begin)
        places[begin:end] = np.where(front, rank, rank + WIDTH - (end - begin))
    return order, places


def expected_largest(x, starts, k, valid, by_magnitude):
    kept = np.zeros(len(x), bool)
    for begin, end in itertools.pairwise(starts):
        order = begin + np.argsort(comparable(x[begin:end], by_magnitude, descending=True), kind="stable")
        kept[order[valid[order]][:k]] = True
    return kept


@pytest.fixture(params=["llvm", "xla"])
def compiled(request):
    """A function that compiles another one under a backend, or runs it at once."""

    def by(f):
        def called(*operands):
            with jsparse.config(backend=request.param):
                return jax.jit(f)(*operands)

        return called

    return by


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_each_segment_is_sorted_stably(dtype, lengths):
    starts = starts_of(lengths)
    x = numbers_of(dtype, int(starts[-1]) + 3)
    for descending in (False, True):
        found = sort_segments(x, starts, WIDTH, descending=descending)
        for a, b in zip(found, expected_order(x, starts, descending), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_the_largest_of_each_segment_are_kept(dtype, lengths):
    starts = starts_of(lengths)
    x = numbers_of(dtype, int(starts[-1]) + 3)
    some = np.random.default_rng(1).random(len(x)) < 0.6
    for k, by_magnitude, valid in [
        (0, 0, None),
        (1, 0, None),
        (4, 1, some),
        (4, 0, some),
        (33, 1, None),
        (1500, 0, some),
    ]:
        found = largest(x, k, starts, valid=valid, by_magnitude=bool(by_magnitude))
        valid = np.ones(len(x), bool) if valid is None else valid
        np.testing.assert_array_equal(found, expected_largest(x, starts, k, valid, by_magnitude))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8"])
def test_inside_jit(dtype, compiled):
    starts = starts_of([6, 0, 200, 31])
    x = numbers_of(dtype, int(starts[-1]) + 3, seed=2)
    valid = np.random.default_rng(1).random(len(x)) < 0.6
    for descending in (False, True):
        found = compiled(lambda x, s, d=descending: sort_segments(x, s, WIDTH, descending=d))(x, starts)
        for a, b in zip(found, expected_order(x, starts, descending), strict=True):
            np.testing.assert_array_equal(a, b)
    kept = compiled(lambda x, s, k, valid: largest(x, k, s, valid=valid, by_magnitude=True))
    for k in (0, 3, 40, 1000):
        np.testing.assert_array_equal(kept(x, starts, k, valid), expected_largest(x, starts, k, valid, True))


@pytest.mark.parametrize("different", [1, 2, 100, 2**32 - 1])
def test_the_largest_of_one_long_segment(different):
    rng = np.random.default_rng(different % 7)
    x = (rng.integers(0, different, 300_000) / different).astype(np.float32)
    some = rng.random(len(x)) < 0.5
    for valid in (np.ones(len(x), bool), some):
        order = np.argsort(np.where(valid, -x.astype(np.float64), 1), kind="stable")
        for k in (1, 1000, 150_000, 299_999, 300_000, 10**12):
            wanted = np.zeros(len(x), bool)
            wanted[order[: min(k, int(valid.sum()))]] = True
            np.testing.assert_array_equal(largest(x, k, valid=valid if valid is some else None), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_order_of_one_long_segment(dtype):
    x = numbers_of(dtype, 200_000)
    starts = np.array([0, len(x)], np.int32)
    found = sort_segments(x, starts, 2 * len(x))[0]
    np.testing.assert_array_equal(found, np.argsort(comparable(x), kind="stable"))


def test_batches(compiled):
    x, starts, counts = numbers_of("float32", 3 * 40).reshape(3, 40), np.array([0, 11, 35], np.int32), np.arange(3)
    kept = compiled(jax.vmap(lambda x, k: largest(x, k, starts)))(x, counts)
    order = compiled(jax.vmap(lambda x: sort_segments(x, starts, 99)[0]))(x)
    for row in range(3):
        every = np.ones(40, bool)
        np.testing.assert_array_equal(kept[row], expected_largest(x[row], starts, counts[row], every, False))
        np.testing.assert_array_equal(order[row], expected_order(x[row], starts, False)[0])


@pytest.mark.parametrize("starts", [[5, 2, 9, -4, 100], [9, 9], [-3, 4, 4, 2**31 - 1]], ids=str)
def test_starts_that_are_no_starts_reach_nothing_else(starts, compiled):
    x, starts = np.arange(10, dtype=np.float32)[::-1].copy(), np.array(starts, np.int32)
    proper = np.maximum.accumulate(np.clip(starts, 0, len(x)))
    wanted = expected_order(x, proper, False)
    every = np.ones(len(x), bool)
    for run in (lambda f: f, compiled):
        for a, b in zip(run(lambda x, s: sort_segments(x, s, WIDTH))(x, starts), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        kept = run(lambda x, s: largest(x, 2, s))(x, starts)
        np.testing.assert_array_equal(kept, expected_largest(x, proper, 2, every, False))
