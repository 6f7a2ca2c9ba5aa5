"""Level functions of singleton levels: each position of the level above has one position here, with the same number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jsparse.compiler.kernel.algebra import add, const
from jsparse.compiler.kernel.nodes import Expr, Select
from jsparse.compiler.levels.functions import LevelFunctions, LevelView, PositionRange, Segment

__all__ = ["FUNCTIONS"]


class _SingletonFunctions(LevelFunctions):
    """Loops run over the positions of the level above."""

    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        (coordinates,) = arrays
        return ((int(coordinates[p]), p) for p in range(first, stop))

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        first = above.first
        stop = add(first, const(1)) if above.stop is None else above.stop
        stop = stop if above.present is None else Select(above.present, stop, first)
        return Segment(first, stop, [], lambda position: level.load("coordinates", position))

    def below(self, level: LevelView, position: Expr) -> Expr:
        return position


FUNCTIONS = _SingletonFunctions()
