"""Grouping: which equations of a jaxpr become one kernel.

Equations are taken in their order, and a group grows by each that leaves it a chain whose statements share loops. An
equation that cannot be part of it runs before the group, if it needs nothing of it, else after it, with all that needs
the equation. These are grouped next.
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

    def steps(self) -> list[Step]:
        left = list(self.jaxpr.eqns)
        while left:
            left = self.round(left)
        return self.found

    def round(self, equations: Sequence[Any]) -> list[Any]:
        """Emit the equations up to the end of one group. Returns those that run after it."""
        group: list[Any] = []
        after: list[Any] = []
        made, late, reason = set[Any](), set[Any](), ""
        for equation in equations:
            reads = {v for v in equation.invars if not isinstance(v, _compat.Literal)}
            starts = equation.primitive.name in STARTS
            belongs = made & reads if group else equation.primitive.name == "jsparse_map"
            refused = "" if late & reads else None
            if refused is None and (starts or belongs):
                refused = refusal(self.trial([*group, equation]))
                if refused is None:
                    group.append(equation)
                    made.update(equation.outvars)
                    continue
            if refused is None or not group:
                self.emit([equation], False, "")
                continue
            after.append(equation)
            late.update(equation.outvars)
            reason = reason or refused
        if group:
            names = [e.primitive.name for e in group]
            several = sum(name not in VIEWS for name in names) > 1 or any(name in COMPOSED for name in names)
            self.emit(group, several and any(name in STARTS for name in names), reason)
        return after

    def trial(self, equations: Sequence[Any]) -> Any:
        """The jaxpr of equations whose results are what none of them reads."""
        inside = {v for e in equations for v in e.invars if not isinstance(v, _compat.Literal)}
        return self.closed(equations, lambda v: v not in inside)[0]

    def emit(self, equations: Sequence[Any], is_fused: bool, reason: str) -> None:
        """Add a step. Its results are what other equations or the jaxpr's results need."""
        own = {id(e) for e in equations}
        used = {v for e in self.jaxpr.eqns if id(e) not in own for v in e.invars if not isinstance(v, _compat.Literal)}
        used.update(v for v in self.jaxpr.outvars if not isinstance(v, _compat.Literal))
        closed, invars, outvars = self.closed(equations, lambda v: v in used)
        self.found.append(Step(closed, invars, outvars, is_fused, reason))

    def closed(
        self, equations: Sequence[Any], is_result: Callable[[Any], bool]
    ) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """The closed jaxpr of equations, and the variables that it takes and gives."""
        computed = dict.fromkeys(v for e in equations for v in e.outvars)
        read = (v for e in equations for v in e.invars if not isinstance(v, _compat.Literal))
        invars = tuple(dict.fromkeys(v for v in read if v not in computed))
        outvars = tuple(v for v in computed if is_result(v))
        return _compat.sub_jaxpr(self.jaxpr, equations, invars, outvars), invars, outvars
