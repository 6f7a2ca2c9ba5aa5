"""A schedule: the transformations that turn the canonical nest of a statement into the nest that is compiled.

Problem, Schedules ──build_loops──> LoopNest
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.assemble import assembly_nest, canonical_assembly, with_upper_bounds
from jsparse.compiler.loops.blocked_sums import block_sums
from jsparse.compiler.loops.canonical import canonical_nest, leave_out_steps
from jsparse.compiler.loops.fusion import FusionError, contract_temporaries, fuse_nests
from jsparse.compiler.loops.nest import LoopNest, Stmt
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import Layout, words
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations import TRANSFORMATIONS
from jsparse.compiler.schedule.transformations.cache_read import CacheRead
from jsparse.compiler.schedule.transformations.fuse import Fuse
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize, Race
from jsparse.compiler.schedule.transformations.pos import Pos
from jsparse.compiler.schedule.transformations.precompute import Precompute
from jsparse.compiler.schedule.transformations.prefetch import Prefetch
from jsparse.compiler.schedule.transformations.promote import Promote
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Known, Specialize
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll import Unroll
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.transformations.widen import Widen
from jsparse.compiler.schedule.transformations.workspace import MakeWorkspace
from jsparse.errors import ScheduleError, short_repr


@dataclass(frozen=True)
class Schedule:
    """Transformations of a loop nest, in order, and the storage orders of its operands.

        >>> schedule = jsparse.Schedule().reorder("i k j").split("k", 64).vectorize("k").parallelize("i")
        >>> jsparse.einsum("ij,jk->ik", A, X, schedule=schedule)

    Scheduling of sparse loops follows Senanayake et al., "A sparse iteration space transformation framework for sparse
    tensor algebra" (2020). Each method returns a new schedule with one more step. Loops are named by their index
    variables. `str` of a schedule has a line for each step, and `Schedule.parse` reads such lines. Every step is
    described in docs/internals/scheduling.md.

    Attributes:
        steps: the transformations.
        layout: the storage orders of patterns that loops walk in another order than the operands have.

    `einsum` raises ScheduleError if its loops do not allow a step. `parse` raises it for a line that is not a step.
    """

    steps: tuple[Transformation, ...] = ()
    layout: Layout = field(default_factory=Layout)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.layout.lines), *map(str, self.steps)])

    def __repr__(self) -> str:
        return f"Schedule.parse({str(self)!r})"

    @staticmethod
    def parse(text: str) -> Schedule:
        """Read a schedule from its lines. Raises ScheduleError for a line that is not a step."""
        lines = [words(line) for line in text.splitlines() if line.strip()]
        layout = Layout.parse([words for words in lines if words[0] == Layout.keyword])
        return Schedule(tuple(_parse_step(words) for words in lines if words[0] != Layout.keyword), layout)

    def then(self, *steps: Transformation) -> Schedule:
        """Return the schedule with these steps added at the end."""
        return Schedule((*self.steps, *steps), self.layout)

    def found(self, keyword: str) -> Any:
        """The first step with that keyword; None if there is none."""
        return next((step for step in self.steps if step.keyword == keyword), None)

    def store(self, operand: str, order: str | Iterable[str]) -> Schedule:
        """Walk the pattern of an operand in this order of its index variables, outermost first.

            Schedule().store("A", "j i")

        For a static pattern, a transposed index is made once; a dynamic pattern is sorted in the program.
        An order may begin with row blocks. In this example, the pattern P2 is a table k[p], and each block has 512 rows
        o[p] of the target. The entries of the table are stored one block after the other:

            Schedule().store("P2", "o[p]/512 k[p] p").reorder("o[p]0 k[p] p …")
        """
        return Schedule(self.steps, self.layout.with_order(operand, _names(order)))

    def reorder(self, loops: str | Iterable[str], term: int | None = None) -> Schedule:
        """Put the loops in this order, outermost first. The order names each loop once.

        In the assembly of a sparse result, `term` selects the loops of one term inside the shared loops.
        """
        return self.then(Reorder(_names(loops), term))

    def split(self, loop: str, size: int) -> Schedule:
        """Divide the loop `k` into a loop `k0` over panels of `size` coordinates, and the loop `k` inside a panel."""
        return self.then(Split(loop, size))

    def pos(self, loop: str) -> Schedule:
        """Let a loop over a sparse level count positions, not coordinates. A later split divides the positions."""
        return self.then(Pos(loop))

    def fuse(self, outer: str, inner: str) -> Schedule:
        """Make one loop `i_j` of two nested loops over dense index variables."""
        return self.then(Fuse(outer, inner))

    def vectorize(self, loop: str, lanes: int = 0) -> Schedule:
        """Run the loop of a dense index variable in vector lanes, all coordinates of a panel at once. In a loop over
        stored entries, work on `lanes` positions at a time.
        """
        return self.then(Vectorize(loop, lanes))

    def precompute(self, loops: str | Iterable[str]) -> Schedule:
        """Compute the sum over these loops first, then multiply it by the factors that lack their index variables."""
        return self.then(Precompute(_names(loops)))

    def promote(self) -> Schedule:
        """Keep sums in registers inside the innermost loop over an index of the target."""
        return self.then(Promote())

    def cache_read(self, tensor: str, loop: str) -> Schedule:
        """Before each panel of the loop, copy the rows of a dense tensor that the panel reads."""
        return self.then(CacheRead(tensor, loop))

    def workspace(self, loop: str) -> Schedule:
        """Let the terms of an assembly add to a workspace: a row of the result, over its innermost index."""
        return self.then(MakeWorkspace(loop))

    def merge_by(self, loop: str, leader: str) -> Schedule:
        """In a loop over several patterns, walk `leader` (such as P0), and look up its coordinates in the others."""
        return self.then(MergeBy(loop, leader))

    def scatter(self, level: str) -> Schedule:
        """Scatter the segments of a level that is looked up, such as P1.1, into maps from coordinates to positions."""
        return self.then(ScatterSegment(level))

    def unroll(self, loop: str) -> Schedule:
        """Write out all iterations of a loop."""
        return self.then(Unroll(loop))

    def unroll_and_jam(self, loop: str, copies: int) -> Schedule:
        """Run `copies` iterations of a loop at a time with fused inner loops, so that the iterations share rows."""
        return self.then(UnrollAndJam(loop, copies))

    def specialize(self, to: Known, what: str, lanes: int = 0) -> Schedule:
        """Compile for few threads, for the entries of a static pattern, or for a level with short segments only.

        Args:
            to: "threads", "pattern" or "segments".
            what: the loop over register tiles, the pattern such as P0, or the level such as P0.1.
            lanes: for "threads", the lanes of a tile if there are enough tiles of this size for all threads.
        """
        return self.then(Specialize(to, what, lanes))

    def parallelize(self, loop: str, race: Race = "owned", grain: int = 0) -> Schedule:
        """Divide the outermost loop over threads, with at least `grain` stored entries (or iterations) in a chunk."""
        return self.then(Parallelize(loop, race, grain))

    def prefetch(self, loop: str, distance: int) -> Schedule:
        """Prefetch the rows for the stored entry that the loop reaches `distance` entries later.

        For a loop over panels of positions, the distance is 1: the rows for the next panel are prefetched.
        """
        return self.then(Prefetch(loop, distance))

    def widen(self, block: int = 0) -> Schedule:
        """Accumulate sums that are scattered into memory in float64: each term, or each sum of `block` terms."""
        return self.then(Widen(block))


def _names(loops: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(loops.split() if isinstance(loops, str) else map(str, loops))


def _parse_step(words: list[str]) -> Transformation:
    kind = TRANSFORMATIONS.get(words[0])
    try:
        if kind is None:
            raise ValueError(f"steps begin with one of {', '.join(TRANSFORMATIONS)}")
        return kind.parse(words[1:])
    except (TypeError, ValueError) as error:
        line = short_repr(" ".join(words))
        raise ScheduleError(f"Expected a line of a schedule, but got {line}: {error}.") from error


def build_loops(problem: Problem, *schedules: Schedule) -> LoopNest:
    """Build the loop nest from the schedules: one for each statement, or one for an assembly.

    The nests of several statements follow each other, or share loops (`loops.fusion`). Long sums of float32 are first
    cut into blocks (`loops.blocked_sums`).

    Raises ScheduleError for a step that is illegal, and ValueError if the number of schedules does not match.
    """
    if problem.ordered:
        (schedule,) = schedules
        return with_upper_bounds(apply_schedule(problem, schedule))
    parts: list[Stmt] = []
    for number, (_, schedule) in enumerate(zip(problem.statements, schedules, strict=True)):
        nest = apply_schedule(problem, schedule, number)
        # Segments that the schedule declares to be short need no blocks.
        short = (step for step in schedule.steps if isinstance(step, Specialize) and step.to == "segments")
        parts.append(block_sums(nest.body, problem, [(step.pattern, step.level) for step in short]))
    if len(parts) == 1:
        return LoopNest(problem, parts[0])
    steps = [schedule.found("compute_at") for schedule in schedules]
    try:
        body = fuse_nests(problem, parts, [None if step is None else step.loop for step in steps])
    except FusionError as error:
        raise ScheduleError(f"The statements cannot share loops: {error}. Leave out the step 'compute_at'.") from None
    return LoopNest(problem, contract_temporaries(problem, body))


def apply_schedule(problem: Problem, schedule: Schedule, number: int = 0) -> LoopNest:
    """Apply the steps of a schedule to the nest of one statement. Raises ScheduleError for an illegal step, and for a
    sum in lanes if no step `promote` holds the sum in registers.
    """
    nest = assembly_nest(problem, canonical_assembly(problem)) if problem.ordered else canonical_nest(problem, number)
    summary = Summary.canonical(problem, number)
    for step in schedule.steps:
        check_step(step, summary)
        nest, summary = step.apply(nest), summary.then(step)
    if summary.vector is not None and summary.vector not in summary.free_vars and summary.first("promote") is None:
        raise ScheduleError(
            f"The schedule of '{summary.statement}' sums {summary.vector} in lanes, which takes registers: add the "
            "step 'promote'."
        )
    return leave_out_steps(nest)


def check_step(step: Transformation, nest: Summary) -> None:
    """Raise ScheduleError if a step is illegal on a nest."""
    reason = step.check(nest)
    if reason is not None:
        raise ScheduleError(
            f"The step '{step}' is illegal for '{nest.statement}': {reason}. Change it, or leave it out."
        )
