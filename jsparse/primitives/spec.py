"""The parameter of the einsum primitive, and its translation to a problem of the compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.problem import Axis, Dense, Positions, Problem, TensorType, problem_of_product
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.layout import AnyPattern, storage_type
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask, Semiring
from jsparse.errors import LeafError
from jsparse.formats import Pattern, PatternType
from jsparse.formats.dynamic import index_operands
from jsparse.formats.relayout import index_format, relayout_to
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.notation.einsum import operand_name

Operands: TypeAlias = Sequence[Any]
"""The operands of a primitive: arrays, tracers, and what JAX's rules have in their place."""


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """The index variables of an array's axes.

    A dense array has shape (before…). Values on the pattern `Spec.walks[on]` have shape (before…, slots · behind…): the
    slots and the dense levels with the index variables `behind` share one flat axis, as in `SparseTensor.values`.
    """

    before: tuple[IndexVar, ...]
    on: int | None = None
    behind: tuple[IndexVar, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternAccess:
    """A pattern and the index variables of its levels.

    Attributes:
        indices: the index variable of each level of `pattern`, which is a core (see `Pattern.core`).
        pattern: a static pattern, or the type of a dynamic pattern. The index arrays of a dynamic pattern are operands
            of the primitive, after the factors.
        derived: the types of the transposed indices that come with a dynamic pattern. The operands of a transposed
            index are its index arrays, then two gathers that permute values to its order, and back.
        lead: the index variables of the leading axes of the index arrays, for a batch of dynamic patterns.
        has_parents: whether the parents of positions (`PatternType.parent_levels`) come with a dynamic pattern. They
            are operands after its index arrays. Only XLA operations read them.
    """

    indices: tuple[IndexVar, ...]
    pattern: Pattern | PatternType
    derived: tuple[PatternType, ...] = ()
    lead: tuple[IndexVar, ...] = ()
    has_parents: bool = False

    @property
    def array_counts(self) -> tuple[int, ...]:
        """The numbers of operands of the pattern, none if it is static, and of each transposed index."""
        own = index_operands(self.pattern, (), self.has_parents)
        return (len(own), *(len(other.array_lengths) + 2 for other in self.derived))

    @property
    def extent(self) -> tuple[int, bool]:
        """The number of transposed indices, and whether there are parents: of two equal patterns, one may have more."""
        return len(self.derived), self.has_parents

    @property
    def operand_count(self) -> int:
        """The number of operands of the pattern and its transposed indices together; 0 for a static pattern."""
        return sum(self.array_counts)

    def check_index(self, arrays: Operands, lead: Sequence[int], text: str) -> None:
        """Raise LeafError unless the operands of a dynamic pattern are index arrays of its type.

        `lead` are the sizes of their leading axes.
        """
        expected = index_operands(self.pattern, self.derived, self.has_parents)
        for array, (what, length, dtype) in zip(arrays, expected, strict=True):
            check_shape(array, (*lead, length), dtype, f"{what} in {text}")

    @property
    def scheduler_pattern(self) -> AnyPattern:
        """The pattern in the form that the scheduler reads.

        Transposed indices of batched patterns are left out, because each member of the batch would need its own gather.
        """
        if isinstance(self.pattern, Pattern):
            return self.pattern
        return replace(self.pattern, derived=() if self.lead else self.derived)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Spec:
    """An einsum: the accesses to its arrays, the patterns of its sparse arrays, and the sizes of index variables.

    Attributes:
        factors: the access to each factor. Without factors, the einsum counts stored entries.
        result: the access to the result.
        walks: the patterns. `ArrayAccess.on` is an index in this tuple.
        sizes: the size of each index variable.
        dtype: the result's dtype; None if all factors have the result's dtype. It is never None without factors.
        semiring: the semiring of the product.
        mask: the condition on the first factors under which the product of the other factors is added.
        schedule: steps that the kernel must use; None if the scheduler decides everything.
    """

    factors: tuple[ArrayAccess, ...]
    result: ArrayAccess
    walks: tuple[PatternAccess, ...]
    sizes: tuple[tuple[IndexVar, int], ...]
    dtype: str | None = None
    semiring: Semiring = PLUS_TIMES
    mask: EqualityMask | None = None
    schedule: Schedule | None = None

    @property
    def scheduler_patterns(self) -> tuple[AnyPattern, ...]:
        """The patterns in the form that the scheduler reads."""
        return scheduler_patterns(self.walks)

    @property
    def compared(self) -> int:
        """The number of leading factors that the mask compares. The product is not linear in these."""
        return 0 if self.mask is None else self.mask.operands

    @property
    def without_schedule(self) -> Spec:
        """The spec without the caller's schedule, which applies to the einsum itself, but not to its derivatives."""
        return self if self.schedule is None else replace(self, schedule=None)

    def dtype_of(self, factors: Sequence[Any]) -> np.dtype:
        """Return the dtype of the result if the factors are these arrays."""
        return np.dtype(factors[0].dtype if self.dtype is None else self.dtype)

    def with_dtype(self, result: Any, factors: Sequence[Any]) -> Spec:
        """Return the spec with `result` as the dtype of the result, for factors of the dtypes `factors`."""
        is_theirs = len(factors) > 0 and all(dtype == result for dtype in factors)
        return replace(self, dtype=None if is_theirs else np.dtype(result).name)

    def shape(self, term: ArrayAccess) -> tuple[int, ...]:
        """Return the shape of the array that a term accesses."""
        sizes = dict(self.sizes)
        outer = tuple(sizes[v] for v in term.before)
        return outer if term.on is None else (*outer, self.walks[term.on].pattern.nse * self.slot_size(term))

    def slot_size(self, term: ArrayAccess) -> int:
        """Return the number of elements in each slot of the values that a term accesses."""
        sizes = dict(self.sizes)
        return prod(sizes[v] for v in term.behind)

    def elements_read(self, number: int) -> int:
        """Return the number of elements, with repeats, read from a dense factor at the stored entries of a pattern."""
        sizes, term = dict(self.sizes), self.factors[number]
        walks = [walk for walk in self.walks if not set(walk.indices).isdisjoint(term.before)]
        reads = (w.pattern.nse * prod(sizes[v] for v in term.before if v not in w.indices) for w in walks)
        return min(reads, default=prod(sizes[v] for v in term.before))

    def access(self, name: str, term: ArrayAccess) -> Access:
        """Return the access to a term's array, which is called `name`."""
        levels = () if term.on is None else self.walks[term.on].indices
        return Access(name, (*term.before, *levels, *term.behind))

    def axes(self, term: ArrayAccess, patterns: Sequence[int]) -> tuple[Axis, ...]:
        """Return the storage axes of a term's array. `patterns` has a problem's pattern index for each of `walks`."""
        outer = len(term.before)
        before = (Dense(n) for n in range(outer))
        if term.on is None:
            return tuple(before)
        inner = outer + len(self.walks[term.on].indices)
        behind = (Dense(inner + n) for n in range(len(term.behind)))
        return (*before, Positions(patterns[term.on], tuple(range(outer, inner))), *behind)

    def transpose_in(self, operand_index: int) -> Spec:
        """The transpose in one factor: that factor becomes the result, and the result becomes the last factor."""
        others = (*self.factors[:operand_index], *self.factors[operand_index + 1 :])
        exchanged = replace(self, factors=(*others, self.result), result=self.factors[operand_index])
        return exchanged.without_schedule

    def rename_variables(self, names: Mapping[IndexVar, IndexVar]) -> Spec:
        """Return the spec with other names of index variables. A schedule, whose steps name loops, is left out."""

        def of(variables: tuple[IndexVar, ...]) -> tuple[IndexVar, ...]:
            return tuple(names.get(v, v) for v in variables)

        def access(term: ArrayAccess) -> ArrayAccess:
            return ArrayAccess(of(term.before), term.on, of(term.behind))

        factors = tuple(map(access, self.factors))
        walks = tuple(replace(walk, indices=of(walk.indices), lead=of(walk.lead)) for walk in self.walks)
        sizes = tuple((names.get(v, v), size) for v, size in self.sizes)
        return replace(self.without_schedule, factors=factors, result=access(self.result), walks=walks, sizes=sizes)

    def check_operands(self, operands: Operands) -> None:
        """Raise LeafError unless the operands have the shapes and dtypes that terms and patterns require.

        The leaves of tensors were checked earlier. This check finds operands that JAX's transformations changed since.
        """
        counts = [len(self.factors), *(walk.operand_count for walk in self.walks)]
        if len(operands) != sum(counts):
            raise LeafError(f"Expected {sum(counts)} operands for {self.text}, but got {len(operands)}.")
        factors, index = self.split(operands)
        for n, (x, term) in enumerate(zip(factors, self.factors, strict=True)):
            check_shape(x, self.shape(term), None, f"factor {n} of {self.text}")
        if self.dtype is None and len({x.dtype for x in factors}) > 1:
            raise LeafError(
                f"Expected factors of one dtype for {self.text}, but got {[x.dtype.name for x in factors]}."
            )
        sizes = dict(self.sizes)
        for walk, arrays in zip(self.walks, index, strict=True):
            walk.check_index(arrays, [sizes[v] for v in walk.lead], self.text)

    @property
    def text(self) -> str:
        """The spec in messages, such as "einsum 'ij,jk->ik' over csr"."""
        patterns = ", ".join(walk.pattern.format.name for walk in self.walks)
        return f"einsum '{self.subscripts}' over {patterns or 'no pattern'}"

    @property
    def subscripts(self) -> str:
        """The subscripts of patterns without values, of factors, and of the result. Dimensions are in storage order."""
        lain_on = {term.on for term in (*self.factors, self.result)}
        bare = [walk.indices for n, walk in enumerate(self.walks) if n not in lain_on]
        terms = [self.access("", term).variables() for term in (*self.factors, self.result)]
        *factors, result = ("".join(names) for names in (*bare, *terms))
        return f"{','.join(factors)}->{result}"

    def split(self, operands: Operands) -> tuple[Sequence[Any], list[Sequence[Any]]]:
        """Split operands into the arrays of the factors, and the index arrays of each pattern."""
        factors, *index = split_by_counts(operands, [len(self.factors), *(walk.operand_count for walk in self.walks)])
        return factors, index


def scheduler_patterns(walks: Sequence[PatternAccess]) -> tuple[AnyPattern, ...]:
    """Return patterns that are walked together, in the form that the scheduler reads.

    A static pattern with a level of repeated coordinates, as in coo, receives pointers for that level if another
    pattern has the level's index variable. Then loops find a segment by its pointers, not by a search. The order of
    entries does not change.
    """
    return tuple(_with_pointers(n, walks) for n in range(len(walks)))


def _with_pointers(number: int, walks: Sequence[PatternAccess]) -> AnyPattern:
    pattern = walks[number].pattern
    if not isinstance(pattern, Pattern):
        return walks[number].scheduler_pattern
    others, levels = {v for n, walk in enumerate(walks) if n != number for v in walk.indices}, pattern.format.levels
    located = [v for v, level in zip(walks[number].indices, levels, strict=True) if not level.unique and v in others]
    if not located or not levels[-1].unique:
        return pattern
    move = relayout_to(pattern, index_format(pattern, pattern.format.order))
    return move.target if move.is_identity else pattern


def check_shape(x: Any, shape: tuple[int, ...], dtype: np.dtype | None, what: str) -> None:
    """Raise LeafError if `x` has a different shape or dtype. A `dtype` of None allows all dtypes."""
    if tuple(x.shape) != shape or (dtype is not None and x.dtype != dtype):
        expected = f"shape {shape}" if dtype is None else f"shape {shape} and dtype {dtype}"
        raise LeafError(f"Expected the {what} to have {expected}, but got shape {tuple(x.shape)} and dtype {x.dtype}.")


def split_by_counts(operands: Operands, counts: Iterable[int]) -> list[Sequence[Any]]:
    """Split `operands` into consecutive parts of the given lengths."""
    parts = []
    for count in counts:
        parts.append(operands[:count])
        operands = operands[count:]
    return parts


def problem_of(spec: Spec, dtypes: tuple[str, ...]) -> Problem:
    """Return the compiler problem of a spec. `dtypes` lists the dtype of the result, then of each factor."""
    terms = (spec.result, *spec.factors)
    names = (operand_name(len(spec.factors)), *(operand_name(n) for n in range(len(spec.factors))))
    accesses = [spec.access(name, term) for name, term in zip(names, terms, strict=True)]
    numbers = range(len(spec.walks))
    tensors = tuple(TensorType(n, d, spec.axes(t, numbers)) for n, d, t in zip(names, dtypes, terms, strict=True))
    assignment = Assignment(accesses[0], tuple(accesses[1:]))
    known = dict(spec.sizes)
    walks = tuple((*walk.lead, *walk.indices) for walk in spec.walks)
    variables = dict.fromkeys((*assignment.variables(), *(v for walk in walks for v in walk)))
    patterns = tuple(
        storage_type(p, len(walk.lead)) for p, walk in zip(spec.scheduler_patterns, spec.walks, strict=True)
    )
    sizes = tuple((v, known[v]) for v in variables)
    return problem_of_product(assignment, tensors, patterns, sizes, walks, spec.semiring, spec.mask)
