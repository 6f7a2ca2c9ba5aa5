"""One row of a mask, for a step of a decoder: the keys that the query at a position sees."""

from __future__ import annotations

import jax

from jsparse.errors import PatternError
from jsparse.formats import Pattern
from jsparse.ops.patterns.bands import causal
from jsparse.planning.signature import IndexRelation, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import PatternLike


def row_of(mask: PatternLike, row: jax.Array) -> DynamicPattern:
    """Return row `row` of a mask (n, m) or (heads, n, m), as a pattern of shape (1, m) or (heads, 1, m).

    The pattern is dynamic even if `row` is known, so that all steps of a decoder share a program. A row out of range
    has no entries.
    """
    pattern = pattern_of(mask)
    assert pattern is not None
    found: DynamicPattern = _row(IndexRelation(pattern), row)
    return found


@jax.jit
def _row(held: IndexRelation, row: jax.Array) -> DynamicPattern:
    found: DynamicPattern = held.pattern.take(row[None], held.pattern.ndim - 2)
    return found


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
        f"Expected a causal mask (n, n) in {where}, in which no query sees a later key, since later keys are not "
        f"in the cache yet, but got {pattern!r}. Pass mask & jsparse.pattern.causal(n)."
    )
