"""The errors that `jax.experimental.checkify` finds in our primitives: NaN in results, and errors in functions of
values.

This module is imported once checkify is.
"""

from __future__ import annotations

from jsparse import _compat
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries import entries_p
from jsparse.primitives.fused import evaluate_fused, fused_p
from jsparse.primitives.map_values import compute_map, map_p
from jsparse.primitives.softmax import logsumexp_p, softmax_p
from jsparse.primitives.sums import sum_p


def register() -> None:
    """Let checkify search the results of primitives for NaN, and the operations that primitives consist of."""
    for primitive in (einsum_p, sum_p, entries_p, softmax_p, logsumexp_p):
        _compat.register_search_for_nan(primitive)
    _compat.register_checked_as(map_p, compute_map)  # on a dynamic pattern, no function sees the zeros in padding
    _compat.register_checked_as(fused_p, evaluate_fused)
