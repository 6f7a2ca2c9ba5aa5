"""The base of the kinds of levels: a level's properties, and the lengths of its index arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

__all__ = ["LevelKind", "array_length"]


class _Extensible(Protocol):
    def __add__(self, more: int, /) -> Self: ...


_Length = TypeVar("_Length", bound=_Extensible)  # a number, or a length that the compiler knows by name


class LevelKind(ABC):
    """A kind of level: which index arrays it has, and the properties that formats and loops ask for.

    The properties are those of Chou et al., "Format abstraction for sparse tensor algebra compilers" (2018). There is
    one instance of each kind; `str` gives the word in MLIR's notation of formats.

    Attributes:
        name: the word that notations use.
        code: the number by which the extension knows the kind (`csrc/levels/levels.h`).
        letters: the letter in names of bound arrays of a unique level, and of a nonunique one if there can be one.
        arrays: the role of each index array, in storage order: pointers and starts have an element for each parent,
            coordinates one for each position (`array_length`).
        is_full: every coordinate of the dimension has a position below every parent.
        is_branchless: each position of the level above has exactly one position here.
        has_gaps: a position need not have an entry below it.
        appends: entries can be appended one after the other, in storage order, as an assembly in order does.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    letters: ClassVar[tuple[str, ...]]
    arrays: ClassVar[tuple[str, ...]]
    is_full: ClassVar[bool] = False
    is_branchless: ClassVar[bool] = False
    has_gaps: ClassVar[bool] = False
    appends: ClassVar[bool] = True

    @property
    def has_pointers(self) -> bool:
        """Whether the positions below a parent are a segment that pointers delimit."""
        return "pointers" in self.arrays

    @property
    def has_coordinates(self) -> bool:
        """Whether an array holds the coordinate of each position."""
        return "coordinates" in self.arrays

    @property
    def may_repeat(self) -> bool:
        """Whether such a level can be nonunique."""
        return len(self.letters) > 1

    @property
    def counts_positions(self) -> bool:
        """Whether the lengths of the index arrays, or the dimension, determine the number of positions."""
        return self.is_full or self.has_coordinates

    @abstractmethod
    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        """The number of positions below `parents` positions, of a dimension of size `extent`; -1 if the level's own
        `arrays` are too short to tell."""

    @abstractmethod
    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        """The largest number of positions of at most `entries` entries below `parents` positions. `last`: whether the
        positions are those of the entries, since no sparse level follows."""

    @abstractmethod
    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        """The first thing that is wrong with the level's own arrays, its coordinates apart; None if nothing is. The two
        texts complete the sentence "Expected the {} of level n {}"."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> str:  # pickled as the constant of that name in the module of its class
        return self.name.upper()


def array_length(role: str, parents: _Length, positions: _Length) -> _Length:
    """The length of a level's index array, from its role and the numbers of parents and positions."""
    return parents + 1 if role == "pointers" else parents if role == "starts" else positions
