"""Domains of loops: where the values of an index variable come from."""

from __future__ import annotations

from typing import TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.compiler.statement import DerivedVar
from jsparse.notation.assignment import IndexVar


@dataclass(frozen=True, slots=True)
class Range:
    """Every coordinate of the variable; with `panel`, only the coordinates in the present panel. With `lanes`, the body
    stores a value computed from a sum in lanes. The sums at `lanes` coordinates are then reduced to scalars together.
    """

    panel: bool = False
    lanes: int = 0

    def __str__(self) -> str:
        return "range in the panel" if self.panel else "range"


@dataclass(frozen=True, slots=True)
class Fused:
    """Every pair of coordinates of two variables. The second variable changes fastest."""

    outer: IndexVar
    inner: IndexVar

    def __str__(self) -> str:
        return f"range of {self.outer} times range of {self.inner}"


@dataclass(frozen=True, slots=True)
class LevelIteration:
    """The entries of a pattern's level below the present position of the level above. With `bound`, outer loops set the
    variable, and the loop only looks up the entry at its value. With `scattered`, it finds this entry in a map of the
    segment (`nest.Scatter`). With `panel`, it visits only the entries in the present panel of the variable. With
    `by_position`, it runs over positions, so that a split divides positions instead of coordinates.

    With `lanes`, a power of two, the loop works on `lanes` positions at a time. If the body adds to a scalar, each lane
    has its own accumulator. At the end, the upper half of the accumulators is added to the lower half until one is
    left. Fewer than `lanes` positions remain, and their terms are added one by one to another accumulator. The sum of
    both accumulators is added to the scalar. So the order of additions depends only on the number of positions.
    """

    pattern: int
    level: int
    bound: bool = False
    panel: bool = False
    by_position: bool = False
    lanes: int = 0
    scattered: bool = False

    def __str__(self) -> str:
        bound = " (already bound, in the map)" if self.scattered else " (already bound)"
        which = bound if self.bound else " in the panel" if self.panel else ""
        return f"{'positions of ' if self.by_position else ''}P{self.pattern}.{self.level}{which}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """The first coordinate of each tile of `lanes` coordinates; the last tile may be shorter. If `wide` is not 0, and
    there are enough tiles of `wide` lanes for all threads of a parallel loop, the tiles have `wide` lanes."""

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
    """The first coordinate of each panel of `size` coordinates. A loop inside runs only over the coordinates or entries
    in the panel: in each segment, it continues where the previous panel ended."""

    size: int

    def __str__(self) -> str:
        return f"panels of {self.size}"


@dataclass(frozen=True, slots=True)
class PositionPanels:
    """The first position of each panel of `size` positions in a segment. A loop inside walks those positions only."""

    pattern: int
    level: int
    size: int

    def __str__(self) -> str:
        return f"panels of {self.size} positions of P{self.pattern}.{self.level}"


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of at most `size` iterations of an inner loop, whose domain is `of`. The inner loop executes only the
    iterations in the present run (`Forall.run`). Iterations are counted across the loops in between, so a run may
    continue from one segment to the next. There is at least one run, even if the inner loop has no iterations."""

    of: Range | LevelIteration | Tiles
    size: int

    def __str__(self) -> str:
        return f"runs of {self.size} of {self.of}"


@dataclass(frozen=True, slots=True)
class WorkspaceLanes:
    """All lanes of a workspace. The body adds them to a scalar, in a fixed order."""

    def __str__(self) -> str:
        return "reduced lanes"


@dataclass(frozen=True, slots=True)
class Coiteration:
    """The coordinates at which some term has entries: a merge lattice of two layers (Kjolstad et al., 2017).

    `terms` has, for each term, the levels that meet here: the levels of a term are intersected, and the terms are
    united. A term with no levels, or with dense levels only, has every coordinate, so all coordinates are visited. If
    a level has no entry at a coordinate, the segment below it is empty there.
    """

    terms: tuple[tuple[LevelIteration, ...], ...]

    def __str__(self) -> str:
        terms = [" and ".join(map(str, term)) or "all" for term in self.terms]
        return " or ".join(f"({term})" if " " in term and len(terms) > 1 else term for term in terms)


@dataclass(frozen=True, slots=True)
class Derivation:
    """The single coordinate that is a weighted sum of other variables, if this sum is below the variable's size."""

    derived: DerivedVar

    def __str__(self) -> str:
        return self.derived.sum


@dataclass(frozen=True, slots=True)
class WorkspaceNonzeros:
    """The coordinates at which a sparse workspace was written, ascending. The loop empties the workspace."""

    workspace: str

    def __str__(self) -> str:
        return f"nonzeros of {self.workspace}"


Domain: TypeAlias = (
    Range
    | LevelIteration
    | Tiles
    | Lanes
    | Panels
    | PositionPanels
    | Fused
    | Runs
    | WorkspaceLanes
    | Coiteration
    | Derivation
    | WorkspaceNonzeros
)


def is_lookup(domain: Domain) -> bool:
    """Whether a loop over the domain has at most one iteration, because outer loops determine its variable."""
    return isinstance(domain, Derivation) or (isinstance(domain, LevelIteration) and domain.bound)
