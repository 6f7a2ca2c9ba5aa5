"""Grouping: which equations of a jaxpr become one kernel.

Equations are taken in their order. Each joins the first group that stays a chain whose statements share loops, among
those behind which all that it needs is there. Else it begins a group of its own at the end; an equation that no kernel
begins with, and that needs nothing of any group, runs before all of them. A number that is repeated, as in
`jnp.ones_like(x)`, is part of every group that reads it, and no array there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jsparse import _compat
from jsparse.base.memo import remembered_of
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.equations import VIEWS
from jsparse.primitives.chain.expand import COMPOSED, flattened, parts_of
from jsparse.primitives.chain.translate import Chain, Translation, translated

__all__ = ["Step", "groups", "refusal", "run_groups"]

STARTS = ("jsparse_einsum", *COMPOSED)
"""The operations that make a group worth a kernel. It begins with one of them, or with a function of entries."""

MOST = 4
"""The number of groups that an equation tries to join: each trial looks for the loops that the whole group shares."""


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


@remembered_of
def groups(closed: Any) -> tuple[Any, tuple[Step, ...]]:
    """The flattened jaxpr, and the steps that compute it."""
    jaxpr = flattened(closed).jaxpr
    return jaxpr, tuple(_Grouping(jaxpr).steps())


def refusal(closed: Any) -> str | None:
    """Why a closed jaxpr is no chain whose statements share loops; None if it is one."""
    chain = translated(closed)
    return str(chain) if isinstance(chain, ChainError) else _refusal(chain)


def _refusal(chain: Chain) -> str | None:
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
        chain: their translation, to which others may be added; None if no other may join.
        reason: why the first equation did not join that might have; "" if there is none.
    """

    equations: list[Any]
    chain: Translation | None = None
    reason: str = ""


class _Grouping:
    """The groups so far, each of which needs results of those before it only.

    Attributes:
        made: variable → the number of the group that computes it.
        readers: variable → the equations that read it, by their id.
        repeated: variable → the equation that repeats a number in it.
        results: the variables that are results of the jaxpr.
    """

    def __init__(self, jaxpr: Any) -> None:
        self.jaxpr, self.groups = jaxpr, list[_Group]()
        self.made: dict[Any, int] = {}
        self.readers: dict[Any, set[int]] = {}
        self.repeated: dict[Any, Any] = {}
        for equation in jaxpr.eqns:
            for v in _read(equation):
                self.readers.setdefault(v, set()).add(id(equation))
        self.results = {v for v in jaxpr.outvars if not isinstance(v, _compat.Literal)}

    def steps(self) -> list[Step]:
        before = [_Group([e]) for e in self.jaxpr.eqns if not self.take(e)]
        settled = [part for group in (*before, *self.groups) for part in self.settled(group)]
        return [self.step(group, fused) for group, fused in settled]

    def take(self, equation: Any) -> bool:
        """Add an equation to a group, or make one of it behind what it needs. False if it should run before them."""
        if equation.effects:  # in their order, so none runs before the others
            return self.alone(equation)
        needed = [self.made[v] for v in _read(equation) if v in self.made]
        name = equation.primitive.name
        if name == "broadcast_in_dim" and not _read(equation):
            self.repeated[equation.outvars[0]] = equation
            return False
        begins, starts = name in (*STARTS, "jsparse_map"), name in STARTS
        if not (needed or begins):
            return False
        parts = parts_of(self.jaxpr, equation)
        behind = range(max(needed, default=0), len(self.groups)) if needed or starts else range(0)
        for number in [n for n in behind if self.groups[n].chain is not None][:MOST]:
            reason = self.join(number, equation, parts)
            if reason is None:
                return True
            self.groups[number].reason = self.groups[number].reason or reason
        self.groups.append(_Group([], Translation()))
        if begins and self.join(len(self.groups) - 1, equation, parts) is None:
            return True
        self.groups.pop()
        return bool(needed) and self.alone(equation)

    def alone(self, equation: Any) -> bool:
        """Make a group of one equation that is no kernel."""
        self.made.update(dict.fromkeys(equation.outvars, len(self.groups)))
        self.groups.append(_Group([equation]))
        return True

    def join(self, number: int, equation: Any, parts: Any) -> str | None:
        """Add an equation to a group if that stays a chain; else return the reason why not."""
        repeated = [self.repeated[v] for v in dict.fromkeys(_read(equation)) if v in self.repeated]
        new = [e for e in repeated if e not in self.groups[number].equations]
        reason = self.extended(number, [*new, equation], parts)
        return self.extended(number, [equation], parts) if reason is not None and new else reason

    def extended(self, number: int, added: Sequence[Any], parts: Any) -> str | None:
        """Add equations to a group, the last one with its parts."""
        group = self.groups[number]
        assert group.chain is not None
        equations, chain = [*group.equations, *added], group.chain.copy()
        try:
            for equation in added:
                chain.add(equation, parts if equation is added[-1] else None)
            reason = _refusal(chain.chain(_unread(equations)))
        except ChainError as error:
            return str(error)
        if reason is None:
            group.equations, group.chain = equations, chain
            self.made.update(dict.fromkeys(added[-1].outvars, number))
        return reason

    def settled(self, group: _Group) -> list[tuple[_Group, bool]]:
        """A group as far as it is a chain, and equations behind it: what shares no loops where others read it, too."""
        behind: list[_Group] = []
        while group.chain is not None and group.equations and self.refusal(group) is not None:
            behind.insert(0, _Group([group.equations.pop()]))
            group.chain = self.translation(group.equations)
        names = [e.primitive.name for e in group.equations]
        several = sum(name not in VIEWS for name in names) > 1 or any(name in COMPOSED for name in names)
        fused = group.chain is not None and several and any(name in STARTS for name in names)
        return [*([(group, fused)] if names else []), *((other, False) for other in behind)]

    def refusal(self, group: _Group) -> str | None:
        """Why a group gives no kernel for all that others need of it; None if it does."""
        assert group.chain is not None
        try:
            return _refusal(group.chain.chain(self.needed(group)))
        except ChainError as error:
            return str(error)

    def translation(self, equations: Sequence[Any]) -> Translation:
        """The translation of the first equations of a group."""
        found = Translation()
        for equation in equations:
            found.add(equation, parts_of(self.jaxpr, equation))
        return found

    def needed(self, group: _Group) -> list[Any]:
        """What other equations, or the results of the jaxpr, need of a group."""
        own = set(map(id, group.equations))
        made = [v for e in group.equations for v in e.outvars if group.chain is None or v not in self.repeated]
        return [v for v in made if v in self.results or not own.issuperset(self.readers.get(v, ()))]

    def step(self, group: _Group, is_fused: bool) -> Step:
        outvars, computed = self.needed(group), {v for e in group.equations for v in e.outvars}
        invars = tuple(dict.fromkeys(v for e in group.equations for v in _read(e) if v not in computed))
        closed = _compat.sub_jaxpr(self.jaxpr, group.equations, invars, outvars)
        return Step(closed, invars, tuple(outvars), is_fused, group.reason if is_fused else "")


def _read(equation: Any) -> list[Any]:
    """The variables that an equation reads."""
    return [v for v in equation.invars if not isinstance(v, _compat.Literal)]


def _unread(equations: Sequence[Any]) -> list[Any]:
    """The variables that equations compute, and that none of them reads."""
    read = {v for e in equations for v in _read(e)}
    return [v for e in equations for v in e.outvars if v not in read]
