"""A spec with the arrays of its factors, and several ways to run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from programs.host import HostRun, meaning, moved
from programs.padding import with_int64
from programs.program import representable
from programs.variants import fine_grained, some_plan, with_other_leaders, with_unknown_size

from jsparse import Pattern
from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.formats import Relayout
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.execute import make_plan
from jsparse.primitives.spec import ArrayAccess, Spec, problem_of

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """A spec with the arrays of its factors, a plan and a schedule.

    Attributes:
        wide: some index arrays are int64.
        padded: some patterns are padded.
    """

    spec: Spec
    arrays: tuple[np.ndarray, ...]
    plan: Plan
    schedule: Schedule
    wide: bool = False
    padded: bool = False

    @staticmethod
    def of(spec: Spec, arrays: tuple[np.ndarray, ...]) -> Case:
        """The case with the plan that the primitive makes."""
        dtypes = (spec.dtype_of(arrays).name, *(a.dtype.name for a in arrays))
        plan, _ = make_plan(spec, dtypes)
        return Case(spec, arrays, plan, plan.schedule)

    def varied(self, rng: np.random.Generator, probability: float = 1.0) -> Case:
        """The case with a random candidate and small chunks, perhaps with mixed dtypes, an unknown size, and wide or
        padded index arrays. With probability 1 - `probability` it is unchanged."""
        if rng.random() >= probability:
            return self
        problem, arrays = self.plan.given, self.arrays
        if rng.random() < 0.2:
            problem = with_unknown_size(problem, rng)
        mixed = rng.random() < 0.2
        if mixed and all(np.isfinite(array).all() for array in arrays):  # integers have no inf
            problem, arrays = _mixed(self.spec, problem, arrays, rng)
        plan = some_plan(problem, self.stored, rng)
        schedule = fine_grained(plan.problem, with_other_leaders(plan, rng), rng)
        wide, padded = (rng.random(2) < (0.3, 0.25)).tolist()
        return Case(self.spec, arrays, plan, schedule, wide, padded)

    def integers(
        self, term: ArrayAccess, rng: np.random.Generator, largest: int, dtype: np.dtype, spec: Spec | None = None
    ) -> np.ndarray:
        """Random integers in the shape of a term.

        In a sum of bools, a factor of integers counts bools that were summed beforehand, so it has no negative numbers.
        """
        shape = (spec or self.spec).shape(term)
        least = 0 if self.spec.dtype_of(self.arrays) == np.bool_ else -largest
        return representable(rng.integers(least, largest + 1, shape), dtype.name).astype(dtype)

    def transposed(self, number: int, rng: np.random.Generator, largest: int) -> Case:
        """The transpose in one factor, applied to a random cotangent. The result has the factor's dtype, unless that
        would turn floats into integers or numbers into bools."""
        cotangent = self.integers(self.spec.result, rng, largest, self.spec.dtype_of(self.arrays))
        arrays = (*self.arrays[:number], *self.arrays[number + 1 :], cotangent)
        own, computed = self.arrays[number].dtype.name, accumulator(*(a.dtype.name for a in arrays))
        alike = accumulator(own).startswith("float") == computed.startswith("float")
        alike &= own != "bool" or all(a.dtype == np.bool_ for a in arrays)
        spec = self.spec.transpose_in(number).with_dtype(
            np.dtype(own if alike else computed), [a.dtype for a in arrays]
        )
        return Case.of(spec, arrays)

    @property
    def stored(self) -> list[Pattern]:
        """The patterns of the given problem."""
        return list(self.spec.scheduler_patterns)

    @property
    def relayouts(self) -> list[Relayout]:
        """The relayouts of values to the patterns that the loops walk."""
        return [relayout_to(given, used.format) for given, used in zip(self.stored, self.plan.patterns, strict=True)]

    @property
    def work(self) -> int:
        """An estimate of the number of scalar operations."""
        return round(self.plan.cost.work + self.plan.cost.iterations) + prod(self.shape(self.plan.problem))

    def shape(self, problem: Problem) -> tuple[int, ...]:
        """The shape of the result's array in the storage of `problem`."""
        return self.storage(
            problem, problem.tensors[0], self.plan.patterns if problem is self.plan.problem else self.stored
        )

    def storage(self, problem: Problem, tensor: TensorType, patterns: Sequence[Pattern]) -> tuple[int, ...]:
        """The size of each storage axis of a tensor."""
        access = next(a for a in problem.assignment.accesses if a.tensor == tensor.name)
        sizes = dict(self.spec.sizes)
        return tuple(
            sizes[str(access.indices[a.dim])] if isinstance(a, Dense) else patterns[a.pattern].nse for a in tensor.axes
        )

    def given_arrays(self) -> dict[str, np.ndarray]:
        """The factors in the storage of the given problem."""
        given = self.plan.given
        named = zip(given.tensors[1:], self.arrays, strict=True)
        return {t.name: array.reshape(self.storage(given, t, self.stored)) for t, array in named}

    def meaning(self) -> np.ndarray:
        """The result by the definition of the given problem."""
        given = self.plan.given
        return meaning(given, self.given_arrays(), [p.arrays for p in self.stored], self.shape(given))

    def moved(self, result: np.ndarray) -> np.ndarray:
        """A result of the given problem, moved to the storage of the planned problem."""
        return moved(result, self.plan.given.tensors[0], self.plan.problem.tensors[0], self.relayouts)

    def run(self, rng: np.random.Generator, level: int) -> HostRun:
        """The run of the planned problem, with the factors moved to its storage."""
        given, problem, relayouts = self.plan.given, self.plan.problem, self.relayouts
        arrays = {
            new.name: moved(array, old, new, relayouts)
            for (array, old, new) in zip(
                self.given_arrays().values(), given.tensors[1:], problem.tensors[1:], strict=True
            )
        }
        stated = with_int64(problem, rng) if self.wide else problem
        indices = tuple(pattern.arrays for pattern in self.plan.patterns)
        return HostRun(stated, self.schedule, arrays, indices, self.shape(problem), level)


def _mixed(
    spec: Spec, problem: Problem, arrays: tuple[np.ndarray, ...], rng: np.random.Generator
) -> tuple[Problem, tuple[np.ndarray, ...]]:
    """The problem of the spec with a random dtype for each factor. The kernel casts factors to the result's dtype, and
    rounds the product of a mask to the dtype of the factor that it is compared with."""
    target, *factors = problem.tensors
    if target.dtype == "bool":
        return problem, arrays
    dtypes = ["int8", "int16", "int32", "int64", "bool"]
    floats = ["float32", "float64", "bfloat16", "float16"]
    is_float = accumulator(target.dtype).startswith("float")
    if is_float:
        dtypes = [*floats, "int32", "int8", "bool"]
    drawn = [str(rng.choice(dtypes)) for _ in factors]
    if spec.mask is not None and is_float:  # no two machines agree on floats that an integer dtype does not reach
        drawn[spec.mask.count] = str(rng.choice(floats))
    tensors = tuple(replace(t, dtype=d) for t, d in zip(factors, drawn, strict=True))
    cast = tuple(a.astype(d) for a, d in zip(arrays, drawn, strict=True))
    statements = problem_of(spec, (target.dtype, *drawn)).statements
    return replace(problem, statements=statements, tensors=(target, *tensors)), cast
