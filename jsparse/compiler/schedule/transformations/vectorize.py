"""`vectorize`: an index variable runs in vector lanes, or a loop over positions works on several of them at a time.

A loop over stored entries whose body adds to a scalar waits for each addition before the next one. In lanes, several
consecutive positions are worked on at a time, with an accumulator for each (`LevelIteration.lanes`):

    acc = 0                          acc = 0
      ∀ j ∈ P0.1               →       ∀ j ∈ P0.1, 8 at a time in lanes
        acc += A[i, j] * x[j]            acc += A[i, j] * x[j]

Values on the pattern are contiguous. So are the coordinates of the walked level, and of the singleton levels below it,
where an entry has its coordinate at the same position. Elements that a coordinate locates are gathered.
All other values that the body reads are the same in all lanes. A body that stores a value on the pattern stores the
values of all lanes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import chain, nest_loops
from jsparse.compiler.loops.domain import Lanes, Panels, Tiles
from jsparse.compiler.loops.nest import Forall, LoopNest
from jsparse.compiler.problem import Positions
from jsparse.compiler.schedule.limits import LARGEST_TILE
from jsparse.compiler.schedule.summary import Summary, Transformation, Walked
from jsparse.compiler.schedule.transformations.base import (
    change_domain,
    lanes_reason,
    loops_of,
    no_loop,
    structure_reason,
    with_loops,
)

MOST_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class Vectorize(Transformation):
    """Run the coordinates in a panel of a dense index variable at once, in vector lanes.

    All lanes execute the inner loops together, so the lanes are innermost wherever the loop stood. The loop over panels
    becomes a loop over register tiles.

    If `lanes` is not 0, the step is for one of two other kinds of loops. A loop over stored entries adds to a scalar in
    registers, or stores values at its positions. It then works on `lanes` positions at a time, each with its own
    accumulator (`lower.position_lanes`). A loop over a dense index stores, in each iteration, a sum over another index
    that runs in lanes. It then computes `lanes` sums at a time, and reduces their vectors to scalars together
    (`lower.joint_sums`).

    Attributes:
        loop: the name of the inner loop of a split, of a loop over stored entries, or of a loop that stores sums.
        lanes: the number of positions or coordinates at a time, a power of two; 0 for the inner loop of a split.
    """

    loop: str
    lanes: int = 0
    keyword: ClassVar[str] = "vectorize"

    def check(self, nest: Summary) -> str | None:
        if self.lanes:
            return self._positions_reason(nest)
        if nest.vector is not None:
            return f"{nest.vector} already runs in lanes"
        if self.loop not in nest.loops:
            return no_loop(self.loop, nest)
        if self.loop not in nest.splits:
            return f"split {self.loop} first, into tiles that fit registers"
        reason = structure_reason(nest, self.loop)
        if reason is not None:
            return f"{reason}: put vectorize first"
        if self.loop in {v for n in nest.statement.patterns for v in nest.problem.walks[n]}:
            return f"{self.loop} is an index of a sparse pattern, whose coordinates are not consecutive"
        if nest.derived:
            return "derived index variables run in scalar loops"
        for access in nest.statement.assignment.accesses:
            if self.loop in access.variables() and not nest.stores_innermost(access, self.loop):
                return f"{access} cannot be stored with {self.loop} innermost"
        size, lanes = nest.problem.size[self.loop], nest.splits[self.loop]
        if size is None:
            return f"the size of {self.loop} is known only at run time"
        if lanes > size:
            return f"a tile of {lanes} lanes is larger than {self.loop}, of size {size}"
        if lanes * nest.itemsize > LARGEST_TILE:
            return f"a tile has at most {LARGEST_TILE} bytes, not {lanes} lanes of {nest.itemsize}"
        return None

    def _positions_reason(self, nest: Summary) -> str | None:
        """Why the positions of a loop cannot be worked on in lanes; None if they can."""
        if self.loop not in nest.loops or nest.problem.is_assembly:
            return no_loop(self.loop, nest) if self.loop not in nest.loops else "an assembly does not add to a scalar"
        if self.lanes & (self.lanes - 1) or not 2 <= self.lanes <= MOST_POSITIONS:
            return f"lanes work on a power of two of positions at a time, at most {MOST_POSITIONS}, not {self.lanes}"
        if self.loop in nest.splits or lanes_reason(nest, self.loop):
            return f"the positions of {self.loop} are already divided"
        walked, inside = nest.level_walked_by(self.loop), self.loop in nest.precompute_loops
        joint = nest.folds_lanes_at(self.loop)
        if walked is None and joint:
            return self._coordinates_reason(nest)
        names = nest.precompute_loops if inside else nest.loops
        names = names[: names.index(self.loop) + 1] if joint else names
        below = names[names.index(self.loop) + 1 :]
        if walked is None or (inside and nest.sums_in_lanes) or not self._is_innermost(nest, walked, below):
            return f"{self.loop} is not an innermost loop over stored entries"
        if self.loop in nest.free_vars:
            once = joint or (nest.vector is None and nest.free_vars.issuperset(nest.order))
            last = nest.problem.type_of[nest.statement.target.tensor].axes[-1:]
            if not once or not any(isinstance(axis, Positions) and axis.pattern == walked.pattern for axis in last):
                return f"the values that {self.loop} stores are not at its positions, or are added to"
        elif not (inside or nest.first("promote") is not None):
            return f"{self.loop} does not add to a scalar in registers"
        elif not nest.free_vars.isdisjoint(below):
            return f"{self.loop} adds to a different element at each position"
        return self._reads_reason(nest, walked, below, joint)

    def _is_innermost(self, nest: Summary, walked: Walked, below: Sequence[str]) -> bool:
        """Whether only loops over the only entry of a segment are inside, in the singleton levels below."""
        names = nest.problem.level_variables[walked.pattern]
        level = len(walked.above) + 1
        summed_apart = self.loop not in nest.precompute_loops and not set(nest.precompute_loops).isdisjoint(below)
        return not summed_apart and tuple(below) == names[level : level + len(below)] and nest.single.issuperset(below)

    def _coordinates_reason(self, nest: Summary) -> str | None:
        """Why the sums at several coordinates of a dense index cannot be folded together; None if they can."""
        target, size = nest.statement.target, nest.problem.size[self.loop]
        if size is None or size < self.lanes:
            return f"{self.loop} has fewer than {self.lanes} coordinates, or a number that is known only at run time"
        if not nest.stores_innermost(target, self.loop) or target.indirections() or nest.derived:
            return f"{target} is not stored with {self.loop} innermost"
        for step in (*nest.steps_with("unroll"), *nest.steps_with("unroll_and_jam"), *nest.steps_with("parallelize")):
            if step.loop == self.loop:
                return f"'{step}' works on the coordinates one by one"
        return f"the loop {self.loop} is fused" if self.loop in nest.fusions else None

    def _reads_reason(self, nest: Summary, walked: Walked, below: Sequence[str], joint: bool) -> str | None:
        pattern, level, at_once = nest.problem.patterns[walked.pattern], len(walked.above), (self.loop, *below)
        meeting = [v for n in nest.statement.patterns for v in nest.problem.level_variables[n]]
        met_once = all(meeting.count(name) == 1 for name in at_once)
        if not met_once or level + len(at_once) < len(pattern.levels) or nest.derived:
            return f"other levels are looked up at each coordinate of {self.loop}"
        if pattern.levels[level].kind.is_full or pattern.is_single(level) or pattern.repeats(level):
            return f"P{walked.pattern}.{level} has no segments of distinct coordinates"
        ahead = [] if joint else nest.steps_with("prefetch")
        for step in (*nest.steps_with("unroll"), *nest.steps_with("unroll_and_jam"), *ahead):
            if step.loop in at_once:
                return f"'{step}' works on the entries one by one"
        divided = nest.first("parallelize")
        if divided is not None and divided.loop == self.loop and divided.race != "reduced":
            return f"'{divided}' divides the entries"
        if nest.vector is not None and self.loop not in nest.precompute_loops and not joint:
            return f"{nest.vector} already runs in lanes"
        tables = [f for f in nest.factors if f.indirections()]
        if tables:
            return f"{tables[0]} is read through a table"
        return None

    def loops_after(self, nest: Summary) -> tuple[str, ...]:
        return nest.loops if self.lanes else tuple(name for name in nest.loops if name != self.loop)

    def apply(self, nest: LoopNest) -> LoopNest:
        if self.lanes:
            return change_domain(nest, self.loop, lanes=self.lanes)
        loops, leaf = chain(loops_of(nest))
        scalar: list[Forall] = []
        for loop in loops:
            if loop.var != self.loop or loop.is_lookup:
                scalar.append(loop)
            elif isinstance(loop.domain, Panels):
                scalar.append(replace(loop, domain=Tiles(loop.domain.size)))
        return with_loops(nest, nest_loops(scalar, Forall(self.loop, Lanes(), leaf)))
