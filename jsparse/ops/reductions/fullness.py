"""How many entries each reduced part of a tensor stores, and so whether elements that are not stored take part."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import remembered
from jsparse.formats import Pattern
from jsparse.ops.einsum import einsum
from jsparse.ops.reductions.axes import subscripts_of
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["counts", "fullness"]

Fullness = Literal["never", "always", "some"]
"""Which reduced parts (rows, say) store all of their elements: none, every one, or some or an unknown number."""


def fullness(tensor: SparseTensor, reduced: Sequence[int]) -> Fullness:
    """Whether the parts along the dimensions `reduced` store all of their elements."""
    total = prod(tensor.shape[at] for at in reduced)
    if total > tensor.nse:
        return "never"
    if isinstance(tensor.pattern, Pattern):
        return _of_static(tensor.pattern, tuple(reduced))
    return "some"


def counts(tensor: SparseTensor, reduced: Sequence[int]) -> SparseTensor | jax.Array:
    """The number of entries that each part stores, as an integer array."""
    counted: Any = tensor.pattern
    return einsum(subscripts_of(tensor, reduced), counted, out_format="dense", preferred_element_type=jnp.int32)


@remembered(maxsize=256)
def _of_static(pattern: Pattern, reduced: tuple[int, ...]) -> Fullness:
    if pattern.nse == prod(pattern.shape):
        return "always"
    kept = [at for at in range(pattern.ndim) if at not in reduced]
    total = prod(pattern.shape[at] for at in reduced)
    if not kept:
        return "never"
    rows = pattern.rows()
    # Parts that store all elements have `total` entries; sorting the keys needs no array of the kept dimensions' size.
    order = np.lexsort([rows[at] for at in kept])
    starts = np.ones(pattern.nse, np.bool_)
    starts[1:] = np.logical_or.reduce([np.diff(rows[at][order]) != 0 for at in kept])
    lengths = np.diff(np.append(np.flatnonzero(starts), pattern.nse))
    return "some" if (lengths == total).any() else "never"
