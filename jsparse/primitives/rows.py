"""Rows of an array that are added up at coordinates, and rows that are read at coordinates.

Both are an einsum with the relation R of rows p and places q, which stores (p, q) for each row:

    sums      S[q, t] = Σ over p of R[p, q] · X[p, t]
    reading   X[p, t] = Σ over q of R[p, q] · S[q, t]

Each is the derivative of the other. The sums are as accurate as all sums of this package. XLA's scatter, which is also
the derivative of its gather, adds one row after the other: sums of float32 lose digits from some thousand rows on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import same_varying
from jsparse.base.arrays import Array
from jsparse.formats import Format, PatternType
from jsparse.formats.levels import DENSE, SINGLETON, Level
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec


def row_sums(rows: jax.Array, coordinates: Sequence[Array], shape: Sequence[int]) -> jax.Array:
    """Add rows of shape (n, ...) at coordinates, one array (n,) for each of `shape`: an array (shape..., ...).

    Rows with a coordinate out of range are dropped. Sums of narrow floats are rounded once.
    """
    size, *inner = rows.shape
    full_shape = (*shape, *inner)
    if not prod(full_shape) or not size:
        return jnp.zeros(full_shape, rows.dtype)
    spec = _spec(size, shape, prod(inner))
    return _bind_einsum(rows.reshape(size, prod(inner)), coordinates, spec).reshape(full_shape)


def rows_at(array: jax.Array, coordinates: Sequence[Array]) -> jax.Array:
    """Read the rows (n, ...) of an array at coordinates, one array (n,) for each of its first dimensions.

    Rows with a coordinate out of range are 0.
    """
    outer, size = len(coordinates), len(coordinates[0])
    shape, inner = array.shape[:outer], array.shape[outer:]
    if not array.size or not size:
        return jnp.zeros((size, *inner), array.dtype)
    spec = _spec(size, shape, prod(inner)).transpose_in(0)
    return _bind_einsum(array.reshape(*shape, prod(inner)), coordinates, spec).reshape(size, *inner)


def _spec(size: int, shape: Sequence[int], inner: int) -> Spec:
    places = tuple(f"q{n}" for n in range(len(shape)))
    levels = (Level(DENSE, 0), *(Level(SINGLETON, n) for n in range(1, len(places) + 1)))
    type_ = PatternType((size, *shape), Format(levels), size)
    sizes = (("p", size), *zip(places, shape, strict=True), ("t", inner))
    walk = PatternAccess(("p", *places), type_)
    return Spec((ArrayAccess(("p", "t")),), ArrayAccess((*places, "t")), (walk,), sizes)


def _bind_einsum(array: jax.Array, coordinates: Sequence[Array], spec: Spec) -> Any:
    pattern, sizes = spec.walks[0].pattern, dict(spec.sizes)
    inside = reduce(jnp.logical_and, (_inside(x, sizes[f"q{n}"]) for n, x in enumerate(coordinates)))
    # A kernel leaves an entry out if one of its coordinates is out of range. A wide one must not be cut before.
    index = [jnp.where(inside, x, -1).astype(pattern.index_dtype) for x in coordinates]
    return einsum_p.bind(*same_varying((array, *index)), spec=spec)


def _inside(column: Array, size: int) -> Array:
    return (column >= 0) & (column < size) if size <= np.iinfo(column.dtype).max else column >= 0
