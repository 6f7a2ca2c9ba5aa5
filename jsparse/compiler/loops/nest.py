"""The nodes of a loop nest: concrete index notation with domains, tiles and workspaces.

    LoopNest := [clear target] Stmt
    Stmt     := ∀ var ∈ Domain Stmt | where(workspace, producer, consumer) | target (=|⊕=) ⊗ factors [if condition]
              | append target | Stmt append edges | reserve | Stmt; … ; Stmt | if term Stmt
              | with a copy of a tensor's panel Stmt
    Domain   := Range | LevelIteration | Coiteration | Tiles | Lanes | HorizontalReduce | Panels | Runs
              | WorkspaceNonzeros

SpMM, `C[i, k] = A[i, j] * B[j, k]` with A in csr and 128 columns, reads:

    ∀ i ∈ A.1 in parallel
      ∀ k₀ ∈ tiles of k, 64 lanes
        acc[k] = 0
          ∀ j ∈ A.2
            ∀ k ∈ lanes of k₀
              acc[k] += A[i, j] * B[j, k]
        ∀ k ∈ lanes of k₀
          C[i, k] = acc[k]

and the product of two csr matrices, assembled row by row:

    ∀ i ∈ P0.0 in parallel
      row[k] = 0
        if term 0
          ∀ j ∈ P0.1
            ∀ k ∈ P1.1
              row[k] += A[i, j] * B[j, k]
      ∀ k ∈ nonzeros of row
        append C[i, k] = row[k]
      append edges C[i]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jsparse.compiler.loops.domain import Domain, LevelIteration
from jsparse.compiler.problem import Problem, condition_text
from jsparse.notation.assignment import Access, IndexVar

__all__ = [
    "AppendCoord",
    "AppendEdges",
    "Assign",
    "Forall",
    "LoopNest",
    "Pack",
    "Parallel",
    "ReserveUpperBound",
    "Sequence",
    "SparseWorkspace",
    "Stmt",
    "TermGuard",
    "Where",
    "Workspace",
]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Chunks of a loop run in parallel. The division depends on the pattern alone, so results are bit-equal for any
    number of threads.

    owned: each iteration owns its part of the target.
    split: the same, but long segments of the second level are cut; what a chunk has of a segment that began in another
        one is added in the order of the chunks.
    reduced: each chunk has its own copy of the workspace; the copies are added in the order of the chunks.
    """

    mode: Literal["owned", "split", "reduced"]
    grain: int  # stored entries (or iterations) a chunk should have at least

    def __str__(self) -> str:
        return f"in parallel, {self.mode}, ≥ {self.grain:,} entries a chunk"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scalar, or `lanes` lanes of `var`, kept in registers.

    Attributes:
        checked: if nothing was added to it, products that read it contribute nothing: they would be 0 otherwise, but
            for those with an infinite factor.
    """

    name: str
    dtype: str
    var: IndexVar | None = None
    lanes: int = 1
    checked: bool = False

    def access(self) -> Access:
        """The notation of its use."""
        return Access(self.name, () if self.var is None else (self.var,))


@dataclass(frozen=True, slots=True)
class SparseWorkspace:
    """A workspace over all coordinates of `var` that knows which of them were written; without `var`, a scalar that
    knows whether it was. With dtype "" it holds no values."""

    name: str
    dtype: str
    var: IndexVar | None

    def access(self) -> Access:
        """The notation of its use."""
        return Access(self.name, () if self.var is None else (self.var,))


@dataclass(frozen=True, slots=True)
class Assign:
    """`target (= | +=) coefficient * Π factors`, by the problem's semiring. `compared`: what the problem's mask
    compares here; where it does not hold, zero takes the place of the product."""

    target: Access
    accumulate: bool
    factors: tuple[Access, ...]
    coefficient: float = 1
    compared: tuple[Access, ...] = ()

    def text(self, problem: Problem) -> str:
        """The statement in a nest over `problem`."""
        semiring = problem.semiring
        shown = [str(self.coefficient)] * (self.coefficient != 1) + [str(factor) for factor in self.factors]
        product = f" {semiring.multiply} ".join(shown) or f"{semiring.one(problem.tensors[0].dtype):g}"
        stated = f"{self.target} {semiring.add if self.accumulate else ''}= {product}"
        mask = problem.mask if self.compared else None
        return stated if mask is None else f"{stated} if {condition_text(mask, self.compared)}"


@dataclass(frozen=True, slots=True)
class AppendCoord:
    """One more column of coordinates for the list that the target is, or one more to count; perhaps with a value. Where
    the target's levels are built, just the coordinate of `last`, its innermost index: the others have parents."""

    target: Access
    value: Access | None = None
    last: IndexVar | None = None

    def __str__(self) -> str:
        return f"append {self.target}{'' if self.value is None else f' = {self.value}'}"


@dataclass(frozen=True, slots=True)
class ReserveUpperBound:
    """Count as many columns as a loop over `var` would append at most, without running it: of each term the entries of
    the shortest of the levels that meet there, all coordinates if there are none."""

    var: IndexVar
    terms: tuple[tuple[LevelIteration, ...], ...]

    def __str__(self) -> str:
        terms = [" and ".join(map(str, term)) or f"all {self.var}" for term in self.terms]
        return f"reserve at most {' plus '.join(terms)}"


@dataclass(frozen=True, slots=True)
class AppendEdges:
    """The body; then, if it appended anything, the coordinate that this shares: that of the last of `indices`, the
    target's outermost as it stores them, and how much has been appended below so far."""

    target: Access
    indices: tuple[IndexVar, ...]
    body: Stmt

    @property
    def level(self) -> int:
        """Of the target, counted in the order of storage."""
        return len(self.indices) - 1

    def __str__(self) -> str:
        return f"append edges {Access(self.target.tensor, self.indices)}"


@dataclass(frozen=True, slots=True)
class Forall:
    """`∀ var ∈ domain body`.

    Attributes:
        prefetch: how many entries ahead the rows gathered in the body are asked for.
        jam: how many iterations are worked on at a time (see `kernel.jam`).
        run: whether only the turns in the present run are taken, of those that a loop over `Runs` around counts.
    """

    var: IndexVar
    domain: Domain
    body: Stmt
    parallel: Parallel | None = None
    prefetch: int = 0
    jam: int = 1
    run: bool = False

    def __str__(self) -> str:
        extras = ["in the run"] if self.run else []
        extras += [str(self.parallel)] if self.parallel else []
        extras += [f"prefetching {self.prefetch} ahead"] if self.prefetch else []
        extras += [f"{self.jam} at a time"] if self.jam > 1 else []
        return " ".join([f"∀ {self.var} ∈ {self.domain}", ", ".join(extras)]).rstrip()


@dataclass(frozen=True, slots=True)
class Pack:
    """The body, which reads `source[v, k]` as `name[v, k]`: from a copy of the rows of the present panel of `v`, in the
    lanes of the present tile of `k`, that lie close together."""

    name: str
    source: Access
    body: Stmt

    def access(self) -> Access:
        """The notation of its use."""
        return Access(self.name, self.source.indices)

    def __str__(self) -> str:
        return f"{self.access()} = {self.source} in the panel"


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class TermGuard:
    """The body, if the levels of a term that merged loops have met so far all have an entry."""

    term: int
    body: Stmt

    def __str__(self) -> str:
        return f"if term {self.term}"


@dataclass(frozen=True, slots=True)
class Where:
    """The producer fills the workspace from zero, then the consumer reads it; of a scalar row, if it was written."""

    workspace: Workspace | SparseWorkspace
    producer: Stmt
    consumer: Stmt


Stmt: TypeAlias = Forall | Where | Assign | AppendCoord | AppendEdges | ReserveUpperBound | Pack | Sequence | TermGuard


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A statement over the tensors of `problem`.

    Attributes:
        clear: the target is set to zero first.
        widened: all this is done to a copy of the target in float64, which the target becomes at last.
    """

    problem: Problem
    clear: bool
    body: Stmt
    widened: bool = False

    @property
    def adds_in_memory(self) -> bool:
        """Whether sums are added up in the target itself, and not just stored there."""
        target = self.problem.assignment.target.tensor
        return any(s.accumulate and s.target.tensor == target for s in _assignments(self.body))

    def __str__(self) -> str:
        target, wide = self.problem.assignment.target, " (float64)" if self.widened else ""
        head = [f"{target} = {self.problem.zero}{wide}"] if self.clear else []
        tail = [f"{target} in {self.problem.tensors[0].dtype}"] if self.widened else []
        return "\n".join([*head, *_lines(self.body, "", self.problem), *tail])


def _assignments(stmt: Stmt) -> Iterator[Assign]:
    match stmt:
        case Assign():
            yield stmt
        case Forall(body=body) | TermGuard(body=body) | AppendEdges(body=body) | Pack(body=body):
            yield from _assignments(body)
        case Sequence(stmts=stmts):
            for inner in stmts:
                yield from _assignments(inner)
        case Where(producer=producer, consumer=consumer):
            yield from _assignments(producer)
            yield from _assignments(consumer)


def _lines(stmt: Stmt, indent: str, problem: Problem) -> Iterator[str]:
    match stmt:
        case Forall(body=body) | TermGuard(body=body):
            yield indent + str(stmt)
            yield from _lines(body, indent + "  ", problem)
        case Sequence(stmts=stmts):
            for inner in stmts:
                yield from _lines(inner, indent, problem)
        case Where(workspace=workspace, producer=producer, consumer=consumer):
            zero = problem.semiring.zero(workspace.dtype) if workspace.dtype else 0
            wide = f" ({workspace.dtype})" if workspace.dtype not in ("", problem.accumulator) else ""
            yield f"{indent}{workspace.access()} = {zero}{wide}"
            yield from _lines(producer, indent + "  ", problem)
            if isinstance(workspace, Workspace) and workspace.checked:
                yield f"{indent}if {workspace.access()} was added to"
                yield from _lines(consumer, indent + "  ", problem)
                return
            deeper = "" if isinstance(workspace, Workspace) or workspace.var else "  "
            yield from _lines(consumer, indent + deeper, problem)
        case Assign():
            yield indent + stmt.text(problem)
        case AppendCoord() | ReserveUpperBound():
            yield indent + str(stmt)
        case Pack(body=body):
            yield indent + str(stmt)
            yield from _lines(body, indent, problem)
        case AppendEdges(body=body):
            yield from _lines(body, indent, problem)
            yield indent + str(stmt)
