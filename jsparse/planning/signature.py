"""What of an einsum's operands decides how it is done; all that is known while tracing, and hashable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jsparse.formats import DynamicType, Pattern
from jsparse.formats.pattern import core_of
from jsparse.formats.retype import core_type, extended_type, transposed_type
from jsparse.planning.index_relation import is_index_relation, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["Core", "PatternRef", "Signature", "signature", "stored_on"]


@dataclass(frozen=True, slots=True)
class Signature:
    """What of an operand decides how an einsum is done.

    Attributes:
        is_relation: it has no values: every entry is 1, in whatever dtype. It never makes a result sparse.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    weak: bool
    stored: PatternRef | None
    is_relation: bool = False

    @property
    def core(self) -> Core | None:
        """What loops walk of the operand's pattern; None if that is nothing."""
        return None if self.stored is None else self.stored.core

    @property
    def promoting(self) -> Any:
        """Something that promotes as the operand does: a weakly typed one as a Python number."""
        python = {"f": float, "i": int, "c": complex, "b": bool}
        return python.get(self.dtype.kind, self.dtype) if self.weak else self.dtype


@dataclass(frozen=True, slots=True)
class PatternRef:
    """A pattern. Dynamic ones are known by type and by `group`: those of one group have the same index arrays."""

    pattern: Pattern | DynamicType
    group: int = 0
    derived: tuple[DynamicType, ...] = ()

    @property
    def core(self) -> Core | None:
        """What loops walk of it; None if all levels are dense."""
        if self.pattern.format.is_dense:
            return None
        if isinstance(self.pattern, Pattern):
            return Core(core_of(self.pattern), 0)
        return Core(core_type(self.pattern), self.group, self.derived)

    def extended(self, sizes: Sequence[int], axes: Sequence[int]) -> PatternRef:
        """With dense levels of `sizes` for added dimensions, and all dimensions then in the order of `axes`."""
        if isinstance(self.pattern, Pattern):
            return replace(self, pattern=self.pattern.extended(sizes).transposed(axes))
        return replace(self, pattern=transposed_type(extended_type(self.pattern, sizes), axes))


@dataclass(frozen=True, slots=True)
class Core:
    """The levels that loops walk."""

    pattern: Pattern | DynamicType
    group: int
    derived: tuple[DynamicType, ...] = ()

    @property
    def ndim(self) -> int:
        """The number of levels."""
        return len(self.pattern.shape)


def stored_on(operands: Sequence[Any]) -> list[PatternRef | None]:
    """What each is stored on; dynamic patterns are grouped by the identity of their index arrays."""
    groups: list[DynamicPattern] = []
    found: list[PatternRef | None] = []
    for pattern in map(pattern_of, operands):
        if pattern is None:
            found.append(None)
        elif isinstance(pattern, Pattern):
            found.append(PatternRef(pattern))
        else:
            group = next((n for n, other in enumerate(groups) if same_entries(pattern, other)), len(groups))
            groups.append(pattern)
            found.append(PatternRef(pattern.type, group, tuple(other.type for other in pattern.derived)))
    return found


def signature(x: Any, on: PatternRef | None) -> Signature:
    """The signature of an operand that is stored so."""
    if is_index_relation(x):
        return Signature(x.shape, np.dtype(bool), False, on, True)  # bool promotes to any other
    array = x.values if isinstance(x, SparseTensor) else x
    return Signature(tuple(x.shape), np.dtype(array.dtype), bool(getattr(array, "weak_type", False)), on)
