"""Blocked summation of long float32 sums: loop nest → loop nest.

The error of a sum grows with the number of additions that a term goes through (Higham, "The accuracy of floating point
summation", 1993; Castaldo, Whaley and Chronopoulos, "Reducing floating point error in dot product using the superblock
family of algorithms", 2008). A reduction that may have more than `BLOCK` terms is cut into runs of at most `BLOCK`.
Each run is summed in float32, and the runs' sums are added up in float64. The error is then about BLOCK u Σ|terms| (u =
2⁻²⁴) for any number of terms:

    acc[k] = 0                           acc_total[k] = 0 (float64)
      ∀ j ∈ P0.1                           ∀ j ∈ runs of 64 of P0.1
        ∀ k ∈ lanes                          acc[k] = 0
          acc[k] += A[i, j] * B[j, k]          ∀ j ∈ P0.1 in the run
    ∀ k ∈ lanes                     →            ∀ k ∈ lanes
      C[i, k] = acc[k]                             acc[k] += A[i, j] * B[j, k]
                                             ∀ k ∈ lanes
                                               acc_total[k] += acc[k]
                                         ∀ k ∈ lanes
                                           C[i, k] = acc_total[k]

If lanes work on positions, each lane of a run has at most `BLOCK` terms.

In nested reductions, the cut loop is the innermost loop that, with the loops inside, may add more than `BLOCK` terms.
If a workspace has an index variable, adding it to its total is expensive. So its runs enclose all loops, and continue
from one segment to the next. Adding a scalar to its total is cheap, so the runs of a scalar end with each segment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from math import prod

from jsparse.compiler.loops import domain as domains
from jsparse.compiler.loops import nest
from jsparse.compiler.loops.chain import path_to
from jsparse.compiler.loops.domain import Derivation, LevelIteration, Panels, PositionPanels, Range, Runs, Tiles
from jsparse.compiler.problem import Problem
from jsparse.compiler.scalar import replace_accesses

BLOCK = 64  # terms of one run
TOTAL = "float64"


def block_sums(stmt: nest.Stmt, problem: Problem, short: Collection[tuple[int, int]] = ()) -> nest.Stmt:
    """Cut the long float32 sums of a statement into blocks. Segments of each (pattern, level) in `short` have at most
    `BLOCK` entries."""
    return _Blocking(problem, short).stmt(stmt)


class _Blocking:
    def __init__(self, problem: Problem, short: Collection[tuple[int, int]]) -> None:
        self.problem, self.short = problem, short
        self.panels: dict[tuple[int, int], int] = {}  # the positions in a panel of a level, in the loops around
        self.coordinates: dict[str, int] = {}  # the coordinates in a panel of a variable

    def stmt(self, stmt: nest.Stmt) -> nest.Stmt:
        if isinstance(stmt, nest.Forall) and isinstance(stmt.domain, PositionPanels):
            self.panels[stmt.domain.pattern, stmt.domain.level] = stmt.domain.size
        if isinstance(stmt, nest.Forall) and isinstance(stmt.domain, Panels):
            self.coordinates[stmt.var] = stmt.domain.size
        if isinstance(stmt, nest.Where) and isinstance(stmt.workspace, nest.Workspace):
            inner = replace(stmt, producer=self.stmt(stmt.producer), consumer=self.stmt(stmt.consumer))
            sums = stmt.workspace.dtype == "float32" and stmt.workspace.monoid.add == "+"
            return self.cut_into_runs(inner, stmt.workspace) if sums else inner
        return nest.with_children(stmt, self.stmt)

    def cut_into_runs(self, where: nest.Where, workspace: nest.Workspace) -> nest.Where:
        """Cut the sums in the workspace into runs, and add the runs to a total, if the sums may be long."""
        name, path = workspace.name, path_to(where.producer, workspace.name) or []
        turns = [self.turns(loop) for loop in path]
        cut = self.cut(path, turns)
        if cut is None:
            return where
        depth, size = cut
        outer = 0 if workspace.var is not None or all(n == 1 for n in turns[:depth]) else depth
        total = replace(workspace, name=f"{name}_total", dtype=TOTAL)
        flush: nest.Stmt = nest.Assign(total.access(), workspace.access(), workspace.dtype)
        if workspace.var is not None:  # loops over tiles of this variable may be among the loops
            is_tiled = any(isinstance(x.domain, Tiles) for x in path)
            flush = nest.Forall(workspace.var, domains.WorkspaceLanes() if is_tiled else domains.Lanes(), flush)
        # A loop whose every execution is one run at most needs no counter of iterations.
        fits = 0 < outer == depth and turns[depth] is not None and (turns[depth] or 0) <= size

        def in_runs(loop: nest.Forall) -> nest.Forall | nest.Where:
            domain = path[depth].domain
            if fits:  # each execution of the loop is one run
                return nest.Where(workspace, loop, flush)
            assert isinstance(domain, Range | LevelIteration | Tiles)
            body = nest.Where(workspace, replace(loop, parallel=None), flush)
            return nest.Forall(path[depth].var, Runs(domain, size * max(path[depth].lanes, 1)), body, loop.parallel)

        producer = _with(where.producer, name, depth, lambda loop: replace(loop, run=not fits))
        producer = _with(producer, name, outer, in_runs)

        def read_total(assign: nest.Assign) -> nest.Assign:
            new = {workspace.access(): total.access()}
            return assign if assign.value is None else replace(assign, value=replace_accesses(assign.value, new))

        return nest.Where(total, producer, nest.map_assignments(where.consumer, read_total))

    def cut(self, path: list[nest.Forall], turns: list[int | None]) -> tuple[int, int] | None:
        """Return the depth of the loop to cut, and the length of a run; None if there are at most `BLOCK` terms in all.

        A loop outside of a loop over stored entries is never cut: segments may have a single entry, so runs of the
        outer loop could have few terms.
        """
        if None not in turns and prod(filter(None, turns)) <= BLOCK:
            return None
        terms, inside = 1, None
        for depth in reversed(range(len(path))):
            count, domain = turns[depth], path[depth].domain
            # A split loop is not divisible: the inner one is cut.
            here = (depth, BLOCK // terms) if isinstance(domain, Range | LevelIteration | Tiles) else inside
            is_sparse = (
                isinstance(domain, LevelIteration)
                and not self.problem.patterns[domain.pattern].levels[domain.level].kind.is_full
            )
            if count is None or count * terms > BLOCK or (count > 1 and is_sparse):
                return here
            terms, inside = terms * max(count, 1), here
        return None

    def turns(self, loop: nest.Forall) -> int | None:
        """Return an upper bound of a loop's trip count in each lane, or None if no bound is known."""
        most = self.iterations(loop)
        return None if most is None else -(-most // max(loop.lanes, 1))

    def iterations(self, loop: nest.Forall) -> int | None:
        """Return an upper bound on the iterations of a loop, were it without lanes, or None if no bound is known."""
        domain, size = loop.domain, self.problem.size.get(loop.var)
        match domain:
            case domains.Fused(outer=outer, inner=inner):
                sizes = self.problem.size[outer], self.problem.size[inner]
                return None if sizes[0] is None or sizes[1] is None else sizes[0] * sizes[1]
            case Panels(size=step):
                return None if size is None else -(-size // step)
            case PositionPanels():
                return None
            case LevelIteration(bound=True) | domains.Lanes() | domains.WorkspaceLanes() | Derivation() | Runs():
                return 1
            case Tiles(lanes=lanes):
                return None if size is None else -(-size // lanes)
            case Range(panel=True) if loop.var in self.coordinates:
                return self.coordinates[loop.var]
            case LevelIteration(pattern=pattern, level=level):
                type_ = self.problem.patterns[pattern]
                if type_.is_single(level):
                    return 1
                if not type_.levels[level].unique and not type_.repeats(level):
                    return None  # a coordinate may have any number of positions, which are visited one by one
                if domain.by_position and (pattern, level) in self.panels:
                    return self.panels[pattern, level]
                if (pattern, level) in self.short:
                    return BLOCK
                return self.coordinates.get(loop.var, size) if domain.panel else size
        return size


def _with(stmt: nest.Stmt, name: str, depth: int, change: Callable[[nest.Forall], nest.Stmt]) -> nest.Stmt:
    """Replace one of the loops around the assignment to the workspace `name` by `change(loop)`: loop number `depth`."""
    match stmt:
        case nest.Forall(body=body):
            return replace(stmt, body=_with(body, name, depth - 1, change)) if depth else change(stmt)
        case nest.Where(producer=producer, consumer=consumer):
            if path_to(consumer, name) is None:
                return replace(stmt, producer=_with(producer, name, depth, change))
            return replace(stmt, consumer=_with(consumer, name, depth, change))
        case nest.Pack(body=body) | nest.Scatter(body=body):
            return replace(stmt, body=_with(body, name, depth, change))
    raise ValueError(f"no loop encloses the statement that adds to {name}")
