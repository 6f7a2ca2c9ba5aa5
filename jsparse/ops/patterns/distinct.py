"""Random sets of numbers, one for each row."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

__all__ = ["distinct"]

CROWDED = 4  # of at most this many numbers for each one wanted, all are shuffled
SPARE = 8  # draws of each row, beside three for two numbers


def distinct(key: Any, rows: int, size: int, count: int) -> np.ndarray:
    """Ascending numbers (rows, count) int64, distinct in each row, from [0, size); every set is equally likely."""
    if not rows or not count:
        return np.zeros((rows, count), np.int64)
    if size <= CROWDED * count:
        return _shuffled(key, rows, size, count)
    # A set is the first `count` distinct numbers of a row of draws. At most one draw in four repeats an earlier one, so
    # nearly all rows have enough. The others are drawn again, which favours no numbers over others.
    found, left = np.empty((rows, count), np.int64), np.arange(rows)
    while len(left):
        key, own = jax.random.split(key)
        enough, sets = _first_distinct(_drawn(own, len(left), count + count // 2 + SPARE, size), count)
        found[left[enough]] = sets
        left = left[~enough]
    return found


def _shuffled(key: Any, rows: int, size: int, count: int) -> np.ndarray:
    words = _bits(key, (2, rows, size)).astype(np.uint64)
    first = np.argpartition(words[0] << np.uint64(32) | words[1], count - 1, axis=1)[:, :count]
    return np.sort(first.astype(np.int64), axis=1)


def _drawn(key: Any, rows: int, draws: int, size: int) -> np.ndarray:
    """(rows, draws) numbers below `size`: 64 random bits as a fraction of 2**64, times `size`, without the fraction."""
    high, low = _bits(key, (2, rows, draws)).astype(np.uint64)
    scale = np.uint64(size)
    return ((high * scale + (low * scale >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def _bits(key: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Random uint32. More are made than necessary, so that few different programs are compiled."""
    count = int(np.prod(shape))
    return np.asarray(jax.random.bits(key, (1 << (count - 1).bit_length(),), np.uint32))[:count].reshape(shape)


def _first_distinct(drawn: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which rows have `count` distinct numbers, and the first `count` of each such row, ascending."""
    order = np.argsort(drawn, axis=1, kind="stable")  # of equal numbers the first one drawn stays first
    ascending = np.take_along_axis(drawn, order, 1)
    new = np.ones(drawn.shape, np.bool_)
    new[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    by_draw = np.empty_like(new)
    np.put_along_axis(by_draw, order, new, 1)
    numbers = np.cumsum(by_draw, axis=1)
    enough = numbers[:, -1] >= count
    taken = np.take_along_axis(by_draw & (numbers <= count), order, 1) & enough[:, None]
    return enough, ascending[taken].reshape(-1, count)
