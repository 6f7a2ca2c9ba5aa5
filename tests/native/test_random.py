"""The routines that draw and number, against plain Python on exact integers, and against the same routines by XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from programs.amount import amount

from jsparse.base import _native
from jsparse.compiler.runtime.routine import Routine, parameters
from jsparse.formats import Format, PatternType, default_format
from jsparse.primitives import routine as routines
from jsparse.primitives.portable.drawn import threefry
from jsparse.primitives.portable.routines import run_portable

SIZES = [0, 1, 2, 3, 4, 5, 9, 1000, 2**16 + 1, 2**31 - 1]


def run(name: str, params: tuple[int, ...], buffers: list[np.ndarray], threads: int = 1) -> None:
    assert _native.run(_native.routine(name), [np.array(params, np.int64), *buffers], threads) == 0


def drawing(rows: int, count: int, dtype: np.dtype) -> Routine:
    type_ = PatternType((rows, count), Format.dense(2), rows * count)
    return Routine("draw", parameters(type_, coordinates=dtype), 2, 1)


def numbering(leading: int, inputs: int, size: int, room: int, dtype: np.dtype) -> Routine:
    type_ = PatternType((size,), default_format(1), room)
    return Routine("number", parameters(type_, inputs=inputs, coordinates=dtype), 2, 2)


def drawn(key: np.ndarray, sizes: np.ndarray, count: int, threads: int = 1) -> np.ndarray:
    found = np.full((len(sizes), count), 77, sizes.dtype)
    run("draw", drawing(len(sizes), count, sizes.dtype).params, [key, sizes, found], threads)
    return found


def numbered(leading: np.ndarray, numbers: np.ndarray, size: int, room: int) -> list[np.ndarray]:
    found = [np.full(n, 77, numbers.dtype) for n in (len(numbers), room)]
    params = numbering(len(leading), len(numbers), size, room, numbers.dtype).params
    run("number", params, [leading, numbers, *found])
    return found


def words_of(key: np.ndarray, rows: int, count: int) -> list[list[int]]:
    """The random numbers of 64 bits for each row and draw, by JAX."""
    from jax.extend.random import threefry_2x32

    counters = jnp.concatenate([jnp.repeat(jnp.arange(rows), count), jnp.tile(jnp.arange(count), rows)])
    words = np.asarray(threefry_2x32((key[0], key[1]), counters.astype(jnp.uint32))).reshape(2, rows, count)
    return [[int(high) << 32 | int(low) for high, low in zip(*row, strict=True)] for row in words.transpose(1, 0, 2)]


def sets_of(key: np.ndarray, sizes: np.ndarray, count: int) -> list[list[int]]:
    found = []
    for size, words in zip(sizes.tolist(), words_of(key, len(sizes), count), strict=True):
        row: list[int] = []
        for j, word in enumerate(words):
            most = size - count + j
            number = word * (most + 1) >> 64
            row.append(j if size <= count else most if number in row else number)
        found.append(row)
    return found


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_draws(count: int, dtype: type) -> None:
    key, sizes = np.array([0xDEADBEEF, 42], np.uint32), np.array(SIZES * 3, dtype)
    found = drawn(key, sizes, count)
    np.testing.assert_array_equal(found, np.array(sets_of(key, sizes, count), dtype).reshape(found.shape))
    for row, size in zip(found, sizes, strict=True):
        assert len(set(row.tolist())) == count
        assert ((row >= 0) & (row < max(size, count))).all()


def test_draws_of_many_rows_do_not_depend_on_threads() -> None:
    key, sizes = np.array([1, 2], np.uint32), np.arange(20_000, dtype=np.int32)
    np.testing.assert_array_equal(drawn(key, sizes, 7, threads=4), drawn(key, sizes, 7))


def test_random_words_are_those_of_jax() -> None:
    key = np.array([7, 2**32 - 1], np.uint32)
    row, column = (np.indices((5, 3))[axis].reshape(-1).astype(np.uint32) for axis in (0, 1))
    high, low = threefry(jnp.asarray(key[0]), jnp.asarray(key[1]), jnp.asarray(row), jnp.asarray(column))
    found = [int(a) << 32 | int(b) for a, b in zip(high, low, strict=True)]
    assert found == [word for words in words_of(key, 5, 3) for word in words]


@settings(max_examples=amount(50, 200), deadline=None)
@example([], [], 5, 0)
@example([3, 3, 9], [3, 1, -1, 1, 2], 5, 4)
@given(
    st.lists(st.integers(-2, 12), max_size=6),
    st.lists(st.integers(-2, 12), max_size=20),
    st.integers(0, 10),
    st.integers(0, 12),
)
def test_numbers(leading: list[int], numbers: list[int], size: int, more: int) -> None:
    room = len(leading) + more
    kept = [n if 0 <= n < size else size for n in leading]
    slots = []
    for n in numbers:
        if 0 <= n < size and n not in kept and len(kept) < room:
            kept.append(n)
        slots.append(kept.index(n) if 0 <= n < size and n in kept else -1)
    for dtype in (np.int32, np.int64):
        found = numbered(np.array(leading, dtype), np.array(numbers, dtype), size, room)
        np.testing.assert_array_equal(found[0], slots)
        np.testing.assert_array_equal(found[1], kept + [size] * (room - len(kept)))


def test_leading_numbers_without_room_are_dropped() -> None:
    slots, kept = numbered(np.array([4, 2, 1], np.int32), np.array([2, 1], np.int32), 9, 2)
    np.testing.assert_array_equal(slots, [1, -1])
    np.testing.assert_array_equal(kept, [4, 2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("count", [0, 1, 10])
def test_draws_by_xla(count: int, x64: bool) -> None:
    with jax.enable_x64(x64):
        dtype = np.dtype(np.int64 if x64 else np.int32)
        sizes = np.array([*SIZES, 2**40 if x64 else 17], dtype)
        key = np.array([5, 6], np.uint32)
        results = (((len(sizes), count), dtype),)
        (found,) = run_portable(
            jnp.asarray(key), jnp.asarray(sizes), routine=drawing(len(sizes), count, dtype), results=results
        )
        np.testing.assert_array_equal(found, drawn(key, sizes, count))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("leading", [[], [3, 3, 9, 0], [5]])
@pytest.mark.parametrize("numbers", [[], [3, 1, -1, 1, 2, 0, 4, 9, 2]])
@pytest.mark.parametrize("room", [4, 5, 9])
def test_numbers_by_xla(leading: list[int], numbers: list[int], room: int) -> None:
    given = [np.array(x, np.int32) for x in (leading, numbers)]
    dtype = np.dtype(np.int32)
    results = (((len(numbers),), dtype), ((room,), dtype))
    routine = numbering(len(leading), len(numbers), 5, room, dtype)
    found = run_portable(*map(jnp.asarray, given), routine=routine, results=results)
    for a, b in zip(found, numbered(*given, 5, room), strict=True):
        np.testing.assert_array_equal(a, b)


def test_batches() -> None:
    keys, sizes = jnp.arange(6, dtype=jnp.uint32).reshape(3, 2), jnp.array([3, 20, 5], jnp.int32)
    found = jax.jit(jax.vmap(lambda key: routines.draw_distinct(key, sizes, 4)))(keys)
    np.testing.assert_array_equal(found, [drawn(np.asarray(key), np.asarray(sizes), 4) for key in keys])
    rows = jnp.array([[1, 2, 1], [0, 2, 9]], jnp.int32)
    slots, kept = jax.jit(jax.vmap(lambda row: routines.number_distinct(sizes[:1], row, 5, 4)))(rows)
    np.testing.assert_array_equal(slots, [[1, 2, 1], [1, 2, -1]])
    np.testing.assert_array_equal(kept, [[3, 1, 2, 5], [3, 0, 2, 5]])
