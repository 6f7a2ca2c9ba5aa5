"""Problems whose small static patterns are constants of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.machine import WRITTEN_OUT
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.errors import ScheduleError
from jsparse.formats import Pattern

__all__ = ["with_constants"]


def with_constants(problem: Problem, patterns: Sequence[Stored], nest: Summary) -> Problem:
    """The problem with the entries of those patterns to which the nest is specialized.

    Raises ScheduleError if one of them is dynamic, or has too many entries.
    """
    chosen = {step.pattern for step in nest.found("specialize") if step.to == "pattern"}
    if not chosen:
        return problem
    for n in chosen:
        if not isinstance(patterns[n], Pattern) or patterns[n].nse > WRITTEN_OUT:
            raise ScheduleError(
                f"Expected a static pattern of at most {WRITTEN_OUT} entries for 'specialize pattern P{n}' in "
                f"{problem.assignment}, but got {patterns[n]!r}. Leave the step out."
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
