"""The compiler's problem: statements, the storage of each tensor, and the sizes of index variables.

    C[i, k] = A[i, j] * B[j, k]
      C: float32[d0][d1]
      A: float32[P0(d0, d1)]
      B: float32[d0][d1]
      P0: (dense, compressed) int32
      i < 40, k < 16, j < 30

Most problems have one statement. Statements of a longer program run one after the other, and a statement may read the
targets of earlier statements. A target that is not a result of the program is a temporary. The target of a later term
of a sum is a *view* of the first term's target: the same memory, to which the statement adds, perhaps in another shape.

A value array is an ordinary dense array in which one axis may run over the *positions* of a pattern. A tensor's storage
is a tuple of storage axes, outermost first:

    dense, row-major         [i][k]            Dense(0), Dense(1)
    dense, column-major      [k][i]            Dense(1), Dense(0)
    csr                      [p]               Positions(0, (0, 1))         p: position of (i, j) in pattern 0
    dense blocks in csr      [p][a][b]         Positions(0, (0, 1)), Dense(2), Dense(3)
    csr, values batched      [n][p]            Dense(0), Positions(0, (1, 2))

So batching, blocks and storage orders need no special cases in later stages.

An assembly finds the target's pattern. Its loops produce a column (a coordinate tuple) for every combination of entries
that they reach, in the order of the loops, repeats included. One problem counts the columns, and another problem writes
them. The two differ only in their kind of output (`OutputKind`), so both have the same loops and the same chunks. The
first kernel therefore counts exactly the entries that the second kernel writes.

An ordered assembly has a statement for each term of a sum, and all these statements have the same target. Its loops
produce columns in storage order, each column once, optionally with values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.compiler.cpu_model import CPU, CpuModel
from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.output_kind import Compute, Coordinates, OutputKind, Write
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask, Monoid, Semiring
from jsparse.compiler.statement import DerivedVar, Statement, product_statement
from jsparse.formats.levels import Level, is_single
from jsparse.notation.assignment import Access, Assignment, IndexVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dense:
    """A storage axis that runs over every coordinate of dimension `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"d{self.dim}"


@dataclass(frozen=True, slots=True)
class Positions:
    """A storage axis that runs over the positions of a pattern, whose level `l` stores dimension `dims[l]`."""

    pattern: int
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"P{self.pattern}({', '.join(f'd{d}' for d in self.dims)})"


Axis: TypeAlias = Dense | Positions


@dataclass(frozen=True, slots=True)
class StorageType:
    """The levels of a pattern in storage order (level `l` has `dim == l`) and the dtype of its index arrays.

    Attributes:
        levels: the levels.
        index_dtype: the name of the index arrays' dtype.
        dynamic: whether the content of the index arrays is only known at run time. Loops then stop at the number of
            entries in use or at the capacity, and skip coordinates out of range. The entries in use are sorted, as in
            every pattern. Whatever the arrays hold, nothing outside them is read or written.
        batch_axes: the number of leading axes of the index arrays, for a batch of patterns with the same loops.
        constant_indices: the index arrays themselves, for a small pattern whose loops are written out entry by entry.
        capacities: the number of positions of each level, or the level's capacity in a dynamic pattern; () if the
            lengths of the index arrays determine all of these numbers.
    """

    levels: tuple[Level, ...]
    index_dtype: str
    dynamic: bool = False
    batch_axes: int = 0
    constant_indices: tuple[tuple[int, ...], ...] = ()
    capacities: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.capacities and not all(level.kind.counts_positions for level in self.levels):
            raise ValueError(f"expected the number of positions of each level of {self}")

    def __str__(self) -> str:
        extras = [self.index_dtype, *(["dynamic"] if self.dynamic else [])]
        extras += [f"{self.batch_axes} batch axes"] if self.batch_axes else []
        extras += ["written out"] if self.constant_indices else []
        return f"({', '.join(str(level) for level in self.levels)}) {' '.join(extras)}"

    def repeats(self, level: int) -> bool:
        """Whether several positions of `level` may have the same coordinate: a nonunique level above a singleton."""
        below = self.levels[level + 1 : level + 2]
        return not self.levels[level].unique and any(b.kind.is_branchless for b in below)

    def is_single(self, level: int) -> bool:
        """Whether `level` has exactly one entry for each position of the level above."""
        return is_single(self.levels, level)

    def capacity(self, level: int) -> int | None:
        """The number of positions of `level`, or its capacity; None if index arrays determine it."""
        return self.capacities[level] if self.capacities else None

    def arrays_of(self, level: int, arrays: Sequence[T]) -> Sequence[T]:
        """Select the items for this level's index arrays. `arrays` has one item for each index array of the pattern."""
        before = sum(len(above.kind.arrays) for above in self.levels[:level])
        return arrays[before : before + len(self.levels[level].kind.arrays)]


@dataclass(frozen=True)
class TensorType:
    """The storage of a tensor: the dtype of its elements and its storage axes.

    Axes name dimensions by number: dimension n stands for the index `indices[n]` of an access to the tensor.

    Attributes:
        view_of: the name of the result whose memory the tensor is; "" if it has memory of its own.
    """

    name: str
    dtype: str
    axes: tuple[Axis, ...]
    view_of: str = ""

    def __str__(self) -> str:
        viewed = f", a view of {self.view_of}" if self.view_of else ""
        return f"{self.name}: {self.dtype}{''.join(f'[{axis}]' for axis in self.axes)}{viewed}"

    @lazy
    def positions(self) -> Positions | None:
        """The axis over a pattern's positions, if there is one."""
        return next((axis for axis in self.axes if isinstance(axis, Positions)), None)

    @lazy
    def dense_dims(self) -> tuple[int, ...]:
        """The dimensions with a dense storage axis, in storage order."""
        return tuple(axis.dim for axis in self.axes if isinstance(axis, Dense))

    def renumber(self, numbers: Mapping[int, int]) -> TensorType:
        """Return the type with pattern n renamed to pattern `numbers[n]`."""
        axes = (replace(a, pattern=numbers[a.pattern]) if isinstance(a, Positions) else a for a in self.axes)
        return replace(self, axes=tuple(axes))


@dataclass(frozen=True)
class Problem:
    """Statements with the type of each tensor and the size of each index variable.

    Attributes:
        statements: the statements, in order. All statements of an assembly have one target.
        tensors: the type of each tensor, the targets' first. In an assembly the target has no axes.
        patterns: the type of each pattern.
        sizes: the size of each index variable; None if it is known only at run time, from the shape of a buffer.
        walks: for each pattern, the index variables of its index arrays' leading axes, then of its levels; by default
            the variables of the accesses to the tensors on the pattern.
        output: the kind of output.
        ordered: whether an assembly produces columns in storage order, each once.
        column_dtype: the dtype of coordinates that are written together with values.
        derived: the index variables that other variables determine. The other variables may be derived variables that
            come earlier in this tuple.
        temporaries: the targets that are not results.
        cpu: the processor by whose prices a schedule is chosen.

    Raises ValueError if the variables of a pattern differ from the indices of a tensor on it, if several statements
    have one target, if a statement reads a target before it is complete, if a tensor is a view but no term of a dense
    sum, if a statement accesses a tensor on a pattern that the statement does not walk, if a temporary is not a target,
    if an assembly has derived variables, or if a target has a derived variable as an index, and several values of other
    variables give it the same value.
    """

    statements: tuple[Statement, ...]
    tensors: tuple[TensorType, ...]
    patterns: tuple[StorageType, ...]
    sizes: tuple[tuple[IndexVar, int | None], ...]
    walks: tuple[tuple[IndexVar, ...], ...] = ()
    output: OutputKind = Compute()
    ordered: bool = False
    column_dtype: str = "int32"
    derived: tuple[DerivedVar, ...] = ()
    temporaries: tuple[str, ...] = ()
    cpu: CpuModel = CPU

    def __post_init__(self) -> None:
        if not self.walks:
            object.__setattr__(self, "walks", self._find_walks())
        else:
            of_tensors = self._find_walks()
            if any(there and there != here for here, there in zip(self.level_variables, of_tensors, strict=True)):
                raise ValueError(f"patterns are walked as {self.walks}, but tensors are stored on them as {of_tensors}")
        if not self.is_assembly:
            self._check_statements()
        self._check_derived()
        self._check_views()

    def _check_statements(self) -> None:
        complete: set[str] = set()
        targets = [s.target.tensor for s in self.statements]
        for statement in self.statements:
            read = {inner.tensor for outer in statement.reads for inner in (outer, *outer.indirections())}
            if statement.target.tensor in complete or not read & set(targets) <= complete:
                raise ValueError(f"'{statement}' writes a target again, or reads one that is not complete yet")
            complete.add(statement.target.tensor)
            axes = [self.type_of[name].positions for name in (statement.target.tensor, *read)]
            if not {axis.pattern for axis in axes if axis is not None}.issubset(statement.patterns):
                raise ValueError(f"'{statement}' has tensors on other patterns than it walks, {statement.patterns}")
        if [t.name for t in self.tensors[: len(targets)]] != targets or not complete.issuperset(self.temporaries):
            raise ValueError(f"expected the targets {targets} as the first tensors, and temporaries among them")

    def _check_views(self) -> None:
        views = {tensor.name: tensor.view_of for tensor in self.tensors if tensor.view_of}
        added = {s.target.tensor: (s.add, self.type_of[s.target.tensor].dtype) for s in self.statements}
        named = [s.target.tensor for s in self.statements]
        for name, whole in views.items():
            read = any(access.tensor in (name, whole) for s in self.statements for access in s.reads)
            is_later = name in named and whole in named and named.index(whole) < named.index(name)
            is_dense = all(t.positions is None for t in self.tensors if t.name in (name, whole))
            if read or not is_later or not is_dense or whole in views or added[name] != added[whole]:
                raise ValueError(f"'{self.type_of[name]}' is not a later term of a dense sum that is a result")
            if {name, whole} & set(self.temporaries) or self.is_assembly:
                raise ValueError(f"'{self.type_of[name]}' is a view, and {whole} is not a result")

    def _check_derived(self) -> None:
        if self.derived and self.is_assembly:
            raise ValueError(f"expected an assembly without derived variables, but got {self.derived[0]}")
        defined = {v for v, _ in self.sizes} - set(self.derivations)
        named = {v for s in self.statements for v in s.target.variables()}
        for derived in self.derived:
            if not defined.issuperset(part for _, part in derived.parts):
                raise ValueError(f"'{derived}' derives from variables that are not known before it")
            if derived.var in named and not derived.is_injective(self.size):
                raise ValueError(f"'{derived}' is an index of a target, but several points have the same coordinate")
            defined.add(derived.var)

    def __str__(self) -> str:
        if self.is_assembly:
            lines = [f"{self.output} of {self.target}"]
            for term in self.terms:
                patterns = ", ".join(f"P{n}" for n in term.patterns) or "no pattern"
                lines.append(f"  {term.add} {'1' if term.value is None else term.value} on {patterns}")
        else:
            temporaries = [" (temporary)" * (s.target.tensor in self.temporaries) for s in self.statements]
            lines = [f"{self.text_of(s)}{kind}" for s, kind in zip(self.statements, temporaries, strict=True)]
        lines += [f"  {tensor}" for tensor in self.tensors]
        lines += [f"  P{n}: {pattern}" for n, pattern in enumerate(self.patterns)]
        lines.append("  " + ", ".join(f"{v} < {'?' if size is None else size}" for v, size in self.sizes))
        return "\n".join([*lines, *(f"  {var}" for var in self.derived)])

    def text_of(self, statement: Statement) -> str:
        """A statement as text, in which a statement that adds to a view has `+=`."""
        return str(statement).replace(" = ", " += ", 1) if self.adds(statement) else str(statement)

    @lazy
    def target(self) -> Access:
        """The target of the first statement. All statements of an assembly have this target."""
        return self.statements[0].target

    @property
    def terms(self) -> tuple[Statement, ...]:
        """The terms of an ordered assembly; empty for any other problem."""
        return self.statements if self.ordered else ()

    @lazy
    def assignment(self) -> Assignment:
        """The target and the reads of the only statement. For an assembly, the target without reads."""
        return Assignment(self.target, ()) if self.is_assembly else self.statement.assignment

    @property
    def statement(self) -> Statement:
        """The only statement. Raises ValueError if there are several."""
        (only,) = self.statements
        return only

    @lazy
    def accesses(self) -> tuple[Access, ...]:
        """The accesses of all statements: the targets, then the reads. Accesses inside of indices are left out."""
        return (*(s.target for s in self.statements), *(access for s in self.statements for access in s.reads))

    @lazy
    def size(self) -> dict[IndexVar, int | None]:
        """The size of each index variable."""
        return dict(self.sizes)

    @lazy
    def derivations(self) -> dict[IndexVar, DerivedVar]:
        """The derived index variables, by name."""
        return {derived.var: derived for derived in self.derived}

    @lazy
    def type_of(self) -> dict[str, TensorType]:
        """The type of each tensor, by name."""
        return {tensor.name: tensor for tensor in self.tensors}

    @lazy
    def results(self) -> tuple[TensorType, ...]:
        """The types of the targets that are results, in the order of their statements. Views are left out."""
        names = dict.fromkeys(s.target.tensor for s in self.statements)
        targets = (self.type_of[name] for name in names if name not in self.temporaries)
        return tuple(tensor for tensor in targets if not tensor.view_of)

    @lazy
    def operands(self) -> tuple[TensorType, ...]:
        """The types of the tensors that are not targets."""
        targets = {s.target.tensor for s in self.statements}
        return tuple(tensor for tensor in self.tensors if tensor.name not in targets)

    @lazy
    def level_variables(self) -> tuple[tuple[IndexVar, ...], ...]:
        """For each pattern, the index variable of each level."""
        return tuple(walk[type_.batch_axes :] for walk, type_ in zip(self.walks, self.patterns, strict=True))

    @lazy
    def batch_variables(self) -> tuple[tuple[IndexVar, ...], ...]:
        """For each pattern, the index variables of its index arrays' leading axes."""
        return tuple(walk[: type_.batch_axes] for walk, type_ in zip(self.walks, self.patterns, strict=True))

    @lazy
    def free_vars(self) -> frozenset[IndexVar]:
        """The index variables that determine an element of the first target."""
        return self.with_parts(self.target.variables())

    def with_parts(self, variables: Iterable[IndexVar]) -> frozenset[IndexVar]:
        """Return the given index variables, and the variables that determine the derived variables among them."""
        names = set(variables)
        for derived in reversed(self.derived):
            names.update(part for _, part in derived.parts if derived.var in names)
        return frozenset(names)

    @lazy
    def accumulator(self) -> str:
        """The dtype in which all statements compute values."""
        return self.accumulator_of(*self.statements)

    def accumulator_of(self, *statements: Statement) -> str:
        """The dtype in which statements compute. Every element is cast when it is loaded, and when it is stored."""
        types = self.type_of
        return accumulator(*[types[access.tensor].dtype for s in statements for access in s.assignment.accesses])

    def without_derived(self, order: Sequence[IndexVar]) -> tuple[IndexVar, ...]:
        """Replace each derived variable in `order` by the variables that determine it. No variable occurs twice."""
        variables: dict[IndexVar, None] = {}
        for var in order:
            derived = self.derivations.get(var)
            parts = (var,) if derived is None else self.without_derived([part for _, part in derived.parts])
            variables.update(dict.fromkeys(parts))
        return tuple(variables)

    @property
    def monoid(self) -> Monoid:
        """The operation that adds the values of the first statement, with its zero."""
        return self.monoid_of(self.statements[0])

    def monoid_of(self, statement: Statement) -> Monoid:
        """The operation that adds the values of a statement, with its zero in the target's dtype."""
        return Monoid.of(statement.add, self.type_of[statement.target.tensor].dtype)

    @lazy
    def is_assembly(self) -> bool:
        """Whether the loops find the target's pattern, instead of computing values on a known pattern."""
        return not isinstance(self.output, Compute)

    @property
    def builds_levels(self) -> bool:
        """Whether the target's coordinates are written by level: each coordinate once for all entries below it."""
        return isinstance(self.output, Write) and self.output.coordinates is Coordinates.LEVELS

    @property
    def wants_values(self) -> bool:
        """Whether the factors' values are read."""
        return isinstance(self.output, Compute) or (isinstance(self.output, Write) and self.output.values)

    def adds(self, statement: Statement) -> bool:
        """Whether a statement adds to what an earlier statement has written: its target is a view."""
        return bool(self.type_of[statement.target.tensor].view_of)

    @lazy
    def is_sum(self) -> bool:
        """Whether there are several statements, and all are terms of one sum."""
        return len(self.statements) > 1 and all(map(self.adds, self.statements[1:]))

    def alone(self, number: int) -> Problem:
        """Make a problem of one statement and the patterns that it walks. The tensors that it reads become operands. A
        target that is a view gets memory of its own."""
        statement = self.statements[number]
        walked = statement.patterns
        numbers = {n: number for number, n in enumerate(walked)}
        accesses = (statement.target, *statement.reads)
        named = dict.fromkeys(inner.tensor for outer in accesses for inner in (outer, *outer.indirections()))
        taken = self.variables_of(statement)
        return replace(
            self,
            statements=(replace(statement, patterns=tuple(range(len(walked)))),),
            tensors=tuple(replace(self.type_of[name].renumber(numbers), view_of="") for name in named),
            patterns=tuple(self.patterns[n] for n in walked),
            walks=tuple(self.walks[n] for n in walked),
            sizes=tuple((v, size) for v, size in self.sizes if v in taken),
            derived=tuple(d for d in self.derived if d.var in taken),
            ordered=False,
            temporaries=(),
        )

    def variables_of(self, statement: Statement) -> frozenset[IndexVar]:
        """Return the index variables of a statement's accesses and patterns, and the variables that determine the
        derived variables among them."""
        walked = (v for n in statement.patterns for v in self.walks[n])
        return self.with_parts((*statement.assignment.variables(), *walked))

    def _find_walks(self) -> tuple[tuple[IndexVar, ...], ...]:
        """For each pattern, the index variables in accesses to the tensors on the pattern; () if no tensor is stored on
        it.

        Raises ValueError if accesses to two tensors on one pattern have different variables.
        """
        walks: dict[int, tuple[IndexVar, ...]] = {}
        for access in self.accesses:
            axis = self.type_of[access.tensor].positions
            if axis is None:
                continue
            variables = tuple(str(access.indices[dim]) for dim in axis.dims)
            if walks.setdefault(axis.pattern, variables) != variables:
                raise ValueError(f"pattern {axis.pattern} is walked as {walks[axis.pattern]} and as {variables}")
        return tuple(walks.get(n, ()) for n in range(len(self.patterns)))

    def size_source(self, var: IndexVar) -> tuple[str, int]:
        """Find a dense storage axis whose extent is the size of `var`. Returns the tensor's name and the axis index.

        Axes of temporaries are skipped. Raises ValueError if no other tensor has such an axis.
        """
        for access in (*self.accesses, *(inner for outer in self.accesses for inner in outer.indirections())):
            for number, axis in enumerate(self.type_of[access.tensor].axes):
                has_buffer = access.tensor not in self.temporaries
                if has_buffer and isinstance(axis, Dense) and access.indices[axis.dim] == var:
                    return access.tensor, number
        raise ValueError(f"no tensor tells the size of {var}")


def problem_of_product(
    assignment: Assignment,
    tensors: tuple[TensorType, ...],
    patterns: tuple[StorageType, ...],
    sizes: tuple[tuple[IndexVar, int | None], ...],
    walks: tuple[tuple[IndexVar, ...], ...] = (),
    semiring: Semiring = PLUS_TIMES,
    mask: EqualityMask | None = None,
) -> Problem:
    """Make a problem of one product, which walks all patterns. `product_statement` explains the `mask`."""
    dtypes = {tensor.name: tensor.dtype for tensor in tensors}
    named = [dtypes[access.tensor] for access in assignment.accesses]
    numbers = range(len(patterns))
    statement = product_statement(assignment.target, assignment.factors, numbers, named, semiring, mask)
    return Problem((statement,), tensors, patterns, sizes, walks)
