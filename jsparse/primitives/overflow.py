"""Results on dynamic patterns that overflowed: NaN, where their dtype has it.

Of a pattern with more entries than there is room for, some are missing, so nothing computed on it is right. What says
so is the pattern itself, which every product of a derivative walks as well: hence gradients are NaN, too.
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
    """Whether a pattern that is no batch overflowed, a bool; None if none can, or a result of that dtype cannot say so.
    `index`: the operands of each walk."""
    found = _flags(spec, dtype, index, batches=False)
    return reduce(or_, (flag for _, flag in found)) if found else None


def poisoned(out: Any, spec: Spec, index: Sequence[Sequence[Any]]) -> Any:
    """The result, but NaN for each member of a batch of patterns that overflowed, or everywhere if it has sums over
    them."""
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
    """The leading indices of each dynamic pattern that may overflow, and whether each member does."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return []
    found = []
    for walk, arrays in zip(spec.walks, index, strict=True):
        limit = walk.pattern.limit if isinstance(walk.pattern, DynamicType) else None
        if limit is not None and bool(walk.lead) is batches:
            last, room = limit
            found.append((walk.lead, arrays[last][..., -1] > room))
    return found
