"""Products that need no rows: their loops walk the entries of a dynamic pattern as one segment.

In a sum of all entries, or a product of values on one pattern, no factor is read by coordinates. If every level above
the last one is full, as in csr, a single compressed level has the same entries at the same positions. Walking it saves
the loops over rows, which may be short. Coordinates out of range are skipped as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from jsparse.formats import DynamicType, Format
from jsparse.primitives.spec import PatternAccess, Spec
from jsparse.settings import config

__all__ = ["flattened", "with_operands"]

SEGMENT = Format.of("(i) -> (i : compressed(nonunique))", 1)


def flattened(spec: Spec) -> Spec:
    """The spec over one segment; the spec itself if it needs rows, or walks no pattern of that kind."""
    if len(spec.walks) != 1 or spec.schedule is not None or config.bounds == "check":  # for the pattern as is
        return spec
    (walk,) = spec.walks
    pattern = walk.pattern
    if not isinstance(pattern, DynamicType) or walk.lead or len(set(walk.indices)) < len(walk.indices):
        return spec
    *above, last = pattern.format.levels
    if not above or not all(level.kind.is_full for level in above) or last.kind.arrays != ("pointers", "coordinates"):
        return spec
    named = {v for term in (*spec.factors, spec.result) for v in (*term.before, *term.behind)}
    segment = DynamicType((pattern.shape[last.dim],), SEGMENT, pattern.nse)
    if not named.isdisjoint(walk.indices) or segment.index_dtype != pattern.index_dtype:
        return spec
    kept = tuple((v, size) for v, size in spec.sizes if v not in walk.indices[:-1])
    return replace(spec, walks=(PatternAccess(walk.indices[-1:], segment),), sizes=kept)


def with_operands(spec: Spec, operands: tuple[Any, ...]) -> tuple[Spec, tuple[Any, ...]]:
    """The flattened spec and its operands. The new pointers are 0 and the number of entries."""
    flat = flattened(spec)
    if flat is spec:
        return spec, operands
    factors, ((pointers, coordinates, *_),) = spec.split(operands)
    ends = jnp.stack([jnp.zeros((), pointers.dtype), pointers[-1]])
    return flat, (*factors, ends, coordinates)
