"""What a kernel produces: the values of its target, how many entries that has, or the entries themselves.

The loops of an assembly are the same whatever they produce, and are divided into the same chunks, so that one kernel
counts what another one writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

__all__ = ["Compute", "Coordinates", "Count", "OutputKind", "Write", "read_output", "write_output"]


@dataclass(frozen=True, slots=True)
class Compute:
    """The target's values, at places that are known."""

    def __str__(self) -> str:
        return "values"


@dataclass(frozen=True, slots=True)
class Count:
    """The number of entries that each chunk of the outermost loop reaches, int64. If not `exact`, an upper bound, which
    takes no workspace."""

    exact: bool = True

    def __str__(self) -> str:
        return "counts" if self.exact else "bounds"


class Coordinates(Enum):
    """How an assembly writes coordinates: not at all, [dimension][entry], or [level][item], each item of a level once
    for all entries below it."""

    NONE = "none"
    COLUMNS = "columns"
    LEVELS = "levels"


@dataclass(frozen=True, slots=True)
class Write:
    """The entries that loops reach. Where each chunk's begin is an operand, `starts`. With coordinates it becomes where
    they end, and a chunk that starts at -1 is left out.

    Attributes:
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
    """An output kind as values of JSON."""
    match output:
        case Compute():
            return ["compute"]
        case Count(exact=exact):
            return ["count", exact]
        case Write(coordinates=coordinates, values=values):
            return ["write", coordinates.value, values]


def read_output(value: list[str | bool]) -> OutputKind:
    """The inverse of `write_output`. Raises ValueError for anything else."""
    match value:
        case ["compute"]:
            return Compute()
        case ["count", bool() as exact]:
            return Count(exact)
        case ["write", str() as coordinates, bool() as values]:
            return Write(Coordinates(coordinates), values)
    raise ValueError(f"expected an output kind, but got {value!r}")
