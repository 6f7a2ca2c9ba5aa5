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
    split: the same, but long segments of the second level are cut; carry-outs of the cut ones are added in the order
        of the chunks.
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
        checked: products that read it are left out if nothing was added to it: 0 times an infinite factor is NaN.
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
    """A workspace over all coordinates of `var` that marks the ones written; without `var`, a scalar with one mark.
    With dtype "" it holds no values (Kjolstad et al., 2019)."""

    name: str
    dtype: str
    var: IndexVar | None

    def access(self) -> Access:
        """The notation of its use."""
        return Access(self.name, () if self.var is None else (self.var,))


@dataclass(frozen=True, slots=True)
class Assign:
    """`target (= | +=) coefficient * Π factors`, by the problem's semiring. The product is zero where the
    problem's mask does not hold for the factors in `compared`."""

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
    """Append one entry to the target, or count one: the coordinates of all indices, perhaps with a value. If levels are
    built, only the coordinate of the innermost index, `last`: `AppendEdges` appends the others."""

    target: Access
    value: Access | None = None
    last: IndexVar | None = None

    def __str__(self) -> str:
        return f"append {self.target}{'' if self.value is None else f' = {self.value}'}"


@dataclass(frozen=True, slots=True)
class ReserveUpperBound:
    """Count an upper bound of the entries that a loop over `var` would append, without running it: the sum over terms
    of the shortest segment of the term's levels, or of all coordinates if it has none."""

    var: IndexVar
    terms: tuple[tuple[LevelIteration, ...], ...]

    def __str__(self) -> str:
        terms = [" and ".join(map(str, term)) or f"all {self.var}" for term in self.terms]
        return f"reserve at most {' plus '.join(terms)}"


@dataclass(frozen=True, slots=True)
class AppendEdges:
    """Run the body; if it appended anything, append the coordinate of the last of `indices` and the end of the entries
    below it (the edges of Chou et al., 2018). `indices` are the target's outermost, in storage order."""

    target: Access
    indices: tuple[IndexVar, ...]
    body: Stmt

    @property
    def level(self) -> int:
        """The target's level, in storage order."""
        return len(self.indices) - 1

    def __str__(self) -> str:
        return f"append edges {Access(self.target.tensor, self.indices)}"


@dataclass(frozen=True, slots=True)
class Forall:
    """`∀ var ∈ domain body`.

    Attributes:
        prefetch: how many entries ahead the rows gathered in the body are prefetched.
        jam: how many iterations run at a time (see `kernel.jam`).
        run: whether only the iterations in the present run of a loop over `Runs` around are executed.
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
    """Copy the rows of `source[v, k]` in the present panel of `v` and tile of `k` to contiguous memory, then run the
    body, which reads the copy as `name[v, k]`."""

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
    """Statements one after the other."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class TermGuard:
    """Run the body if all of the term's levels in the coiterations around have an entry."""

    term: int
    body: Stmt

    def __str__(self) -> str:
        return f"if term {self.term}"


@dataclass(frozen=True, slots=True)
class Where:
    """The producer fills the workspace from zero, then the consumer reads it: a sparse scalar only if written."""

    workspace: Workspace | SparseWorkspace
    producer: Stmt
    consumer: Stmt


Stmt: TypeAlias = Forall | Where | Assign | AppendCoord | AppendEdges | ReserveUpperBound | Pack | Sequence | TermGuard


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A statement over the tensors of `problem`.

    Attributes:
        clear: the target is set to zero first.
        widened: the statement works on a copy of the target in float64, which is narrowed into the target at the end.
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
