"""Patterns whose index arrays are data: traced, different from call to call of one compiled program, batched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.formats import DynamicType, Format, Pattern
from jsparse.formats.dynamic import pad, trim
from jsparse.formats.retype import core_type, transposed_type

__all__ = ["Derived", "DynamicPattern", "same_entries"]


@partial(jax.tree_util.register_dataclass, data_fields=["arrays", "gather", "scatter"], meta_fields=["type"])
@dataclass(frozen=True)
class Derived:
    """The same entries in another storage order: the transposed index of a dynamic pattern.

    Attributes:
        type: levels and room; dimension `d` is level `d` of the pattern it derives from.
        arrays: its index arrays.
        gather: for each of its slots the slot of the pattern, out of range where there is none.
        scatter: for each slot of the pattern its slot.
    """

    type: DynamicType
    arrays: tuple[Any, ...]
    gather: Any
    scatter: Any


@partial(jax.tree_util.register_dataclass, data_fields=["arrays", "derived"], meta_fields=["type"])
@dataclass(frozen=True, eq=False)
class DynamicPattern:
    """A pytree: shape, format and capacity are static, the index arrays are leaves. Compared by identity.

    Every array has the length that follows from `nse`, so one compiled program serves all patterns of that capacity.
    Entries behind the count in use, and coordinates out of range, are padding.
    """

    type: DynamicType
    arrays: tuple[Any, ...]
    derived: tuple[Derived, ...] = ()

    @staticmethod
    def padded(pattern: Pattern, type_: DynamicType) -> DynamicPattern:
        """A static pattern with the room of `type_`. Raises PatternError if it has more entries."""
        return DynamicPattern(type_, tuple(jnp.asarray(array) for array in pad(pattern, type_.nse)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)

    @property
    def format(self) -> Format:
        """How entries are stored."""
        return self.type.format

    @property
    def nse(self) -> int:
        """The room for entries, in slots."""
        return self.type.nse

    @property
    def index_dtype(self) -> np.dtype:
        """The dtype of the index arrays."""
        return self.type.index_dtype

    @property
    def count(self) -> Any:
        """The true number of slots in use, an integer array; it exceeds `nse` after an overflow."""
        roles = [n for n, (_, role) in enumerate(self.format.arrays) if role == "pointers"]
        if not roles:
            return jnp.asarray(self.nse)
        last = roles[-1]
        level = self.format.arrays[last][0]
        below = prod(self.shape[inner.dim] for inner in self.format.levels[level + 1 :] if inner.kind.value == "dense")
        return self.arrays[last][..., -1] * below

    @property
    def overflowed(self) -> Any:
        """Whether more entries were asked for than there is room: a bool array."""
        return self.count > self.nse

    @property
    def concrete(self) -> bool:
        """Whether the index arrays are known now."""
        return not any(isinstance(array, jax.core.Tracer) for array in self.arrays)

    def retyped(self, type_: DynamicType) -> DynamicPattern:
        """Another type over the same index arrays: dense levels added, dimensions renamed."""
        return DynamicPattern(type_, self.arrays, self.derived)

    def transposed(self, axes: Sequence[int]) -> DynamicPattern:
        """The pattern of the logically transposed tensor, over the same arrays."""
        return self.retyped(transposed_type(self.type, tuple(axes)))

    def to_static(self) -> Pattern:
        """The static pattern of the entries in use. Raises PatternError after an overflow; the arrays are concrete."""
        return trim(self.type, [np.asarray(array) for array in self.arrays])

    def operands(self) -> tuple[Any, ...]:
        """The index arrays as the einsum primitive takes them."""
        derived = (array for other in self.derived for array in (*other.arrays, other.gather, other.scatter))
        return (*self.arrays, *derived)

    def __repr__(self) -> str:
        shape = "\N{MULTIPLICATION SIGN}".join(map(str, self.shape)) or "()"
        return f"DynamicPattern({self.format.name}, {shape}, nse={self.nse:,})"


def same_entries(a: Pattern | DynamicPattern, b: Pattern | DynamicPattern) -> bool:
    """Whether two patterns are known to walk the same entries: equal content, or the very same index arrays."""
    if isinstance(a, DynamicPattern) and isinstance(b, DynamicPattern):
        return core_type(a.type) == core_type(b.type) and all(x is y for x, y in zip(a.arrays, b.arrays, strict=True))
    return isinstance(a, Pattern) and isinstance(b, Pattern) and a == b
