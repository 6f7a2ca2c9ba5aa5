"""The kinds of output of a kernel: the target's values, the number of its entries, or the entries themselves.

An assembly has the same loops and the same chunks for every kind of output. So one kernel counts exactly the entries
that another one writes.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from jsparse.base.dataclass import dataclass

__all__ = ["Compute", "Coordinates", "Count", "OutputKind", "Write", "read_output", "write_output"]


@dataclass(frozen=True, slots=True)
class Compute:
    """The output is the target's values. Its pattern is known, or it is dense."""

    def __str__(self) -> str:
        return "values"


@dataclass(frozen=True, slots=True)
class Count:
    """The output is the number of entries that each chunk of the outermost loop reaches, an int64.

    If not `exact`, it is an upper bound, computed without a workspace.
    """

    exact: bool = True

    def __str__(self) -> str:
        return "counts" if self.exact else "bounds"


class Coordinates(Enum):
    """The layout in which an assembly writes coordinates.

    NONE writes none, COLUMNS writes [dimension][entry], and LEVELS writes [level][item], with an item of an outer level
    once for all entries below it.
    """

    NONE = "none"
    COLUMNS = "columns"
    LEVELS = "levels"


@dataclass(frozen=True, slots=True)
class Write:
    """The output is the entries that loops reach.

    The operand `starts` has the offset of each chunk's first entry. If coordinates are written, the kernel replaces it
    by the offset of the chunk's end, and skips a chunk that starts at -1.

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
    """Invert `write_output`. Raises ValueError for anything else."""
    match value:
        case ["compute"]:
            return Compute()
        case ["count", bool() as exact]:
            return Count(exact)
        case ["write", str() as coordinates, bool() as values]:
            return Write(Coordinates(coordinates), values)
    raise ValueError(f"expected an output kind, but got {value!r}")
