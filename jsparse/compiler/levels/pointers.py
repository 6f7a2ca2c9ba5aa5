"""Segments that pointers delimit, for all kinds of levels that have pointers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.compiler.kernel.algebra import add, block, const
from jsparse.compiler.kernel.nodes import Declare, Expr, If, Let, Set, Stmt, Var
from jsparse.compiler.levels.functions import LevelView, PositionRange

__all__ = ["pointed_position", "pointed_segment"]


def pointed_segment(
    level: LevelView, above: PositionRange, more: Sequence[tuple[Var, Expr]] = ()
) -> tuple[Var, Var, list[Stmt]]:
    """The first position and the end of the segment below the present position of the level above, and statements
    that set them.

    If that position may be absent, nothing is loaded there, and the segment is empty. The names in `more` get their
    values together with the two, or are 0.
    """
    first, stop = level.fresh("first"), level.fresh("stop")
    here, below = level.load("pointers", above.first), level.load("pointers", add(above.first, const(1)))
    lo, hi = level.clamped(here), level.clamped(below)
    if above.present is None:
        lo, hi = level.limited(lo, hi)
        return first, stop, [Let(name, value) for name, value in ((first, lo), (stop, hi), *more)]
    loads = block(*(Set(name, value) for name, value in ((first, lo), (stop, hi), *more)))
    zeros = [Declare(name, const(0)) for name in (first, stop, *(name for name, _ in more))]
    return first, stop, [*zeros, If(above.present, loads)]


def pointed_position(pointers: np.ndarray, parent: int, capacity: int) -> int:
    """A pointer as loops use it: clamped to the capacity."""
    return min(max(int(pointers[parent]), 0), capacity)
