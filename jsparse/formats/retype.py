"""Types of the same index arrays: what `core_of`, `Pattern.extended` and `Pattern.transposed` are for patterns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from jsparse.formats.dynamic import DynamicType
from jsparse.formats.format import Format
from jsparse.formats.level import Level

__all__ = ["core_type", "extended_type", "transposed_type"]


@lru_cache(maxsize=1024)  # planning asks for the core of an operand many times
def core_type(type_: DynamicType) -> DynamicType:
    """The type without its trailing dense levels, with dimensions named by level."""
    kept = type_.format.ndim - type_.format.trailing_dense
    levels, trailing = type_.format.levels[:kept], type_.format.levels[kept:]
    shape = tuple(type_.shape[level.dim] for level in levels)
    inner = prod(type_.shape[level.dim] for level in trailing)
    format = Format(tuple(Level(level.kind, n, level.unique) for n, level in enumerate(levels)))
    return DynamicType(shape, format, type_.nse // max(inner, 1))


def extended_type(type_: DynamicType, sizes: Sequence[int]) -> DynamicType:
    """The type with dense levels of `sizes` appended for further dimensions."""
    return DynamicType((*type_.shape, *sizes), type_.format.with_dense(len(sizes)), type_.nse * prod(sizes))


def transposed_type(type_: DynamicType, axes: Sequence[int]) -> DynamicType:
    """The type of the logically transposed tensor: its dimension d is `axes[d]` of this."""
    return DynamicType(tuple(type_.shape[axis] for axis in axes), type_.format.transposed(axes), type_.nse)
