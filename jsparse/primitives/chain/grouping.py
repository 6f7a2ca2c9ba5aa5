"""Grouping: which equations of a jaxpr become one kernel.

Equations are taken in their order. Each joins the first group that stays a chain whose statements share loops, among
those behind which all that it needs is there. Else it begins a group of its own at the end; an equation that no kernel
begins with, and that needs nothing of any group, runs before all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsparse import _compat
from jsparse.base.memo import remembered
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.equations import VIEWS
from jsparse.primitives.chain.execute import chain_of
from jsparse.primitives.chain.expand import COMPOSED, flattened

__all__ = ["Step", "groups", "refusal", "run_groups"]

STARTS = ("jsparse_einsum", *COMPOSED)
"""The operations that make a group worth a kernel. It begins with one of them, or with a function of entries."""

MOST = 4
"""The number of groups that an equation tries to join: each trial translates the whole group."""


@dataclass(frozen=True, slots=True)
class Step:
    """Equations that run together.

    Attributes:
        closed: their jaxpr.
        invars, outvars: the variables of the whole jaxpr that it takes and gives.
        is_fused: whether they are one kernel.
        reason: why the chain ends here; "" if nothing follows.
    """

    closed: Any
    invars: tuple[Any, ...]
    outvars: tuple[Any, ...]
    is_fused: bool
    reason: str = ""


@remembered(maxsize=256)
def groups(closed: Any) -> tuple[Any, tuple[Step, ...]]:
    """The flattened jaxpr, and the steps that compute it."""
    jaxpr = flattened(closed).jaxpr
    return jaxpr, tuple(_Grouping(jaxpr).steps())


def refusal(closed: Any) -> str | None:
    """Why a closed jaxpr is no chain whose statements share loops; None if it is one."""
    chain = chain_of(closed)
    if isinstance(chain, ChainError):
        return str(chain)
    if any(walk.lead for walk in chain.walks):
        return "a batch of dynamic patterns"
    if len(chain.problem.statements) > 1 and not shared_loops(chain.problem):
        return "its statements share no loops"
    return None


def run_groups(closed: Any, operands: Sequence[Any], run: Callable[[Any, Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """Evaluate a closed jaxpr; `run` evaluates its chains."""
    jaxpr, steps = groups(closed)
    env: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))

    def value(v: Any) -> Any:
        return _compat.literal(v) if isinstance(v, _compat.Literal) else env[v]

    for step in steps:
        given = [value(v) for v in step.invars]
        found = run(step.closed, given) if step.is_fused else _compat.evaluated(step.closed, given)
        env.update(zip(step.outvars, found, strict=True))
    return [value(v) for v in jaxpr.outvars]


@dataclass
class _Group:
    """Equations of one kernel, or one equation that is none.

    Attributes:
        equations: in their order.
        is_open: whether others may join.
        reason: why the first equation did not join that might have; "" if there is none.
    """

    equations: list[Any]
    is_open: bool
    reason: str = ""

    @property
    def made(self) -> set[Any]:
        """The variables that it computes."""
        return {v for e in self.equations for v in e.outvars}


@dataclass
class _Grouping:
    """The groups so far, each of which needs results of those before it only."""

    jaxpr: Any
    groups: list[_Group] = field(default_factory=list)

    def steps(self) -> list[Step]:
        before = [_Group([e], False) for e in self.jaxpr.eqns if not self.take(e)]
        self.groups = [*before, *self.groups]
        settled = [part for group in self.groups for part in self.settled(group)]
        return [self.step(group, fused) for group, fused in settled]

    def take(self, equation: Any) -> bool:
        """Add an equation to a group, or make one of it behind what it needs. False if it should run before them."""
        if equation.effects:  # in their order, so none runs before the others
            self.groups.append(_Group([equation], False))
            return True
        read = _read(equation)
        needed = [n for n, group in enumerate(self.groups) if not group.made.isdisjoint(read)]
        starts = equation.primitive.name in STARTS
        if not (needed or starts or equation.primitive.name == "jsparse_map"):
            return False
        last = max(needed, default=0)
        for group in [g for g in self.groups[last:] if g.is_open][:MOST] if needed or starts else ():
            reason = self.refusal([*group.equations, equation])
            if reason is None:
                group.equations.append(equation)
                return True
            group.reason = group.reason or reason
        can_start = (starts or equation.primitive.name == "jsparse_map") and self.refusal([equation]) is None
        if can_start or needed:
            self.groups.append(_Group([equation], can_start))
        return can_start or bool(needed)

    def refusal(self, equations: Sequence[Any]) -> str | None:
        """Why equations are no chain; None if they are one."""
        inside = {v for e in equations for v in _read(e)}
        closed = self.closed(equations, [v for e in equations for v in e.outvars if v not in inside])[0]
        return refusal(closed)

    def settled(self, group: _Group) -> list[tuple[_Group, bool]]:
        """A group as far as it is a chain, and equations behind it: what shares no loops where others read it, too."""
        behind: list[_Group] = []
        while group.is_open and group.equations and refusal(self.closed(group.equations, self.results(group))[0]):
            behind.insert(0, _Group([group.equations.pop()], False))
        names = [e.primitive.name for e in group.equations]
        several = sum(name not in VIEWS for name in names) > 1 or any(name in COMPOSED for name in names)
        fused = group.is_open and several and any(name in STARTS for name in names)
        return [*([(group, fused)] if names else []), *((other, False) for other in behind)]

    def results(self, group: _Group) -> list[Any]:
        """What other equations, or the results of the jaxpr, need of a group."""
        own = set(map(id, group.equations))
        needed = {v for e in self.jaxpr.eqns if id(e) not in own for v in _read(e)}
        needed.update(v for v in self.jaxpr.outvars if not isinstance(v, _compat.Literal))
        return [v for e in group.equations for v in e.outvars if v in needed]

    def closed(self, equations: Sequence[Any], outvars: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """The jaxpr of equations, and the variables that it takes."""
        computed = {v for e in equations for v in e.outvars}
        invars = tuple(dict.fromkeys(v for e in equations for v in _read(e) if v not in computed))
        return _compat.sub_jaxpr(self.jaxpr, equations, invars, outvars), invars

    def step(self, group: _Group, is_fused: bool) -> Step:
        outvars = tuple(self.results(group))
        closed, invars = self.closed(group.equations, outvars)
        return Step(closed, invars, outvars, is_fused, group.reason if is_fused else "")


def _read(equation: Any) -> list[Any]:
    """The variables that an equation reads."""
    return [v for v in equation.invars if not isinstance(v, _compat.Literal)]
