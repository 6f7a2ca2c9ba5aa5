"""The routines on formats with all kinds of levels, whose index arrays have padding."""

import numpy as np
import pytest
from native.level_reference import DENSE, RANGE, SINGLETON, Level, assemble, coordinates, split
from native.test_levels import random_levels, random_rows

from jsparse.base import _native


def params_of(levels: list[Level], inputs: int, nse: int, flags: int) -> np.ndarray:
    head = [_native.PARAMS_VERSION, flags, 1, inputs, nse, 0, 0, len(levels)]
    return np.array([*head, *(value for level in levels for value in level)], np.int64)


def run(name: str, *buffers: np.ndarray) -> None:
    assert _native.run(_native.routine(name), list(buffers)) == 0, _native.last_error()


def padded(arrays: list[list[int]], levels: list[Level], extra: list[int], dtype: type) -> tuple[list[np.ndarray], int]:
    """Index arrays padded for `extra[l]` more positions in each level l with pointers, and the number of slots."""
    found: list[np.ndarray] = []
    capacity = 1
    for (kind, _, _, size), own, more in zip(levels, split(arrays, levels), extra, strict=True):
        if kind == DENSE:
            capacity *= size
            continue
        if kind != SINGLETON:
            pointers = own[0]
            found.append(np.array([*pointers, *[pointers[-1]] * (capacity + 1 - len(pointers))], dtype))
            if kind == RANGE:
                found.append(np.array([*own[1], *[0] * (capacity - len(own[1]))], dtype))
            capacity = pointers[-1] + more
        if kind != RANGE:
            found.append(np.array([*own[-1], *[0] * (capacity - len(own[-1]))], dtype))
    return found, capacity


@pytest.mark.parametrize("seed", range(300))
def test_assemble_expand_validate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = random_levels(rng)
    rows, tuples = random_rows(rng, levels, int(rng.choice([0, 1, 5, 40])))
    dtype = np.int64 if rng.integers(2) else np.int32
    flags = 1 * (dtype == np.int64) | 2 | 4
    wanted = assemble(tuples, levels)
    extra = [int(rng.integers(0, 3)) for _ in levels]
    expected, capacity = padded(wanted.arrays, levels, extra, dtype)
    nse, n = capacity, len(tuples)

    arrays = [np.full_like(array, -7) for array in expected]
    order, starts, slots = np.full(n, -7), np.full(nse + 1, -7), np.full(n, -7)
    coords = np.array([row.astype(np.int64) for row in rows]).reshape(len(levels), n)
    run("assemble", params_of(levels, n, nse, flags), coords, *arrays, order, starts, slots)
    for array, other in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, other)
    assert slots.tolist() == [wanted.slot_of[t] for t in tuples]
    assert order.tolist() == sorted(range(n), key=lambda i: tuples[i])
    assert starts.tolist() == np.searchsorted(np.sort(slots), np.arange(nse + 1)).tolist()

    expanded = np.full((len(levels), nse), -7, dtype)
    run("expand", params_of(levels, 0, nse, flags), *arrays, expanded)
    outside = tuple(level[3] for level in levels)
    found = list(zip(*(expanded[level[1]].tolist() for level in levels), strict=True))
    assert found == [outside if c is None else c for c in coordinates(arrays, levels, nse)]

    faults = np.full((), -7, np.int32)
    run("validate", params_of(levels, 0, nse, flags), *arrays, faults)
    assert faults == 0


@pytest.mark.parametrize("kinds", ["d", "c", "r", "cs", "dd", "dc", "dr", "cc", "cr", "rd", "dcs"])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_many_entries_below_one_parent(kinds: str, is_sorted: bool, wide: bool) -> None:
    """More than are entered at a time, many of them repeated."""
    rng = np.random.default_rng(0)
    sizes = [4, 2, 6000][-len(kinds) :]
    levels: list[Level] = [
        ("dcsr".index(kind), dim, int(kinds[dim + 1 : dim + 2] != "s"), size)
        for dim, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    ]
    rows = np.array([rng.integers(0, size, 6000) for size in sizes])
    if is_sorted:
        rows = np.ascontiguousarray(rows[:, np.lexsort(rows[::-1])])
    keys = np.ravel_multi_index(tuple(rows), sizes)
    n, cells = len(keys), int(np.prod(sizes))
    arrays, nse, *_ = _native.assemble(list(rows), levels)
    dtype = np.int64 if wide else np.int32
    written = [np.full(array.shape, -7, dtype) for array in arrays]
    order, starts, slots = np.full(n, -7), np.full(nse + 1, -7), np.full(n, -7)
    run("assemble", params_of(levels, n, nse, 1 * wide | 2 | 4), rows, *written, order, starts, slots)
    for array, other in zip(written, arrays, strict=True):
        np.testing.assert_array_equal(array, other)
    assert _native.faults(written, levels, nse) == 0
    expanded = _native.expand(written, levels, nse, [True] * len(levels), wide)
    stored = np.ravel_multi_index(tuple(expanded), sizes)
    # Every slot has a cell of its own, in order, and inputs have the slots of their cells.
    slot_of_cell = np.full(cells, -1)
    slot_of_cell[stored] = np.arange(nse)
    assert np.all(np.diff(stored) > 0)
    if kinds.endswith(("c", "s")):
        np.testing.assert_array_equal(stored, np.unique(keys))
    np.testing.assert_array_equal(slots, slot_of_cell[keys])
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(starts, np.searchsorted(np.sort(slots), np.arange(nse + 1)))


@pytest.mark.parametrize("nse", [0, 1, 3, 4])
def test_slots_beyond_the_capacity_of_a_range(nse: int) -> None:
    levels = [(DENSE, 0, 1, 2), (RANGE, 1, 1, 9)]
    coords = np.array([[0, 0, 1, 1], [5, 7, 0, 1]])  # slots 0, 2, 3 and 4
    arrays, order = [np.zeros(3, np.int64), np.zeros(2, np.int64)], np.zeros(4, int)
    starts, slots, faults = np.zeros(nse + 1, int), np.zeros(4, int), np.zeros((), np.int32)
    run("assemble", params_of(levels, 4, nse, 7), coords, *arrays, order, starts, slots)
    assert [array.tolist() for array in arrays] == [[0, 3, 5], [5, 0]]
    assert slots.tolist() == [slot if slot < nse else -1 for slot in (0, 2, 3, 4)]
    run("validate", params_of(levels, 0, nse, 7), *arrays, faults)
    assert faults == 8


def test_check_names_ranges() -> None:
    levels = [(RANGE, 0, 1, 2), (RANGE, 1, 1, 9)]
    good = [np.array([0, 2]), np.array([0]), np.array([0, 3, 5]), np.array([5, 0])]
    copies, faults = [np.zeros_like(array) for array in good], np.zeros((), np.int32)
    run("check", params_of(levels, 0, 5, 7), *good, faults, *copies)
    assert [copy.tolist() for copy in copies] == [array.tolist() for array in good]
    good[3][1] = 8  # a run of two from 8 on leaves the dimension
    assert _native.run(_native.routine("check"), [params_of(levels, 0, 5, 7), *good, faults, *copies]) == 1
    assert "2 x 9 (range, range), but there are coordinates outside" in _native.last_error()


def test_assembly_in_order_refuses_ranges() -> None:
    levels = [(DENSE, 0, 1, 2), (RANGE, 1, 1, 9)]
    table = np.array([0, 0, 1, 0, 0, 0], np.int64)
    arrays = [np.zeros(3, np.int64), np.zeros(2, np.int64)]
    assert _native.run(_native.routine("ordered"), [params_of(levels, 0, 5, 7), table, *arrays]) == 1
    assert "expected levels without ranges" in _native.last_error()
