"""Runs a problem whose result is a list of columns, coordinates and perhaps a value, at every stage of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from programs.host import POISON, HostRun, moved, poisoned

from jsparse import Pattern, _native
from jsparse.compiler.interpret import interpret_listing as define_listing
from jsparse.compiler.kernel.interpret import interpret_kernel
from jsparse.compiler.kernel.nodes import Kernel
from jsparse.compiler.lists import counting
from jsparse.compiler.llvm import compile_kernel
from jsparse.compiler.loops import build_loops
from jsparse.compiler.loops.interpret import interpret_listing
from jsparse.compiler.lower import lower
from jsparse.compiler.lower.chunks import MAX_CHUNKS
from jsparse.compiler.problem import Addend, Problem, TensorType, Wanted
from jsparse.compiler.schedule import Plan, Schedule

__all__ = ["Column", "ListRun", "without_values"]

Column = tuple[tuple[int, ...], float]  # coordinates and value; how many entries meet there if there are no values
Run = Callable[[str, Kernel, list[np.ndarray]], None]


@dataclass(frozen=True)
class ListRun(HostRun):
    """A plan that lists columns: those of a problem with terms in order, each once, with values if it has factors.
    Those of a problem without terms come in any order and repeat.
    """

    @staticmethod
    def of(
        plan: Plan, schedule: Schedule, given: Sequence[Pattern], arrays: dict[str, np.ndarray], level: int
    ) -> ListRun:
        """The run of a plan on arrays as its given problem stores them on `given` patterns, all of them static."""
        relayouts = [pattern.relayout_to(used.format) for pattern, used in zip(given, plan.patterns, strict=True)]
        stored = {
            new.name: moved(arrays[new.name], old, new, relayouts)
            for old, new in zip(plan.given.tensors[1:], plan.problem.tensors[1:], strict=True)
        }
        index = tuple(pattern.arrays for pattern in plan.patterns)
        return ListRun(plan.problem, schedule, stored, index, (), level)

    @property
    def is_ordered(self) -> bool:
        """Whether columns are sorted, each once."""
        return bool(self.problem.terms)

    @property
    def has_values(self) -> bool:
        """Whether the factors are read."""
        return self.problem.wants_values

    def columns(self) -> list[Column]:
        """What the definition says; without values, repeats included where columns may come in any order."""
        target = self.problem.assignment.target
        every = (Addend(1, (), tuple(range(len(self.patterns)))),)
        stated = self.problem if self.is_ordered else replace(self.problem, terms=every)
        found = define_listing(stated, self.arrays, self.by_pattern)
        if not self.is_ordered:
            return [(place, 0) for place, count in found.items() for _ in range(round(count))]
        stored = [*self.schedule.order, *(v for v in map(str, target.indices) if v not in self.schedule.order)]
        order = [stored.index(str(v)) for v in target.indices]
        dims = [order.index(n) for n in range(len(order))]
        places = sorted(found, key=lambda place: [place[dim] for dim in dims])
        return [(place, found[place] if self.has_values else 0) for place in places]

    def by_loops(self) -> list[Column]:
        """The loop nest's columns."""
        nest = build_loops(self.problem, self.schedule)
        listed = interpret_listing(nest, self.arrays, self.by_pattern)
        return self._sorted([(place, value or 0) for place, value in listed])

    def by_kernel(self, reverse: bool) -> list[Column]:
        """The columns of the kernels' interpreter."""
        return self._listed(lambda _, kernel, buffers: interpret_kernel(kernel, buffers, reverse))

    def by_code(self, threads: int) -> list[Column]:
        """The columns of the machine code."""

        def run(wanted: str, _: Kernel, buffers: list[np.ndarray]) -> None:
            code = _native.run(self.codes[wanted].address, buffers, threads)
            assert code == 0, _native.last_error()

        return self._listed(run)

    @cached_property
    def kernels(self) -> dict[Wanted, Kernel]:
        """One that counts, one that writes, and if there are values one that bounds and one that writes these only."""
        wanted: list[Wanted] = ["entries", "listed values"] if self.has_values else ["coordinates"]
        stated = {w: replace(self.problem, wanted=w) for w in wanted}
        counts = counting(self.problem)
        if not self.has_values:
            target = TensorType(self.problem.tensors[0].name, self.problem.column_dtype, ())
            stated["coordinates"] = replace(counts, wanted="coordinates", tensors=(target,))
        if self.has_values:
            stated["bounds"] = replace(counts, wanted="bounds")
        return {w: lower(build_loops(problem, self.schedule)) for w, problem in {"counts": counts, **stated}.items()}

    @cached_property
    def codes(self):
        """Their machine code."""
        return {wanted: compile_kernel(kernel, self.level) for wanted, kernel in self.kernels.items()}

    def _listed(self, run: Run) -> list[Column]:
        """Count, then write where the counts say."""
        index = [array for arrays in self.by_pattern for array in arrays]
        counts = np.full(MAX_CHUNKS, POISON, np.int64)
        run("counts", self.kernels["counts"], [*index, counts])
        assert (counts >= 0).all(), counts
        starts, total = np.cumsum(counts) - counts, int(counts.sum())
        values = np.zeros(total)
        if self.has_values:
            rows, values = self._entries(run, index, counts)
            again = poisoned(total, values.dtype.name)
            run("listed values", self.kernels["listed values"], [*self.buffers, starts.astype(np.int32), again])
            np.testing.assert_array_equal(again, values)
        else:
            rows, ends = self._rows(total), starts.copy()
            run("coordinates", self.kernels["coordinates"], [*index, ends, rows])
            np.testing.assert_array_equal(ends, starts + counts)
        places = rows.T.tolist() if len(rows) else [[]] * total
        return self._sorted([(tuple(place), value) for place, value in zip(places, values.tolist(), strict=True)])

    def _entries(self, run: Run, index: list[np.ndarray], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and values, written with the room that bounds give each chunk: even chunks, then odd ones."""
        bounds = np.full(MAX_CHUNKS, POISON, np.int64)
        run("bounds", self.kernels["bounds"], [*index, bounds])
        assert (bounds >= counts).all(), (bounds, counts)
        starts, room = np.cumsum(bounds) - bounds, int(bounds.sum())
        rows, values = self._rows(room), poisoned(room, self.problem.tensors[0].dtype)
        for parity in (0, 1):
            taken = np.arange(MAX_CHUNKS) % 2 == parity
            ends = np.where(taken, starts, -1)
            run("entries", self.kernels["entries"], [*self.buffers, ends, rows, values])
            np.testing.assert_array_equal(ends[taken & (counts > 0)], (starts + counts)[taken & (counts > 0)])
        kept = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, counts, strict=True)]).astype(int)
        return rows[:, kept], values[kept]

    def _rows(self, count: int) -> np.ndarray:
        return np.full((len(self.problem.assignment.target.indices), count), POISON, self.problem.column_dtype)

    def _sorted(self, columns: list[Column]) -> list[Column]:
        return columns if self.is_ordered else sorted(columns)


def without_values(problem: Problem) -> Problem:
    """The problem of finding the same columns alone."""
    return counting(problem)
