"""Position loops in lanes: all stages form the same sums, in an order that this file states on its own."""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest
from compiler.cases import CASES, sparse
from compiler.test_blocked_sums import run_of
from programs.host import HostRun
from programs.schedules import changed, summary_of, with_grain

import jsparse
from jsparse import SparseTensor
from jsparse.base import _native
from jsparse.compiler.loops.nest import Forall, Sequence, Where, Widened
from jsparse.compiler.problem import Dense, Positions, Problem, StorageType, TensorType, problem_of_product
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.semiring import SEMIRINGS, EqualityMask, Monoid
from jsparse.formats.levels import KINDS, Level
from jsparse.notation import Access, Assignment

LANES = 8
LENGTHS = range(41)
SIZE = 60
ONE_BY_ONE = Schedule().promote().parallelize("i", grain=1)
IN_LANES = ONE_BY_ONE.vectorize("j", LANES)
ADD = {"+": np.add, "min": np.minimum, "max": np.maximum, "|": np.bitwise_or, "*": np.multiply}


def rows(dtype, lengths=LENGTHS, size=SIZE, seed=0):
    """Pointers, coordinates and values of rows with these numbers of entries. Floats are k / 2¹⁰ with |k| < 2¹², so
    that products are exact in float32, and sums of products are not."""
    rng = np.random.default_rng(seed)
    pointers = np.append(0, np.cumsum(list(lengths)))
    coordinates = np.concatenate([np.sort(rng.choice(size, n, replace=False)) for n in lengths])
    return pointers, coordinates, numbers(dtype, pointers[-1], rng)


def numbers(dtype, count, rng):
    if np.dtype(dtype).kind == "b":
        return rng.random(count) < 0.5
    whole = rng.integers(-4095, 4096, count)
    if dtype in ("float16", "bfloat16"):
        return (whole % 16 / 8).astype(np.float32).astype(np.dtype(dtype))
    return (whole / 1024).astype(dtype) if np.dtype(dtype).kind == "f" else (whole % 100 - 50).astype(dtype)


def spmv(dtype, semiring="plus_times", target=None, index="int32", dynamic=False, size=SIZE, count=None):
    """y[i] ⊕= A[i, j] ⊗ x[j] on csr."""
    pattern = storage_type(sparse(3, 3).pattern)
    pattern = replace(pattern, index_dtype=index, dynamic=dynamic)
    types = (
        TensorType("y", target or dtype, (Dense(0),)),
        TensorType("A", dtype, (Positions(0, (0, 1)),)),
        TensorType("x", dtype, (Dense(0),)),
    )
    assignment = Assignment(Access("y", ("i",)), (Access("A", ("i", "j")), Access("x", ("j",))))
    sizes = (("i", len(LENGTHS) if count is None else count), ("j", size))
    return problem_of_product(assignment, types, (pattern,), sizes, semiring=SEMIRINGS[semiring])


def by_hand(terms, monoid, dtype, counted=None):
    """The sum of one segment, as `LevelIteration.lanes` orders it."""
    add, zero = ADD[monoid.add], np.dtype(dtype).type(monoid.zero)
    whole = len(terms) // LANES * LANES
    lanes, rest = [zero] * LANES, zero
    for n, term in enumerate(terms):
        if counted is not None and not counted[n]:
            continue
        if n < whole:
            lanes[n % LANES] = add(lanes[n % LANES], term)
        else:
            rest = add(rest, term)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [add(low, high) for low, high in zip(lanes[:half], lanes[half:], strict=True)]
    return add(zero, add(lanes[0], rest))


def stages(run):
    """The results of all interpreters, and of machine code by 1, 2 and 4 threads."""
    yield "loops", run.by_loops()
    yield "kernel", run.by_kernel(False)
    yield "kernel, reversed", run.by_kernel(True)
    for threads in (1, 2, 4):
        yield f"code by {threads}", run.by_code(threads)


def agree(run, want):
    """All stages give `want`, bit for bit."""
    assert in_lanes(run.loops.body), str(run.loops)
    for stage, got in stages(run):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(*(np.atleast_1d(x).view(np.uint8) for x in (got, want)), err_msg=stage)


def in_lanes(stmt):
    """Whether a nest has a position loop in lanes."""
    match stmt:
        case Forall(body=body):
            return bool(stmt.lanes) or in_lanes(body)
        case Where(producer=producer, consumer=consumer):
            return in_lanes(producer) or in_lanes(consumer)
        case Sequence(stmts=stmts):
            return any(map(in_lanes, stmts))
        case Widened(body=body):
            return in_lanes(body)
    return False


def test_nests_state_the_lanes():
    assert (
        str(build_loops(spmv("float32"), IN_LANES))
        == """\
∀ i ∈ P0.0 in parallel, owned, ≥ 1 entries a chunk
  acc = 0
    ∀ j ∈ P0.1, 8 at a time in lanes
      acc += A[i, j] * x[j]
  y[i] = acc"""
    )
    assert (
        str(build_loops(spmv("float32", size=10_000), IN_LANES))
        == """\
∀ i ∈ P0.0 in parallel, owned, ≥ 1 entries a chunk
  acc_total = 0 (float64)
    ∀ j ∈ runs of 512 of P0.1
      acc = 0
        ∀ j ∈ P0.1 in the run, 8 at a time in lanes
          acc += A[i, j] * x[j]
      acc_total += acc
  y[i] = acc_total"""
    )


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_every_length_are_summed_in_the_stated_order(dtype, index):
    pointers, coordinates, values = rows(dtype)
    x = numbers(dtype, SIZE, np.random.default_rng(1))
    problem = spmv(dtype, index=index)
    run = HostRun(problem, IN_LANES, {"A": values, "x": x}, ((pointers, coordinates),), (len(LENGTHS),))
    terms = values * x[coordinates]
    want = [by_hand(terms[lo:hi], Monoid(), dtype) for lo, hi in itertools.pairwise(pointers)]
    agree(run, np.array(want, dtype))
    one_by_one = replace(run, schedule=ONE_BY_ONE).by_code(1)
    np.testing.assert_allclose(one_by_one, want, rtol=1e-5, atol=1e-5)
    assert dtype == "float64" or (one_by_one != want).any()  # sums are rounded, so their order shows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "bool", "float16", "bfloat16"])
def test_every_dtype_gives_what_numpy_gives(dtype):
    pointers, coordinates, values = rows(dtype)
    x = numbers(dtype, SIZE, np.random.default_rng(1))
    run = HostRun(spmv(dtype), IN_LANES, {"A": values, "x": x}, ((pointers, coordinates),), (len(LENGTHS),))
    exact = np.zeros((len(LENGTHS), SIZE), np.float64 if values.dtype.kind in "fV" else np.int64)
    row = np.repeat(LENGTHS, LENGTHS)
    exact[row, coordinates] = values.astype(exact.dtype)
    want = exact @ x.astype(exact.dtype)
    agree(run, (want != 0) if dtype == "bool" else want.astype(values.dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("semiring", ["min_plus", "max_plus", "max_times", "or_and"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
def test_every_semiring(semiring, dtype):
    if semiring == "or_and" and dtype == "float32":
        dtype = "bool"
    pointers, coordinates, values = rows(dtype)
    x = numbers(dtype, SIZE, np.random.default_rng(1))
    problem = spmv(dtype, semiring)
    run = HostRun(problem, IN_LANES, {"A": values, "x": x}, ((pointers, coordinates),), (len(LENGTHS),))
    add, multiply = ADD[problem.monoid.add], {"+": np.add, "*": np.multiply, "&": np.bitwise_and}
    operation = multiply[SEMIRINGS[semiring].multiply]
    terms = operation(values, x[coordinates])  # in the tensors' dtype, where integers wrap
    want = np.full(len(LENGTHS), problem.monoid.zero, dtype)
    add.at(want, np.repeat(LENGTHS, LENGTHS), terms)
    agree(run, want)


@pytest.mark.parametrize("semiring", ["min_plus", "max_plus", "plus_times"])
def test_a_nan_or_an_infinity_anywhere_shows(semiring):
    """In each position of rows of 21 entries, in lanes and in what remains of them."""
    lengths, special = [21] * 21, [np.nan, np.inf, -np.inf]
    pointers, coordinates, values = rows("float32", lengths)
    for number in special:
        values[np.arange(21) * 22] = number
        problem = spmv("float32", semiring, count=21)
        run = HostRun(
            problem, IN_LANES, {"A": values, "x": np.ones(SIZE, np.float32)}, ((pointers, coordinates),), (21,)
        )
        scalar = replace(run, schedule=ONE_BY_ONE).by_code(1)
        for _, got in stages(run):
            np.testing.assert_array_equal(np.isnan(got), np.isnan(scalar))
            np.testing.assert_array_equal(np.isinf(got), np.isinf(scalar))
        assert np.isnan(got).all() if np.isnan(number) else True


def test_lanes_that_do_not_count_read_nothing_that_shows():
    """An infinity times 0 is NaN: a factor at another coordinate must not enter the sum."""
    pointers, coordinates = np.array([0, 16]), np.arange(16) + 1
    coordinates[3] = -5
    x = np.append([np.inf], np.ones(16)).astype(np.float32)
    problem = spmv("float32", dynamic=True, size=17, count=1)
    run = HostRun(problem, IN_LANES, {"A": np.ones(16, np.float32), "x": x}, ((pointers, coordinates),), (1,))
    agree(run, np.array([15], np.float32))


GARBAGE = [-(2**31), -7, -1, 0, 1, 58, 59, 60, 61, 1000, 2**31 - 1]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_coordinates_out_of_range_take_a_lane_and_do_not_count(index, semiring, known):
    pointers, _, values = rows("float32")
    rng = np.random.default_rng(2)
    coordinates = (
        rng.choice(GARBAGE, len(values)) if index == "int32" else rng.choice([*GARBAGE, 2**63 - 1], len(values))
    )
    x = numbers("float32", SIZE, rng)
    problem = spmv("float32", semiring, index=index, dynamic=True, size=SIZE if known else None)
    run = HostRun(problem, IN_LANES, {"A": values, "x": x}, ((pointers, coordinates),), (len(LENGTHS),))
    inside = (coordinates >= 0) & (coordinates < SIZE)
    found = x[np.where(inside, coordinates, 0)]
    terms = values * found if semiring == "plus_times" else values + found
    bounds = itertools.pairwise(pointers)
    want = [by_hand(terms[lo:hi], problem.monoid, "float32", inside[lo:hi]) for lo, hi in bounds]
    with Guarded():
        agree(run, np.array(want, np.float32))


@pytest.mark.parametrize("size", [0, 1, 3, None])
def test_no_content_of_index_arrays_leads_outside_of_buffers(size):
    """Pointers and coordinates are arbitrary, down to a dimension of size 0."""
    rng = np.random.default_rng(3)
    problem = spmv("float32", dynamic=True, size=size, count=30)
    with Guarded():
        for _ in range(6):
            pointers = rng.choice([-(2**31), -3, 0, 5, 17, 40, 50, 51, 10**9], 31)
            coordinates = rng.choice(GARBAGE, 50)
            x = np.ones(size or 0, np.float32)
            arrays = {"A": np.ones(50, np.float32), "x": x}
            run = HostRun(problem, IN_LANES, arrays, ((pointers, coordinates),), (30,), level=1)
            lo, hi = (np.clip(pointers[at], 0, 50) for at in (slice(None, -1), slice(1, None)))
            inside = (coordinates >= 0) & (coordinates < len(x))
            counted = np.append(0, np.cumsum(inside))
            agree(run, np.where(lo < hi, counted[hi] - counted[lo], 0).astype(np.float32))


@pytest.mark.parametrize("lanes", [0, LANES])
def test_every_row_is_written_whatever_pointers_say(lanes):
    """The last chunk ends at the last row, where threads divide rows, too."""
    schedule = Schedule().promote().parallelize("i", race="split", grain=1)
    schedule = schedule.vectorize("j", lanes) if lanes else schedule
    problem = spmv("float32", dynamic=True, size=5, count=30)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        pointers, coordinates = rng.integers(-5, 60, 31), rng.integers(-2, 8, 50)
        arrays = {"A": np.ones(50, np.float32), "x": np.ones(5, np.float32)}
        run = HostRun(problem, schedule, arrays, ((pointers, coordinates),), (30,), level=1)
        for found in (run.by_kernel(False), run.by_kernel(True), run.by_code(2)):
            assert ((found >= 0) & (found <= 50)).all()


@pytest.mark.parametrize("lanes", [0, LANES])
@pytest.mark.parametrize("size", [0, 3])
def test_values_at_coordinates_out_of_range_are_zeros(size, lanes):
    """In a dimension of size 0, all coordinates are out of range. No value may be what memory held before."""
    walked, on = ("i", "j"), (Positions(0, (0, 1)),)
    types = (TensorType("W", "float32", on), TensorType("A", "float32", on), TensorType("x", "float32", (Dense(0),)))
    pattern = replace(storage_type(sparse(3, 3).pattern), dynamic=True)
    assignment = Assignment(Access("W", walked), (Access("A", walked), Access("x", ("j",))))
    problem = problem_of_product(assignment, types, (pattern,), (("i", 3), ("j", size)))
    schedule = Schedule().parallelize("i", grain=1)
    index, arrays = ([0, 20, 23, 50], [7] * 50), {"A": np.ones(50, np.float32), "x": np.ones(size, np.float32)}
    run = HostRun(problem, schedule.vectorize("j", lanes) if lanes else schedule, arrays, (index,), (50,), level=1)
    for found in (run.by_kernel(False), run.by_code(2)):
        np.testing.assert_array_equal(found, np.zeros(50, np.float32))


class Guarded:
    """Kernels run on copies of their buffers that end where memory does."""

    def __enter__(self):
        _native.set_guard(True)

    def __exit__(self, *_):
        _native.set_guard(False)


def test_levels_of_a_run_of_consecutive_coordinates():
    """Elements that follow each other are loaded as vectors, not one by one."""
    starts = np.arange(len(LENGTHS)) % 7
    pointers = np.append(0, np.cumsum(LENGTHS))
    values = numbers("float32", pointers[-1], np.random.default_rng(0))
    x = numbers("float32", SIZE, np.random.default_rng(1))
    problem = spmv("float32")
    levels = tuple(Level(KINDS[kind], n) for n, kind in enumerate(("dense", "range")))
    problem = replace(problem, patterns=(StorageType(levels, "int32", capacities=(len(LENGTHS), len(values))),))
    run = HostRun(problem, IN_LANES, {"A": values, "x": x}, ((pointers, starts),), (len(LENGTHS),))
    bounds = list(itertools.pairwise(pointers))
    terms = [values[lo:hi] * x[start : start + hi - lo] for start, (lo, hi) in zip(starts, bounds, strict=True)]
    agree(run, np.array([by_hand(of_row, Monoid(), "float32") for of_row in terms], np.float32))
    assert "x[(p" in str(run.kernel)
    assert " : 8]" in str(run.kernel).split("x[(p")[1].splitlines()[0]


def test_a_batch_of_patterns():
    rng = np.random.default_rng(0)
    pointers, coordinates, _ = rows("float32")
    pointers = np.stack([pointers, np.minimum(pointers, 300), pointers * 0])
    coordinates = np.stack([coordinates, (coordinates + 17) % SIZE, coordinates - 3])
    values = rng.integers(-9, 9, coordinates.shape).astype(np.float32)
    x = rng.integers(-9, 9, (3, SIZE)).astype(np.float32)
    types = (
        TensorType("y", "float32", (Dense(0), Dense(1))),
        TensorType("A", "float32", (Dense(0), Positions(0, (1, 2)))),
        TensorType("x", "float32", (Dense(0), Dense(1))),
    )
    pattern = replace(storage_type(sparse(3, 3).pattern), dynamic=True, batch_axes=1)
    factors = (Access("A", ("b", "i", "j")), Access("x", ("b", "j")))
    sizes = (("b", 3), ("i", len(LENGTHS)), ("j", SIZE))
    assignment = Assignment(Access("y", ("b", "i")), factors)
    problem = problem_of_product(assignment, types, (pattern,), sizes, (("b", "i", "j"),))
    schedule = Schedule().promote().parallelize("b").vectorize("j", LANES)
    run = HostRun(problem, schedule, {"A": values, "x": x}, ((pointers, coordinates),), (3, len(LENGTHS)))
    want = np.zeros((3, len(LENGTHS)), np.float32)
    for b in range(3):
        for i, (lo, hi) in enumerate(zip(pointers[b, :-1], pointers[b, 1:], strict=True)):
            kept = coordinates[b, lo:hi]
            want[b, i] = (values[b, lo:hi] * np.where(kept >= 0, x[b, np.maximum(kept, 0)], 0)).sum()
    agree(run, want)


def quadratic(dtype: str, mask: EqualityMask | None = None) -> Problem:
    """s[i] = Σ A[i, j] B[i, j] M[j, i] u[i], with values of two tensors on one pattern and a transposed matrix. A mask
    compares the first factor with the second one."""
    pattern = storage_type(sparse(3, 3).pattern)
    types = (
        TensorType("s", dtype, (Dense(0),)),
        TensorType("A", dtype, (Positions(0, (0, 1)),)),
        TensorType("B", dtype, (Positions(0, (0, 1)),)),
        TensorType("M", dtype, (Dense(0), Dense(1))),
        TensorType("u", dtype, (Dense(0),)),
    )
    factors = tuple(Access(name, ix) for name, ix in (("A", "ij"), ("B", "ij"), ("M", "ji"), ("u", "i")))
    factors = tuple(Access(f.tensor, tuple(f.indices)) for f in factors)
    sizes = (("i", len(LENGTHS)), ("j", SIZE))
    return problem_of_product(Assignment(Access("s", ("i",)), factors), types, (pattern,), sizes, mask=mask)


@pytest.mark.parametrize("mask", [None, EqualityMask("*", 1)])
def test_several_values_on_a_pattern_strided_gathers_and_conditions(mask):
    pointers, coordinates, _ = rows("int32")
    rng = np.random.default_rng(0)
    row, count = np.repeat(LENGTHS, LENGTHS), len(LENGTHS)
    A, B = (rng.integers(-2, 3, len(coordinates)).astype(np.int32) for _ in range(2))
    M, u = rng.integers(-9, 9, (SIZE, count)).astype(np.int32), rng.integers(-9, 9, count).astype(np.int32)
    run = HostRun(
        quadratic("int32", mask), IN_LANES, {"A": A, "B": B, "M": M, "u": u}, ((pointers, coordinates),), (count,)
    )
    terms = np.where(A == B, 1, 0) if mask else A * B
    want = np.zeros(count, np.int32)
    np.add.at(want, row, terms * M[coordinates, row] * u[row])
    agree(run, want)


EINSUMS = {
    "rows of coo": ("ij,j->i", sparse(30, 90, format="coo", density=0.4), np.arange(90, dtype=np.float32)),
    "rows of dcsr": ("ij,j->i", sparse(30, 90, format="dcsr", density=0.4), np.arange(90, dtype=np.float32)),
    "columns": ("ij,i->j", sparse(90, 30, density=0.4, format="csc"), np.arange(90, dtype=np.float32)),
    "all": ("ij->", sparse(30, 90, density=0.4)),
    "a vector": ("i,i->", sparse(900, density=0.4, format="coo"), np.arange(900, dtype=np.float32)),
    "a bilinear form": (
        "i,ij,j->",
        np.arange(30, dtype=np.float32),
        sparse(30, 90, density=0.4),
        np.arange(90, dtype=np.float32),
    ),
    "a tensor": ("ijk,k->ij", sparse(9, 8, 90, density=0.4, format="csf"), np.arange(90, dtype=np.float32), "dense"),
    "two levels": ("ijk,k->i", sparse(9, 8, 90, density=0.4, format="csf"), np.arange(90, dtype=np.float32)),
    "summed first": ("ij,ik->ik", sparse(30, 90, density=0.4), np.ones((30, 16), np.float32)),
}


def _in_lanes(problem, schedule):
    """The schedule in which the innermost loop over stored entries runs in lanes."""
    kept = (step for step in schedule.steps if not (step.keyword == "vectorize" and step.lanes))
    nest = summary_of(problem, Schedule(tuple(kept)))
    step = Vectorize((*nest.order, *nest.precompute_loops)[-1], LANES)
    assert step.check(nest) is None
    return Schedule((*nest.steps, step))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("grain", [1, 1000])
@pytest.mark.parametrize("name", EINSUMS)
def test_every_program_agrees_with_its_meaning(name, grain):
    """Integers are exact in whatever order; chunks of one entry divide segments, or a reduction."""
    run = run_of(*EINSUMS[name], long=False)
    run = replace(run, schedule=_in_lanes(run.problem, with_grain(run.schedule, grain)))
    agree(run, run.meaning())


@pytest.mark.parametrize("mode", ["owned", "split"])
def test_threads_do_not_change_a_bit_of_long_rows(mode):
    """A heavy row is cut into chunks. Each chunk has lanes of its own."""
    lengths = [3, 5000, 0, 40, 1, 9]
    pointers, coordinates, values = rows("float32", lengths, 6000)
    x = numbers("float32", 6000, np.random.default_rng(1))
    problem, schedule = spmv("float32", size=6000, count=6), changed(IN_LANES, "parallelize", race=mode, grain=100)
    run = HostRun(problem, schedule, {"A": values, "x": x}, ((pointers, coordinates),), (6,))
    found = [got for stage, got in stages(run) if stage != "loops"]
    for got in found[1:]:
        np.testing.assert_array_equal(got, found[0])
    terms = values.astype(np.float64) * x[coordinates]
    exact, size = (np.array([of[lo:hi].sum() for lo, hi in itertools.pairwise(pointers)]) for of in (terms, abs(terms)))
    assert (np.abs(found[0] - exact) <= 200 * 2.0**-24 * size).all()


def test_long_sums_keep_their_bound():
    """(69 + 64) u Σ|terms| for a row that is cut, for values whose rounding errors add up."""
    count = 200_000
    matrix = SparseTensor.from_coords(
        np.stack([np.zeros(count, np.int32), np.arange(count)]), np.full(count, 0.1, np.float32), (1, count), "csr"
    )
    x = np.full(count, 1.1, np.float32)
    exact = float(np.float32(0.1)) * float(np.float32(1.1)) * count
    for A in (matrix, matrix.dynamic()):
        assert "at a time in lanes" in str(jsparse.explain("ij,j->i", A, x))
        assert abs(float(jsparse.einsum("ij,j->i", A, x)[0]) - exact) <= 133 * 2.0**-24 * exact


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_schedule_asks_for_lanes_where_a_loop_can_have_them(case):
    assert any(step.keyword == "vectorize" and step.lanes for step in case.plan.schedule.steps) == in_lanes(
        case.loops.body
    )


@pytest.mark.parametrize(
    "text, operands",
    {
        "the diagonal": ("ii->", (sparse(40, 40, density=0.9),)),
        "dense lanes": ("ij,jk->ik", (sparse(40, 40, density=0.9), np.ones((40, 8), np.float32))),
        "short rows": ("ij,j->i", (sparse(400, 40, density=0.1), np.ones(40, np.float32))),
    }.values(),
)
def test_other_loops_stay_as_they_are(text, operands):
    assert "at a time in lanes" not in str(jsparse.explain(text, *operands))


def test_rows_that_are_long_enough_run_in_lanes_whatever_their_average():
    """One long row among many short ones is worth it, and rows that all lack a whole step are not."""
    x = np.ones(3000, np.float32)

    def csr(lengths):
        row = np.repeat(np.arange(len(lengths)), lengths)
        at = np.concatenate([np.arange(n) for n in lengths])
        return SparseTensor.from_coords(np.stack([row, at]), np.ones(len(at), np.float32), (len(lengths), 3000), "csr")

    assert "8 at a time in lanes" in str(jsparse.explain("ij,j->i", csr([2] * 500 + [1000]), x))
    assert "at a time in lanes" not in str(jsparse.explain("ij,j->i", csr([7] * 500), x))


@pytest.mark.parametrize("transform", ["jit", "vmap", "grad"])
def test_under_transformations(transform):
    """Exact integers through the primitive, with derivatives, which are sums over entries themselves."""
    A, rng = sparse(20, 300, density=0.3), np.random.default_rng(0)
    x, dense = rng.integers(-4, 5, 300).astype(np.float32), np.asarray(A.todense())

    def f(values, x):
        return jsparse.einsum("ij,j->i", A.with_values(values), x)

    if transform == "jit":
        np.testing.assert_array_equal(jax.jit(f)(A.values, x), dense @ x)
    elif transform == "vmap":
        many = np.stack([x, 2 * x, -x])
        np.testing.assert_array_equal(jax.vmap(f, (None, 0))(A.values, many), many @ dense.T)
    else:
        got = jax.grad(lambda values, x: (f(values, x) ** 2).sum(), (0, 1))(A.values, x)
        row, at = np.nonzero(dense)
        np.testing.assert_array_equal(got[0], (2 * (dense @ x))[row] * x[at])
        np.testing.assert_array_equal(got[1], 2 * (dense @ x) @ dense)
