"""The compiler's problem: an assignment, the storage of each tensor, and the sizes of index variables.

A value array is an ordinary dense array in which one axis may run over the *positions* of a pattern. A tensor's storage
is a tuple of storage axes, outermost first:

    dense, row-major         [i][k]            Dense(0), Dense(1)
    dense, column-major      [k][i]            Dense(1), Dense(0)
    csr                      [p]               Positions(0, (0, 1))         p: position of (i, j) in pattern 0
    dense blocks in csr      [p][a][b]         Positions(0, (0, 1)), Dense(2), Dense(3)
    csr, values batched      [n][p]            Dense(0), Positions(0, (1, 2))

So batching, blocks and storage orders need no special cases in later stages.

An assembly finds the target's pattern. Its loops produce a column (a coordinate tuple) for every combination of entries
that they reach, in the order of the loops, repeats included. Two problems that differ only in their kind of output
count the columns and write them (`compiler.output`).

A problem with `terms` is a sum of products. Its loops produce columns in storage order, each once, optionally with
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.output import Compute, Coordinates, OutputKind, Write
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask, Semiring
from jsparse.formats.level import Level
from jsparse.notation.assignment import Access, Assignment, IndexVar

__all__ = ["Addend", "Axis", "Dense", "PatternType", "Positions", "Problem", "TensorType", "condition_text"]

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
class PatternType:
    """The levels of a pattern in storage order (level `l` has `dim == l`) and the dtype of its index arrays.

    Attributes:
        levels: the levels.
        index_dtype: the name of the index arrays' dtype.
        padded: the pattern is dynamic: the content of its index arrays is only known at run time. Loops stop at the
            count in use or at the capacity, and skip coordinates out of range. The entries in use are sorted, as in
            every pattern. Whatever the arrays hold, nothing outside them is read or written.
        lead: the number of leading axes of the index arrays, for a batch of patterns that are walked alike.
        content: the index arrays themselves, for a small pattern whose loops are written out entry by entry.
        capacities: the number of positions of each level (the capacity of a dynamic one), if the lengths of index
            arrays do not determine that of every level; else empty.
    """

    levels: tuple[Level, ...]
    index_dtype: str
    padded: bool = False
    lead: int = 0
    content: tuple[tuple[int, ...], ...] = ()
    capacities: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.capacities and not all(level.kind.counts_positions for level in self.levels):
            raise ValueError(f"expected the number of positions of each level of {self}")

    def __str__(self) -> str:
        extras = [self.index_dtype, *(["padded"] if self.padded else []), *([f"lead {self.lead}"] if self.lead else [])]
        extras += ["written out"] if self.content else []
        return f"({', '.join(str(level) for level in self.levels)}) {' '.join(extras)}"

    def repeats(self, level: int) -> bool:
        """Whether several positions of `level` may have one coordinate: a nonunique level above a singleton."""
        below = self.levels[level + 1 : level + 2]
        return not self.levels[level].unique and any(b.kind.is_branchless for b in below)

    def is_single(self, level: int) -> bool:
        """Whether `level` has exactly one entry for each position of the level above."""
        return level > 0 and self.levels[level].kind.is_branchless and self.levels[level - 1].unique

    def capacity(self, level: int) -> int | None:
        """The number of positions of `level`, or its capacity; None if index arrays determine it."""
        return self.capacities[level] if self.capacities else None

    def arrays_of(self, level: int, arrays: Sequence[T]) -> Sequence[T]:
        """The level's own index arrays among those of the pattern."""
        before = sum(len(above.kind.arrays) for above in self.levels[:level])
        return arrays[before : before + len(self.levels[level].kind.arrays)]


@dataclass(frozen=True, slots=True)
class TensorType:
    """The storage of a tensor: the dtype of its elements and its storage axes.

    The dimensions of an axis number the indices of the tensor's accesses.
    """

    name: str
    dtype: str
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{''.join(f'[{axis}]' for axis in self.axes)}"

    @property
    def positions(self) -> Positions | None:
        """The axis over a pattern's positions, if there is one."""
        return next((axis for axis in self.axes if isinstance(axis, Positions)), None)


@dataclass(frozen=True, slots=True)
class Addend:
    """One product of a sum.

    Attributes:
        coefficient: the number that multiplies the product.
        factors: the accesses to its factors; none if no values are computed.
        patterns: the numbers of the patterns that its factors lie on.
    """

    coefficient: float
    factors: tuple[Access, ...]
    patterns: tuple[int, ...]

    def __str__(self) -> str:
        shown = [str(self.coefficient)] * (self.coefficient != 1) + [str(factor) for factor in self.factors]
        return f"{' * '.join(shown) or '1'} on {', '.join(f'P{n}' for n in self.patterns) or 'no pattern'}"


@dataclass(frozen=True)
class Problem:
    """An assignment with the type of each of its tensors and the size of each index variable.

    Attributes:
        assignment: the assignment. In an assembly it has no factors.
        tensors: the type of each tensor, the target's first. In an assembly the target has no axes.
        patterns: the type of each pattern.
        sizes: the size of each index variable; None if it is known only at run time, from the shape of a buffer.
        walks: for each pattern, the index variables of its index arrays' leading axes, then of its levels; by default
            those of the accesses to the tensors on it.
        output: the kind of output.
        terms: the products of a sum.
        column_dtype: the dtype of coordinates that are written beside values.
        semiring: the operations that multiply factors and add products.
        mask: the condition under which a product counts. The first factors are compared, and only the others
            multiplied.
    """

    assignment: Assignment
    tensors: tuple[TensorType, ...]
    patterns: tuple[PatternType, ...]
    sizes: tuple[tuple[IndexVar, int | None], ...]
    walks: tuple[tuple[IndexVar, ...], ...] = ()
    output: OutputKind = Compute()  # noqa: RUF009
    terms: tuple[Addend, ...] = ()
    column_dtype: str = "int32"
    semiring: Semiring = PLUS_TIMES
    mask: EqualityMask | None = None

    def __post_init__(self) -> None:
        if not self.walks:
            object.__setattr__(self, "walks", self._walked())
        elif any(walked and walked != mine for mine, walked in zip(self.level_variables, self._walked(), strict=True)):
            raise ValueError(f"patterns are walked as {self.walks}, but tensors lie on them as {self._walked()}")

    def __str__(self) -> str:
        stated = str(self.output) if self.is_assembly else ""
        product = Assignment(self.assignment.target, self.product)
        lines = [f"{stated} of {self.assignment.target}" if stated else str(product)]
        lines += [f"  + {term}" for term in self.terms]
        lines += [] if self.semiring == PLUS_TIMES else [f"  by {self.semiring}"]
        lines += [f"  where {condition_text(self.mask, self.compared)}"] if self.mask is not None else []
        lines += [f"  {tensor}" for tensor in self.tensors]
        lines += [f"  P{n}: {pattern}" for n, pattern in enumerate(self.patterns)]
        lines.append("  " + ", ".join(f"{v} < {'?' if size is None else size}" for v, size in self.sizes))
        return "\n".join(lines)

    @cached_property
    def size(self) -> dict[IndexVar, int | None]:
        """The size of each index variable."""
        return dict(self.sizes)

    @cached_property
    def type_of(self) -> dict[str, TensorType]:
        """The type of each tensor, by name."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def level_variables(self) -> tuple[tuple[IndexVar, ...], ...]:
        """For each pattern, the index variable of each level."""
        return tuple(walk[type_.lead :] for walk, type_ in zip(self.walks, self.patterns, strict=True))

    @cached_property
    def lead_variables(self) -> tuple[tuple[IndexVar, ...], ...]:
        """For each pattern, the index variables of its index arrays' leading axes."""
        return tuple(walk[: type_.lead] for walk, type_ in zip(self.walks, self.patterns, strict=True))

    @cached_property
    def accumulator(self) -> str:
        """The dtype of all arithmetic on values. Every element is cast when it is loaded, and when it is stored."""
        factors = (*self.assignment.factors, *(factor for term in self.terms for factor in term.factors))
        names = (self.assignment.target.tensor, *(factor.tensor for factor in factors))
        return accumulator(*(self.type_of[name].dtype for name in names))

    @property
    def zero(self) -> float:
        """The semiring's zero in the target's dtype: the result of an empty reduction."""
        return self.semiring.zero(self.tensors[0].dtype)

    @property
    def compared(self) -> tuple[Access, ...]:
        """The factors that the mask compares."""
        return self.assignment.factors[: 0 if self.mask is None else self.mask.operands]

    @property
    def product(self) -> tuple[Access, ...]:
        """The factors that are multiplied."""
        return self.assignment.factors[len(self.compared) :]

    @property
    def sums_first(self) -> bool:
        """Whether Σ (a·b) = (Σ a)·b for a factor b that lacks the summed index variable."""
        return self.semiring.distributes_empty and self.mask is None

    @property
    def is_assembly(self) -> bool:
        """Whether the loops find the target's pattern, instead of computing values on a known one."""
        return not isinstance(self.output, Compute)

    @property
    def builds_levels(self) -> bool:
        """Whether the target's coordinates are written by level, each once for all entries below it."""
        return isinstance(self.output, Write) and self.output.coordinates is Coordinates.LEVELS

    @property
    def wants_values(self) -> bool:
        """Whether the factors' values are read."""
        return isinstance(self.output, Compute) or (isinstance(self.output, Write) and self.output.values)

    def _walked(self) -> tuple[tuple[IndexVar, ...], ...]:
        """For each pattern, the index variables by which the tensors on it are accessed, () if no tensor lies on it.

        Raises ValueError if two tensors on one pattern are accessed by different variables.
        """
        found: dict[int, tuple[IndexVar, ...]] = {}
        for access in (*self.assignment.accesses, *(factor for term in self.terms for factor in term.factors)):
            axis = self.type_of[access.tensor].positions
            if axis is None:
                continue
            variables = tuple(str(access.indices[dim]) for dim in axis.dims)
            if found.setdefault(axis.pattern, variables) != variables:
                raise ValueError(f"pattern {axis.pattern} is walked as {found[axis.pattern]} and as {variables}")
        return tuple(found.get(n, ()) for n in range(len(self.patterns)))

    def size_source(self, var: IndexVar) -> tuple[str, int]:
        """A tensor's name and the number of its dense storage axis whose extent is the size of `var`.

        Raises ValueError if there is no such axis.
        """
        accesses = self.assignment.accesses
        for access in (*accesses, *(inner for outer in accesses for inner in outer.nested())):
            for number, axis in enumerate(self.type_of[access.tensor].axes):
                if isinstance(axis, Dense) and access.indices[axis.dim] == var:
                    return access.tensor, number
        raise ValueError(f"no tensor tells the size of {var}")


def condition_text(mask: EqualityMask, accesses: Sequence[Access]) -> str:
    """The condition of a mask on these accesses, as text."""
    *factors, total = map(str, accesses)
    return f"{f' {mask.multiply} '.join(factors)} == {total}"
