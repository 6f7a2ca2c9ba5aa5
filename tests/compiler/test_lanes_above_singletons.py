"""Lanes over positions with singleton levels below: each entry has its other coordinates at the same position."""

import itertools

import numpy as np
import pytest
from compiler.test_position_lanes import (
    GARBAGE,
    IN_LANES,
    LANES,
    LENGTHS,
    SIZE,
    Guarded,
    agree,
    by_hand,
    numbers,
    rows,
)
from programs.host import HostRun
from programs.schedules import summary_of

from jsparse.compiler.problem import Dense, StorageType, TensorType, problem_of_product
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.semiring import SEMIRINGS, Monoid
from jsparse.formats.levels import KINDS, Level
from jsparse.notation import Access, Assignment


def in_slots(dtype, index="int32", dynamic=False, semiring="plus_times", sizes=(SIZE, 1000), below="singleton"):
    """y[i] ⊕= K(i, j, s) ⊗ V[s] ⊗ x[j]: a singleton level below j has the slot of each entry's value."""
    kinds = ("dense", "compressed", below)
    levels = tuple(Level(KINDS[kind], n) for n, kind in enumerate(kinds))
    types = tuple(TensorType(name, dtype, (Dense(0),)) for name in ("y", "V", "x"))
    assignment = Assignment(Access("y", ("i",)), (Access("V", ("s",)), Access("x", ("j",))))
    known = (("i", len(LENGTHS)), ("j", sizes[0]), ("s", sizes[1]))
    pattern = StorageType(levels, index, dynamic)
    return problem_of_product(assignment, types, (pattern,), known, (("i", "j", "s"),), semiring=SEMIRINGS[semiring])


def test_nests_state_the_lanes_above_a_singleton_level():
    assert (
        str(build_loops(in_slots("float32"), IN_LANES))
        == """\
∀ i ∈ P0.0 in parallel, owned, ≥ 1 entries a chunk
  acc = 0
    ∀ j ∈ P0.1, 8 at a time in lanes
      ∀ s ∈ P0.2
        acc += V[s] * x[j]
  y[i] = acc"""
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "bool"])
def test_values_in_slots(dtype, index):
    """Slots are in any order, and may repeat."""
    pointers, coordinates, _ = rows(dtype)
    rng = np.random.default_rng(1)
    values, x, slots = numbers(dtype, 1000, rng), numbers(dtype, SIZE, rng), rng.integers(0, 1000, len(coordinates))
    arrays = {"V": values, "x": x}
    run = HostRun(in_slots(dtype, index), IN_LANES, arrays, ((pointers, coordinates, slots),), (len(LENGTHS),))
    if dtype in ("float32", "float64"):
        terms = values[slots] * x[coordinates]
        want = [by_hand(terms[lo:hi], Monoid(), dtype) for lo, hi in itertools.pairwise(pointers)]
        agree(run, np.array(want, dtype))
        return
    wide = np.float64 if values.dtype.kind in "fV" else np.int64
    exact = np.zeros((len(LENGTHS), SIZE), wide)
    np.add.at(exact, (np.repeat(LENGTHS, LENGTHS), coordinates), values[slots].astype(wide))
    want = exact @ x.astype(wide)
    agree(run, (want != 0) if dtype == "bool" else want.astype(values.dtype))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_slots_out_of_range_take_a_lane_and_do_not_count(index, semiring, known):
    pointers, coordinates, _ = rows("float32")
    rng = np.random.default_rng(2)
    garbage = [*GARBAGE, *range(60)] if index == "int32" else [*GARBAGE, *range(60), 2**63 - 1]
    slots, some = rng.choice(garbage, len(coordinates)), rng.random(len(coordinates)) < 0.1
    coordinates = np.where(some, rng.choice(garbage, len(coordinates)), coordinates)
    x, values = numbers("float32", SIZE, rng), numbers("float32", SIZE, rng)
    problem = in_slots("float32", index, True, semiring, (SIZE, SIZE) if known else (None, None))
    arrays = {"V": values, "x": x}
    run = HostRun(problem, IN_LANES, arrays, ((pointers, coordinates, slots),), (len(LENGTHS),))
    inside = (coordinates >= 0) & (coordinates < SIZE) & (slots >= 0) & (slots < SIZE)
    found, factor = values[np.where(inside, slots, 0)], x[np.where(inside, coordinates, 0)]
    terms = found * factor if semiring == "plus_times" else found + factor
    bounds = itertools.pairwise(pointers)
    want = [by_hand(terms[lo:hi], problem.monoid, "float32", inside[lo:hi]) for lo, hi in bounds]
    with Guarded():
        agree(run, np.array(want, np.float32))


@pytest.mark.parametrize("sizes", [(0, 9), (9, 0), (0, 0), (9, 1)])
@pytest.mark.parametrize("known", [True, False])
def test_no_content_of_slots_leads_outside_of_buffers(sizes, known):
    rng = np.random.default_rng(3)
    problem = in_slots("float32", dynamic=True, sizes=sizes if known else (None, None))
    with Guarded():
        for _ in range(4):
            pointers = rng.choice([-(2**31), -3, 0, 5, 17, 40, 50, 51, 10**9], len(LENGTHS) + 1)
            coordinates, slots = rng.choice(GARBAGE, (2, 50))
            arrays = {"V": np.ones(sizes[1], np.float32), "x": np.ones(sizes[0], np.float32)}
            tables = ((pointers, coordinates, slots),)
            run = HostRun(problem, IN_LANES, arrays, tables, (len(LENGTHS),), level=1)
            lo, hi = (np.clip(pointers[at], 0, 50) for at in (slice(None, -1), slice(1, None)))
            inside = (coordinates >= 0) & (coordinates < sizes[0]) & (slots >= 0) & (slots < sizes[1])
            counted = np.append(0, np.cumsum(inside))
            agree(run, np.where(lo < hi, counted[hi] - counted[lo], 0).astype(np.float32))


def test_levels_below_with_several_entries_are_refused():
    problem = in_slots("float32", below="compressed")
    step = Vectorize("j", LANES)
    assert step.check(summary_of(problem, Schedule().promote())) == "j is not an innermost loop over stored entries"


def test_sums_that_are_stored_at_slots_are_refused():
    slots = in_slots("float32")
    assignment = Assignment(Access("y", ("s",)), (Access("V", ("i",)), Access("x", ("j",))))
    known = (("i", len(LENGTHS)), ("j", SIZE), ("s", 1000))
    problem = problem_of_product(assignment, slots.tensors, slots.patterns, known, (("i", "j", "s"),))
    reason = Vectorize("j", LANES).check(summary_of(problem, Schedule()))
    assert reason == "j does not add to a scalar in registers"
