"""Runs a problem at every stage of the compiler on host arrays, as the primitive runs it under JAX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from interpreters.kernel import interpret_kernel
from interpreters.loops import interpret_loops
from interpreters.problem import interpret_problem
from interpreters.scalars import as_stored

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.formats import Relayout

__all__ = ["HostRun", "meaning", "moved", "poisoned", "positions_axis"]

POISON = -1234567  # fills a result before it is written: no stage may leave any of it


@dataclass(frozen=True)
class HostRun:
    """A scheduled problem with its arrays, which have one axis for each storage axis.

    Attributes:
        patterns: the index arrays of each pattern.
        level: LLVM's optimisation level.
    """

    problem: Problem
    schedule: Schedule
    arrays: dict[str, np.ndarray]
    patterns: tuple[tuple[np.ndarray, ...], ...]
    shape: tuple[int, ...]
    level: int = 3

    @cached_property
    def by_pattern(self) -> list[list[np.ndarray]]:
        """The index arrays of each pattern in the problem's dtype."""
        return [
            [np.ascontiguousarray(a, type_.index_dtype) for a in arrays]
            for type_, arrays in zip(self.problem.patterns, self.patterns, strict=True)
        ]

    @property
    def buffers(self) -> list[np.ndarray]:
        """The kernel's buffers except the result, which is the last one."""
        factors = [_flat(self.arrays[t.name], t) for t in self.problem.tensors[1:]]
        return [*factors, *(array for arrays in self.by_pattern for array in arrays)]

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
        return poisoned(self.shape, self.problem.tensors[0].dtype)

    def meaning(self) -> np.ndarray:
        """The result by the problem's definition."""
        return meaning(self.problem, self.arrays, self.by_pattern, self.shape)

    def by_loops(self) -> np.ndarray:
        """The loop nest's result."""
        out = self.fresh()
        interpret_loops(self.loops, {**self.arrays, self.problem.tensors[0].name: out}, self.by_pattern)
        return out

    def by_kernel(self, reverse: bool) -> np.ndarray:
        """The result of the kernel's interpreter."""
        out = self.fresh()
        interpret_kernel(self.kernel, [*self.buffers, _flat(out, self.problem.tensors[0])], reverse)
        return out

    @cached_property
    def code(self):
        """The machine code."""
        return compile_kernel(self.kernel, self.level)

    def by_code(self, threads: int) -> np.ndarray:
        """The result of the machine code."""
        out = self.fresh()
        code = _native.run(self.code.address, [*self.buffers, _flat(out, self.problem.tensors[0])], threads)
        assert code == 0, _native.last_error()
        return out


def meaning(
    problem: Problem, arrays: dict[str, np.ndarray], patterns: Sequence[Sequence[np.ndarray]], shape: tuple[int, ...]
) -> np.ndarray:
    """The problem's result by its definition."""
    target = problem.tensors[0]
    out = poisoned(shape, target.dtype)
    interpret_problem(problem, {**arrays, target.name: out}, patterns)
    return out


def poisoned(shape: int | tuple[int, ...], dtype: str) -> np.ndarray:
    """An array full of POISON."""
    return as_stored(np.full(shape, POISON), np.dtype(dtype))


def moved(array: np.ndarray, given: TensorType, stored: TensorType, relayouts: Sequence[Relayout]) -> np.ndarray:
    """An array in the storage of `given`, moved to the storage of `stored`."""
    axis = positions_axis(given)
    if axis is None:
        return np.array(np.transpose(array, [given.axes.index(one) for one in stored.axes]), order="C")
    gather = relayouts[given.positions.pattern].gather
    if not array.shape[axis]:
        return np.zeros((*array.shape[:axis], len(gather), *array.shape[axis + 1 :]), array.dtype)
    inside = (gather >= 0).reshape([-1 if n == axis else 1 for n in range(array.ndim)])
    return np.where(inside, np.take(array, np.maximum(gather, 0), axis), 0).astype(array.dtype)


def positions_axis(tensor: TensorType) -> int | None:
    """The axis that runs over a pattern's positions."""
    return next((n for n, axis in enumerate(tensor.axes) if not isinstance(axis, Dense)), None)


def _flat(array: np.ndarray, type_: TensorType) -> np.ndarray:
    """The array in the shape of a buffer, where positions and the dense axes after them are one axis."""
    axis = positions_axis(type_)
    if axis is None:
        return array
    flat = array.reshape(*array.shape[:axis], prod(array.shape[axis:]))
    assert flat.size == 0 or np.shares_memory(flat, array)
    return flat
