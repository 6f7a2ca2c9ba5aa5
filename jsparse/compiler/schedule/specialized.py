"""Problems whose small static patterns are constants of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.machine import WRITTEN_OUT
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.errors import ScheduleError
from jsparse.formats import Pattern

__all__ = ["with_constants"]


def with_constants(problem: Problem, patterns: Sequence[Stored], nest: Summary) -> Problem:
    """The problem with the entries of those patterns to which the nest is specialized.

    Raises ScheduleError if one of them is dynamic, or if too much would be written out: gaps of dense levels count as
    entries do, and loops inside of one another multiply.
    """
    chosen = {step.pattern for step in nest.found("specialize") if step.to == "pattern"}
    if not chosen:
        return problem
    dense = {step.loop for step in nest.found("unroll")} - nest.pattern_vars
    copies = prod(problem.size[var] or 0 for var in dense)
    for n in sorted(chosen):
        pattern = patterns[n]
        copies *= max(1, *pattern.level_sizes) if isinstance(pattern, Pattern) else WRITTEN_OUT + 1
        if copies > WRITTEN_OUT:
            raise ScheduleError(
                f"Expected static patterns of at most {WRITTEN_OUT} positions for 'specialize pattern P{n}' in "
                f"{problem.assignment}, all loops that are written out together, but got {copies:,} with {pattern!r}. "
                "Leave the step out."
            )
    types = (
        replace(type_, constant_indices=_content(pattern)) if n in chosen else type_
        for n, (type_, pattern) in enumerate(zip(problem.patterns, patterns, strict=True))
    )
    return replace(problem, patterns=tuple(types))


def _content(pattern: Stored) -> tuple[tuple[int, ...], ...]:
    """The index arrays of a static pattern."""
    assert isinstance(pattern, Pattern)
    return tuple(tuple(array.tolist()) for array in pattern.arrays)
