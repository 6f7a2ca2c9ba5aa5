"""Level functions: for each kind of level, the functions with which loops and interpreters walk levels of that kind.

See Chou et al., "Format abstraction for sparse tensor algebra compilers" (2018). Loops run over the positions of a
level, and `segment` gives the coordinate of each position. Over a dense level, loops run over coordinates, and compute
the position as parent * extent + coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from jsparse.base.dataclass import dataclass
from jsparse.compiler.kernel.algebra import add, block, const, mul, sub
from jsparse.compiler.kernel.nodes import Bind, Declare, Expr, If, Select, Set, Stmt, Var
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, SINGLETON, LevelKind


@dataclass(frozen=True, slots=True)
class PositionRange:
    """Positions of a level at the current coordinates: `first <= p < stop`, or only `first` if `stop` is None.

    `present` is the condition under which these positions exist; None if they always exist. If a level has no positions
    at the current coordinates, the levels below it have no positions either.
    """

    first: Expr
    stop: Expr | None = None
    present: Expr | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """The positions `first <= p < stop` of a level below the current position of the level above.

    Attributes:
        prelude: statements that compute the values that the other fields use, such as the bounds.
        coordinate: maps a position inside the segment to its coordinate.
        position: the inverse of `coordinate`, which accepts any coordinate; None if the inverse takes a search.
    """

    first: Expr
    stop: Expr
    prelude: list[Stmt]
    coordinate: Callable[[Expr], Expr]
    position: Callable[[Expr], Expr] | None = None


class LevelView(Protocol):
    """The interface through which level functions use a level of a pattern inside a kernel."""

    def load(self, role: str, index: Expr) -> Expr:
        """Load an element of an index array of the level, as a 64-bit integer. `role` is, for example, "pointers"."""

    def extent(self) -> Expr:
        """The size of the level's dimension."""

    def clamp_position(self, position: Expr) -> Expr:
        """Clamp a position that was read from memory to the level's capacity, if the pattern is dynamic."""

    def restrict_to_chunk(self, first: Expr, stop: Expr) -> tuple[Expr, Expr]:
        """Restrict the bounds of a segment to the current chunk of a parallel loop."""

    def fresh(self, base: str) -> Var:
        """Return a variable with a new name, which begins with `base`."""


class LevelFunctions:
    """The functions with which loops walk levels of one kind."""

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        """Return the segment below the current position of the level above. Dense levels have no segments: loops run
        over their coordinates."""
        raise NotImplementedError(f"{type(self).__name__} has no segments")

    def below(self, level: LevelView, position: Expr) -> Expr:
        """Return how many positions of this level are below the positions 0, ..., `position` - 1 of the level above. If
        the level has pointers, they say it."""
        return level.clamp_position(level.load("pointers", position))


def load_segment_bounds(
    level: LevelView, above: PositionRange, more: Sequence[tuple[Var, Expr]] = ()
) -> tuple[Var, Var, list[Stmt]]:
    """Return variables for the bounds of the segment below the current position of the level above, and statements
    that set them.

    If that position is absent, nothing is loaded, and the segment is empty. The statements also set the variables in
    `more` to their values, or to 0 if the position is absent.
    """
    first, stop = level.fresh("first"), level.fresh("stop")
    here, below = level.load("pointers", above.first), level.load("pointers", add(above.first, const(1)))
    lo, hi = level.clamp_position(here), level.clamp_position(below)
    if above.present is None:
        lo, hi = level.restrict_to_chunk(lo, hi)
        return first, stop, [Bind(name, value) for name, value in ((first, lo), (stop, hi), *more)]
    loads = block(*(Set(name, value) for name, value in ((first, lo), (stop, hi), *more)))
    zeros = [Declare(name, const(0)) for name in (first, stop, *(name for name, _ in more))]
    return first, stop, [*zeros, If(above.present, loads)]


class _DenseFunctions(LevelFunctions):
    """The functions of dense levels. Loops run over coordinates: position = parent * extent + coordinate."""

    def below(self, level: LevelView, position: Expr) -> Expr:
        return mul(position, level.extent())


class _CompressedFunctions(LevelFunctions):
    """The functions of compressed levels, whose pointers delimit segments of sorted coordinates.

    Loops run over positions. A bisection finds the position of a coordinate.
    """

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        first, stop, prelude = load_segment_bounds(level, above)
        return Segment(first, stop, prelude, lambda position: level.load("coordinates", position))


class _SingletonFunctions(LevelFunctions):
    """The functions of singleton levels. Each position of the level above has one position here, with the same number.

    Loops run over these positions.
    """

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        first = above.first
        stop = add(first, const(1)) if above.stop is None else above.stop
        stop = stop if above.present is None else Select(above.present, stop, first)
        return Segment(first, stop, [], lambda position: level.load("coordinates", position))

    def below(self, level: LevelView, position: Expr) -> Expr:
        return position


class _RangeFunctions(LevelFunctions):
    """The functions of range levels, where the coordinates of a segment are consecutive.

    Loops run over positions, and a coordinate is located by arithmetic. Below parent q, coordinate = position + offset,
    where offset = starts[q] - pointers[q]. So coordinates take two loads for each segment, and none for each entry.
    """

    def segment(self, level: LevelView, above: PositionRange) -> Segment:
        offset = level.fresh("offset")
        difference = sub(level.load("starts", above.first), level.load("pointers", above.first))
        first, stop, prelude = load_segment_bounds(level, above, [(offset, difference)])
        return Segment(first, stop, prelude, lambda position: add(position, offset), lambda c: sub(c, offset))


FUNCTIONS: dict[LevelKind, LevelFunctions] = {
    DENSE: _DenseFunctions(),
    COMPRESSED: _CompressedFunctions(),
    SINGLETON: _SingletonFunctions(),
    RANGE: _RangeFunctions(),
}
"""The functions of each kind of level."""
