"""The base of level functions (Chou et al., "Format abstraction for sparse tensor algebra compilers", 2018).

Loops walk a level by its positions, each of which has a coordinate (`segment`). Only a full level is walked by its
coordinates: the position is parent * extent + coordinate. `entries` is the same walk on numpy arrays.

Segments that pointers delimit are found in one way for all kinds of levels that have pointers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.kernel.algebra import add, block, const
from jsparse.compiler.kernel.nodes import Declare, Expr, If, Let, Set, Stmt, Var

__all__ = ["LevelFunctions", "LevelView", "PositionRange", "Segment", "pointed_position", "pointed_segment"]


@dataclass(frozen=True, slots=True)
class PositionRange:
    """The positions `first <= p < stop` of a level at the present coordinates; only `first` if `stop` is None.

    `present` is the condition that there are any; None if there certainly are. Below an absent level, all levels are
    absent.
    """

    first: Expr
    stop: Expr | None = None
    present: Expr | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """The positions `first <= p < stop` of a level below the present position of the level above.

    Attributes:
        prelude: statements that compute them.
        coordinate: position → coordinate, inside the segment.
        position: the inverse of `coordinate`, if it takes no search; then any coordinate may be given.
    """

    first: Expr
    stop: Expr
    prelude: list[Stmt]
    coordinate: Callable[[Expr], Expr]
    position: Callable[[Expr], Expr] | None = None


class LevelView(Protocol):
    """A level of a pattern inside a kernel, as level functions see it."""

    def load(self, role: str, index: Expr) -> Expr:
        """An element of the level's index array of that role, as a 64-bit integer."""

    def extent(self) -> Expr:
        """The size of the level's dimension."""

    def clamped(self, position: Expr) -> Expr:
        """A position that was read from memory: inside the level's capacity if the pattern is dynamic."""

    def limited(self, first: Expr, stop: Expr) -> tuple[Expr, Expr]:
        """The part of a segment that belongs to the present chunk of a parallel loop."""

    def fresh(self, base: str) -> Var:
        """A new name."""


class LevelFunctions(ABC):
    """The walk of loops over the levels of one kind."""

    @abstractmethod
    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """The coordinates and the positions below the positions `first <= p < stop` of the level above. `arrays` are
        the level's index arrays; positions from dynamic arrays stay below `capacity`."""

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        """The positions below the present position of the level above. Full levels have none: loops run over their
        coordinates."""
        raise NotImplementedError(f"{type(self).__name__} has no segments")

    @abstractmethod
    def below(self, level: LevelView, position: Expr) -> Expr:
        """The number of positions of this level below all positions of the level above before `position`."""


def pointed_segment(
    level: LevelView, above: PositionRange, more: Sequence[tuple[Var, Expr]] = ()
) -> tuple[Var, Var, list[Stmt]]:
    """The first position and the end of the segment below the present position of the level above, and statements
    that set them.

    If that position is absent, nothing is loaded, and the segment is empty. The names in `more` get their values in the
    same place, or 0 if the position is absent.
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
