"""Grouping: which equations of a jaxpr become one kernel.

Equations are taken in their order, and a group grows as long as it is a chain whose statements share loops. An equation
that cannot be part of it, and that needs nothing of the group, runs before; one that does ends the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsparse import _compat
from jsparse.base.memo import remembered
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.primitives.chain.drafts import ChainError, UnusedConditionError
from jsparse.primitives.chain.equations import VIEWS
from jsparse.primitives.chain.execute import chain_of
from jsparse.primitives.chain.expand import COMPOSED, flattened

__all__ = ["Step", "groups", "refusal", "run_groups"]

STARTS = ("jsparse_einsum", *COMPOSED)
"""The operations that make a group worth a kernel. It begins with one of them, or with a function of entries."""


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
class _Grouping:
    jaxpr: Any
    found: list[Step] = field(default_factory=list)
    group: list[Any] = field(default_factory=list)
    made: set[Any] = field(default_factory=set)  # what the group computes

    def steps(self) -> list[Step]:
        for number, equation in enumerate(self.jaxpr.eqns):
            self.take(equation, self.jaxpr.eqns[number + 1 :])
        self.end((), "")
        return self.found

    def take(self, equation: Any, rest: Sequence[Any]) -> None:
        """Add an equation to the group, or run it before the group, or end the group."""
        needs_group = not self.made.isdisjoint(v for v in equation.invars if not isinstance(v, _compat.Literal))
        if not self.group and equation.primitive.name not in (*STARTS, "jsparse_map"):
            self.found.append(self.step([equation], None, False, ""))
            return
        trial = self.step([*self.group, equation], None, True, "").closed
        reason = None if isinstance(chain_of(trial), UnusedConditionError) else refusal(trial)
        if reason is None and (needs_group or not self.group or equation.primitive.name in STARTS):
            self.group.append(equation)
            self.made.update(equation.outvars)
        elif not needs_group:
            self.found.append(self.step([equation], None, False, ""))
        else:
            self.end((equation, *rest), reason or "")
            self.take(equation, rest)

    def end(self, rest: Sequence[Any], reason: str) -> None:
        """Emit the group."""
        behind: list[Any] = []  # conditions at the end that nothing in the group selects by
        while self.group and refusal(self.step(self.group, (*behind, *rest), True, "").closed) is not None:
            behind.insert(0, self.group.pop())
        names = [e.primitive.name for e in self.group]
        several = sum(name not in VIEWS for name in names) > 1 or any(name in COMPOSED for name in names)
        worth = several and any(name in STARTS for name in names)
        if self.group:
            self.found.append(self.step(self.group, (*behind, *rest), worth, reason))
        self.found += [self.step([equation], None, False, "") for equation in behind]
        self.group, self.made = [], set()

    def step(self, equations: Sequence[Any], rest: Sequence[Any] | None, is_fused: bool, reason: str) -> Step:
        """The equations as a step. Its results are what `rest` or the jaxpr's results need; all of them, without it."""
        computed = dict.fromkeys(v for e in equations for v in e.outvars)
        read = (v for e in equations for v in e.invars if not isinstance(v, _compat.Literal))
        invars = tuple(dict.fromkeys(v for v in read if v not in computed))
        if rest is None:
            inside = {v for e in equations for v in e.invars if not isinstance(v, _compat.Literal)}
            outvars = tuple(v for v in computed if v not in inside or not is_fused)
        else:
            later = {v for e in rest for v in e.invars if not isinstance(v, _compat.Literal)}
            later.update(v for v in self.jaxpr.outvars if not isinstance(v, _compat.Literal))
            outvars = tuple(v for v in computed if v in later)
        closed = _compat.sub_jaxpr(self.jaxpr, equations, invars, outvars)
        return Step(closed, invars, outvars, is_fused, reason)
