"""Sums of products listed in order: random problems, at every stage of the compiler, against the definition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from programs.amount import amount
from programs.draw import Draw
from programs.listing import ListRun, without_values
from programs.padding import with_int64, with_padding
from programs.program import representable
from programs.schedules import steps_of, summary_of, with_grain

from jsparse import Format, Pattern
from jsparse.compiler.dtypes import DTYPES, part
from jsparse.compiler.output_kind import Coordinates, Write
from jsparse.compiler.problem import Dense, Positions, Problem, StorageType, TensorType
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.scalar import Number, product_of
from jsparse.compiler.schedule import Schedule, plan
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.schedule import build_loops
from jsparse.compiler.schedule.search.ordered import plan_in_order
from jsparse.compiler.statement import Statement
from jsparse.formats import Level
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.notation import Access

COUNT, BATCH = amount(20, 200), 20
SPACE = 400  # points of the iteration space
OPTIMIZED = 0.03  # of the kernels


@dataclass(frozen=True)
class Stated:
    """A problem, its patterns, and its factors' values."""

    problem: Problem
    patterns: tuple[Pattern, ...]
    arrays: dict[str, np.ndarray]


class _Sum(Draw):
    """A sum of products over a target of one to four dimensions."""

    def __init__(self, seed: int) -> None:
        super().__init__((seed, 11))
        self.letters = "ijklm"[: self.choice((2, 3, 4, 5), (0.15, 0.4, 0.3, 0.15))]
        self.draw_sizes(self.letters, "", SPACE)
        self.tensors: list[TensorType] = []
        self.patterns: list[Pattern] = []
        self.walks: list[tuple[str, ...]] = []
        self.arrays: dict[str, np.ndarray] = {}

    def stated(self, terms: int | None = None) -> Stated:
        """The whole problem."""
        order = min(self.choice((1, 2, 3, 4), (0.15, 0.5, 0.25, 0.1)), len(self.letters))
        target = Access("R", tuple(self.rng.permutation(list(self.letters))[:order].tolist()))
        count = terms or self.choice((1, 2, 3), (0.3, 0.45, 0.25))
        terms = tuple(self.term(target) for _ in range(count))
        result = TensorType("R", self.stored, ())
        types = tuple(storage_type(p) for p in self.patterns)
        problem = Problem(
            terms,
            (result, *self.tensors),
            types,
            tuple(self.sizes.items()),
            tuple(self.walks),
            Write(Coordinates.LEVELS, values=True),
            True,
            self.choice(("int32", "int64")),
        )
        return Stated(problem, tuple(self.patterns), self.arrays)

    def term(self, target: Access) -> Statement:
        """One to three sparse factors, perhaps a dense one, which has no index of its own."""
        count = self.choice((0, 1, 2, 3), (0.04, 0.41, 0.4, 0.15))
        factors, patterns = [], list[int]()
        for _ in range(count):
            factor, pattern = self.sparse_factor()
            factors.append(factor)
            patterns += [] if pattern in patterns else [pattern]
        met = [v for v in self.letters if v in target.indices or any(v in self.walks[n] for n in patterns)]
        if not factors or self.chance(0.35):
            names = [v for v in met if self.chance(0.4)]
            factors.append(self.factor(tuple(self.rng.permutation(names).tolist()) if names else ()))
        coefficient = float(self.choice((1, -1, 2, -3), (0.55, 0.2, 0.15, 0.1)))
        return _scaled(target, coefficient, factors, patterns)

    def sparse_factor(self) -> tuple[Access, int]:
        """Values on a new pattern, or on one that is walked already."""
        if self.patterns and self.chance(0.15):
            number = int(self.rng.integers(len(self.patterns)))
        else:
            number = len(self.patterns)
            core, names = self.core()
            self.patterns.append(core)
            self.walks.append(names)
        names = self.walks[number]
        inner = tuple(v for v in names[:1] if self.chance(0.08))  # blocks: the diagonal of dense levels below
        shape = (self.patterns[number].nse, *self.shape(inner))
        axes = (Positions(number, tuple(range(len(names)))), *(Dense(len(names) + n) for n in range(len(inner))))
        return self.tensor((*names, *inner), axes, shape), number

    def core(self) -> tuple[Pattern, tuple[str, ...]]:
        """Levels that are walked, and the index of each."""
        order = min(self.choice((1, 2, 3, 4), (0.2, 0.5, 0.22, 0.08)), len(self.letters))
        term = self.rng.permutation(list(self.letters))[:order].tolist()
        if order > 1 and self.chance(0.1):
            term[0] = term[-1]
        while True:
            tensor = self.sparse(term).tensor()
            if not tensor.format.is_dense:
                core = tensor.pattern.core
                return core, tuple(term[dim] for dim in tensor.format.order[: core.ndim])

    def factor(self, names: tuple[str, ...]) -> Access:
        """A dense factor, in any order of storage."""
        dims = self.rng.permutation(len(names)).tolist()
        shape = tuple(self.sizes[names[dim]] for dim in dims)
        return self.tensor(names, tuple(Dense(dim) for dim in dims), shape)

    def tensor(self, names: tuple[str, ...], axes: tuple[Dense | Positions, ...], shape: tuple[int, ...]) -> Access:
        """A new factor of small integers."""
        name = f"T{len(self.tensors)}"
        self.tensors.append(TensorType(name, self.stored, axes))
        self.arrays[name] = representable(self.rng.integers(-4, 5, shape), self.stored).astype(self.stored)
        return Access(name, names)

    @property
    def stored(self) -> str:
        """The dtype of all tensors: of complex numbers that of a part."""
        return part(self.base)


def _planned(stated: Stated, rng: np.random.Generator, level: int) -> ListRun | None:
    """The ordered plan of a problem in small chunks, for a random order of the result; None if there is none."""
    order = rng.permutation(list(stated.problem.assignment.target.indices)).tolist()
    chosen = plan_in_order(stated.problem, stated.patterns, order)
    if chosen is None:
        return None
    schedule = with_grain(chosen.schedule, rng.choice([1, 2, 5, 1000]))
    assert read_recipe(write_recipe(chosen.problem, (schedule,))) == (chosen.problem, (steps_of(schedule),))
    return ListRun.of(chosen, schedule, stated.patterns, stated.arrays, level)


def _varied(run: ListRun, rng: np.random.Generator) -> ListRun:
    """Perhaps with wide or padded index arrays, perhaps without values."""
    if run.patterns and rng.random() < 0.3:
        run = replace(run, problem=with_int64(run.problem, rng))
    if run.patterns and rng.random() < 0.5:
        run = with_padding(run, rng)
    return replace(run, problem=without_values(run.problem)) if rng.random() < 0.2 else run


def _check(run: ListRun) -> None:
    """Every stage lists what the definition does."""
    want = run.columns()
    message = str(run.loops)
    assert run.by_loops() == want, message
    for reverse in (False, True):
        assert run.by_kernel(reverse) == want, message
    for threads in (1, 4):
        assert run.by_code(threads) == want, message


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_columns_in_order(first: int) -> None:
    for seed in range(first, first + BATCH):
        rng = np.random.default_rng((seed, 12))
        stated = _Sum(seed).stated()
        run = _planned(stated, rng, 3 if rng.random() < OPTIMIZED else 0)
        if run is not None:
            values = run.columns()
            varied = _varied(run, rng)
            kept = values if varied.has_values else [(place, 0) for place, _ in values]
            assert varied.columns() == kept
            _check(varied)


@pytest.mark.parametrize("first", range(0, COUNT // 4, BATCH))
def test_columns_in_any_order(first: int) -> None:
    for seed in range(first, first + BATCH):
        rng = np.random.default_rng((seed, 13))
        stated = _Sum(seed).stated(terms=1)
        problem = _listing(stated.problem)
        chosen = plan(problem, stated.patterns)
        schedule = with_grain(chosen.schedule, rng.choice([1, 3]))
        _check(_varied(ListRun.of(chosen, schedule, stated.patterns, {}, 0), rng))


def _listing(problem: Problem) -> Problem:
    """Finding the columns of a single term, in any order and with repeats."""
    named = {*problem.assignment.target.variables(), *(v for walk in problem.walks for v in walk)}
    sizes = tuple((v, size) for v, size in problem.sizes if v in named)
    return replace(without_values(problem), ordered=False, sizes=sizes)


def test_problems_are_of_all_kinds() -> None:
    stated = [_Sum(seed).stated() for seed in range(200)]
    problems = [s.problem for s in stated]
    runs = [_planned(s, np.random.default_rng((n, 12)), 0) for n, s in enumerate(stated)]
    planned = [run for run in runs if run is not None]
    assert len(planned) > 0.75 * len(runs)
    assert {len(p.assignment.target.indices) for p in problems} == {1, 2, 3, 4}
    assert {p.tensors[0].dtype for p in problems} == {part(dtype) for dtype in DTYPES}
    assert {0, 1} < {size for p in problems for _, size in p.sizes}
    assert any(not any(pattern.nse for pattern in s.patterns) and s.patterns for s in stated)
    assert any(len(set(walk)) < len(walk) for run in planned for walk in run.problem.walks)
    assert any(not factor.indices for p in problems for term in p.terms for factor in term.reads)
    assert any(_repeats(type_) for run in planned for type_ in run.problem.patterns)
    assert any(len({n for t in p.terms for n in t.patterns}) < sum(len(t.patterns) for t in p.terms) for p in problems)
    assert any(set(p.assignment.target.indices) - _variables(p, term) for p in problems for term in p.terms)
    rows = [summary_of(run.problem, run.schedule).shape.row for run in planned]
    assert sum(rows) > 20 < len(rows) - sum(rows)


def _repeats(type_: StorageType) -> bool:
    return any(type_.repeats(level) for level in range(len(type_.levels)))


def _scaled(target: Access, coefficient: float, factors: Sequence[Access], patterns: Sequence[int]) -> Statement:
    scale = () if coefficient == 1 else (Number(coefficient),)
    return Statement(target, product_of("*", (*scale, *factors)), patterns=tuple(patterns))


def _variables(problem: Problem, term: Statement) -> set[str]:
    walked = {v for n in term.patterns for v in problem.walks[n]}
    return walked | {v for factor in term.reads for v in factor.variables()}


ROW = 5000  # more words of bits than are looked at one by one


@pytest.mark.sampled(2)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("size", [4096, 4097, ROW])
def test_long_rows(size: int, padded: bool) -> None:
    """A product whose rows are so long that their bits are kept on two levels."""
    rng = np.random.default_rng(size)
    stated = _product_of_sparse_rows(rng, size)
    chosen = plan_in_order(stated.problem, stated.patterns, ("i", "k"))
    assert chosen is not None
    assert summary_of(chosen.problem, chosen.schedule).loops == ("i",)
    run = ListRun.of(chosen, with_grain(chosen.schedule, 2), stated.patterns, stated.arrays, 0)
    run = with_padding(run, rng) if padded else run
    want = _columns_by_numpy(run, size)
    assert run.by_loops() == want
    assert run.by_kernel(False) == want
    assert run.by_code(1) == run.by_code(4) == want
    assert replace(run, level=3).by_code(4) == want


def _product_of_sparse_rows(rng: np.random.Generator, size: int) -> Stated:
    """R[i, k] = A[i, j] * B[j, k], rows of B being nearly empty but for their ends."""
    csr = Format((Level(DENSE, 0), Level(COMPRESSED, 1)))
    left = np.argwhere(rng.random((4, 3)) < 0.7)
    right = np.argwhere(rng.random((3, 12)) < 0.6)
    right[:, 1] = np.array([0, 31, 32, 63, 1023, 1024, 2047, 4000, 4064, size - 33, size - 2, size - 1])[right[:, 1]]
    patterns = tuple(
        Pattern.from_coordinates(coords.T, shape, csr)[0]
        for coords, shape in ((left, (4, 3)), (np.unique(right, axis=0), (3, size)))
    )
    tensors = [TensorType(name, "float64", (Positions(n, (0, 1)),)) for n, name in enumerate("AB")]
    arrays = {name: rng.integers(1, 5, p.nse).astype(float) for name, p in zip("AB", patterns, strict=True)}
    problem = Problem(
        (_scaled(Access("R", ("i", "k")), 1, (Access("A", ("i", "j")), Access("B", ("j", "k"))), (0, 1)),),
        (TensorType("R", "float64", ()), *tensors),
        tuple(storage_type(p) for p in patterns),
        (("i", 4), ("j", 3), ("k", size)),
        (("i", "j"), ("j", "k")),
        Write(Coordinates.LEVELS, values=True),
        True,
    )
    return Stated(problem, patterns, arrays)


def _columns_by_numpy(run: ListRun, size: int) -> list:
    """The product of the run's two matrices."""
    A, B = np.zeros((4, 3)), np.zeros((3, size))
    for name, matrix, (pointers, coordinates) in zip("AB", (A, B), run.by_pattern, strict=True):
        for row, (lo, hi) in enumerate(pairwise(pointers)):
            for p in range(lo, min(hi, len(coordinates))):
                if 0 <= coordinates[p] < matrix.shape[1]:
                    matrix[row, coordinates[p]] = run.arrays[name][p]
    reached = np.argwhere((A != 0) @ (B != 0).astype(float))
    return [(tuple(place), (A @ B)[tuple(place)]) for place in reached.tolist()]


def test_a_factor_that_is_absent_further_out_is_not_read() -> None:
    """b[j] * a[i] + M[i, j], where a lacks most i: b is merged with M's columns there all the same."""
    sizes = (("i", 6), ("j", 5))
    vector = Format((Level(COMPRESSED, 0),))
    csr = Format((Level(DENSE, 0), Level(COMPRESSED, 1)))
    coords = np.argwhere(np.tri(6, 5, dtype=bool)).T
    a, b, M = (
        Pattern.from_coordinates(np.asarray(given), shape, format)[0]
        for given, shape, format in (([[2]], (6,), vector), ([[0, 1, 4]], (5,), vector), (coords, (6, 5), csr))
    )
    tensors = [TensorType(name, "float64", (Positions(n, dims),)) for n, (name, dims) in enumerate(_NAMED)]
    arrays = {name: np.arange(1.0, p.nse + 1) for (name, _), p in zip(_NAMED, (a, b, M), strict=True)}
    target = Access("R", ("i", "j"))
    terms = (
        _scaled(target, 1, (Access("a", ("i",)), Access("b", ("j",))), (0, 1)),
        _scaled(target, 1, (Access("M", ("i", "j")),), (2,)),
    )
    problem = Problem(
        terms,
        (TensorType("R", "float64", ()), *tensors),
        tuple(storage_type(p) for p in (a, b, M)),
        sizes,
        (("i",), ("j",), ("i", "j")),
        Write(Coordinates.LEVELS, values=True),
        True,
    )
    chosen = plan_in_order(problem, (a, b, M), ("i", "j"))
    assert chosen is not None
    for schedule in (Schedule().parallelize("i"), Schedule().workspace("j").parallelize("i")):
        _check(ListRun.of(chosen, schedule, (a, b, M), arrays, 0))


def test_loops_in_another_order_than_the_targets_visit_what_all_patterns_store() -> None:
    """Only A has rows over l in the order of R; in the order of B, A and B meet there."""
    rng, (n, m) = np.random.default_rng(0), (9, 40)
    A = np.unique(rng.integers(0, n, (2, 60)), axis=1)  # most coordinates of its first level repeat
    B = np.unique(np.stack([rng.integers(0, m, 50), rng.integers(0, n, 50), rng.integers(0, m, 50)]), axis=1)
    coo = Format((Level(COMPRESSED, 0, unique=False), Level(SINGLETON, 1)))
    csf = Format((Level(DENSE, 0), Level(COMPRESSED, 1), Level(COMPRESSED, 2)))
    patterns = Pattern.from_coordinates(A, (n, n), coo)[0], Pattern.from_coordinates(B, (m, n, m), csf)[0]
    target = Access("R", ("l", "i", "j", "k"))
    factors = (Access("A", ("l", "i")), Access("B", ("j", "l", "k")))
    tensors = (
        TensorType(x.tensor, "float64", (Positions(n, tuple(range(len(x.indices)))),)) for n, x in enumerate(factors)
    )
    problem = Problem(
        (_scaled(target, 1, factors, (0, 1)),),
        (TensorType("R", "float64", ()), *tensors),
        tuple(storage_type(p) for p in patterns),
        (("l", n), ("i", n), ("j", m), ("k", m)),
        (("l", "i"), ("j", "l", "k")),
        Write(Coordinates.LEVELS, values=True),
        True,
    )
    chosen = plan_in_order(problem, patterns, ("j", "l", "i", "k"))
    assert chosen is not None
    listing = str(build_loops(chosen.problem, chosen.schedule))
    assert "∀ l ∈ P0.0 and P1.1" in listing
    assert "∈ all" not in listing
    arrays = {"A": np.arange(1.0, A.shape[1] + 1), "B": np.arange(1.0, B.shape[1] + 1)}
    _check(ListRun.of(chosen, chosen.schedule, patterns, arrays, 0))


_NAMED = (("a", (0,)), ("b", (0,)), ("M", (0, 1)))
