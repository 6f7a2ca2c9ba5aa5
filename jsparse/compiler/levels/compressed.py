"""Level functions of compressed levels: pointers delimit segments of sorted coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jsparse.compiler.kernel.algebra import add, block, const
from jsparse.compiler.kernel.nodes import Declare, Expr, If, Let, Set, Stmt
from jsparse.compiler.levels.functions import LevelFunctions, LevelView, PositionRange, Segment

__all__ = ["FUNCTIONS", "pointed_positions"]


class _CompressedFunctions(LevelFunctions):
    """Loops run over positions; a coordinate is found by bisection."""

    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        pointers, coordinates = arrays
        lo, hi = (pointed_positions(pointers, parent, len(coordinates)) for parent in (first, stop))
        return ((int(coordinates[p]), p) for p in range(lo, hi))

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        first, stop = level.fresh("first"), level.fresh("stop")
        here, below = level.load("pointers", above.first), level.load("pointers", add(above.first, const(1)))

        def coordinate(position: Expr) -> Expr:
            return level.load("coordinates", position)

        if above.present is None:
            lo, hi = level.limited(level.clamped(here), level.clamped(below))
            return Segment(first, stop, [Let(first, lo), Let(stop, hi)], coordinate)
        read = block(Set(first, level.clamped(here)), Set(stop, level.clamped(below)))
        prelude: list[Stmt] = [Declare(first, const(0)), Declare(stop, const(0)), If(above.present, read)]
        return Segment(first, stop, prelude, coordinate)

    def below(self, level: LevelView, position: Expr) -> Expr:
        return level.clamped(level.load("pointers", position))


def pointed_positions(pointers: Any, parent: int, capacity: int) -> int:
    """A pointer as loops use it: clamped to the capacity."""
    return min(max(int(pointers[parent]), 0), capacity)


FUNCTIONS = _CompressedFunctions()
