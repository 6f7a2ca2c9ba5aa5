"""The kinds of output of a problem: the values of a target, the counts of its entries, or the entries."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from jsparse.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Compute:
    """The output kind of a problem that computes the values of its target, which has a known pattern or is dense."""

    def __str__(self) -> str:
        return "values"


@dataclass(frozen=True, slots=True)
class Count:
    """The output kind of an assembly that counts entries: an int64 for each chunk of the outermost loop.

    If not `exact`, the output is an upper bound of each count, computed without a workspace.
    """

    exact: bool = True

    def __str__(self) -> str:
        return "counts" if self.exact else "bounds"


class Coordinates(Enum):
    """The layout in which an assembly writes coordinates.

    NONE writes none, COLUMNS writes [dimension][entry], and LEVELS writes [level][item]. An item of an outer level is
    written once for all entries below it.
    """

    NONE = "none"
    COLUMNS = "columns"
    LEVELS = "levels"


@dataclass(frozen=True, slots=True)
class Write:
    """The output kind of an assembly that writes the entries that loops reach.

    The operand `starts` has the offset of each chunk's first entry. If coordinates are written, the kernel replaces
    this offset by the offset of the chunk's end, and skips a chunk that starts at -1.

    Attributes:
        coordinates: the layout of the coordinates.
        values: whether the sums of products are written, one for each entry.
    """

    coordinates: Coordinates
    values: bool = False

    def __str__(self) -> str:
        if self.coordinates is Coordinates.NONE:
            return "listed values"
        if self.values:
            return "entries"
        return "levels" if self.coordinates is Coordinates.LEVELS else "coordinates"


OutputKind: TypeAlias = Compute | Count | Write


def write_output(output: OutputKind) -> list[str | bool]:
    """Convert an output kind to JSON values."""
    match output:
        case Compute():
            return ["compute"]
        case Count(exact=exact):
            return ["count", exact]
        case Write(coordinates=coordinates, values=values):
            return ["write", coordinates.value, values]


def read_output(value: list[str | bool]) -> OutputKind:
    """Read an output kind that `write_output` has converted. Raises ValueError for any other value."""
    match value:
        case ["compute"]:
            return Compute()
        case ["count", bool() as exact]:
            return Count(exact)
        case ["write", str() as coordinates, bool() as values]:
            return Write(Coordinates(coordinates), values)
    raise ValueError(f"expected an output kind, but got {value!r}")
