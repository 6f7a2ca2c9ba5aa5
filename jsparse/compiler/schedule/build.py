"""Problem + schedules → loop nest: the canonical nest of each statement, with its schedule's steps carried out."""

from __future__ import annotations

from jsparse.compiler.loops.assemble import assembly_nest, canonical_assembly, with_upper_bounds
from jsparse.compiler.loops.blocked_sums import blocked_sums
from jsparse.compiler.loops.canonical import canonical_nest, completed
from jsparse.compiler.loops.fusion import FusionError, contracted, fused
from jsparse.compiler.loops.nest import LoopNest, Stmt
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.errors import ScheduleError

__all__ = ["build_loops", "check_step", "transformed"]


def build_loops(problem: Problem, *schedules: Schedule) -> LoopNest:
    """The loop nest that the schedules describe: one for each statement, or one for an assembly.

    The nests of several statements follow each other, or share loops (`loops.fusion`). Long sums of float32 are cut
    into blocks before (`loops.blocked_sums`).

    Raises ScheduleError for a step that is illegal, and ValueError for another number of schedules.
    """
    if problem.ordered:
        (schedule,) = schedules
        return with_upper_bounds(transformed(problem, schedule))
    parts = [
        _in_blocks(transformed(problem, schedule, number), schedule)
        for number, (_, schedule) in enumerate(zip(problem.statements, schedules, strict=True))
    ]
    if len(parts) == 1:
        return LoopNest(problem, parts[0])
    steps = [schedule.found("compute_at") for schedule in schedules]
    try:
        body = fused(problem, parts, [None if step is None else step.loop for step in steps])
    except FusionError as error:
        raise ScheduleError(f"The statements cannot share loops: {error}. Leave the step 'compute_at' out.") from None
    return LoopNest(problem, contracted(problem, body))


def transformed(problem: Problem, schedule: Schedule, number: int = 0) -> LoopNest:
    """The nest of one statement after the steps of its schedule. Raises ScheduleError for a step that is illegal,
    and if registers for a sum in lanes are missing.
    """
    nest = assembly_nest(problem, canonical_assembly(problem)) if problem.ordered else canonical_nest(problem, number)
    summary = Summary.canonical(problem, number)
    for step in schedule.steps:
        check_step(step, summary)
        nest, summary = step.apply(nest), summary.then(step)
    if summary.vector is not None and summary.vector not in summary.free_vars and summary.first("promote") is None:
        raise ScheduleError(
            f"The schedule of '{summary.statement}' sums {summary.vector} in lanes, which takes registers: add the "
            "step 'promote'."
        )
    return completed(nest)


def check_step(step: object, nest: Summary) -> None:
    """Raise ScheduleError if a step is illegal on a nest."""
    reason = step.check(nest)  # type: ignore[attr-defined]
    if reason is not None:
        raise ScheduleError(
            f"The step '{step}' is illegal for '{nest.statement}': {reason}. Change it, or leave it out."
        )


def _in_blocks(nest: LoopNest, schedule: Schedule) -> Stmt:
    """The nest's statement with sums in blocks. Segments that the schedule states to be short need no blocks."""
    known = (step for step in schedule.steps if isinstance(step, Specialize) and step.to == "segments")
    return blocked_sums(nest.body, nest.problem, [(step.pattern, step.level) for step in known])
