"""The nodes of a loop nest: concrete index notation with domains, tiles and workspaces.

    LoopNest := [clear target] Stmt
    Stmt     := ∀ var ∈ Domain Stmt | where(workspace, producer, consumer) | target (=|+=) Π factors
    Domain   := Range | Stored | Tiles | Lanes | Fold

SpMM, `C[i, k] = A[i, j] * B[j, k]` with A in csr and 128 columns, reads:

    ∀ i ∈ A.1 in parallel
      ∀ k₀ ∈ tiles of k, 64 lanes
        acc[k] = 0
          ∀ j ∈ A.2
            ∀ k ∈ lanes of k₀
              acc[k] += A[i, j] * B[j, k]
        ∀ k ∈ lanes of k₀
          C[i, k] = acc[k]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jsparse.compiler.problem import Problem
from jsparse.notation.assignment import Access, IndexVar

__all__ = [
    "Assign",
    "Domain",
    "Fold",
    "Forall",
    "Lanes",
    "LoopNest",
    "Parallel",
    "Range",
    "Stmt",
    "Stored",
    "Tiles",
    "Where",
    "Workspace",
]


@dataclass(frozen=True, slots=True)
class Range:
    """Every coordinate of the variable."""

    def __str__(self) -> str:
        return "range"


@dataclass(frozen=True, slots=True)
class Stored:
    """The entries of a pattern's level below the present position. `bound`: only those that the variable names."""

    pattern: int
    level: int
    bound: bool = False

    def __str__(self) -> str:
        return f"P{self.pattern}.{self.level}{' (already bound)' if self.bound else ''}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """The first coordinate of each run of `lanes` coordinates; the last run holds what is left."""

    lanes: int

    def __str__(self) -> str:
        return f"tiles of {self.lanes} lanes"


@dataclass(frozen=True, slots=True)
class Lanes:
    """The coordinates of the present tile, all at once in vector registers."""

    def __str__(self) -> str:
        return "lanes"


@dataclass(frozen=True, slots=True)
class Fold:
    """All lanes of a workspace, added together in a fixed order."""

    def __str__(self) -> str:
        return "folded lanes"


Domain: TypeAlias = Range | Stored | Tiles | Lanes | Fold


@dataclass(frozen=True, slots=True)
class Parallel:
    """Chunks of a loop run in parallel. The division depends on the pattern alone, so results are bit-equal for any
    number of threads.

    owned: each iteration owns its part of the target.
    reduced: each chunk has its own copy of the workspace; the copies are added in the order of the chunks.
    """

    mode: Literal["owned", "reduced"]
    grain: int  # stored entries (or iterations) a chunk should have at least

    def __str__(self) -> str:
        return f"in parallel, {self.mode}, ≥ {self.grain:,} entries a chunk"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scalar, or `lanes` lanes of `var`, kept in registers."""

    name: str
    dtype: str
    var: IndexVar | None = None
    lanes: int = 1

    def access(self) -> Access:
        """The notation of its use."""
        return Access(self.name, () if self.var is None else (self.var,))


@dataclass(frozen=True, slots=True)
class Assign:
    """`target (= | +=) Π factors`."""

    target: Access
    accumulate: bool
    factors: tuple[Access, ...]

    def __str__(self) -> str:
        return f"{self.target} {'+=' if self.accumulate else '='} {' * '.join(map(str, self.factors)) or '1'}"


@dataclass(frozen=True, slots=True)
class Forall:
    """`∀ var ∈ domain body`. `prefetch`: how many entries ahead the rows gathered in the body are asked for."""

    var: IndexVar
    domain: Domain
    body: Stmt
    parallel: Parallel | None = None
    prefetch: int = 0

    def __str__(self) -> str:
        extras = [str(self.parallel)] if self.parallel else []
        extras += [f"prefetching {self.prefetch} ahead"] if self.prefetch else []
        return " ".join([f"∀ {self.var} ∈ {self.domain}", ", ".join(extras)]).rstrip()


@dataclass(frozen=True, slots=True)
class Where:
    """The producer fills the workspace from zero, then the consumer reads it."""

    workspace: Workspace
    producer: Stmt
    consumer: Stmt


Stmt: TypeAlias = Forall | Where | Assign


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A statement over the tensors of `problem`; `clear`: the target is set to zero first."""

    problem: Problem
    clear: bool
    body: Stmt

    def __str__(self) -> str:
        head = [f"{self.problem.assignment.target} = 0"] if self.clear else []
        return "\n".join([*head, *_lines(self.body, "")])


def _lines(stmt: Stmt, indent: str) -> Iterator[str]:
    match stmt:
        case Forall(body=body):
            yield indent + str(stmt)
            yield from _lines(body, indent + "  ")
        case Where(workspace=workspace, producer=producer, consumer=consumer):
            yield f"{indent}{workspace.access()} = 0"
            yield from _lines(producer, indent + "  ")
            yield from _lines(consumer, indent)
        case Assign():
            yield indent + str(stmt)
