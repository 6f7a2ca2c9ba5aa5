"""Runs a program at every stage and says at which it first went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import jax
import numpy as np
from programs.host import HostRun, in_use, meaning, moved, relayout_between, with_int64, with_room
from programs.program import Program, SparseOperand
from programs.variants import batched, fine_grained, some_plan, with_unknown_size

import jsparse
from jsparse import Format
from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.contraction import Contraction, contraction
from jsparse.primitives.execute import make_plan
from jsparse.primitives.spec import Spec, Term

__all__ = ["WrongResultError", "check_program"]

INTERPRETED = 1500  # about how many multiply-adds the interpreters of loops and kernels are given


class WrongResultError(AssertionError):
    """A stage that gives another result than the definition, or fails."""

    def __init__(self, program: Program, stage: str, detail: str) -> None:
        self.program, self.stage = program, stage
        super().__init__(f"seed {program.seed}: wrong from stage '{stage}' on\n{detail}\n\n{program}\n")


def check_program(program: Program, through_jax: bool) -> None:
    """Raise WrongResultError unless every stage agrees with numpy; `through_jax`: run it under `jit` as well."""
    stages = _Stages(program)
    try:
        stages.check(through_jax)
    except WrongResultError:
        raise
    except Exception as error:
        raise WrongResultError(program, stages.stage, f"{type(error).__name__}: {error}") from error


class _Stages:
    def __init__(self, program: Program) -> None:
        self.program, self.stage = program, ""
        self.rng = np.random.default_rng((*program.seed, 2))

    def check(self, through_jax: bool) -> None:
        self.stage = "contraction"
        with jax.enable_x64(self.program.needs_x64):
            operands, out = self.program.arguments()
            work, taken = contraction(self.program.subscripts, operands, out)
            arrays = tuple(np.asarray(x) for x in work.arrays(taken))
        if through_jax or work.spec is None:
            self.stage = "einsum"
            self.agree_with_numpy(self.program.run())
        if work.spec is not None:
            case = Case.of(work.spec, arrays)
            self.stages_of(case, "", self.expected(work, work.spec))
            for name, other in self.variants(case):
                self.stages_of(other, name, None)

    def variants(self, case: Case) -> Iterator[tuple[str, Case]]:
        """The same in another way; the transpose in one factor; a batch."""
        yield "candidate: ", case.varied(self.rng)
        if self.rng.random() < 0.25:
            place = int(self.rng.integers(len(case.spec.factors)))
            arrays = (*case.arrays[:place], *case.arrays[place + 1 :], case.integers(case.spec.result, self.rng))
            yield "transpose: ", Case.of(case.spec.exchanged(place), arrays).varied(self.rng, 0.5)
        if self.rng.random() < 0.15:
            spec = batched(case.spec, self.rng)
            arrays = tuple(case.integers(term, self.rng, spec) for term in spec.factors)
            yield "batch: ", Case.of(spec, arrays).varied(self.rng, 0.5)

    def expected(self, work: Contraction, spec: Spec) -> np.ndarray:
        """numpy's result as the primitive should store it."""
        if work.result is None or work.result.format.is_dense:
            return self.program.expected
        found = self.program.expected[tuple(work.result.to_coords())]
        return found.reshape(spec.shape(spec.result))

    def stages_of(self, case: Case, name: str, expected: np.ndarray | None) -> None:
        self.stage = f"{name}problem"
        given = meaning(
            case.plan.given, case.given_arrays(), case.spec.walks[0].pattern.arrays, case.shape(case.plan.given)
        )
        if expected is not None:
            self.same(given.reshape(expected.shape), expected)
        run = case.run()
        want = moved(given, case.plan.given.tensors[0], case.plan.problem.tensors[0], case.relayout)
        self.stage = f"{name}plan"
        self.same(meaning(run.problem, run.arrays, run.indices, run.shape), want)
        if case.padded:
            self.stage = f"{name}padded plan"
            exact, run = run, with_room(run, self.rng)
            padded = meaning(run.problem, run.arrays, run.indices, run.shape)
            self.same(in_use(exact, padded), want)
            want = padded
        if case.work <= INTERPRETED:
            self.stage = f"{name}loop nest"
            self.same(run.by_loops(), want)
            for reverse in (False, True):
                self.stage = f"{name}kernel{', chunks reversed' if reverse else ''}"
                self.same(run.by_kernel(reverse), want)
        for threads in (1, 4):
            self.stage = f"{name}machine code, threads={threads}"
            self.same(run.by_code(threads), want)

    def same(self, got: np.ndarray, want: np.ndarray) -> None:
        if got.shape != want.shape or not np.array_equal(got, want):
            raise WrongResultError(self.program, self.stage, f"got\n{got}\nwant\n{want}")

    def agree_with_numpy(self, got: object) -> None:
        if isinstance(got, jsparse.SparseTensor):
            self.check_structure(got)
            coords, values = got.to_coords()
            self.same(np.asarray(values), self.program.expected[tuple(coords)])
        else:
            assert isinstance(got, jax.Array), type(got)
            self.same(np.asarray(got), self.program.expected)

    def check_structure(self, got: jsparse.SparseTensor) -> None:
        """On the tensor given as `out_format`, or on an operand's levels and dense ones for the indices added."""
        out = self.program.out_format
        assert out != "dense"
        if isinstance(out, SparseOperand):
            assert got.pattern == out.tensor().pattern
            return
        term, operand = next(
            (t, x)
            for t, x in zip(self.program.terms, self.program.operands, strict=True)
            if isinstance(x, SparseOperand) and set(t) <= set(self.program.kept)
        )
        kept, levels = self.program.kept, Format.of(operand.format, len(term)).levels
        found = [(kept[level.dim], level.kind, level.unique) for level in got.format.levels[: len(term)]]
        assert found == [(term[level.dim], level.kind, level.unique) for level in levels]
        added = [v for v in kept if v not in term]
        assert [kept[level.dim] for level in got.format.levels[len(term) :]] == added
        stored = operand.tensor().pattern.to_coords()
        slots = set(zip(*(got.pattern.to_coords()[kept.index(v)].tolist() for v in term), strict=True))
        assert got.nse == 0 or slots == set(zip(*stored.tolist(), strict=True))
        assert got.nse == stored.shape[1] * prod(got.shape[kept.index(v)] for v in added)


@dataclass(frozen=True)
class Case:
    """A spec with the arrays of its factors, and how to run it."""

    spec: Spec
    arrays: tuple[np.ndarray, ...]
    plan: Plan
    schedule: Schedule
    wide: bool = False
    padded: bool = False

    @staticmethod
    def of(spec: Spec, arrays: tuple[np.ndarray, ...]) -> Case:
        """The case as the primitive runs it."""
        dtypes = (arrays[0].dtype.name, *(a.dtype.name for a in arrays))
        plan, _ = make_plan(spec, dtypes)
        return Case(spec, arrays, plan, plan.schedule)

    def varied(self, rng: np.random.Generator, probability: float = 1.0) -> Case:
        """By any candidate, in small chunks; perhaps with mixed dtypes, a size unknown, wide or padded indices."""
        if rng.random() >= probability:
            return self
        problem, arrays = self.plan.given, self.arrays
        if rng.random() < 0.2:
            problem = with_unknown_size(problem, rng)
        if rng.random() < 0.2:
            problem, arrays = _mixed(problem, arrays, rng)
        plan = some_plan(problem, self.spec.walks[0].pattern, rng)
        wide, padded = (rng.random(2) < (0.3, 0.25)).tolist()
        return Case(self.spec, arrays, plan, fine_grained(plan.schedule, rng), wide, padded)

    def integers(self, term: Term, rng: np.random.Generator, spec: Spec | None = None) -> np.ndarray:
        """Random integers in the shape of a term."""
        shape = (spec or self.spec).shape(term)
        return rng.integers(-4, 5, shape).astype(self.arrays[0].dtype)

    @property
    def relayout(self):
        """How the values move to the pattern that the loops walk."""
        return relayout_between(self.spec.walks[0].pattern, self.plan.patterns[0])

    @property
    def work(self) -> int:
        """About how many multiply-adds the program is."""
        sizes = dict(self.spec.sizes)
        dense = prod(size for v, size in sizes.items() if v not in self.spec.walks[0].indices)
        return max(self.plan.patterns[0].nse, 1) * dense + prod(self.shape(self.plan.problem))

    def shape(self, problem: Problem) -> tuple[int, ...]:
        """The shape of the result's array in the storage of `problem`."""
        return self.storage(
            problem, problem.tensors[0], self.plan.patterns[0] if problem is self.plan.problem else None
        )

    def storage(self, problem: Problem, tensor: TensorType, pattern=None) -> tuple[int, ...]:
        """One size per storage axis."""
        access = next(a for a in problem.assignment.accesses if a.tensor == tensor.name)
        sizes, nse = dict(self.spec.sizes), (pattern or self.spec.walks[0].pattern).nse
        return tuple(sizes[str(access.indices[a.dim])] if isinstance(a, Dense) else nse for a in tensor.axes)

    def given_arrays(self) -> dict[str, np.ndarray]:
        """The factors as the problem is stated."""
        given = self.plan.given
        named = zip(given.tensors[1:], self.arrays, strict=True)
        return {t.name: array.reshape(self.storage(given, t)) for t, array in named}

    def run(self) -> HostRun:
        """The factors in the storage of the problem as it runs."""
        given, problem = self.plan.given, self.plan.problem
        arrays = {
            new.name: moved(array, old, new, self.relayout)
            for (array, old, new) in zip(
                self.given_arrays().values(), given.tensors[1:], problem.tensors[1:], strict=True
            )
        }
        stated = with_int64(problem) if self.wide else problem
        return HostRun(stated, self.schedule, arrays, self.plan.patterns[0].arrays, self.shape(problem))


def _mixed(
    problem: Problem, arrays: tuple[np.ndarray, ...], rng: np.random.Generator
) -> tuple[Problem, tuple[np.ndarray, ...]]:
    """Factors of dtypes of their own, which the kernel casts to the result's."""
    target, *factors = problem.tensors
    dtypes = ["float32", "float64", "int32"] if target.dtype.startswith("float") else ["int32", "int64"]
    drawn = [str(rng.choice(dtypes)) for _ in factors]
    tensors = tuple(replace(t, dtype=d) for t, d in zip(factors, drawn, strict=True))
    cast = tuple(a.astype(d) for a, d in zip(arrays, drawn, strict=True))
    return replace(problem, tensors=(target, *tensors)), cast
