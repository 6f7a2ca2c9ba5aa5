"""Plans with the schedules that a caller has given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from jsparse.compiler.schedule import Schedule
from jsparse.errors import ScheduleError, represented
from jsparse.planning.plan import AssembledPattern, PlannedProduct, ProgramPlan, SumOfProducts
from jsparse.primitives.entries_spec import entries_plan
from jsparse.primitives.execute import make_plan
from jsparse.settings import config

__all__ = ["Schedules", "as_schedules", "scheduled"]

Schedules: TypeAlias = tuple[Schedule | None, ...]


def as_schedules(schedule: Any, shown: str) -> Schedules:
    """The argument `schedule` of `einsum` and `evaluate`: none, one, or one for each term.

    Raises ScheduleError for anything else.
    """
    if schedule is None:
        return ()
    if isinstance(schedule, Schedule):
        return (schedule,)
    several = isinstance(schedule, Sequence) and not isinstance(schedule, str)
    if several and all(one is None or isinstance(one, Schedule) for one in schedule):
        return tuple(schedule)
    raise ScheduleError(
        f"Expected schedule= of {shown} to be a jsparse.Schedule, or a list with a schedule or None for each term, but "
        f"got {represented(schedule)}. Text is read by jsparse.Schedule.parse."
    )


def scheduled(plan: ProgramPlan, schedules: Schedules) -> ProgramPlan:
    """The plan whose last instruction has the schedules.

    Raises ScheduleError if there is another number of kernels than of schedules, or if a step is illegal.
    """
    *before, last = plan.instructions
    assert isinstance(last, SumOfProducts)
    output = last.output
    if isinstance(output, AssembledPattern) and output.entries is not None:
        (schedule,) = _of_kernels(plan.text, schedules, 1)
        output = replace(output, entries=replace(output.entries, schedule=schedule))
        assert output.entries is not None
        dtypes = [term.kernel_dtypes for term in last.terms]
        entries_plan(output.entries, (dtypes[0][0], *(dtype for _, *factors in dtypes for dtype in factors)))
        return replace(plan, instructions=(*before, replace(last, output=output)))
    found = _of_kernels(plan.text, schedules, len(last.terms))
    terms = (_with(plan.text, term, one) for term, one in zip(last.terms, found, strict=True))
    return replace(plan, instructions=(*before, replace(last, terms=tuple(terms))))


def _of_kernels(text: str, schedules: Schedules, kernels: int) -> Schedules:
    if len(schedules) == kernels:
        return schedules
    each = "one kernel computes all of it" if kernels == 1 else f"each of its {kernels} terms has a kernel of its own"
    raise ScheduleError(
        f"Expected {kernels} schedule{'s' * (kernels > 1)} for '{text}', since {each}, but got {len(schedules)}. Pass "
        f"{'one Schedule' if kernels == 1 else 'a list with a Schedule or None for each term'}."
    )


def _with(text: str, term: PlannedProduct, schedule: Schedule | None) -> PlannedProduct:
    """The term with its schedule, which is checked now."""
    if schedule is None:
        return term
    if term.spec is None:
        raise ScheduleError(
            f"Expected no schedule for {term.assignment} in '{text}', since no sparse level is left to walk and XLA "
            f"computes it. Leave schedule= out."
        )
    made = replace(term, spec=replace(term.spec, schedule=schedule))
    assert made.spec is not None
    make_plan(made.spec, made.kernel_dtypes, config.generator)
    return made
