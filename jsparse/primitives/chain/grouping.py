"""Grouping: which equations of a jaxpr become one kernel.

Equations are taken in program order. An equation may join the last group that computes one of its operands, or any
later group. It joins the first of these groups that remains a chain whose statements share loops; if there is none,
it begins a new group at the end. An equation that cannot begin a kernel and reads no result of a group runs before all
groups. A broadcast number, such as `jnp.ones_like(x)`, becomes part of every group that reads it, where it needs no
array. A transpose becomes part of its readers, too, if they are products that read fewer elements than the array has:
a separate transpose would move all elements. Several groups may compute the same values of stored entries, if that is
cheaper than to store them (`recomputation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize_weakly
from jsparse.compiler.schedule.search.shared_loops import find_shared_loops
from jsparse.compiler.schedule.search.statements import shares_cheaply, with_lanes_innermost
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.equations import VIEWS
from jsparse.primitives.chain.expand import COMPOSED, inline_calls, parts_of, run_steps
from jsparse.primitives.chain.recomputation import Recomputation, read
from jsparse.primitives.chain.translate import Chain, Translation, translate_jaxpr

MOST = 4
"""The most groups that an equation tries to join. Each trial is slow: it searches loops that the whole group shares."""


@dataclass(frozen=True, slots=True)
class EquationGroup:
    """Equations that run together.

    Attributes:
        closed: the jaxpr of the equations.
        invars, outvars: the variables of the grouped jaxpr that the step reads and computes.
        is_fused: whether the step runs as one kernel.
        reason: why an equation could not join the kernel; "" if no equation was refused.
    """

    closed: Any
    invars: tuple[Any, ...]
    outvars: tuple[Any, ...]
    is_fused: bool
    reason: str = ""


@memoize_weakly
def groups(closed: Any) -> tuple[Any, tuple[EquationGroup, ...]]:
    """Return the flattened jaxpr, and the steps that compute its results."""
    jaxpr = inline_calls(closed).jaxpr
    return jaxpr, tuple(_Grouping(jaxpr).steps())


def refusal(closed: Any) -> str | None:
    """Return the reason why a closed jaxpr cannot be a chain whose statements share loops; None if it can."""
    chain = translate_jaxpr(closed)
    return str(chain) if isinstance(chain, ChainError) else _refusal(chain)


def _refusal(chain: Chain, as_stored: bool = False) -> str | None:
    if any(walk.lead for walk in chain.walks):
        return "a batch of dynamic patterns"
    problem = with_lanes_innermost(chain.problem, chain.stored)
    if (len(problem.statements) > 1 and not find_shared_loops(problem)) or (as_stored and chain.is_reordered):
        return "its statements share no loops"
    if not shares_cheaply(problem, chain.stored):
        return "the loops that its statements share would cost more than they save"
    return None


def run_groups(closed: Any, operands: Sequence[Any], run: Callable[[Any, Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """Evaluate a closed jaxpr step by step. `run` evaluates the steps that are chains."""
    jaxpr, steps = groups(closed)

    def compute(step: EquationGroup, arguments: Sequence[Any]) -> Sequence[Any]:
        return (run if step.is_fused else _compat.evaluate_jaxpr)(step.closed, arguments)

    return run_steps(steps, compute, dict(zip(jaxpr.invars, operands, strict=True)), jaxpr.outvars)


@dataclass
class _Group:
    """The equations of one kernel, or a single equation that runs outside of kernels.

    Attributes:
        equations: the equations, in program order.
        chain: the translation of the equations; None if no other equation may join.
        reason: why the first refused equation could not join; "" if no equation was refused.
        copies: the ids of the equations that other groups compute, too.
        moves: whether loops may walk patterns in an order other than the storage order.
    """

    equations: list[Any]
    chain: Translation | None = None
    reason: str = ""
    copies: frozenset[int] = frozenset()
    moves: bool = False

    @property
    def results(self) -> list[Any]:
        """The variables that other groups may read from this group: the results of all equations not in `copies`."""
        return [v for e in self.equations if id(e) not in self.copies for v in e.outvars]

    @property
    def inputs(self) -> list[Any]:
        """The variables that the group reads but does not compute."""
        computed = {v for e in self.equations for v in e.outvars}
        return list(dict.fromkeys(v for e in self.equations for v in read(e) if v not in computed))


class _Grouping:
    """The groups so far. Each group reads only results of earlier groups.

    Attributes:
        made: variable → the index of the group that computes it.
        recomputation: finds the equations that a group may recompute.
        readers: variable → the equations that read it, by their id.
        repeated: variable → the equation that broadcasts a number to it.
        exchanged: variable → the equation that makes it by transposing an array. No group computes that array.
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
        self.exchanged: dict[Any, Any] = {}
        self.results = {v for v in jaxpr.outvars if not isinstance(v, _compat.Literal)}

    def steps(self) -> list[EquationGroup]:
        before = [_Group([e]) for e in self.jaxpr.eqns if not self.take(e)]
        read_later, steps = set(self.results), list[EquationGroup]()
        for group in reversed([*before, *self.groups]):  # a group returns what later groups read
            if read_later.isdisjoint(group.results) and not any(e.effects for e in group.equations):
                continue
            for part, is_fused in reversed(self.split_group(group, read_later)):
                outvars, invars = [v for v in part.results if v in read_later], tuple(part.inputs)
                closed = _compat.sub_jaxpr(self.jaxpr, part.equations, invars, outvars)
                reason = part.reason if is_fused else ""
                steps.insert(0, EquationGroup(closed, invars, tuple(outvars), is_fused, reason))
                read_later.update(invars)
        return steps

    def take(self, equation: Any) -> bool:
        """Add an equation to a group, or begin a new group. Return False if the equation should precede all groups."""
        if equation.effects:  # effects keep program order, so none runs before the groups
            return self.alone(equation)
        needed = [self.made[v] for v in read(equation) if v in self.made]
        name = equation.primitive.name
        if name == "broadcast_in_dim" and not read(equation):
            self.repeated[equation.outvars[0]] = equation
            return False
        if name == "transpose" and not needed:
            self.exchanged[equation.outvars[0]] = equation
            return False
        begins, starts = _starts(name) or name == "jsparse_map", _starts(name)
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
        if self.equations_to_recompute(len(self.groups), equation) and self.begin(equation, parts):
            return True
        if any(self.is_movable(n, equation) and self.join(n, equation, parts, moves=True) is None for n in numbers):
            return True
        return (begins and self.begin(equation, parts)) or (bool(needed) and self.alone(equation))

    def begin(self, equation: Any, parts: Any) -> bool:
        """Begin a group with an equation and the equations that it recomputes. Return False if they are not a chain."""
        self.groups.append(_Group([], Translation()))
        if self.join(len(self.groups) - 1, equation, parts) is None:
            return True
        self.groups.pop()
        return False

    def alone(self, equation: Any) -> bool:
        """Make a group of one equation that runs outside of kernels."""
        self.made.update(dict.fromkeys(equation.outvars, len(self.groups)))
        self.groups.append(_Group([equation]))
        return True

    def join(self, number: int, equation: Any, parts: Any, moves: bool = False) -> str | None:
        """Add an equation to a group if the group remains a chain; otherwise return the reason why it would not.

        If the equation reads broadcast numbers, the group makes them, too. If it reads values of entries, the group
        recomputes them where that pays. `parts` is the result of `parts_of` for the equation. With `moves`, the group
        may walk patterns in any order, not only as stored.
        """
        recomputed = self.equations_to_recompute(number, equation)
        copies = [*self.views(number, [*recomputed, equation]), *recomputed]
        reason = self.extend_group(number, copies, equation, parts, moves or bool(recomputed))
        return reason if reason is None else self.extend_group(number, [], equation, parts, moves)

    def equations_to_recompute(self, number: int, equation: Any) -> list[Any]:
        """Return the equations that a group would recompute for an equation. The group `number` may be a new one."""
        there = self.variables_of(number)
        return self.recomputation.of(equation, lambda v: v in there or self.made.get(v, number) == number)

    def variables_of(self, number: int) -> set[object]:
        """Return the variables that group `number` computes or takes as arguments; none for a new group."""
        equations = [e for group in self.groups[number : number + 1] for e in group.equations]
        return {v for e in equations for v in (*e.outvars, *read(e))}

    def is_movable(self, number: int, equation: Any) -> bool:
        """Return whether nothing but the group and this equation reads the group's values of entries.

        If so, the group may walk a pattern in any order. Values with other readers have to be in storage order.
        """
        group = self.groups[number]
        assert group.chain is not None
        readers = {id(equation), *map(id, group.equations)}
        entries = self.recomputation.on_entries.intersection(group.results)
        return all(v not in self.results and readers.issuperset(self.readers.get(v, ())) for v in entries)

    def views(self, number: int, equations: Sequence[Any]) -> list[Any]:
        """Find the equations that make the broadcast numbers and the transposes that `equations` read.

        A transpose is included only if it has more elements than `equations` read. Variables that
        the group already computes or reads are left out.
        """
        known = self.variables_of(number)
        missing = dict.fromkeys(v for e in equations for v in read(e) if v not in known)
        broadcasts = [self.repeated[v] for v in missing if v in self.repeated]
        return [*broadcasts, *(self.exchanged[v] for v in missing if v in self.exchanged and _reads_few(equations, v))]

    def extend_group(self, number: int, copies: Sequence[Any], equation: Any, parts: Any, moves: bool) -> str | None:
        """Add `copies`, which other groups also compute, then an equation. Return the reason for a refusal, or None."""
        group = self.groups[number]
        assert group.chain is not None
        equations, chain = [*group.equations, *copies, equation], group.chain.copy()
        try:
            for copy in copies:
                chain.add(copy, parts_of(self.jaxpr, copy))
            chain.add(equation, parts)
            used = {v for e in equations for v in read(e)}
            unread = [v for e in equations for v in e.outvars if v not in used]
            reason = _refusal(chain.chain(unread, is_whole=False), not (moves or group.moves))
        except ChainError as error:
            return str(error)
        kept = equation.outvars if group.copies else self.results.intersection(equation.outvars)
        if reason is None and group.moves and not self.recomputation.on_entries.isdisjoint(kept):
            reason = "its values of entries would not be in storage order"
        if reason is None:
            group.equations, group.chain, group.moves = equations, chain, group.moves or moves
            group.copies |= set(map(id, copies))
            self.made.update(dict.fromkeys(equation.outvars, number))
        return reason

    def split_group(self, group: _Group, read_later: Collection[Any]) -> list[tuple[_Group, bool]]:
        """Split a group into parts. Returns each part with a bool: whether it runs as one kernel.

        The first part is the longest prefix of the group that is a chain and can return all of `read_later`. Each later
        equation is a separate part. The whole group need not be such a chain: a statement whose result other groups
        read cannot be inlined, and may share no loops with the rest.
        """
        later_parts: list[_Group] = []
        read_later = set(read_later)
        while group.chain is not None and group.equations and self.refusal(group, read_later) is not None:
            later_parts.insert(0, _Group([group.equations.pop()]))
            group.chain = Translation()
            for equation in group.equations:
                group.chain.add(equation, parts_of(self.jaxpr, equation))
            read_later.update(later_parts[0].inputs)
        names = [e.primitive.name for e in group.equations]
        several = sum(name not in VIEWS for name in names) > 1 or any(name in COMPOSED for name in names)
        fused = group.chain is not None and several and any(map(_starts, names))
        return [*([(group, fused)] if names else []), *((other, False) for other in later_parts)]

    def refusal(self, group: _Group, read_later: Collection[Any]) -> str | None:
        """Return the reason why a group cannot be a kernel that returns all of `read_later`; None if it can."""
        assert group.chain is not None
        try:
            return _refusal(group.chain.chain([v for v in group.results if v in read_later]))
        except ChainError as error:
            return str(error)


def _starts(name: str) -> bool:
    """Whether an operation is worth a kernel: an einsum, a softmax or a logsumexp.

    A group begins with one of these operations, or with a function of entries (`map`).
    """
    return name == "jsparse_einsum" or name in COMPOSED


def _reads_few(equations: Sequence[Any], v: object) -> bool:
    """Return whether products read fewer elements from a dense array, counting repeats, than the array has.

    The result is False if another operation reads the array.
    """
    readers = [e for e in equations if v in read(e)]
    size = next(x.aval.size for e in readers for x in read(e) if x == v)
    if any(e.primitive.name != "jsparse_einsum" for e in readers):
        return False
    specs = [(e.params["spec"], n) for e in readers for n, x in enumerate(e.invars) if x is v]
    return sum(spec.elements_read(n) for spec, n in specs if n < len(spec.factors)) < size
