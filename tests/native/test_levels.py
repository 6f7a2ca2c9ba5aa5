"""Index arrays of random formats with all kinds of levels, against a reference."""

import itertools

import numpy as np
import pytest
from native.level_reference import COMPRESSED, DENSE, RANGE, SINGLETON, Level, assemble, coordinates, is_valid

from jsparse.base import _native


def random_levels(rng: np.random.Generator, most: int = 7) -> list[Level]:
    count = int(rng.integers(1, 5))
    levels: list[Level] = []
    for n, dim in enumerate(rng.permutation(count)):
        above = levels[n - 1][0] if n else DENSE
        kind = int(rng.choice([DENSE, COMPRESSED, RANGE, RANGE, SINGLETON]))
        if kind == SINGLETON and above not in (COMPRESSED, SINGLETON):
            kind = COMPRESSED
        levels.append(
            (kind, int(dim), 1, int(rng.integers(0, most)) if rng.integers(8) == 0 else int(rng.integers(1, most)))
        )
        if kind == SINGLETON:
            levels[n - 1] = (above, levels[n - 1][1], 0, levels[n - 1][3])
    return levels


def random_rows(
    rng: np.random.Generator, levels: list[Level], count: int
) -> tuple[list[np.ndarray], list[tuple[int, ...]]]:
    """Coordinates by dimension, and the same coordinates as tuples in the order of the levels."""
    if any(level[3] == 0 for level in levels):
        count = 0
    columns = [rng.integers(0, max(level[3], 1), count) for level in levels]
    tuples = list(zip(*(column.tolist() for column in columns), strict=True))
    if rng.integers(2):
        tuples.sort()
    columns = np.array(tuples, np.int64).reshape(len(tuples), len(levels)).T
    rows = [np.zeros(0, np.int64)] * len(levels)
    for level, column in zip(levels, columns, strict=True):
        rows[level[1]] = np.ascontiguousarray(column, rng.choice([np.int32, np.int64]))
    return rows, tuples


def slots_of_inputs(result: tuple, count: int) -> list[int]:
    """The slot of each input, from the results of `_native.assemble`."""
    _, _, first, group_slots, extra, extra_group = result
    if first is None:
        first = np.arange(count)
    if group_slots is None:
        group_slots = np.arange(len(first))
    slots = np.full(count, -1)
    slots[first] = group_slots
    if extra is not None:
        slots[extra] = group_slots[extra_group]
    return slots.tolist()


@pytest.mark.parametrize("seed", range(400))
def test_assembly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = random_levels(rng)
    rows, tuples = random_rows(rng, levels, int(rng.choice([0, 1, 5, 40])))
    wanted = assemble(tuples, levels)
    result = _native.assemble(rows, levels)
    assert result is not None
    assert [array.tolist() for array in result[0]] == wanted.arrays
    assert result[1] == wanted.slots
    assert slots_of_inputs(result, len(tuples)) == [wanted.slot_of[t] for t in tuples]


@pytest.mark.parametrize("seed", range(200))
def test_expansion_and_validation_of_assembled_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = random_levels(rng)
    rows, _ = random_rows(rng, levels, int(rng.choice([0, 1, 5, 40])))
    dtype = rng.choice([np.int32, np.int64])
    assembled = _native.assemble(rows, levels)
    assert assembled is not None
    arrays = [array.astype(dtype) for array in assembled[0]]
    slots = assembled[1]
    assert _native.faults(arrays, levels) == _native.faults(arrays, levels, slots) == 0
    assert is_valid(arrays, levels, slots)
    capacity = slots + int(rng.integers(3))
    wide = dtype == np.int64
    expanded = _native.expand(arrays, levels, capacity, [True] * len(levels), wide)
    outside = tuple(level[3] for level in levels)
    found = list(zip(*(expanded[level[1]].tolist() for level in levels), strict=True))
    assert found == [outside if c is None else c for c in coordinates(arrays, levels, capacity)]
    assert all(column.dtype == dtype for column in expanded)


@pytest.mark.parametrize("seed", range(60))
def test_every_single_corruption_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = random_levels(rng, 5)
    rows, _ = random_rows(rng, levels, int(rng.choice([1, 3, 8])))
    assembled = _native.assemble(rows, levels)
    assert assembled is not None
    slots = assembled[1]
    for array, dtype in itertools.product(range(len(assembled[0])), [np.int32, np.int64]):
        arrays = [a.astype(dtype) for a in assembled[0]]
        for at in range(len(arrays[array])):
            kept = arrays[array][at]
            for value in (-1, 0, 1, kept - 1, kept + 1, 7, np.iinfo(dtype).max, np.iinfo(dtype).min):
                arrays[array][at] = value
                found = _native.faults(arrays, levels, slots)
                assert (found == 0) == is_valid(arrays, levels, slots), (levels, arrays)
                _native.expand(arrays, levels, slots, [True] * len(levels), dtype == np.int64)
            arrays[array][at] = kept


def test_wrong_lengths_are_found() -> None:
    levels = [(DENSE, 0, 1, 3), (RANGE, 1, 1, 4)]
    pointers, starts = np.array([0, 2, 2, 4]), np.array([1, 0, 2])
    assert _native.faults([pointers, starts], levels, 4) == 0
    assert _native.faults([pointers, starts], levels, 5) != 0
    assert _native.faults([pointers, starts[:2]], levels) != 0
    assert _native.faults([pointers[:3], starts[:2]], levels) != 0
    assert _native.faults([pointers[:0], starts[:0]], levels) != 0
    assert _native.faults([np.append(pointers, 4), np.append(starts, 0)], levels) != 0


@pytest.mark.parametrize("outer", [DENSE, COMPRESSED, RANGE])
@pytest.mark.parametrize("inner", [None, DENSE, COMPRESSED, RANGE])
def test_many_entries_by_several_threads(outer: int, inner: int | None) -> None:
    rng = np.random.default_rng(3)
    sizes = [900, 900] if inner is None else [90, 900, 5]
    kinds = [outer, RANGE] if inner is None else [outer, RANGE, inner]
    levels = [(kind, dim, 1, size) for dim, (kind, size) in enumerate(zip(kinds, sizes, strict=True))]
    columns = [rng.integers(0, size, 150_000, np.int32) for size in sizes]
    columns[0] //= 3  # parents without entries
    result = _native.assemble(columns, levels)
    assert result is not None
    arrays, slots = result[:2]
    assert _native.faults(arrays, levels, slots) == 0
    expanded = np.stack(_native.expand(arrays, levels, slots, [True] * len(levels), False))
    assert np.all(np.diff(np.ravel_multi_index(expanded, sizes)) > 0)
    at = slots_of_inputs(result, len(columns[0]))
    np.testing.assert_array_equal(expanded[:, at], columns)
    # Runs extend from the least to the greatest coordinate below each parent.
    parents, run = columns[0].astype(int), columns[1]
    least, greatest = np.full(sizes[0], sizes[1]), np.full(sizes[0], -1)
    np.minimum.at(least, parents, run)
    np.maximum.at(greatest, parents, run)
    pointers, starts = arrays[-4 if inner in (COMPRESSED, RANGE) else -2 :][:2]
    lengths, used = np.diff(pointers), np.unique(parents)
    where = used if outer == DENSE else used - used[0] if outer == RANGE else np.arange(len(used))
    np.testing.assert_array_equal(starts[where], least[used])
    np.testing.assert_array_equal(lengths[where], (greatest - least)[used] + 1)
    assert lengths.sum() == lengths[where].sum()
    assert starts.sum() == starts[where].sum()


def test_positions_of_64_bits() -> None:
    size = 1 << 62
    rows = [np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, size - 1] * 4)]
    arrays, slots, *_ = _native.assemble([rows[0][:2], rows[1][:2] // 2], [(DENSE, 0, 1, 4), (RANGE, 1, 1, size)])
    assert slots == (size - 1) // 2 + 1
    assert arrays[0].tolist() == [0, slots, slots, slots, slots]


def test_accumulate_leaves_ranges_to_assemble() -> None:
    rng = np.random.default_rng(0)
    many = [rng.integers(0, 3000, 100_000), rng.integers(0, 3000, 100_000)]
    values = np.ones(100_000)
    assert _native.accumulate(many, [(DENSE, 0, 1, 3000), (COMPRESSED, 1, 1, 3000)], values) is not None
    assert _native.accumulate(many, [(DENSE, 0, 1, 3000), (RANGE, 1, 1, 3000)], values) is None
    assert _native.accumulate(many, [(RANGE, 0, 1, 3000), (COMPRESSED, 1, 1, 3000)], values) is None


def test_singletons_below_a_range_are_read() -> None:
    levels = [(RANGE, 0, 1, 5), (SINGLETON, 1, 1, 4)]
    arrays = [np.array([0, 3]), np.array([1]), np.array([2, 0, 3])]
    rows = _native.expand(arrays, levels, 4, [True, True], True)
    assert [row.tolist() for row in rows] == [[1, 2, 3, 5], [2, 0, 3, 4]]
    assert _native.faults(arrays, levels) == 0
    assert _native.faults([*arrays[:2], arrays[2][:2]], levels) != 0


@pytest.mark.parametrize("seed", range(200))
def test_expansion_of_garbage_stays_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = random_levels(rng)
    extremes = np.array([0, 1, 2, 3, 5, 9, -1, 2**31 - 1, -(2**31)])
    count = sum({DENSE: 0, COMPRESSED: 2, SINGLETON: 1, RANGE: 2}[kind] for kind, *_ in levels)
    arrays = [rng.choice(extremes, int(rng.integers(0, 12))).astype(np.int32) for _ in range(count)]
    expanded = _native.expand(arrays, levels, 30, [True] * len(levels), False)
    sizes = [level[3] for level in sorted(levels, key=lambda level: level[1])]
    for slot in zip(*expanded, strict=True):
        inside = all(0 <= c < size for c, size in zip(slot, sizes, strict=True))
        assert inside or list(slot) == sizes
    _native.faults(arrays, levels, 30)
