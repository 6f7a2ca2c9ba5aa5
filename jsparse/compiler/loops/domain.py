"""What a loop runs over: where the values of an index variable come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Coiteration",
    "Domain",
    "HorizontalReduce",
    "Lanes",
    "LevelIteration",
    "Panels",
    "Range",
    "Runs",
    "Tiles",
    "WorkspaceNonzeros",
]


@dataclass(frozen=True, slots=True)
class Range:
    """Every coordinate of the variable."""

    def __str__(self) -> str:
        return "range"


@dataclass(frozen=True, slots=True)
class LevelIteration:
    """The entries of a pattern's level below the present position. `bound`: only those that the variable names.
    `panel`: only those in the present panel of the variable."""

    pattern: int
    level: int
    bound: bool = False
    panel: bool = False

    def __str__(self) -> str:
        which = " (already bound)" if self.bound else " in the panel" if self.panel else ""
        return f"P{self.pattern}.{self.level}{which}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """The first coordinate of each run of `lanes` coordinates; the last run holds what is left. Runs of `wide`
    coordinates, unless that is 0, where these are enough for all threads."""

    lanes: int
    wide: int = 0

    def __str__(self) -> str:
        return f"tiles of {self.lanes}{f' or {self.wide}' if self.wide else ''} lanes"


@dataclass(frozen=True, slots=True)
class Lanes:
    """The coordinates of the present tile, all at once in vector registers."""

    def __str__(self) -> str:
        return "lanes"


@dataclass(frozen=True, slots=True)
class Panels:
    """The first coordinate of each run of `size` coordinates. Stored entries inside are walked run by run: a segment
    goes on where it ended in the run before."""

    size: int

    def __str__(self) -> str:
        return f"panels of {self.size}"


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of at most `size` turns of the loop over `of` that stands inside, which then takes only those in the present
    run (`Forall.run`). Turns are counted through all loops around that one, so a run goes on from one segment to the
    next. There is one run at least."""

    of: Range | LevelIteration | Tiles
    size: int

    def __str__(self) -> str:
        return f"runs of {self.size} of {self.of}"


@dataclass(frozen=True, slots=True)
class HorizontalReduce:
    """All lanes of a workspace, added together in a fixed order."""

    def __str__(self) -> str:
        return "reduced lanes"


@dataclass(frozen=True, slots=True)
class Coiteration:
    """The coordinates at which some term has entries: a merge lattice of two layers (Kjolstad et al., 2017).

    Of each term, the levels that meet here: they intersect; the terms unite. A term for which none are given, or only
    dense ones, has every coordinate, so all are visited. Whatever is not there has no entries further in.
    """

    terms: tuple[tuple[LevelIteration, ...], ...]

    def __str__(self) -> str:
        terms = [" and ".join(map(str, term)) or "all" for term in self.terms]
        return " or ".join(f"({term})" if " " in term and len(terms) > 1 else term for term in terms)


@dataclass(frozen=True, slots=True)
class WorkspaceNonzeros:
    """The coordinates at which a workspace was written, in ascending order; it is empty afterwards."""

    workspace: str

    def __str__(self) -> str:
        return f"nonzeros of {self.workspace}"


Domain: TypeAlias = (
    Range | LevelIteration | Tiles | Lanes | Panels | Runs | HorizontalReduce | Coiteration | WorkspaceNonzeros
)
