"""Candidates: the loop orders that the scheduler prices.

The index variables of the patterns' levels come first, in some order. Loops walk the patterns in that order, through a
transposed index if it is not the stored one. Variables that only dense axes carry follow. If a reduction over stored
entries is innermost, the loops over dense indices of the target go around it, so that the sum stays in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule.legality import legal_orders, stored_orders
from jsparse.compiler.schedule.machine import REGISTER_BYTES
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.trip_counts import walked_as, walked_levels
from jsparse.formats import Pattern
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["Candidate", "candidates"]

LANES = 8  # an index of at least this size fills a vector
SHARED_TILES = 16  # minimum tiles of the target to divide among threads
SHARED_LANES = 16  # but none narrower than a cache line of float32
PANELS = (256, 512)  # coordinates whose rows, of one tile, are copied: 64 or 128 KiB on the stack
MOST_PANELS = 64  # panels a float32 sum may be cut into: their sums are added in memory
PANEL_TILES = 4  # minimum tiles to divide among threads where a reduction is cut into panels
JAM_TILE_BYTES = 128  # one register tile, where several iterations run at a time
JAM_BYTES = 384  # all of these tiles together
MOST_COPIES = 8  # iterations at a time
WRITTEN_OUT = 256  # stored entries whose loops may be written out: LLVM takes about a millisecond for each
WRITTEN_BYTES = 64  # a register tile then, so that the tiles of several rows fit the registers
WRITTEN_TURNS = 512  # minimum iterations of written-out code: fewer do not pay for compiling it


@dataclass(frozen=True)
class Candidate:
    """A loop order in parts.

    Attributes:
        problem: the problem.
        walk: the patterns' variables in the order of the loops.
        vector: the variable that runs in vector lanes, if any.
        factored: whether the innermost reduction is summed in lanes before the factors that lack it are multiplied in.
        panel: coordinates of the innermost reduction in one panel (`loops.domain.Panels`); 0 for no panels.
        written_out: whether the loops over small static patterns are unrolled entry by entry, once for each register
            tile: coordinates and positions become constants, and rows that several entries read stay in registers.
        jam: whether several iterations of the loop over `jammed` run at a time, in narrower tiles.
    """

    problem: Problem
    walk: tuple[IndexVar, ...]
    vector: IndexVar | None
    factored: bool = False
    written_out: bool = False
    panel: int = 0
    jam: bool = False

    @cached_property
    def free_vars(self) -> frozenset[IndexVar]:
        """The free index variables: the target's."""
        return self.problem.free_vars

    @cached_property
    def tail(self) -> tuple[IndexVar, ...]:
        """The innermost variables of `walk`, up to the last free one: all of them are reductions."""
        start = len(self.walk)
        while start and self.walk[start - 1] not in self.free_vars:
            start -= 1
        return self.walk[start:]

    @cached_property
    def head(self) -> tuple[IndexVar, ...]:
        """`walk` without its tail."""
        return self.walk[: len(self.walk) - len(self.tail)]

    @cached_property
    def dense(self) -> tuple[IndexVar, ...]:
        """The variables that no pattern stores, the target's first."""
        return tuple(v for v in self.problem.assignment.variables() if v not in self.walk)

    @cached_property
    def batch(self) -> tuple[IndexVar, ...]:
        """The variables of batched patterns' leading axes; their loops are outermost."""
        return tuple(dict.fromkeys(v for names in self.problem.batch_variables for v in names))

    @cached_property
    def scalar(self) -> tuple[IndexVar, ...]:
        """The dense variables that run in scalar loops, below the patterns."""
        return tuple(v for v in self.dense if v != self.vector and v not in self.batch)

    @cached_property
    def free_dense_vars(self) -> tuple[IndexVar, ...]:
        """The free variables among the scalar dense ones."""
        return tuple(v for v in self.scalar if v in self.free_vars)

    @cached_property
    def owns_tiles(self) -> bool:
        """Whether threads can only own tiles of the vector variable, because the outermost loop is a reduction."""
        return self.scatters and self.vector in self.free_vars and self.walk[0] not in self.free_vars

    @cached_property
    def scatters(self) -> bool:
        """Whether a reduction stands outside an index of the target, so that sums are added up in memory."""
        return any(v not in self.free_vars for v in self.head)

    @cached_property
    def contracted(self) -> tuple[IndexVar, ...]:
        """The scalar loops that reduce dense indices."""
        return tuple(v for v in self.scalar if v not in self.free_vars)

    @cached_property
    def summed(self) -> tuple[IndexVar, ...]:
        """The innermost reductions that only factors without dense indices carry: Σ (a·b) = (Σ a)·b if b lacks them."""
        if self.factored:
            return self.tail[-1:]
        if not self.problem.sums_first:
            return ()
        chosen: tuple[IndexVar, ...] = ()
        factors = self.problem.assignment.factors
        for start in range(len(self.tail) - 1, -1, -1):
            names = set(self.tail[start:])
            inner = [f for f in factors if names & set(f.variables())]
            if len(inner) == len(factors) or any(set(f.variables()) & set(self.dense) for f in inner):
                break
            chosen = self.tail[start:]
        return chosen if self.dense else ()

    @cached_property
    def inner_lanes(self) -> tuple[int, int]:
        """The numbers of factors in lanes that carry the innermost reduction, and that do not."""
        last = self.tail[-1:]
        carried = [
            set(last) <= set(f.variables()) for f in self.problem.assignment.factors if self.vector in f.variables()
        ]
        return sum(carried), len(carried) - sum(carried)

    @cached_property
    def can_factor(self) -> bool:
        """Whether Σ (a·b) = (Σ a)·b saves work in lanes: a factor b that lacks the summed variable runs in lanes."""
        if self.vector not in self.free_vars or not self.tail or len(self.walk) < 2 or self.contracted:
            return False
        if self.problem.is_assembly or not self.problem.sums_first:
            return False
        factors = self.problem.assignment.factors
        inner = [f for f in factors if self.tail[-1] in f.variables()]
        others = set(self.dense) - {self.vector}
        return self.inner_lanes[1] > 0 and bool(inner) and not any(set(f.variables()) & others for f in inner)

    @cached_property
    def gathered(self) -> Access | None:
        """The only factor in lanes, if each stored entry reads one row of it and nothing else; else None."""
        row_and_lanes = {*self.tail[-1:], self.vector}
        found = [f for f in self.problem.assignment.factors if self.vector in f.variables()]
        return (
            found[0]
            if len(found) == 1 and set(found[0].variables()) == row_and_lanes and not found[0].nested()
            else None
        )

    @cached_property
    def can_panel(self) -> bool:
        """Whether the reduction over stored entries can be divided into panels, inside tiles that threads own.

        It has to be the only reduction, and the only loop inside those over the target.
        """
        problem = self.problem
        if (
            len(problem.level_variables) != 1
            or problem.is_assembly
            or not problem.is_product
            or self.batch
            or self.free_dense_vars
        ):
            return False
        if len(self.tail) != 1 or not self.head or self.scatters or self.contracted or self.summed:
            return False
        return self.vector in self.free_vars and self.gathered is not None

    @cached_property
    def single(self) -> frozenset[IndexVar]:
        """The variables of the walk with exactly one coordinate below each coordinate of the variable before."""
        return frozenset(v for v in self.walk[1:] if _is_single(self.problem, self.walk, v))

    @cached_property
    def entry_vars(self) -> frozenset[IndexVar]:
        """The variables that a stored entry determines: the innermost sparse loop's, and `single` ones below it."""
        innermost = max((n for n, v in enumerate(self.walk) if v not in self.single), default=0)
        return frozenset(self.walk[innermost:])

    @cached_property
    def jammed(self) -> IndexVar | None:
        """The variable whose loop may be jammed, or None.

        It is the innermost variable outside all reductions, if the loops inside are the same for all of its coordinates
        and read rows that its coordinates share.
        """
        problem = self.problem
        if (
            self.vector not in self.free_vars
            or problem.is_assembly
            or not problem.is_product
            or self.summed
            or self.factored
        ):
            return None
        if self.owns_tiles:  # jamming makes tiles narrower, and every tile reads again all rows that are not shared
            return None
        entries = any(v not in self.single for v in self.tail)  # this loop is the same only for dense indices around it
        if not (entries if self.free_dense_vars and entries else self.contracted and not entries):
            return None
        loops = [v for v in (*self.head, *self.free_dense_vars) if v not in self.single]
        if not loops or loops[-1] in self.batch or problem.size[loops[-1]] in (0, 1):
            return None
        own = self.entry_vars if loops[-1] in self.walk else {loops[-1]}
        shared = [f for f in problem.assignment.factors if self.vector in f.variables() and not own & {*f.variables()}]
        return loops[-1] if shared else None

    @property
    def wide(self) -> int:
        """The lanes of wide tiles, for runs with few threads: as many as fit the registers; 0 if that is `lanes`."""
        if not self.owns_tiles:
            return 0
        most = REGISTER_BYTES // np.dtype(self.problem.accumulator).itemsize
        return most if self.lanes < most <= (self.problem.size[str(self.vector)] or 0) else 0

    @property
    def copies(self) -> int:
        """The number of coordinates of `jammed` that run at a time."""
        if not self.jam:
            return 1
        tile = self.lanes * np.dtype(self.problem.accumulator).itemsize
        return min(self.problem.size[str(self.jammed)] or MOST_COPIES, MOST_COPIES, max(2, JAM_BYTES // tile))

    @cached_property
    def sums_all(self) -> bool:
        """Whether the whole tail is summed first, so that no dense loop goes around it."""
        return bool(self.summed) and self.summed == self.tail and not self.factored

    @cached_property
    def order(self) -> tuple[IndexVar, ...]:
        """All loops, outermost first; the vector variable last."""
        return self.problem.without_derived(self._order) if self.problem.derived else self._order

    @property
    def _order(self) -> tuple[IndexVar, ...]:
        last = () if self.vector is None else (self.vector,)
        if self.written_out:
            return (*self.free_dense_vars, *self.walk, *self.contracted, *last)
        if self.sums_all or self.problem.is_assembly:
            return (*self.batch, *self.head, *self.tail, *self.free_dense_vars, *self.contracted, *last)
        return (*self.batch, *self.head, *self.free_dense_vars, *self.tail, *self.contracted, *last)

    @cached_property
    def lanes(self) -> int:
        """The elements of a register tile: as many as fit, but fewer if threads need several tiles to divide."""
        if self.vector is None:
            return 0
        tile = WRITTEN_BYTES if self.written_out else JAM_TILE_BYTES if self.jam else REGISTER_BYTES
        most, size = tile // np.dtype(self.problem.accumulator).itemsize, self.problem.size[self.vector] or 0
        if self.owns_tiles:
            most = min(most, max(SHARED_LANES, -(-size // SHARED_TILES)))
        return min(most, size)

    @cached_property
    def tile(self) -> int:
        """The depth in `order` at which the loop over register tiles is inserted.

        It goes around the reductions if the target carries the lanes, outermost if threads own tiles of the target, and
        outside the patterns if these are written out.
        """
        if self.panel:
            return 0
        if self.written_out:
            return len(self.free_dense_vars)
        if self.owns_tiles:
            return len(self.batch)
        inner = len(self.contracted) + (0 if self.sums_all else len(self.tail))
        return len(self.order) - 1 - (inner if self.vector in self.free_vars else 0)


def candidates(problem: Problem, patterns: Sequence[Stored] = (), as_stored: bool = False) -> Iterator[Candidate]:
    """Yield the candidates, those in the stored order first; none if no order is concordant with all patterns.

    If `as_stored`, only those that need no transposed index.
    """
    walked = {v for names in problem.walks for v in names}  # leading axes included
    named = () if problem.is_assembly else problem.assignment.variables()
    vectors: list[IndexVar | None] = [v for v in named if _vectorizes(problem, v, walked)]
    scalar = () if any(v is not None and _stands_innermost(problem, v) for v in vectors) else (None,)
    for walk in dict.fromkeys(stored_orders(problem) if as_stored else legal_orders(problem, patterns)):
        for vector in (*vectors, *scalar):
            candidate = Candidate(problem, walk, vector)
            yield candidate
            if candidate.can_factor:
                yield replace(candidate, factored=True)
            if candidate.jammed is not None:
                yield replace(candidate, jam=True)
            if candidate.can_panel and _has_segments(candidate, patterns):
                yield from (replace(candidate, panel=size) for size in PANELS if _few_panels(candidate, size))
            if _writes_out(candidate, patterns):
                yield replace(candidate, written_out=True)


def _few_panels(candidate: Candidate, panel: int) -> bool:
    """Whether the panels' sums, which are added up in memory, are few enough for float32."""
    size = candidate.problem.size[candidate.tail[-1]]
    return candidate.problem.accumulator != "float32" or (size is not None and size <= MOST_PANELS * panel)


def _has_segments(candidate: Candidate, patterns: Sequence[Stored]) -> bool:
    """Whether the innermost level has segments of ascending coordinates, and there are tiles for threads."""
    size = candidate.problem.size[candidate.vector] if candidate.vector is not None else None
    if not patterns or size is None or size < PANEL_TILES * candidate.lanes:
        return False
    (names,) = candidate.problem.level_variables
    levels = patterns[0].format.levels[: len(names)]
    own_order = walked_levels(names, candidate.walk) == tuple(range(len(names)))
    unique = all(not level.kind.is_branchless and level.unique for level in levels)
    return len(names) == len(set(names)) and (not own_order or (unique and levels[-1].kind.has_pointers))


def _writes_out(candidate: Candidate, patterns: Sequence[Stored]) -> bool:
    """Whether the patterns are static, small enough to write out entry by entry, and run for many coordinates."""
    problem = candidate.problem
    if candidate.vector not in candidate.free_vars or candidate.contracted or problem.is_assembly or not patterns:
        return False
    entries = [x.nse for x in patterns if isinstance(x, Pattern)]
    turns = prod(problem.size[v] or 0 for v in (*candidate.free_dense_vars, candidate.vector) if v is not None)
    return len(entries) == len(patterns) and sum(entries) <= WRITTEN_OUT and turns >= WRITTEN_TURNS


def _vectorizes(problem: Problem, var: IndexVar, walked: Collection[IndexVar]) -> bool:
    """Whether every tensor that carries `var` can store it as its innermost axis, and only there."""
    size = problem.size[var]
    if var in walked or size is None or size < 2 or problem.derived:
        return False
    return all(
        _innermost(problem.type_of[a.tensor], a, var) for a in problem.assignment.accesses if var in a.variables()
    )


def _is_single(problem: Problem, walk: Sequence[IndexVar], var: IndexVar) -> bool:
    """Whether a pattern, walked as stored, has exactly one coordinate of `var` below each of the variable before."""
    return any(
        var in names and walked_as(names, walk) == names and pattern.is_single(names.index(var))
        for names, pattern in zip(problem.level_variables, problem.patterns, strict=True)
    )


def _stands_innermost(problem: Problem, var: IndexVar) -> bool:
    """Whether lanes of `var` are never worse than scalars: they fill a vector, and no tensor has to be transposed."""
    carriers = [a for a in problem.assignment.accesses if var in a.variables()]
    last = [(a, problem.type_of[a.tensor].axes[-1]) for a in carriers]
    return (problem.size[var] or 0) >= LANES and all(
        isinstance(axis, Dense) and a.indices[axis.dim] == var for a, axis in last
    )


def _innermost(tensor: TensorType, access: Access, var: IndexVar) -> bool:
    if access.indices.count(var) != 1 or access.nested():
        return False
    last = tensor.axes[-1]
    free_order = tensor.positions is None
    return free_order or (isinstance(last, Dense) and access.indices[last.dim] == var)
