"""Poisoning of results on overflowed dynamic patterns: they are NaN, if their dtype has NaN.

A pattern with more entries than its capacity lacks some of them, so every result on it would be wrong. The flag is part
of the pattern's index arrays (the true count). Every product of a derivative walks the same pattern, so gradients are
NaN, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.formats import DynamicType
from jsparse.primitives.spec import Spec

__all__ = ["overflowed", "poisoned"]


def overflowed(spec: Spec, dtype: np.dtype, index: Sequence[Sequence[Any]]) -> Any:
    """A bool array of shape (): whether an unbatched pattern overflowed. None if none can, or the dtype has no NaN.

    `index` are the operands of each walk.
    """
    found = _flags(spec, dtype, index, batches=False)
    return reduce(or_, (flag for _, flag in found)) if found else None


def poisoned(out: Any, spec: Spec, index: Sequence[Sequence[Any]]) -> Any:
    """The result with NaN for each member of a batch whose pattern overflowed; everywhere if it sums over members."""
    before = spec.result.before
    for lead, flag in _flags(spec, out.dtype, index, batches=True):
        summed = tuple(n for n, v in enumerate(lead) if v not in before)
        kept = [v for v in lead if v in before]
        ordered = jnp.transpose(jnp.any(flag, summed), [kept.index(v) for v in before if v in kept])
        shape = [size if v in kept else 1 for v, size in zip(before, out.shape, strict=False)]
        shape += [1] * (out.ndim - len(shape))
        out = jnp.where(ordered.reshape(shape), jnp.asarray(jnp.nan, out.dtype), out)
    return out


def _flags(
    spec: Spec, dtype: np.dtype, index: Sequence[Sequence[Any]], batches: bool
) -> list[tuple[tuple[str, ...], Any]]:
    """The leading index variables of each dynamic pattern that may overflow, and a flag for each member."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return []
    found = []
    for walk, arrays in zip(spec.walks, index, strict=True):
        limit = walk.pattern.limit if isinstance(walk.pattern, DynamicType) else None
        if limit is not None and bool(walk.lead) is batches:
            last, capacity = limit
            found.append((walk.lead, arrays[last][..., -1] > capacity))
    return found
