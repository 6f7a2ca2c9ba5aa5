"""Level functions of dense levels: position = parent * extent + coordinate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jsparse.compiler.kernel.algebra import mul
from jsparse.compiler.kernel.nodes import Expr
from jsparse.compiler.levels.functions import LevelFunctions, LevelView

__all__ = ["FUNCTIONS"]


class _DenseFunctions(LevelFunctions):
    """Loops run over coordinates."""

    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        return ((n, parent * extent + n) for parent in range(first, stop) for n in range(extent))

    def below(self, level: LevelView, position: Expr) -> Expr:
        return mul(position, level.extent())


FUNCTIONS = _DenseFunctions()
