"""The nodes of a loop nest: concrete index notation with domains, tiles and workspaces.

    LoopNest := Stmt
    Stmt     := ∀ var ∈ Domain Stmt | where(workspace, producer, consumer) | target (=|⊕=) value [if condition]
              | clear target | target in float64 Stmt | append target | Stmt append edges | reserve | Stmt; … ; Stmt
              | if term Stmt | with a copy of a tensor's panel Stmt | with a map of a segment Stmt
    Domain   := Range | LevelIteration | Coiteration | Tiles | Lanes | WorkspaceLanes | Panels | PositionPanels
              | Fused | Runs | Derivation | WorkspaceNonzeros

For example, P0.1 is level 1 of pattern 0. SpMM, `C[i, k] = A[i, j] * B[j, k]` with A in csr and 128 columns, is:

    ∀ i ∈ P0.0 in parallel
      ∀ k₀ ∈ tiles of k, 64 lanes
        acc[k] = 0
          ∀ j ∈ P0.1
            ∀ k ∈ lanes of k₀
              acc[k] += A[i, j] * B[j, k]
        ∀ k ∈ lanes of k₀
          C[i, k] = acc[k]

The product of two csr matrices, assembled row by row, is:

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

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.domain import Domain, Fused, LevelIteration, Range, is_lookup
from jsparse.compiler.problem import Problem
from jsparse.compiler.scalar import Scalar, accesses_of
from jsparse.compiler.semiring import Monoid
from jsparse.compiler.statement import Statement
from jsparse.notation.assignment import Access, IndexVar

MAX_CHUNKS = 64  # chunks of a parallel loop, at most


@dataclass(frozen=True, slots=True)
class Parallel:
    """The way in which a loop is divided into chunks, which run in parallel. The division depends on the pattern alone,
    so results are bit-equal for any number of threads.

    owned: each iteration owns its part of the target.
    split: like owned, but long segments of the second level are cut. The sums of the parts of a segment are added in
        the order of the chunks.
    reduced: each chunk has its own copy of the workspace, or of the targets to which several iterations add; the copies
        are added in the order of the chunks.
    binned: each chunk lists the terms that it would add, by ranges of the target, and each range adds its terms in the
        order of the chunks. This is the order of the serial loop, which runs instead if there are few threads.
    """

    mode: Literal["owned", "split", "reduced", "binned"]
    grain: int  # stored entries (or iterations) a chunk should have at least

    def __str__(self) -> str:
        return f"in parallel, {self.mode}, ≥ {self.grain:,} entries a chunk"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scalar, or `lanes` lanes of `var`, kept in registers.

    Attributes:
        monoid: the operation that adds values to the workspace, and the initial value.
        checked: whether products that read the workspace are left out if nothing was added to the workspace. If they
            were computed, 0 times an infinite factor would be NaN.
    """

    name: str
    dtype: str
    monoid: Monoid = Monoid()
    var: IndexVar | None = None
    lanes: int = 1
    checked: bool = False

    def access(self) -> Access:
        """Return the access by which statements read and write the workspace."""
        return Access(self.name, () if self.var is None else (self.var,))


@dataclass(frozen=True, slots=True)
class SparseWorkspace:
    """A workspace over all coordinates of `var`. It marks the coordinates that are written. Without `var`, it is a
    scalar with one mark. With dtype "", it holds only marks and no values (Kjolstad et al., 2019)."""

    name: str
    dtype: str
    monoid: Monoid
    var: IndexVar | None

    def access(self) -> Access:
        """Return the access by which statements read and write the workspace."""
        return Access(self.name, () if self.var is None else (self.var,))


@dataclass(frozen=True, slots=True)
class ArrayWorkspace:
    """The part of a temporary that one iteration of the enclosing loops needs, in memory of one thread.

    The elements are undefined at first. The producer writes every element that the consumer reads.

    Attributes:
        target: the access by which a statement writes the temporary. The nest still uses the temporary's name.
        dtype: the temporary's dtype.
        axes: the indices of the temporary's storage axes that the enclosing loops do not fix.
        below: a level. The elements are those below the level's present position, or below its positions in the present
            panel. If `below` is None, there are elements at all positions.
    """

    target: Access
    dtype: str
    axes: tuple[int, ...]
    below: LevelIteration | None = None

    @property
    def name(self) -> str:
        return self.target.tensor

    def access(self) -> Access:
        """Return the access by which statements read and write the elements."""
        return self.target

    def __str__(self) -> str:
        return f"array {self.target}{'' if self.below is None else f' below {self.below}'}"


@dataclass(frozen=True, slots=True)
class Assign:
    """`target (= | ⊕=) value`, computed in `dtype`; the value is zero where the condition does not hold.

    Without a value, the target's coordinate is only marked.
    """

    target: Access
    value: Scalar | None
    dtype: str
    monoid: Monoid = Monoid()
    accumulate: bool = True
    condition: Scalar | None = None

    def __str__(self) -> str:
        operation, value = self.monoid.add if self.accumulate else "", 1 if self.value is None else self.value
        condition = "" if self.condition is None else f" if {self.condition}"
        return f"{self.target} {operation}= {value}{condition}"

    @property
    def reads(self) -> tuple[Access, ...]:
        """The accesses that are read: the accesses of the condition, then of the value, each from left to right."""
        return accesses_of(self.condition, self.value)


@dataclass(frozen=True, slots=True)
class Clear:
    """Set all elements of the target to the zero of the target's sums. With `unused`, set only the elements at unused
    positions of the target's dynamic pattern; the loops that follow write every position in use."""

    target: Access
    monoid: Monoid
    unused: bool = False

    def __str__(self) -> str:
        return f"{self.target} = {self.monoid.zero}{' where not in use' if self.unused else ''}"


@dataclass(frozen=True, slots=True)
class Widened:
    """Run the body on a float64 copy of the target. The copy is zero at first, and is narrowed into the target at the
    end.

    Attributes:
        adds: whether the copy is added to what the target holds, instead of replacing it.
        block: 0, or the number of terms of an element that are added up in the target itself. Their sum is then added
            to the element of the copy, which is not touched before. So the copy takes no time where sums are short.
    """

    target: Access
    dtype: str
    body: Stmt
    block: int = 0
    adds: bool = False


@dataclass(frozen=True, slots=True)
class AppendCoord:
    """Append one entry to the target, or count the entry. An entry has the coordinates of all indices, and perhaps a
    value. If levels are built, it has only the coordinate of the innermost index, `last`, because `AppendEdges` appends
    the other coordinates."""

    target: Access
    value: Access | None = None
    last: IndexVar | None = None

    def __str__(self) -> str:
        return f"append {self.target}{'' if self.value is None else f' = {self.value}'}"


@dataclass(frozen=True, slots=True)
class ReserveUpperBound:
    """Count an upper bound of the entries that a loop over `var` would append, without running the loop. Each term adds
    the length of the shortest segment of its levels, or the number of all coordinates if the term has no levels."""

    var: IndexVar
    terms: tuple[tuple[LevelIteration, ...], ...]

    def __str__(self) -> str:
        terms = [" and ".join(map(str, term)) or f"all {self.var}" for term in self.terms]
        return f"reserve at most {' plus '.join(terms)}"


@dataclass(frozen=True, slots=True)
class AppendEdges:
    """Run the body. If it appended anything, append the coordinate of the last of `indices`, and the end of the entries
    below that coordinate (the edges of Chou et al., 2018). `indices` are the outermost indices of the target, in
    storage order."""

    target: Access
    indices: tuple[IndexVar, ...]
    body: Stmt

    @property
    def level(self) -> int:
        """The level of the target to which a coordinate is appended; level 0 is the outermost."""
        return len(self.indices) - 1

    def __str__(self) -> str:
        return f"append edges {Access(self.target.tensor, self.indices)}"


@dataclass(frozen=True, slots=True)
class Forall:
    """`∀ var ∈ domain body`.

    Attributes:
        prefetch: if the body gathers rows, each row is prefetched this number of entries before its use; 0: never.
        jam: how many iterations run at a time (see `kernel.jam`).
        run: whether the loop executes only the iterations in the present run of an outer loop over `Runs`.
        unroll: whether the iterations are written out one by one.
    """

    var: IndexVar
    domain: Domain
    body: Stmt
    parallel: Parallel | None = None
    prefetch: int = 0
    jam: int = 1
    run: bool = False
    unroll: bool = False

    @property
    def is_lookup(self) -> bool:
        """Whether the loop has at most one iteration, because loops outside determine its variable."""
        return is_lookup(self.domain)

    @property
    def variables(self) -> tuple[IndexVar, ...]:
        """The variables that the loop binds."""
        return (self.domain.outer, self.domain.inner) if isinstance(self.domain, Fused) else (self.var,)

    def __str__(self) -> str:
        extras = ["in the run"] if self.run else []
        extras += ["written out"] if self.unroll else []
        extras += [str(self.parallel)] if self.parallel else []
        extras += [f"prefetching {self.prefetch} ahead"] if self.prefetch else []
        extras += [f"{self.jam} at a time"] if self.jam > 1 else []
        text = " ".join([f"∀ {self.var} ∈ {self.domain}", ", ".join(extras)]).rstrip()
        return f"{text}, {self.lanes} at a time in lanes" if self.lanes else text

    @property
    def grain(self) -> int | None:
        """The least number of entries of a chunk; None if threads do not divide the loop."""
        return None if self.parallel is None else self.parallel.grain

    @property
    def lanes(self) -> int:
        """The number of positions or coordinates that are worked on at a time, in lanes; 0 if there are no lanes."""
        return self.domain.lanes if isinstance(self.domain, LevelIteration | Range) else 0


@dataclass(frozen=True, slots=True)
class Pack:
    """Copy a part of `source[v, k]` to contiguous memory, then run the body. The part has the rows in the present panel
    of `v`, and of each row the present tile of `k`. The body reads the copy as `name[v, k]`."""

    name: str
    source: Access
    body: Stmt

    def access(self) -> Access:
        """Return the access by which the body reads the copy."""
        return Access(self.name, self.source.indices)

    def __str__(self) -> str:
        return f"{self.access()} = {self.source} in the panel"


@dataclass(frozen=True, slots=True)
class Scatter:
    """Run the body with a map from coordinates to positions, for a level's entries below the present position.

    Lookups in the level (`LevelIteration.scattered`) then take one step, without a search.

    Attributes:
        var: the variable of the level.
        domain: the domain of the lookups in the body.
        positions: whether the body reads positions. If not, the map only has a bit for each coordinate.
    """

    var: IndexVar
    domain: LevelIteration
    positions: bool
    body: Stmt

    def __str__(self) -> str:
        level = f"P{self.domain.pattern}.{self.domain.level}"
        return f"{'map' if self.positions else 'bitmap'} of {self.var} ∈ {level}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Statements one after the other."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class TermGuard:
    """Run the body if all levels of the term have entries at the present coordinates of outer `Coiteration` loops."""

    term: int
    body: Stmt

    def __str__(self) -> str:
        return f"if term {self.term}"


@dataclass(frozen=True, slots=True)
class Where:
    """The producer fills the workspace, then the consumer reads it. A workspace first has the zero of its sums, but
    the elements of an `ArrayWorkspace` are undefined. The consumer of a sparse scalar runs only if the scalar was
    written."""

    workspace: Workspace | SparseWorkspace | ArrayWorkspace
    producer: Stmt
    consumer: Stmt


Stmt: TypeAlias = (
    Forall
    | Where
    | Assign
    | Clear
    | Widened
    | AppendCoord
    | AppendEdges
    | ReserveUpperBound
    | Pack
    | Scatter
    | Sequence
    | TermGuard
)


@dataclass(frozen=True, slots=True)
class LoopNest:
    """The loop nest of a problem: one statement (`Stmt`), whose tensors are the tensors of `problem`."""

    problem: Problem
    body: Stmt

    @property
    def statement(self) -> Statement:
        """The statement of the problem that the nest executes. Raises ValueError if the nest executes several."""
        if len(self.problem.statements) == 1 or self.problem.is_assembly:
            return self.problem.statements[0]
        written = {assign.target.tensor for assign in assignments(self.body)}
        (statement,) = (s for s in self.problem.statements if s.target.tensor in written)
        return statement

    @property
    def adds_in_memory(self) -> bool:
        """Whether sums are added up in a target's memory, instead of being stored there when they are complete."""
        types = self.problem.type_of
        return any(s.accumulate and s.target.tensor in types for s in assignments(self.body))

    def __str__(self) -> str:
        return "\n".join(_lines(self.body, "", self.problem))


def assignments(stmt: Stmt) -> Iterator[Assign]:
    """Yield the assignments of a statement, from top to bottom."""
    return (inner for inner in statements(stmt) if isinstance(inner, Assign))


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """Yield a statement and all statements inside of it, the outer ones first."""
    yield stmt
    for inner in children(stmt):
        yield from statements(inner)


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside of a statement."""
    match stmt:
        case Forall() | TermGuard() | AppendEdges() | Pack() | Scatter() | Widened():
            return (stmt.body,)
        case Sequence(stmts=stmts):
            return stmts
        case Where(producer=producer, consumer=consumer):
            return producer, consumer
    return ()


def with_children(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return the statement with each child replaced by `change(child)`."""
    match stmt:
        case Forall() | TermGuard() | AppendEdges() | Pack() | Scatter() | Widened():
            return replace(stmt, body=change(stmt.body))
        case Sequence(stmts=stmts):
            return Sequence(tuple(map(change, stmts)))
        case Where(producer=producer, consumer=consumer):
            return replace(stmt, producer=change(producer), consumer=change(consumer))
    return stmt


def map_assignments(stmt: Stmt, change: Callable[[Assign], Assign]) -> Stmt:
    """Return the statement with each assignment replaced by `change(assignment)`."""
    return change(stmt) if isinstance(stmt, Assign) else with_children(stmt, lambda x: map_assignments(x, change))


def _lines(stmt: Stmt, indent: str, problem: Problem) -> Iterator[str]:
    match stmt:
        case Forall(body=body) | TermGuard(body=body):
            yield indent + str(stmt)
            yield from _lines(body, indent + "  ", problem)
        case Sequence(stmts=stmts):
            for inner in stmts:
                yield from _lines(inner, indent, problem)
        case Where(workspace=ArrayWorkspace() as array, producer=producer, consumer=consumer):
            yield f"{indent}{array}"
            yield from _lines(producer, indent, problem)
            yield from _lines(consumer, indent, problem)
        case Where(workspace=Workspace() | SparseWorkspace() as workspace, producer=producer, consumer=consumer):
            zero = workspace.monoid.zero if workspace.dtype else 0
            wide = f" ({workspace.dtype})" if workspace.dtype not in ("", problem.accumulator) else ""
            yield f"{indent}{workspace.access()} = {zero}{wide}"
            yield from _lines(producer, indent + "  ", problem)
            # The consumer is nested more deeply if it runs only where something was added.
            is_checked = workspace.checked if isinstance(workspace, Workspace) else workspace.var is None
            if isinstance(workspace, Workspace) and is_checked:
                yield f"{indent}if {workspace.access()} was added to"
            yield from _lines(consumer, indent + "  " * is_checked, problem)
        case Assign() | Clear() | AppendCoord() | ReserveUpperBound():
            yield indent + str(stmt)
        case Widened(target=target, dtype=dtype, body=body):
            of_blocks = f" of blocks of {stmt.block}" if stmt.block else ""
            yield f"{indent}{target} = 0 (float64{of_blocks})"
            yield from _lines(body, indent, problem)
            yield f"{indent}{target} in {dtype}{', added to it' if stmt.adds else ''}"
        case Pack(body=body) | Scatter(body=body):
            yield indent + str(stmt)
            yield from _lines(body, indent, problem)
        case AppendEdges(body=body):
            yield from _lines(body, indent, problem)
            yield indent + str(stmt)
