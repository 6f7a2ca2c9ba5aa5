"""Level functions of compressed levels: pointers delimit segments of sorted coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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


class _CompressedFunctions(LevelFunctions):
    """Loops run over positions; a coordinate is found by bisection."""

    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        pointers, coordinates = arrays
        lo, hi = (pointed_position(pointers, parent, len(coordinates)) for parent in (first, stop))
        return ((int(coordinates[p]), p) for p in range(lo, hi))

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        first, stop, prelude = pointed_segment(level, above)
        return Segment(first, stop, prelude, lambda position: level.load("coordinates", position))

    def below(self, level: LevelView, position: Expr) -> Expr:
        return level.clamped(level.load("pointers", position))


FUNCTIONS = _CompressedFunctions()
