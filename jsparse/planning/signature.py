"""Signatures of operands, and requests for results. A plan depends on nothing else.

A signature has the static, hashable properties of an operand. A request says how the caller wants the result: dense, in
a given format, or on a given pattern.

A bare pattern is an operand without values. It stands for the tensor that has the semiring's one at each of its
entries. No values are stored or read: loops walk the pattern, and nothing is multiplied. It has no dtype, so it
promotes nothing.

Index relations are bare patterns, too. They stand for tables of integers that an expression uses as indices: `rows[p]`
relates p to the index rows[p]. As an operand, the relation is the sparse matrix R(p, i) of ones. Unlike other bare
patterns, it makes no result sparse (`planning.desugaring`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.compiler.cpu_model import CPU, CpuModel
from jsparse.compiler.schedule import Schedule
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.composed import ComposedFormat
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.leaves import Patterned
from jsparse.tensor.sparse_tensor import SparseTensor


@dataclass(frozen=True, slots=True)
class Signature:
    """The static properties of an operand.

    Attributes:
        shape: the logical shape.
        dtype: the dtype of the values; for a bare pattern, the dtype of a product of bare patterns alone.
        weak: whether the dtype is weak, as in jax's promotion.
        stored: the pattern on which the operand is stored; None for a dense array.
        is_bare: whether the operand is a bare pattern, which has no values and multiplies nothing.
        is_relation: whether the operand is an index relation, a bare pattern that makes no result sparse.
        same: the number of an earlier operand that is the same array or tensor; None if there is none.
        composed: the composition on which a composed operand is stored; None for every other operand.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    weak: bool
    stored: PatternRef | None
    is_bare: bool = False
    is_relation: bool = False
    same: int | None = None
    composed: CompositionRef | None = None

    @property
    def core(self) -> PatternRef | None:
        """The core of the operand's pattern; None if it has no sparse level."""
        return None if self.stored is None else self.stored.core

    @property
    def place(self) -> Pattern | PatternType | Composition | None:
        """The pattern, or the composition, on which the operand is stored; None for a dense array."""
        on = self.composed or self.stored
        return None if on is None else on.pattern

    @property
    def promoting(self) -> Any:
        """An argument that `jnp.result_type` promotes like the operand: a Python type if the dtype is weak."""
        python = {"f": float, "i": int, "c": complex, "b": bool}
        return python.get(self.dtype.kind, self.dtype) if self.weak else self.dtype


@dataclass(frozen=True)
class PatternRef:
    """A reference to a pattern: a static pattern itself, or the type and the identity of a dynamic one.

    Attributes:
        pattern: the static pattern, or the type of the dynamic one.
        group: the identity of the index arrays. Dynamic patterns of one group have the same arrays.
        derived: the types of the transposed indices that come with a dynamic pattern.
        has_parents: whether the parents of positions come with it (`DynamicPattern.parents`).
    """

    pattern: Pattern | PatternType
    group: int = 0
    derived: tuple[PatternType, ...] = ()
    has_parents: bool = False

    @lazy
    def core(self) -> PatternRef | None:
        """The core of the pattern, whose levels loops walk; None if all levels are dense."""
        return None if self.pattern.format.is_dense else replace(self, pattern=self.pattern.core)

    @property
    def ndim(self) -> int:
        """The number of dimensions; of a core, the number of levels."""
        return len(self.pattern.shape)

    def on_levels(self, pattern: Pattern | PatternType) -> PatternRef:
        """The same entries on other levels. What comes with the index arrays is for the levels that it was made for."""
        return PatternRef(pattern, self.group)

    def extend_and_transpose(self, sizes: Sequence[int], axes: Sequence[int]) -> PatternRef:
        """Add dimensions of `sizes`, stored in dense levels, and then permute all dimensions by `axes`."""
        return replace(self, pattern=self.pattern.extended(sizes).transposed(axes))


@dataclass(frozen=True)
class CompositionRef:
    """A reference to a composition.

    Attributes:
        pattern: the composition, with only the types of its dynamic patterns.
        parts: a reference to the outer pattern of each part; none for a result, which no other instruction takes.
    """

    pattern: Composition
    parts: tuple[PatternRef, ...] = ()


def places_of(operands: Sequence[Any]) -> list[PatternRef | CompositionRef | None]:
    """The pattern or composition on which each operand is stored.

    Dynamic patterns are grouped by the identity of their index arrays.
    """
    groups: list[DynamicPattern] = []

    def reference(pattern: Pattern | DynamicPattern | PatternType) -> PatternRef:
        if not isinstance(pattern, DynamicPattern):
            return PatternRef(pattern)
        group = next((n for n, other in enumerate(groups) if same_entries(pattern, other)), len(groups))
        groups.append(pattern)
        return PatternRef(pattern.type, group, pattern.derived_types, pattern.has_parents)

    places: list[PatternRef | CompositionRef | None] = []
    for pattern in map(pattern_of, operands):
        if isinstance(pattern, Composition):
            parts = tuple(reference(part.pattern) for part in pattern.parts)
            places.append(CompositionRef(pattern.static_part(), parts))
        else:
            places.append(None if pattern is None else reference(pattern))
    return places


def signature(x: Any, on: PatternRef | CompositionRef | None) -> Signature:
    """The signature of an operand: `on` is where it is stored, or None if it is dense."""
    stored, composed = (None, on) if isinstance(on, CompositionRef) else (on, None)
    if isinstance(x, BarePattern):
        return Signature(x.shape, _integer(), True, stored, True, isinstance(x, IndexRelation), composed=composed)
    array = x.values if isinstance(x, SparseTensor) else x
    weak = bool(getattr(array, "weak_type", False))
    return Signature(tuple(x.shape), np.dtype(array.dtype), weak, stored, composed=composed)


def bare_signature(on: PatternRef, is_relation: bool = False) -> Signature:
    """The signature of a bare pattern, or of an index relation."""
    return Signature(tuple(on.pattern.shape), _integer(), True, on, True, is_relation)


def _integer() -> np.dtype:
    """The dtype of a product in which all operands are bare patterns: JAX's default integer dtype."""
    return np.dtype(jax.dtypes.canonicalize_dtype(int))


class NewPattern(Enum):
    """The request for a sparse result on a new pattern, in an inferred format."""

    NEW_PATTERN = "new"


NEW_PATTERN = NewPattern.NEW_PATTERN

OutFormat: TypeAlias = str | Format | ComposedFormat | SparseTensor | Pattern | DynamicPattern | Composition | None
"""The types of the argument `out_format`."""

OutputRequest: TypeAlias = str | Format | ComposedFormat | PatternRef | CompositionRef | NewPattern | None
"""`out_format` as part of a plan's key: tensors and patterns are replaced by their static part."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request for the result of a program.

    Attributes:
        output: where the result is stored; None to follow the rules (`planning.output`).
        nse: the capacity of a dynamic pattern, or an upper bound for the entries of a static one; None if not given.
        dtype: the result's dtype; None for the dtype to which operands and numbers promote.
        shape: the result's shape; None if it follows from the operands.
        schedules: the prescribed steps of kernels: one schedule for a single kernel, or a schedule or None for each
            term. Empty if the scheduler decides everything.
        has_kernels: whether the program runs kernels, whose loops may take less time after an operand is sorted.
        promotion: the JAX settings that decide how dtypes promote: whether 64 bits are kept, and the table of
            promotions.
        cpu: the model of the processor that prices paths, conversions and the places of results.
    """

    output: OutputRequest = None
    nse: int | None = None
    dtype: np.dtype | None = None
    shape: tuple[int, ...] | None = None
    schedules: tuple[Schedule | None, ...] = ()
    has_kernels: bool = True
    promotion: tuple[bool, str] = (False, "standard")
    cpu: CpuModel = CPU


@dataclass(frozen=True, eq=False)
class BarePattern(Patterned):
    """An operand that is a pattern without values."""

    pattern: Pattern | DynamicPattern | Composition  # type: ignore[assignment]


class IndexRelation(BarePattern):
    """An operand that relates index variables by a table of integers, which is stored as a pattern.

    It is a pytree. Its leaves are the index arrays of a dynamic pattern; a static pattern has no leaves.
    """

    pattern: Pattern | DynamicPattern  # no composition


def _flatten(relation: IndexRelation) -> tuple[tuple[DynamicPattern, ...], Pattern | None]:
    pattern = relation.pattern
    return ((), pattern) if isinstance(pattern, Pattern) else ((pattern,), None)


def _unflatten(static: Pattern | None, dynamic: tuple[DynamicPattern, ...]) -> IndexRelation:
    return IndexRelation(dynamic[0] if static is None else static)


jax.tree_util.register_pytree_node(IndexRelation, _flatten, _unflatten)


def is_sparse(x: Any) -> bool:
    """Whether an argument of a caller is a SparseTensor, a pattern or a composition."""
    # A tuple of types is four times as fast as a union of them.
    return isinstance(x, (SparseTensor, Pattern, DynamicPattern, Composition))


def pattern_of(x: Any) -> Any:
    """Return the pattern, or composition, of a tensor or a BarePattern.

    A pattern or composition is returned unchanged; for anything else, None.
    """
    if isinstance(x, (SparseTensor, BarePattern)):
        return x.pattern
    return x if isinstance(x, (Pattern, DynamicPattern, Composition)) else None
