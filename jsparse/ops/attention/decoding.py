"""Parts of masks: rows for the steps of a decoder, and the leading part for sequences shorter than the mask."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import memoize
from jsparse.errors import PatternError
from jsparse.formats import Pattern
from jsparse.ops.patterns.bands import causal
from jsparse.planning.signature import IndexRelation, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import PatternLike


def rows_of(mask: PatternLike, first: jax.Array, count: int = 1) -> DynamicPattern:
    """Return `count` rows of a mask (n, m) or (heads, n, m), as a pattern of shape (count, m) or (heads, count, m).

    The pattern is dynamic even if `first` is known, so that all steps of a decoder share a program. Rows out of range
    have no entries.
    """
    pattern = pattern_of(mask)
    assert pattern is not None
    nse = None if count == 1 else _most_in_rows(pattern, count) if isinstance(pattern, Pattern) else pattern.nse
    return _rows(IndexRelation(pattern), first, count, nse)


@partial(jax.jit, static_argnames=("count", "nse"))
def _rows(held: IndexRelation, first: jax.Array, count: int, nse: int | None) -> DynamicPattern:
    rows = first + jnp.arange(count, dtype=first.dtype)
    return held.pattern.take(rows, held.pattern.ndim - 2, nse=nse)


@memoize(maxsize=256)
def _most_in_rows(pattern: Pattern, count: int) -> int:
    """Return the largest number of entries in `count` consecutive rows of a mask, in all heads together."""
    lengths = np.bincount(pattern.rows()[-2], minlength=pattern.shape[-2])
    before = np.append(0, np.cumsum(lengths))
    return int((before[count:] - before[:-count]).max(initial=0)) if count < len(before) else pattern.nse


@memoize(maxsize=256)
def _static_part(pattern: Pattern, n: int, m: int) -> Pattern:
    return pattern[..., :n, :m]


def leading_part(pattern: Pattern | DynamicPattern, n: int, m: int) -> Pattern | DynamicPattern:
    """Return the first n rows and m columns of a mask. A mask that has no more is returned unchanged."""
    rows, columns = pattern.shape[-2:]
    if n >= rows and m >= columns:
        return pattern
    part = (min(n, rows), min(m, columns))
    if isinstance(pattern, Pattern):
        return _static_part(pattern, *part)
    return pattern[..., : part[0], : part[1]]


def check_causal(pattern: Pattern | DynamicPattern, where: str) -> None:
    """Raise PatternError if a mask is not square, or if a query of a static mask sees a later key."""
    *lead, n, m = pattern.shape
    if n == m and isinstance(pattern, DynamicPattern):
        return
    if n == m and isinstance(pattern, Pattern):
        rows = None if not lead else pattern.rows()
        later = (pattern - causal(n)).nse if rows is None else int((rows[-1] > rows[-2]).sum())
        if not later:
            return
    raise PatternError(
        f"Expected a causal mask (n, n) in {where}, in which no query sees a later key, because later keys are not in "
        f"the cache yet, but got {pattern!r}. Pass mask & jsparse.pattern.causal(n)."
    )
