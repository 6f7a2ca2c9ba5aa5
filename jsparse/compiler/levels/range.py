"""Level functions of range levels: consecutive coordinates, so that position and coordinate differ by a constant.

Below parent q, coordinate = position + offset with offset = starts[q] - pointers[q]: two loads for each segment, none
for an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jsparse.compiler.kernel.algebra import add, sub
from jsparse.compiler.kernel.nodes import Expr
from jsparse.compiler.levels.functions import (
    LevelFunctions,
    LevelView,
    PositionRange,
    Segment,
    pointed_position,
    pointed_segment,
)

__all__ = ["FUNCTIONS"]


class _RangeFunctions(LevelFunctions):
    """Loops run over positions; a coordinate is located by arithmetic."""

    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        pointers, starts = arrays
        most = int(pointers[-1]) if capacity is None else capacity
        for parent in range(first, stop):
            lo, hi = (pointed_position(pointers, q, most) for q in (parent, parent + 1))
            offset = int(starts[parent]) - int(pointers[parent])
            yield from ((p + offset, p) for p in range(lo, hi))

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        offset = level.fresh("offset")
        difference = sub(level.load("starts", above.first), level.load("pointers", above.first))
        first, stop, prelude = pointed_segment(level, above, [(offset, difference)])
        return Segment(first, stop, prelude, lambda position: add(position, offset), lambda c: sub(c, offset))

    def below(self, level: LevelView, position: Expr) -> Expr:
        return level.clamped(level.load("pointers", position))


FUNCTIONS = _RangeFunctions()
