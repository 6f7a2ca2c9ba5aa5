"""Runs a problem at every stage of the compiler on host arrays, the way the primitive runs it under JAX."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from jsparse import Pattern, _native
from jsparse.compiler.interpret import interpret_problem
from jsparse.compiler.kernel.interpret import interpret_kernel
from jsparse.compiler.llvm import compile_kernel
from jsparse.compiler.loops import build_loops
from jsparse.compiler.loops.interpret import interpret_loops
from jsparse.compiler.lower import lower
from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule import Schedule
from jsparse.formats import LevelKind, Relayout

__all__ = ["HostRun", "in_use", "meaning", "moved", "relayout_between", "with_int64", "with_room"]

POISON = -1234567  # what a result holds before it is written: no stage may leave any of it


@dataclass(frozen=True)
class HostRun:
    """A scheduled problem on arrays in its own storage: one axis per storage axis, index arrays of its own dtype."""

    problem: Problem
    schedule: Schedule
    arrays: dict[str, np.ndarray]
    pattern: tuple[np.ndarray, ...]
    shape: tuple[int, ...]

    @cached_property
    def indices(self) -> tuple[np.ndarray, ...]:
        """The index arrays in the dtype that the problem says."""
        return tuple(
            np.ascontiguousarray(a, type_.index_dtype) for type_ in self.problem.patterns for a in self.pattern
        )

    @property
    def by_pattern(self) -> list[tuple[np.ndarray, ...]]:
        """The index arrays of each pattern, of which there is one at most."""
        return [self.indices] * len(self.problem.patterns)

    @cached_property
    def loops(self):
        """The loop nest."""
        return build_loops(self.problem, self.schedule)

    @cached_property
    def kernel(self):
        """The kernel."""
        return lower(self.loops)

    def fresh(self) -> np.ndarray:
        """A poisoned result."""
        return np.full(self.shape, POISON, self.problem.tensors[0].dtype)

    def by_loops(self) -> np.ndarray:
        """The loop nest's result."""
        out = self.fresh()
        interpret_loops(self.loops, {**self.arrays, self.problem.tensors[0].name: out}, self.by_pattern)
        return out

    def by_kernel(self, reverse: bool) -> np.ndarray:
        """The result of the kernel's interpreter."""
        out = self.fresh()
        interpret_kernel(self.kernel, [*self.flat(), *self.indices, _flat(out, self.problem.tensors[0])], reverse)
        return out

    @cached_property
    def code(self):
        """The machine code."""
        return compile_kernel(self.kernel)

    def by_code(self, threads: int) -> np.ndarray:
        """The result of the machine code."""
        out = self.fresh()
        code = _native.run(
            self.code.address, [*self.flat(), *self.indices, _flat(out, self.problem.tensors[0])], threads
        )
        assert code == 0, _native.last_error()
        return out

    def flat(self) -> list[np.ndarray]:
        """The factors as buffers come: positions and the dense axes behind them are one axis."""
        return [_flat(self.arrays[t.name], t) for t in self.problem.tensors[1:]]


def meaning(problem: Problem, arrays: dict[str, np.ndarray], pattern, shape: tuple[int, ...]) -> np.ndarray:
    """The problem's result by its definition."""
    target = problem.tensors[0]
    out = np.full(shape, POISON, target.dtype)
    interpret_problem(problem, {**arrays, target.name: out}, [pattern] * len(problem.patterns))
    return out


def moved(array: np.ndarray, given: TensorType, stored: TensorType, relayout: Relayout, back: bool = False):
    """An array of `given`'s storage in that of `stored`; `back` goes the other way."""
    place = _place(given)
    if place is not None:
        gather = relayout.scatter if back else relayout.gather
        taken = (
            np.take(array, np.maximum(gather, 0), place)
            if array.shape[place]
            else np.zeros((*array.shape[:place], len(gather), *array.shape[place + 1 :]), array.dtype)
        )
        inside = (gather >= 0).reshape([-1 if n == place else 1 for n in range(array.ndim)])
        return np.where(inside, taken, 0).astype(array.dtype)
    order = [given.axes.index(axis) for axis in stored.axes]
    return np.array(np.transpose(array, np.argsort(order) if back else order), order="C")


def _flat(array: np.ndarray, type_: TensorType) -> np.ndarray:
    place = _place(type_)
    if place is None:
        return array
    flat = array.reshape(*array.shape[:place], prod(array.shape[place:]))
    assert flat.size == 0 or np.shares_memory(flat, array)
    return flat


def relayout_between(given: Pattern, used: Pattern) -> Relayout:
    """How values move from the pattern as given to the one the loops walk."""
    return given.relayout_to(used.format)


def with_int64(problem: Problem) -> Problem:
    """The problem with wide index arrays."""
    return replace(problem, patterns=tuple(replace(p, index_dtype="int64") for p in problem.patterns))


def with_room(run: HostRun, rng: np.random.Generator) -> HostRun:
    """The same on a padded pattern: unused room behind each level, and entries out of range in its last segment.

    Positions that are in use keep their numbers.
    """
    (type_,) = run.problem.patterns
    arrays, positions = _padded(type_, run.problem, run.pattern, rng)
    problem = replace(run.problem, patterns=(replace(type_, padded=True),))
    grown = {}
    for tensor in problem.tensors[1:]:
        place, values = _place(tensor), run.arrays[tensor.name]
        if place is not None:
            more = (*values.shape[:place], positions - values.shape[place], *values.shape[place + 1 :])
            values = np.concatenate([values, rng.integers(1, 9, more).astype(values.dtype)], axis=place)
        grown[tensor.name] = values
    place, shape = _place(problem.tensors[0]), list(run.shape)
    if place is not None:
        shape[place] = positions
    return replace(run, problem=problem, arrays=grown, pattern=tuple(arrays), shape=tuple(shape))


def in_use(run: HostRun, result: np.ndarray) -> np.ndarray:
    """The result of a padded run in the shape of `run`, which it was made from; the rest must be zero."""
    place = _place(run.problem.tensors[0])
    if place is None:
        return result
    used, unused = np.split(result, [run.shape[place]], axis=place)
    assert not unused.any()
    return used


def _place(tensor: TensorType) -> int | None:
    return next((n for n, axis in enumerate(tensor.axes) if not isinstance(axis, Dense)), None)


def _padded(type_, problem: Problem, pattern, rng: np.random.Generator) -> tuple[list[np.ndarray], int]:
    """Index arrays with room, and the positions of the last level."""
    rest, arrays, parents = list(pattern), [], 1
    for level, var in zip(type_.levels, problem.level_variables[0], strict=True):
        size = problem.size[var]
        if level.kind is LevelKind.DENSE:
            parents *= size
            continue
        room = int(rng.integers(0, 4))
        if level.kind is LevelKind.COMPRESSED:
            pointers = np.array(rest.pop(0))
            if len(pointers) > 1 and rng.random() < 0.5:
                pointers[-1] += room
            arrays.append(np.append(pointers, [pointers[-1]] * (parents + 1 - len(pointers))))
            parents = len(rest[0]) + room
        coordinates = rest.pop(0)
        # In use, coordinates are sorted, so that those too large stand at the end; out of use they are anything.
        garbage = np.sort(rng.choice([size, size + 5], parents - len(coordinates)))
        if level.kind is LevelKind.COMPRESSED and arrays[-1][-1] == len(coordinates):
            garbage = rng.choice([-1, 0, size, size + 5], len(garbage))
        arrays.append(np.append(coordinates, garbage))
    return arrays, parents
