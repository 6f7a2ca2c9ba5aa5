"""Level functions of range levels: consecutive coordinates, so that position and coordinate differ by a constant.

Below parent q, coordinate = position + offset with offset = starts[q] - pointers[q]: two loads for each segment, none
for an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jsparse.compiler.kernel.algebra import add, block, const, sub
from jsparse.compiler.kernel.nodes import Declare, Expr, If, Let, Set
from jsparse.compiler.levels.compressed import pointed_positions
from jsparse.compiler.levels.functions import LevelFunctions, LevelView, PositionRange, Segment

__all__ = ["FUNCTIONS"]


class _RangeFunctions(LevelFunctions):
    """Loops run over positions; a coordinate is located by arithmetic."""

    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        pointers, starts = arrays
        most = int(pointers[-1]) if capacity is None else capacity
        for parent in range(first, stop):
            lo, hi = (pointed_positions(pointers, q, most) for q in (parent, parent + 1))
            offset = int(starts[parent]) - int(pointers[parent])
            yield from ((p + offset, p) for p in range(lo, hi))

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        first, stop, offset = level.fresh("first"), level.fresh("stop"), level.fresh("offset")
        here, below = level.load("pointers", above.first), level.load("pointers", add(above.first, const(1)))
        difference = sub(level.load("starts", above.first), here)

        def coordinate(position: Expr) -> Expr:
            return add(position, offset)

        def position(coordinate: Expr) -> Expr:
            return sub(coordinate, offset)

        if above.present is None:
            lo, hi = level.limited(level.clamped(here), level.clamped(below))
            return Segment(first, stop, [Let(first, lo), Let(stop, hi), Let(offset, difference)], coordinate, position)
        read = block(Set(first, level.clamped(here)), Set(stop, level.clamped(below)), Set(offset, difference))
        zeros = [Declare(name, const(0)) for name in (first, stop, offset)]
        return Segment(first, stop, [*zeros, If(above.present, read)], coordinate, position)

    def below(self, level: LevelView, position: Expr) -> Expr:
        return level.clamped(level.load("pointers", position))


FUNCTIONS = _RangeFunctions()
