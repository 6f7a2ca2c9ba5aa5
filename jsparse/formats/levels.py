"""Storage levels: their kinds, and the levels of a format.

The properties of kinds are from Chou et al., "Format abstraction for sparse tensor algebra compilers" (2018).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.errors import FormatError


class _Extensible(Protocol):
    def __add__(self, more: int, /) -> Self: ...


T = TypeVar("T")
_Length = TypeVar("_Length", bound=_Extensible)  # a number, or a symbolic length of the compiler


class LevelKind(ABC):
    """A kind of level: its index arrays, and the properties on which formats and loops depend.

    There is one instance of each kind, and `str` returns its word in MLIR's notation of formats.

    Attributes:
        name: the word in MLIR's notation.
        code: the kind's number in the extension (`csrc/levels/levels.h`).
        letters: the letter of a unique level and, if the kind may repeat coordinates, the letter of a nonunique level.
            The names of bound arrays contain these letters.
        arrays: the role of each index array, in storage order: pointers, starts or coordinates (see `array_length` for
            their lengths).
        is_full: every coordinate of the dimension has a position below every parent.
        is_branchless: each position of the level above has exactly one position here.
        has_gaps: a position may have no entry below it.
        stores_runs: below each parent, the positions stand for consecutive coordinates; some positions may be gaps.
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
        """Whether a level has pointers and coordinates: the pointers delimit the coordinates below each parent."""
        return self.has_pointers and self.has_coordinates

    @property
    def may_repeat(self) -> bool:
        """Whether a level of this kind can be nonunique."""
        return len(self.letters) > 1

    @property
    def counts_positions(self) -> bool:
        """Whether lengths of index arrays, or the dimension's size, determine the number of positions."""
        return self.is_full or self.has_coordinates

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        """The number of positions below `parents` positions, for a dimension of size `extent`.

        It is -1 if the `arrays` of the level are too short to determine it.
        """
        return int(arrays[0][-1]) if len(arrays[0]) else -1  # the last pointer

    @abstractmethod
    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        """The largest number of positions in a level that stores `entries` entries below `parents` positions.

        `last` says that no sparse level is below this level. Then every position counts as an entry.
        """

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        """Describe the first fault of the level's arrays; None if there is no fault. It checks no coordinates.

        The two texts of the result complete the sentence "Expected the {} of level n {}".
        """
        return pointers_fault(parents, arrays[0]) if self.has_pointers else None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> str:  # pickled as the constant of this name in its module
        return self.name.upper()


def is_single(levels: Sequence[Level], number: int) -> bool:
    """Whether a level has exactly one entry for each entry of the level above."""
    return number > 0 and levels[number].kind.is_branchless and levels[number - 1].unique


def array_length(role: str, parents: _Length, positions: _Length) -> _Length:
    """Compute the length of a level's index array from the array's role and the numbers of parents and positions."""
    return parents + 1 if role == "pointers" else parents if role == "starts" else positions


class _Dense(LevelKind):
    """A level that has every coordinate of the dimension below every parent, and no index arrays.

    position = parent * extent + coordinate
    """

    name, code, letters = "dense", 0, ("d",)
    arrays = ()
    is_full = True
    has_gaps = True

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        return parents * extent

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return parents * extent


class _Compressed(LevelKind):
    """A level that stores the coordinates of entries, in a segment for each parent.

    pointers[parent] <= position < pointers[parent + 1], coordinate = coordinates[position]
    """

    name, code, letters = "compressed", 1, ("c", "n")
    arrays = ("pointers", "coordinates")

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return entries

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        (pointers, coordinates), fault = arrays, super().fault(parents, extent, arrays)
        if fault is None and pointers[-1] != len(coordinates):
            return (
                "last of the pointers",
                f"to be the number of coordinates, {len(coordinates)}, but got {pointers[-1]}",
            )
        return fault


def pointers_fault(parents: int, pointers: np.ndarray) -> tuple[str, str] | None:
    """Describe the first fault of the pointers to the segments below `parents` positions (see `LevelKind.fault`)."""
    if len(pointers) != parents + 1:
        return "pointers", f"to be {parents + 1} long, one more than its {parents} parents, but got {len(pointers)}"
    if pointers[0] != 0:
        return "pointers", f"to start at 0, but they start at {pointers[0]}"
    falling = pointers[:-1] > pointers[1:]
    if falling.any():
        at = int(np.argmax(falling))
        return "pointers", f"never to decrease, but {pointers[at]} is followed by {pointers[at + 1]} at {at + 1}"
    return None


class _Singleton(LevelKind):
    """A level that stores one coordinate for each position of the level above.

    position = parent, coordinate = coordinates[position]
    """

    name, code, letters = "singleton", 2, ("s", "m")
    arrays = ("coordinates",)
    is_branchless = True

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        return parents

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return parents


class _Range(LevelKind):
    """A level that has a run of consecutive coordinates below each parent, and stores where each run starts.

        pointers[parent] <= position < pointers[parent + 1], coordinate = starts[parent] + position - pointers[parent]

    A run extends from the first entry of a parent to the last. Coordinates between them without an entry are gaps,
    which are stored as zeros. Band, skyline and causal-window matrices take one pointer and one start for each row, and
    no coordinates. A parent without entries has an empty run that starts at 0, so equal patterns have equal arrays.
    """

    name, code, letters = "range", 3, ("r",)
    arrays = ("pointers", "starts")
    has_gaps = True
    stores_runs = True
    appends = False

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return min(parents * extent, entries) if last else parents * extent  # levels below need positions of gaps

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        (pointers, starts), fault = arrays, super().fault(parents, extent, arrays)
        if fault is not None:
            return fault
        if len(starts) != parents:
            return "starts", f"to be {parents} long, one for each parent, but got {len(starts)}"
        lengths = pointers[1:].astype(np.int64) - pointers[:-1]
        outside = (starts < 0) | (starts > extent - lengths) | ((lengths == 0) & (starts != 0))
        if outside.any():
            at = int(np.argmax(outside))
            run = f"the run of {lengths[at]} coordinates from {starts[at]} on at {at}"
            empty = " (an empty run starts at 0)" if lengths[at] == 0 else ""
            return "runs of coordinates", f"to lie in [0, {extent}){empty}, but got {run}"
        return None


DENSE, COMPRESSED, SINGLETON, RANGE = _Dense(), _Compressed(), _Singleton(), _Range()

KINDS: dict[str, LevelKind] = {kind.name: kind for kind in (DENSE, COMPRESSED, SINGLETON, RANGE)}
_BY_CODE = {kind.code: kind for kind in KINDS.values()}


def kind_of_code(code: int) -> LevelKind | None:
    """Return the kind with this code in the extension; None if there is none."""
    return _BY_CODE.get(code)


def kind_words() -> str:
    """The names of all kinds, for messages: "dense, compressed, singleton or range"."""
    *others, last = KINDS
    return f"{', '.join(others)} or {last}"


MOST_DIMENSIONS = 64  # the limit of numpy's arrays and of the extension's layouts


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension expression. So far there is only one kind: the coordinate in dimension `dim` itself.

    MLIR's sparse encodings also have expressions for blocks, such as `d0 floordiv 4` and `d0 mod 4`.

    Raises FormatError for a negative dimension.
    """

    dim: int

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise FormatError(f"Expected a level to store a dimension >= 0, but it stores dimension {self.dim}.")

    def __str__(self) -> str:
        return f"d{self.dim}"


@dataclass(frozen=True, slots=True, init=False)
class Level:
    """A storage level: its kind, the dimension that it stores, and whether coordinates are unique within their parent.

    Args:
        kind: the kind.
        stores: the dimension expression that gives the level's coordinates. An integer n stands for the coordinate in
            dimension n.
        unique: whether no coordinate repeats below one position of the level above.

    Raises FormatError for a negative dimension, and for a nonunique level whose kind cannot repeat coordinates.
    """

    kind: LevelKind
    stores: Dimension
    unique: bool

    def __init__(self, kind: LevelKind, stores: Dimension | int, unique: bool = True) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "stores", stores if isinstance(stores, Dimension) else Dimension(stores))
        object.__setattr__(self, "unique", unique)
        self._check()

    def _check(self) -> None:
        if not self.unique and not self.kind.may_repeat:
            raise FormatError(
                f"Expected the {self.kind} level of dimension {self.dim} to be unique, because {self.kind} levels have "
                "each coordinate at most once, but it is nonunique. Leave nonunique out."
            )

    @property
    def dim(self) -> int:
        """The dimension that the level stores."""
        return self.stores.dim

    def __str__(self) -> str:
        return self.kind.name if self.unique else f"{self.kind}(nonunique)"


def with_arrays(levels: Sequence[Level], arrays: Iterable[T]) -> list[tuple[Level, list[T]]]:
    """Return each level with its index arrays, or with what there is in place of each array."""
    left = iter(arrays)
    return [(level, list(islice(left, len(level.kind.arrays)))) for level in levels]


def is_dense_cheap(size: float, entries: int) -> bool:
    """Whether an array of `size` elements takes at most a few times the memory of `entries` stored coordinates.

    So the outermost level of a pattern is dense if the program chooses its format: its pointers then take at most the
    bytes of four coordinates for each entry. Patterns of a few entries are dense as well.
    """
    return size <= 4 * entries + 64


def check_dimensions(ndim: int) -> None:
    """Raise FormatError for more dimensions than a tensor may have."""
    if ndim > MOST_DIMENSIONS:
        raise FormatError(
            f"Expected a tensor of at most {MOST_DIMENSIONS} dimensions, the limit of NumPy, but got {ndim:,}. Flatten "
            "some."
        )


def dimension_name(dim: int, ndim: int) -> str:
    """The name of dimension `dim` in notations: i, j, k, … or, past 16 dimensions, d0, d1, …"""
    return "ijklmnopqrstuvwx"[dim] if ndim <= 16 else f"d{dim}"
