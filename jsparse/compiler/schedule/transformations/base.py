"""Helpers of transformations: reasons why steps are illegal, and the loops that steps change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import with_loop
from jsparse.compiler.loops.nest import Clear, Forall, LoopNest, Sequence, Stmt, Widened
from jsparse.compiler.schedule.summary import Summary, Transformation

WORKSPACES = ("precompute", "promote", "cache_read", "scatter")
OF_LOOPS = ("unroll_and_jam", "unroll", "prefetch", "parallelize", "merge_by", "vectorize")


def no_loop(name: str, nest: Summary) -> str:
    """Return the message that the nest has no loop of that name."""
    loops = ", ".join(nest.loops) or "none"
    if name == nest.vector:
        return f"{name} runs in lanes, so no loop over it is left; the loops are {loops}"
    return f"there is no loop {name}; the loops are {loops}"


@dataclass(frozen=True, slots=True)
class LoopStep(Transformation):
    """A step about one loop of the nest."""

    loop: str

    def check(self, nest: Summary) -> str | None:
        return self.reason(nest) if self.loop in nest.loops else no_loop(self.loop, nest)

    def reason(self, nest: Summary) -> str | None:
        """Why the step is illegal for the nest, which has the loop; None if it is legal."""
        raise NotImplementedError


def first_of(nest: Summary, *keywords: str) -> Transformation | None:
    """Return the first step with the first of these keywords that some step has; None if no step has any of them."""
    return next((step for keyword in keywords if (step := nest.first(keyword)) is not None), None)


def structure_reason(nest: Summary, *loops: str) -> str | None:
    """Why the structure of some loops can no longer be changed; None if it can.

    A step that makes a workspace fixes the structure of all loops. A step such as `unroll` fixes the loop it names.
    """
    for step in nest.steps:
        if step.keyword in WORKSPACES:
            return f"'{step}' has already made a workspace for the loops as they are"
        if step.keyword in OF_LOOPS and getattr(step, "loop", None) in loops:
            return f"'{step}' applies to the loop as it is"
    return None


def lanes_reason(nest: Summary, loop: str) -> str | None:
    """Why steps that work on single iterations cannot change a loop; None if they can."""
    for step in nest.steps_with("vectorize"):
        if step.loop == loop and step.lanes:
            return f"'{step}' works on several positions of {loop} at a time"
    return None


def change_loop(nest: LoopNest, name: str, change: Callable[[Forall], Stmt]) -> LoopNest:
    """Replace each loop that is called `name` by `change(loop)`."""
    return replace(nest, body=with_loop(nest.body, name, nest.problem, change))


def change_domain(nest: LoopNest, name: str, **fields: Any) -> LoopNest:
    """Change fields of the domain of each loop that is called `name`."""
    return change_loop(nest, name, lambda loop: replace(loop, domain=replace(loop.domain, **fields)))


def with_loops(nest: LoopNest, loops: Stmt) -> LoopNest:
    """Replace the loops of a nest. The new loops run after the target is cleared, as before."""
    body = nest.body
    if isinstance(body, Sequence) and isinstance(body.stmts[0], Clear):
        loops = Sequence((body.stmts[0], loops))
    elif isinstance(body, Widened):
        loops = replace(body, body=loops)
    return LoopNest(nest.problem, loops)


def loops_of(nest: LoopNest) -> Stmt:
    """Return the part of one statement's nest after the loops that clear the target."""
    body = nest.body
    if isinstance(body, Sequence) and isinstance(body.stmts[0], Clear):
        return body.stmts[1]
    return body.body if isinstance(body, Widened) else body
