"""`specialize`: a kernel is compiled for a known property of its operands or of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, cast, get_args

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.schedule.layout import pattern_numbers
from jsparse.compiler.schedule.limits import LARGEST_COPY, LARGEST_TILE
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import change_domain, no_loop

Known = Literal["threads", "pattern", "segments"]


@dataclass(frozen=True, slots=True)
class Specialize(Transformation):
    """Compile for a known property of the operands or of the machine.

    Attributes:
        to: `threads`: tiles of the loop `what` have `lanes` lanes if there are enough such tiles for all threads.
            `pattern`: the entries of the static pattern `what`, as in `P0`, are constants of the kernel. `segments`:
            the segments of the level `what`, as in `P0.1`, have at most 64 entries, so that sums need no blocks.
        what: the loop, the pattern or the level.
        lanes: the lanes of a wide tile; 0 if `to` is not `threads`.
    """

    to: Known
    what: str
    lanes: int = 0
    keyword: ClassVar[str] = "specialize"
    keeps_loops = True

    @staticmethod
    def parse(words: list[str]) -> Specialize:
        to, what, *lanes = words
        if to not in get_args(Known):
            raise ValueError(f"expected one of {', '.join(get_args(Known))}, but got {to!r}")
        step = Specialize(cast(Known, to), what, *map(int, lanes))
        if to != "threads" and (step.pattern < 0 or (to == "segments" and step.level < 0)):
            raise ValueError(f"expected {'a level, as in P0.1' if to == 'segments' else 'a pattern, as in P0'}")
        return step

    @property
    def pattern(self) -> int:
        """The index of the pattern; -1 if there is none."""
        return next(iter(pattern_numbers(self.what)), -1) if self.to != "threads" else -1

    @property
    def level(self) -> int:
        """The index of the level; -1 if there is none."""
        return next(iter(pattern_numbers(self.what)[1:]), -1)

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> Specialize:
        if self.to == "threads":
            return self
        _, dot, level = self.what.partition(".")
        return replace(self, what=f"P{numbers[self.pattern]}{dot}{level}")

    def check(self, nest: Summary) -> str | None:
        if any(step.to == self.to and step.what == self.what for step in nest.steps_with("specialize")):
            return "the kernel is already specialized to this"
        if self.to == "threads":
            return self._threads_reason(nest)
        if self.pattern not in nest.statement.patterns:
            return f"there is no pattern {self.what}"
        pattern = nest.problem.patterns[self.pattern]
        if self.to == "pattern":
            return f"the entries of {self.what} are known only at run time" if pattern.dynamic else None
        if pattern.dynamic:
            return f"the segments of {self.what} may have any length"
        return None if self.level < len(pattern.levels) else f"there is no level {self.what}"

    def _threads_reason(self, nest: Summary) -> str | None:
        if self.what not in nest.loops or nest.vector is None or self.what != nest.tile_loop:
            return no_loop(self.what, nest) if self.what not in nest.loops else f"{self.what} is not a loop over tiles"
        size = nest.problem.size[nest.vector] or 0
        if not nest.lanes < self.lanes <= size or self.lanes * nest.itemsize > LARGEST_TILE:
            return f"wide tiles have more than {nest.lanes} lanes, at most {size}, and at most {LARGEST_TILE} bytes"
        if nest.loops[0] != self.what:
            return f"threads do not divide {self.what}, which is not the outermost loop"
        copied = nest.panel * self.lanes * nest.itemsize if nest.first("cache_read") is not None else 0
        return f"a copy has at most {LARGEST_COPY:,} bytes, not {copied:,}" if copied > LARGEST_COPY else None

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step. Known entries or segments of patterns change no loop."""
        return change_domain(nest, self.what, wide=self.lanes) if self.to == "threads" else nest
