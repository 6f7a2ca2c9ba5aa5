"""Grouping: which equations of a jaxpr become one kernel.

Equations are taken in their order. Each joins the first group that stays a chain whose statements share loops, among
those behind which all that it needs is there. Else it begins a group of its own at the end; an equation that no kernel
begins with, and that needs nothing of any group, runs before all of them. A number that is repeated, as in
`jnp.ones_like(x)`, is part of every group that reads it, and no array there. Values of stored entries may be computed
by several groups, where that is cheaper than to keep them (`recomputation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jsparse import _compat
from jsparse.base.memo import remembered_of
from jsparse.compiler.schedule.innermost import shares_cheaply, with_lanes_innermost
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.equations import VIEWS
from jsparse.primitives.chain.expand import COMPOSED, flattened, parts_of
from jsparse.primitives.chain.recomputation import Recomputation, read
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


def _refusal(chain: Chain, as_stored: bool = False) -> str | None:
    if any(walk.lead for walk in chain.walks):
        return "a batch of dynamic patterns"
    problem = with_lanes_innermost(chain.problem, chain.stored)
    if (len(problem.statements) > 1 and not shared_loops(problem)) or (as_stored and chain.is_reordered):
        return "its statements share no loops"
    if not shares_cheaply(problem, chain.stored):
        return "the loops that its statements share would cost more than they save"
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
        copies: the ids of those that other groups compute, too.
        moves: whether patterns may be walked in another order than they are stored in.
    """

    equations: list[Any]
    chain: Translation | None = None
    reason: str = ""
    copies: frozenset[int] = frozenset()
    moves: bool = False

    @property
    def own(self) -> list[Any]:
        """The variables that other groups take from this one, if they need them."""
        return [v for e in self.equations if id(e) not in self.copies for v in e.outvars]

    @property
    def needed(self) -> list[Any]:
        """The variables that it reads, and does not compute."""
        computed = {v for e in self.equations for v in e.outvars}
        return list(dict.fromkeys(v for e in self.equations for v in read(e) if v not in computed))


class _Grouping:
    """The groups so far, each of which needs results of those before it only.

    Attributes:
        made: variable → the number of the group that computes it.
        recomputation: what may be computed anew.
        readers: variable → the equations that read it, by their id.
        repeated: variable → the equation that repeats a number in it.
        results: the variables that are results of the jaxpr.
    """

    def __init__(self, jaxpr: Any) -> None:
        self.jaxpr, self.groups = jaxpr, list[_Group]()
        self.made: dict[Any, int] = {}
        self.recomputation = Recomputation(jaxpr)
        self.readers: dict[Any, set[int]] = {}
        for equation in jaxpr.eqns:
            for v in read(equation):
                self.readers.setdefault(v, set()).add(id(equation))
        self.repeated: dict[Any, Any] = {}
        self.results = {v for v in jaxpr.outvars if not isinstance(v, _compat.Literal)}

    def steps(self) -> list[Step]:
        before = [_Group([e]) for e in self.jaxpr.eqns if not self.take(e)]
        wanted, found = set(self.results), list[Step]()
        for group in reversed([*before, *self.groups]):  # what a group has to give follows from those behind it
            if wanted.isdisjoint(group.own) and not any(e.effects for e in group.equations):
                continue
            for part, is_fused in reversed(self.settled(group, wanted)):
                found.insert(0, self.step(part, is_fused, wanted))
                wanted.update(part.needed)
        return found

    def take(self, equation: Any) -> bool:
        """Add an equation to a group, or make one of it behind what it needs. False if it should run before them."""
        if equation.effects:  # in their order, so none runs before the others
            return self.alone(equation)
        needed = [self.made[v] for v in read(equation) if v in self.made]
        name = equation.primitive.name
        if name == "broadcast_in_dim" and not read(equation):
            self.repeated[equation.outvars[0]] = equation
            return False
        begins, starts = name in (*STARTS, "jsparse_map"), name in STARTS
        if not (needed or begins):
            return False
        parts = parts_of(self.jaxpr, equation)
        behind = range(max(needed, default=0), len(self.groups)) if needed or starts else range(0)
        numbers = [n for n in behind if self.groups[n].chain is not None][:MOST]
        for number in numbers:
            reason = self.join(number, equation, parts)
            if reason is None:
                return True
            self.groups[number].reason = self.groups[number].reason or reason
        if self.anew(len(self.groups), equation) and self.begin(equation, parts):
            return True
        if any(self.is_movable(n, equation) and self.join(n, equation, parts, moves=True) is None for n in numbers):
            return True
        return (begins and self.begin(equation, parts)) or (bool(needed) and self.alone(equation))

    def begin(self, equation: Any, parts: Any) -> bool:
        """Make a group that begins with an equation, or with what is computed anew for it; False if there is none."""
        self.groups.append(_Group([], Translation()))
        if self.join(len(self.groups) - 1, equation, parts) is None:
            return True
        self.groups.pop()
        return False

    def alone(self, equation: Any) -> bool:
        """Make a group of one equation that is no kernel."""
        self.made.update(dict.fromkeys(equation.outvars, len(self.groups)))
        self.groups.append(_Group([equation]))
        return True

    def join(self, number: int, equation: Any, parts: Any, moves: bool = False) -> str | None:
        """Add an equation to a group if that stays a chain; else return the reason why not.

        Values of entries are computed anew with it, if that pays; repeated numbers are part of the group. With `moves`
        the group may walk patterns in another order than they are stored in.
        """
        anew = self.anew(number, equation)
        reason = self.extended(number, self.numbers(number, [equation]), equation, parts, moves) if not anew else ""
        if anew:
            copies = [*self.numbers(number, [*anew, equation]), *anew]
            reason = self.extended(number, copies, equation, parts, moves=True)
        return reason if reason is None else self.extended(number, [], equation, parts, moves)

    def anew(self, number: int, equation: Any) -> list[Any]:
        """What a group, or a new one, would compute anew for an equation."""
        there = self.known(number)
        return self.recomputation.of(equation, lambda v: v in there or self.made.get(v, number) == number)

    def known(self, number: int) -> set[Any]:
        """The variables that a group, or a new one, computes or takes as arguments."""
        equations = [e for group in self.groups[number : number + 1] for e in group.equations]
        return {v for e in equations for v in (*e.outvars, *read(e))}

    def is_movable(self, number: int, equation: Any) -> bool:
        """Whether no other equation than those of a group and this one reads its values of entries, which have to be
        in the order of storage where they are kept."""
        group = self.groups[number]
        assert group.chain is not None
        own = {id(equation), *map(id, group.equations)}
        entries = self.recomputation.on_entries.intersection(group.own)
        return all(v not in self.results and own.issuperset(self.readers.get(v, ())) for v in entries)

    def numbers(self, number: int, equations: Sequence[Any]) -> list[Any]:
        """The equations that repeat the numbers that others read, unless the group has them, or takes them."""
        known = self.known(number)
        read_ones = dict.fromkeys(v for e in equations for v in read(e) if v in self.repeated and v not in known)
        return [self.repeated[v] for v in read_ones]

    def extended(self, number: int, copies: Sequence[Any], equation: Any, parts: Any, moves: bool) -> str | None:
        """Add an equation to a group, behind what the group computes for it although others do, too."""
        group = self.groups[number]
        assert group.chain is not None
        equations, chain = [*group.equations, *copies, equation], group.chain.copy()
        try:
            for copy in copies:
                chain.add(copy, parts_of(self.jaxpr, copy))
            chain.add(equation, parts)
            reason = _refusal(chain.chain(_unread(equations), is_whole=False), not (moves or group.moves))
        except ChainError as error:
            return str(error)
        kept = equation.outvars if group.copies else self.results.intersection(equation.outvars)
        if reason is None and group.moves and not self.recomputation.on_entries.isdisjoint(kept):
            reason = "its values of entries would be in another order than they are stored in"
        if reason is None:
            group.equations, group.chain, group.moves = equations, chain, group.moves or moves
            group.copies |= set(map(id, copies))
            self.made.update(dict.fromkeys(equation.outvars, number))
        return reason

    def settled(self, group: _Group, wanted: Collection[Any]) -> list[tuple[_Group, bool]]:
        """A group as far as it is a chain, and equations behind it: what shares no loops where others read it, too."""
        behind: list[_Group] = []
        wanted = set(wanted)
        while group.chain is not None and group.equations and self.refusal(group, wanted) is not None:
            behind.insert(0, _Group([group.equations.pop()]))
            group.chain = self.translation(group.equations)
            wanted.update(behind[0].needed)
        names = [e.primitive.name for e in group.equations]
        several = sum(name not in VIEWS for name in names) > 1 or any(name in COMPOSED for name in names)
        fused = group.chain is not None and several and any(name in STARTS for name in names)
        return [*([(group, fused)] if names else []), *((other, False) for other in behind)]

    def refusal(self, group: _Group, wanted: Collection[Any]) -> str | None:
        """Why a group gives no kernel for all that others need of it; None if it does."""
        assert group.chain is not None
        try:
            return _refusal(group.chain.chain([v for v in group.own if v in wanted]))
        except ChainError as error:
            return str(error)

    def translation(self, equations: Sequence[Any]) -> Translation:
        """The translation of the first equations of a group."""
        found = Translation()
        for equation in equations:
            found.add(equation, parts_of(self.jaxpr, equation))
        return found

    def step(self, group: _Group, is_fused: bool, wanted: Collection[Any]) -> Step:
        outvars, invars = [v for v in group.own if v in wanted], tuple(group.needed)
        closed = _compat.sub_jaxpr(self.jaxpr, group.equations, invars, outvars)
        return Step(closed, invars, tuple(outvars), is_fused, group.reason if is_fused else "")


def _unread(equations: Sequence[Any]) -> list[Any]:
    """The variables that equations compute, and that none of them reads."""
    used = {v for e in equations for v in read(e)}
    return [v for e in equations for v in e.outvars if v not in used]
