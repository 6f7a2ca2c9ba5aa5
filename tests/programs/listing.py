"""Runs a problem whose result is a list of columns, with or without values, at every stage of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from interpreters.kernel import interpret_kernel
from interpreters.loops import interpret_listing
from interpreters.problem import interpret_listing as define_listing
from programs.host import POISON, HostRun, moved, poisoned
from programs.schedules import summary_of

from jsparse import Pattern
from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.output_kind import Coordinates, Count, Write
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.assembly_call import column_problem, counting_problem
from jsparse.compiler.schedule import Plan, Schedule, build_loops
from jsparse.formats.relayout import relayout_to

__all__ = ["Column", "ListRun", "without_values"]

Column = tuple[tuple[int, ...], float]  # coordinates and value; the value is 0 in runs without values
Run = Callable[[str, Kernel, list[np.ndarray]], None]


@dataclass(frozen=True)
class ListRun(HostRun):
    """A run of a plan that lists columns. The columns of a problem with terms are in order, each once, and have values
    if the problem has factors. The columns of a problem without terms are in any order and may repeat.
    """

    @staticmethod
    def of(
        plan: Plan, schedule: Schedule, given: Sequence[Pattern], arrays: dict[str, np.ndarray], level: int
    ) -> ListRun:
        """The run of a plan on static `given` patterns. `arrays` are in the storage of the plan's given problem."""
        relayouts = [relayout_to(pattern, used.format) for pattern, used in zip(given, plan.patterns, strict=True)]
        stored = {
            new.name: moved(arrays[new.name], old, new, relayouts)
            for old, new in zip(plan.given.tensors[1:], plan.problem.tensors[1:], strict=True)
        }
        index = tuple(pattern.arrays for pattern in plan.patterns)
        return ListRun(plan.problem, schedule, stored, index, (), level)

    @property
    def is_ordered(self) -> bool:
        """Whether columns are sorted and distinct."""
        return self.problem.ordered

    @property
    def has_values(self) -> bool:
        """Whether the columns have values."""
        return self.problem.wants_values

    def columns(self) -> list[Column]:
        """The columns by the problem's definition. If they are not ordered, repeated ones are included."""
        stated = replace(self.problem, ordered=True)
        found = define_listing(stated, self.arrays, self.by_pattern)
        if not self.is_ordered:
            return [(at, 0) for at, count in found.items() for _ in range(round(count))]
        dims = self._order()
        coords = sorted(found, key=lambda at: [at[dim] for dim in dims])
        return [(at, found[at] if self.has_values else 0) for at in coords]

    def by_loops(self) -> list[Column]:
        """The loop nest's columns."""
        nest = build_loops(self.problem, self.schedule)
        listed = interpret_listing(nest, self.arrays, self.by_pattern)
        return self._sorted([(at, value or 0) for at, value in listed])

    def by_kernel(self, reverse: bool) -> list[Column]:
        """The columns by the interpreter of kernels."""
        return self._listed(lambda _, kernel, buffers: interpret_kernel(kernel, buffers, reverse))

    def by_code(self, threads: int) -> list[Column]:
        """The columns of the machine code."""

        def run(wanted: str, _: Kernel, buffers: list[np.ndarray]) -> None:
            code = _native.run(self.codes[wanted].address, buffers, threads)
            assert code == 0, _native.last_error()

        return self._listed(run)

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """Kernels by output: one counts columns, one writes them. If columns are ordered, another one bounds their
        number and one writes levels. If there are values, one writes levels and values, and one only values."""
        counts, columns = counting_problem(self.problem), column_problem(self.problem, self.problem.column_dtype)
        stated = [counts, columns]
        if self.is_ordered:
            stated += [
                replace(counts, output=Count(exact=False)),
                replace(columns, output=Write(Coordinates.LEVELS)),
            ]
        if self.has_values:
            kinds = (Coordinates.LEVELS, Coordinates.NONE)
            stated += [replace(self.problem, output=Write(kind, values=True)) for kind in kinds]
        return {str(problem.output): lower(build_loops(problem, self.schedule)) for problem in stated}

    @cached_property
    def codes(self):
        """The machine code of the kernels."""
        return {wanted: compile_kernel(kernel, self.level) for wanted, kernel in self.kernels.items()}

    def _listed(self, run: Run) -> list[Column]:
        """Count the columns, then write them at the offsets that follow from the counts."""
        index = [array for arrays in self.by_pattern for array in arrays]
        counts = np.full(MAX_CHUNKS, POISON, np.int64)
        run("counts", self.kernels["counts"], [*index, counts])
        assert (counts >= 0).all(), counts
        starts, total = np.cumsum(counts) - counts, int(counts.sum())
        rows, ends = self._rows(total), starts.copy()
        run("coordinates", self.kernels["coordinates"], [*index, ends, rows])
        np.testing.assert_array_equal(ends, starts + counts)
        values = np.zeros(total)
        if self.is_ordered:
            np.testing.assert_array_equal(self._levels(run, "levels", index, counts)[0], rows)
        if self.has_values:
            found, values = self._levels(run, "entries", index, counts)
            np.testing.assert_array_equal(found, rows)
            again = poisoned(total, values.dtype.name)
            run("listed values", self.kernels["listed values"], [*self.buffers, starts.astype(np.int32), again])
            np.testing.assert_array_equal(again, values)
        coords = rows.T.tolist() if len(rows) else [[]] * total
        return self._sorted([(tuple(at), value) for at, value in zip(coords, values.tolist(), strict=True)])

    def _levels(
        self, run: Run, wanted: str, index: list[np.ndarray], counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and values from kernels that write levels. Each chunk writes in a part whose length is its bound,
        first all even chunks, then all odd ones."""
        bounds = np.full(MAX_CHUNKS, POISON, np.int64)
        run("bounds", self.kernels["bounds"], [*index, bounds])
        assert (bounds >= counts).all(), (bounds, counts)
        starts, total = np.cumsum(bounds) - bounds, int(bounds.sum())
        items, levels = self._rows(total), len(self.problem.assignment.target.indices)
        below = np.full((levels - 1, total), POISON, np.int64)
        values = poisoned(total, self.problem.tensors[0].dtype)
        given, results = (self.buffers, [items, values]) if wanted == "entries" else (index, [items])
        stop = np.zeros((levels, MAX_CHUNKS), np.int64)
        for parity in (0, 1):
            taken = np.arange(MAX_CHUNKS) % 2 == parity
            offsets = np.tile(np.where(taken, starts, -1), (levels, 1))
            run(wanted, self.kernels[wanted], [*given, offsets, below, *results])
            np.testing.assert_array_equal(offsets[-1][taken & (counts > 0)], (starts + counts)[taken & (counts > 0)])
            stop[:, taken] = offsets[:, taken]
        of_chunks = [self._expanded(items, below, starts[c], stop[:, c]) for c in np.flatnonzero(counts)]
        kept = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, counts, strict=True)]).astype(int)
        return np.concatenate([self._rows(0), *of_chunks], 1), values[kept]

    def _expanded(self, items: np.ndarray, below: np.ndarray, start: int, stop: np.ndarray) -> np.ndarray:
        """The coordinates of a chunk's entries, with a row for each dimension of the target."""
        order = self._order()
        rows = np.empty((len(order), stop[-1] - start), items.dtype)
        rows[order[-1]] = items[-1, start : stop[-1]]
        for level, dim in enumerate(order[:-1]):
            ends = below[level, start : stop[level]]
            assert (np.diff(ends, prepend=start) > 0).all(), ends
            for deeper in range(level + 1, len(order) - 1):
                ends = below[deeper, ends - 1]
            rows[dim] = np.repeat(items[level, start : stop[level]], np.diff(ends, prepend=start))
        return rows

    def _order(self) -> list[int]:
        """The target's dimensions in the order of its levels."""
        names = [str(v) for v in self.problem.assignment.target.indices]
        return [names.index(v) for v in summary_of(self.problem, self.schedule).shape.order]

    def _rows(self, count: int) -> np.ndarray:
        return np.full((len(self.problem.assignment.target.indices), count), POISON, self.problem.column_dtype)

    def _sorted(self, columns: list[Column]) -> list[Column]:
        return columns if self.is_ordered else sorted(columns)


def without_values(problem: Problem) -> Problem:
    """The problem that has the same columns without values."""
    return counting_problem(problem)
