"""Fusion: nests of several statements that share outer loops, and temporaries that shrink to one iteration.

    ∀ i ∈ P0.0                          ∀ i ∈ P0.0
      ∀ j ∈ P0.1                          array E[i, j] below P0.0
        E[i, j] = exp(A[i, j])            ∀ j ∈ P0.1
    ∀ i ∈ P0.0                     →        E[i, j] = exp(A[i, j])
      acc = 0                             s_at_i = 0
        ∀ j ∈ P0.1                          acc = 0
          acc += E[i, j]                      ∀ j ∈ P0.1
      s[i] = acc                                acc += E[i, j]
    ∀ i ∈ P0.0                              s_at_i = acc
      ∀ j ∈ P0.1                          ∀ j ∈ P0.1
        W[i, j] = E[i, j] / s[i]            W[i, j] = E[i, j] / s_at_i

Every statement keeps its other loops inside the shared loops. A statement may read elements that an earlier statement
wrote in the same iteration, so the two statements have to access these elements by the same variables of the shared
loops (loop fusion and array contraction of Gao, Olsen, Sarkar and Thekkath, 1992).

The innermost shared loop may run over panels of a variable. Temporaries then shrink to the memory of one panel, and
each statement has its own loop over the variable inside, so that a product with a dense matrix reads the matrix once
for several rows:

    ∀ i₀ ∈ panels of 24 of i
      array T[i, c]
      ∀ i ∈ P0.0 in the panel
        …
      ∀ i ∈ range in the panel 6 at a time
        …
          O[i, f] += T[i, c] * W[c, f]
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import product

from jsparse.compiler.loops import nest
from jsparse.compiler.loops.canonical import visits_all
from jsparse.compiler.loops.chain import loop_name, path_to
from jsparse.compiler.loops.domain import LevelIteration, Panels, Range
from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.compiler.scalar import Scalar, replace_accesses
from jsparse.compiler.semiring import Monoid
from jsparse.compiler.statement import Statement
from jsparse.notation.assignment import Access, IndexVar


class FusionError(Exception):
    """An error that is raised if two statements cannot share loops. Its message is the reason."""


def fuse_nests(problem: Problem, parts: Items[nest.Stmt], shared: Items[str | None]) -> nest.Stmt:
    """Put the nests of a problem's statements one after the other, and fuse the nests that share loops.

    Args:
        parts: the nest of each statement.
        shared: for each statement, the name of the innermost loop that it shares with the next statement; None if it
            shares no loop.

    Raises FusionError if loops differ, or if a statement would read elements that a later iteration writes.
    """
    groups: list[nest.Stmt] = []
    members: list[Statement] = []  # the statements of the first group
    # From the last statement to the first: the next statement's nest is always at the front of the first group.
    for statement, part, loop in reversed(list(zip(problem.statements, parts, shared, strict=True))):
        if loop is None:
            groups.insert(0, part)
            members = [statement]
            continue
        if any(map(problem.adds, (statement, *members))):
            raise FusionError("one of them adds to values that the other has written")
        # Targets are cleared in front of the shared loops: inside, each iteration would clear what earlier ones added.
        clears, body = _split(part)
        others, next_body = _split(groups[0])
        joined = _fuse_pair(problem, body, next_body, loop, ())
        around, shared_vars = joined, list[IndexVar]()  # from the outermost loop down to the last shared one
        while isinstance(around, nest.Forall):
            shared_vars += around.variables
            if loop_name(around, problem) == loop:
                break
            around = around.body.stmts[0] if isinstance(around.body, nest.Sequence) else around.body
        for reader, var in product(members, shared_vars):
            access = reads_elsewhere(statement, reader, var)
            if access is not None:
                where = f"'{statement}' writes in other iterations of {var}"
                raise FusionError(f"'{reader}' reads {access}, which {where}")
        groups[0] = _sequence((*clears, *others, joined))
        members.insert(0, statement)
        _check_owners(problem, joined, members)
    return _sequence(groups)


def _split(stmt: nest.Stmt) -> tuple[tuple[nest.Stmt, ...], nest.Stmt]:
    """Split a statement into the `Clear` statements of targets that come first, and the loop nest after them."""
    if isinstance(stmt, nest.Sequence):
        clears = tuple(s for s in stmt.stmts if isinstance(s, nest.Clear))
        return clears, _sequence(s for s in stmt.stmts if not isinstance(s, nest.Clear))
    return (), stmt


def _sequence(stmts: Iterable[nest.Stmt]) -> nest.Stmt:
    flat: list[nest.Stmt] = []
    for stmt in stmts:
        flat += stmt.stmts if isinstance(stmt, nest.Sequence) else (stmt,)
    return flat[0] if len(flat) == 1 else nest.Sequence(tuple(flat))


def _fuse_pair(problem: Problem, first: nest.Stmt, second: nest.Stmt, name: str, around: tuple[str, ...]) -> nest.Stmt:
    """Fuse two nests into one nest in which they share the loops down to `name`.

    If `second` already has several nests inside a shared loop, `first` is joined with the first of those nests.
    """
    if around and isinstance(second, nest.Sequence):
        nearest, *others = second.stmts
        return _sequence((_fuse_pair(problem, first, nearest, name, around), *others))
    if not (isinstance(first, nest.Forall) and isinstance(second, nest.Forall)):
        inside = f"inside {around[-1]}" if around else "outermost"
        raise FusionError(f"only one of the statements has a loop {inside}")
    if first.parallel is not None or (second.parallel is not None and second.parallel.mode == "split"):
        raise FusionError("threads divide the loops of the two statements in different ways")
    if any(x.jam > 1 or x.unroll or x.run or x.lanes for x in (first, second)):
        raise FusionError(f"iterations of {first.var} do not run one after the other")
    if first.var != second.var or loop_name(first, problem) != loop_name(second, problem):
        raise FusionError(
            f"one loops over {loop_name(first, problem)} where the other has {loop_name(second, problem)}"
        )
    # `second` alone may be parallel: the joined loop takes its division, and `_check_owners` tests it.
    domain, before, behind = _agree_on_domain(problem, first, second)
    here = loop_name(second, problem)
    if here == name:
        body = _sequence((before, behind))
    else:
        body = _fuse_pair(problem, before, behind, name, (*around, here))
    return replace(second, domain=domain, body=body, prefetch=0)


def _agree_on_domain(
    problem: Problem, first: nest.Forall, second: nest.Forall
) -> tuple[Range | LevelIteration | Panels, nest.Stmt, nest.Stmt]:
    """Return the domain of a shared loop, and the body of each statement in that loop.

    The domains of the statements may differ if both domains visit every coordinate. The shared loop then walks one of
    the domains, and a statement that walked another level looks the coordinate up in that level.
    """
    inside = (x for loop in (first, second) for x in nest.statements(loop.body) if isinstance(x, nest.Forall))
    walked = [x.domain for x in inside if x.var == first.var and isinstance(x.domain, LevelIteration)]
    is_full = {x: problem.patterns[x.pattern].levels[x.level].kind.is_full for x in walked}
    if isinstance(second.domain, Panels) and any(x.panel and not is_full[x] for x in walked):
        # Such a loop begins in each segment where the previous panel ended.
        raise FusionError(f"panels of {first.var} continue segments of a sparse level, which one statement walks")
    if isinstance(second.domain, Range | LevelIteration | Panels) and first.domain == second.domain:
        return second.domain, first.body, second.body
    both = f"the loop over {first.var} runs over {first.domain} and over {second.domain}"
    if not (isinstance(first.domain, Range | LevelIteration) and isinstance(second.domain, Range | LevelIteration)):
        raise FusionError(both)
    levels = [x for x in (first.domain, second.domain) if isinstance(x, LevelIteration)]
    visit_all = all(x.level == 0 and problem.patterns[x.pattern].levels[0].kind.is_full for x in levels)
    if first.domain.panel != second.domain.panel or not visit_all:
        raise FusionError(both)
    # A level leads before a range, which needs no lookup. If there are two levels, the level of the second statement
    # leads.
    leader = first.domain if isinstance(second.domain, Range) else second.domain
    return leader, _body_under_leader(first, leader), _body_under_leader(second, leader)


def _body_under_leader(loop: nest.Forall, leader: object) -> nest.Stmt:
    """Return the body of `loop` for a loop over `leader`. If `loop` walks another level, a lookup encloses the body."""
    if loop.domain == leader or not isinstance(loop.domain, LevelIteration):
        return loop.body
    return nest.Forall(loop.var, replace(loop.domain, bound=True, panel=False), loop.body)


def reads_elsewhere(writer: Statement, reader: Statement, var: IndexVar) -> Access | None:
    """Find an access with which `reader` may read an element that `writer` writes in another iteration of `var`.

    The result is None if there is no such access. If `reader` uses the target as a table of indices, it may read any
    element of the table, so that access is always returned.
    """
    target = writer.target
    # Iterations agree exactly if `var` is in the same positions of both accesses. If the target lacks `var`, its
    # elements are complete only after all iterations, so no read of it is in time.
    places = [n for n, index in enumerate(target.indices) if index == var]
    for access in reader.reads:
        table = next((inner for inner in access.indirections() if inner.tensor == target.tensor), None)
        if table is not None:
            return table
        if access.tensor == target.tensor and not (places and all(access.indices[n] == var for n in places)):
            return access
    return None


def _check_owners(problem: Problem, stmt: nest.Stmt, members: Items[Statement]) -> None:
    """Raise FusionError if threads divide a loop in which several iterations write the same element of a target.

    Targets that are copied for each chunk are exempt.
    """
    while isinstance(stmt, nest.Forall):
        for member in members if stmt.parallel is not None else ():
            missing = set(stmt.variables) - problem.with_parts(member.target.variables())
            copied = stmt.parallel is not None and stmt.parallel.mode == "reduced" and has_copies(problem, member)
            if missing and not copied:
                raise FusionError(
                    f"threads divide {stmt.var}, but '{member}' adds to one element in several iterations"
                )
        stmt = stmt.body


def has_copies(problem: Problem, statement: Statement) -> bool:
    """Whether chunks can have copies of the target: it must be a dense array of sums, without indices from tables."""
    target = problem.type_of[statement.target.tensor]
    return statement.add == "+" and target.positions is None and not statement.target.indirections()


def contract_temporaries(problem: Problem, stmt: nest.Stmt) -> nest.Stmt:
    """Shrink each temporary that the same iteration writes and reads. It then has memory for one iteration."""
    for name in problem.temporaries:
        stmt = _Contraction(problem, name).stmt(stmt, ())
    return stmt


class _Contraction:
    """The pass that moves one temporary into the innermost loop that contains all uses of the temporary."""

    def __init__(self, problem: Problem, name: str) -> None:
        self.problem, self.name = problem, name
        (self.statement,) = (s for s in problem.statements if s.target.tensor == name)

    def stmt(self, stmt: nest.Stmt, around: tuple[nest.Forall, ...], cleared: bool = False) -> nest.Stmt:
        """Return `stmt` with a workspace for the temporary. `cleared`: whether unwritten elements have to be zero."""
        match stmt:
            case nest.Forall(body=body):
                return replace(stmt, body=self.stmt(body, (*around, stmt), cleared))
            case nest.Where(producer=producer, consumer=consumer) if not (self.uses(producer) and self.uses(consumer)):
                return nest.with_children(stmt, lambda x: self.stmt(x, around, cleared) if self.uses(x) else x)
            case nest.Where():
                return self.put_in_workspace((stmt,), 1, around, cleared) or stmt
            case nest.Sequence(stmts=stmts):
                return self.sequence(stmts, around, cleared)
        return nest.with_children(stmt, lambda inner: self.stmt(inner, around, cleared))

    def uses(self, stmt: nest.Stmt) -> bool:
        """Whether a statement writes or reads the temporary."""
        return self.writes(stmt) or any(
            access.tensor == self.name for a in nest.assignments(stmt) for access in a.reads
        )

    def writes(self, stmt: nest.Stmt) -> bool:
        """Whether a statement writes the temporary."""
        return any(a.target.tensor == self.name for a in nest.assignments(stmt))

    def sequence(self, stmts: tuple[nest.Stmt, ...], around: tuple[nest.Forall, ...], cleared: bool) -> nest.Stmt:
        users = [n for n, inner in enumerate(stmts) if self.uses(inner)]
        if not users:
            return nest.Sequence(stmts)
        first, last = users[0], users[-1]
        cleared = cleared or any(_clears(s, self.name) for s in stmts[:first])
        if first == last:
            inner: nest.Stmt | None = self.stmt(stmts[first], around, cleared)
        else:
            written = next(n for n in users if self.writes(stmts[n]))
            inner = self.put_in_workspace(stmts[first : last + 1], written + 1 - first, around, cleared)
        if inner is None or inner == stmts[first]:
            return nest.Sequence(stmts)
        return _sequence((*(s for s in stmts[:first] if not _clears(s, self.name)), inner, *stmts[last + 1 :]))

    def put_in_workspace(
        self, stmts: tuple[nest.Stmt, ...], count: int, around: tuple[nest.Forall, ...], cleared: bool
    ) -> nest.Stmt | None:
        """Put a workspace around `stmts`. The first `count` of them fill it. Returns None if it saves no memory."""
        target = self.statement.target
        bound = {var for loop in around if not isinstance(loop.domain, Panels) for var in loop.variables}
        divided = {var for loop in around for var in loop.variables} - bound
        # An axis whose variables all have one value here needs no memory. A variable in `divided` is known only up to
        # its panel: its axis is kept, for the coordinates of the panel.
        axes = enumerate(self.problem.type_of[self.name].axes)
        free_axes = [n for n, axis in axes if not bound.issuperset(_variables(target, axis))]
        positions = self.problem.type_of[self.name].positions
        pattern = None if positions is None else positions.pattern
        of_pattern = set() if positions is None else {*_variables(target, positions)}
        below = self.below(around)
        if of_pattern & divided:
            below = self.below_panel(of_pattern & divided, below)
        # The axis of positions shrinks only to the entries below one position, or below a panel, which are stored
        # together. If the loops around fix some variables of the pattern but no such level, these entries may be stored
        # apart.
        if not around or (below is None and of_pattern & (bound | divided)):
            return None
        dtype = self.problem.type_of[self.name].dtype
        producer, consumer = _sequence(stmts[:count]), _sequence(stmts[count:])
        if free_axes:
            # The elements of an array are undefined at first. If the nest cleared the temporary, the array is cleared,
            # too, unless the producer stores an element at every entry of its pattern.
            adds = any(a.accumulate and a.target.tensor == self.name for a in nest.assignments(producer))
            loops = path_to(stmts[count - 1], self.name)
            covers = loops is not None and all(visits_all(loop, self.problem, pattern) for loop in loops)
            if cleared and (pattern is None or adds or not covers):
                producer = _sequence((nest.Clear(target, Monoid.of(self.statement.add, dtype)), producer))
            return nest.Where(nest.ArrayWorkspace(target, dtype, tuple(free_axes), below), producer, consumer)
        scalar = nest.Workspace(f"{self.name}_at_{around[-1].var}", dtype, Monoid.of(self.statement.add, dtype))
        return nest.Where(scalar, self.replace_temporary(producer, scalar), self.replace_temporary(consumer, scalar))

    def below(self, around: tuple[nest.Forall, ...]) -> LevelIteration | None:
        """Return the innermost level of the temporary's pattern that a loop in `around` walks, or None."""
        positions = self.problem.type_of[self.name].positions
        if positions is None:
            return None
        levels = [x.domain for x in around if isinstance(x.domain, LevelIteration)]
        walked = [replace(level, panel=False) for level in levels if level.pattern == positions.pattern]
        return max(walked, key=lambda level: level.level, default=None)

    def below_panel(self, divided: set[IndexVar], above: LevelIteration | None) -> LevelIteration | None:
        """Return the level with a panel that outer loops fix; None if the entries in the panel are not contiguous.

        The entries are contiguous if the level is full (has every coordinate) and is the next one below `above`.
        """
        positions = self.problem.type_of[self.name].positions
        if positions is None or len(divided) > 1:
            return None
        (var,) = divided
        level = self.problem.level_variables[positions.pattern].index(var)
        is_next = level == (0 if above is None else above.level + 1)
        full = self.problem.patterns[positions.pattern].levels[level].kind.is_full
        return LevelIteration(positions.pattern, level, panel=True) if is_next and full else None

    def replace_temporary(self, stmt: nest.Stmt, scalar: nest.Workspace) -> nest.Stmt:
        """Return the statement with the scalar in place of the temporary."""

        def of(value: Scalar | None) -> Scalar | None:
            return None if value is None else replace_accesses(value, {self.statement.target: scalar.access()})

        def change(assign: nest.Assign) -> nest.Assign:
            target = scalar.access() if assign.target.tensor == self.name else assign.target
            return replace(assign, target=target, value=of(assign.value), condition=of(assign.condition))

        return nest.map_assignments(stmt, change)


def _variables(target: Access, axis: Dense | Positions) -> tuple[IndexVar, ...]:
    """Return the variables that determine the coordinate, or the position, on a storage axis."""
    dims = axis.dims if isinstance(axis, Positions) else (axis.dim,)
    return tuple(v for dim in dims for v in Access("", (target.indices[dim],)).variables())


def _clears(stmt: nest.Stmt, name: str) -> bool:
    return isinstance(stmt, nest.Clear) and stmt.target.tensor == name
