"""The base class of the kinds of levels, and the lengths of index arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

__all__ = ["LevelKind", "array_length"]


class _Extensible(Protocol):
    def __add__(self, more: int, /) -> Self: ...


_Length = TypeVar("_Length", bound=_Extensible)  # a number, or a symbolic length of the compiler


class LevelKind(ABC):
    """A kind of level: its index arrays, and the properties that formats and loops ask for.

    The properties are from Chou et al., "Format abstraction for sparse tensor algebra compilers" (2018). There is
    one instance of each kind, and `str` gives its word in MLIR's notation of formats.

    Attributes:
        name: the word in MLIR's notation.
        code: the kind's number in the extension (`csrc/levels/levels.h`).
        letters: the letters for a unique level, and for a nonunique one if the kind may repeat coordinates. Names of
            bound arrays contain them.
        arrays: the role of each index array, in storage order: pointers, starts or coordinates (see `array_length` for
            their lengths).
        is_full: every coordinate of the dimension has a position below every parent.
        is_branchless: each position of the level above has exactly one position here.
        has_gaps: a position may have no entry below it.
        stores_runs: below each parent the positions are a run of coordinates; some may be gaps.
        appends: an assembly can append entries one after the other, in storage order.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    letters: ClassVar[tuple[str, ...]]
    arrays: ClassVar[tuple[str, ...]]
    is_full: ClassVar[bool] = False
    is_branchless: ClassVar[bool] = False
    has_gaps: ClassVar[bool] = False
    stores_runs: ClassVar[bool] = False
    appends: ClassVar[bool] = True

    @property
    def has_pointers(self) -> bool:
        """Whether pointers delimit the segment of positions below each parent."""
        return "pointers" in self.arrays

    @property
    def has_coordinates(self) -> bool:
        """Whether an array holds the coordinate of each position."""
        return "coordinates" in self.arrays

    @property
    def has_segments(self) -> bool:
        """Whether pointers delimit segments of coordinates."""
        return self.has_pointers and self.has_coordinates

    @property
    def may_repeat(self) -> bool:
        """Whether a level of this kind can be nonunique."""
        return len(self.letters) > 1

    @property
    def counts_positions(self) -> bool:
        """Whether the lengths of the index arrays, or the dimension, determine the number of positions."""
        return self.is_full or self.has_coordinates

    @abstractmethod
    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        """The number of positions below `parents` positions, for a dimension of size `extent`. It is -1 if the level's
        own `arrays` are too short to say."""

    @abstractmethod
    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        """The largest number of positions that `entries` entries below `parents` positions can have. `last`: no sparse
        level follows, so positions are counted as entries."""

    @abstractmethod
    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        """The first fault of the level's own arrays, except for coordinates; None if there is none. The two texts
        complete the sentence "Expected the {} of level n {}"."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> str:  # pickled as the constant of this name in its module
        return self.name.upper()


def array_length(role: str, parents: _Length, positions: _Length) -> _Length:
    """The length of a level's index array, from its role and the numbers of parents and positions."""
    return parents + 1 if role == "pointers" else parents if role == "starts" else positions
