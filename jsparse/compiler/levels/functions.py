"""The base of level functions (Chou et al., "Format abstraction for sparse tensor algebra compilers", 2018).

Loops walk a level by its positions, each of which has a coordinate (`segment`). Only a full level is walked by its
coordinates: the position is parent * extent + coordinate. `entries` is the same walk on numpy arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jsparse.compiler.kernel.nodes import Expr, Stmt, Var

__all__ = ["LevelFunctions", "LevelView", "PositionRange", "Segment"]


@dataclass(frozen=True, slots=True)
class PositionRange:
    """The positions `first <= p < stop` of a level at the present coordinates; only `first` if `stop` is None.

    `present`: whether there are any; None if that is certain. Below an absent level, all levels are absent.
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
        """The part of a segment that the present chunk of a parallel loop has."""

    def fresh(self, base: str) -> Var:
        """A new name."""


class LevelFunctions(ABC):
    """The walk of loops over the levels of one kind."""

    @abstractmethod
    def entries(
        self, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """(coordinate, position) of all positions below the positions `first <= p < stop` of the level above. `arrays`
        are the level's own; positions from dynamic arrays stay below `capacity`."""

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        """The positions below the present position of the level above. Full levels have none: loops run over their
        coordinates."""
        raise NotImplementedError(f"{type(self).__name__} has no segments")

    @abstractmethod
    def below(self, level: LevelView, position: Expr) -> Expr:
        """The number of positions of this level below all positions of the level above before `position`."""
