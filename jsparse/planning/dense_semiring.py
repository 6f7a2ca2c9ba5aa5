"""Dense products by any semiring: plain jax.numpy over the whole iteration space.

XLA fuses the product into the reduction, so outside of derivatives the product is never stored. The semantics are those
of the compiler's loops: an empty reduction is the semiring's zero, and the factors that attain a minimum share its
gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.base.limits import MOST_COUNTED, check_bytes
from jsparse.compiler.semiring import Semiring
from jsparse.notation import IndexVar

__all__ = ["dense_product"]

_SPARSE = "Make an operand sparse (jsparse.asarray): the loops then visit its stored entries only."
_MULTIPLY = {"*": jnp.multiply, "+": jnp.add, "&": jnp.bitwise_and}


def dense_product(
    semiring: Semiring,
    terms: Sequence[tuple[IndexVar, ...]],
    kept: tuple[IndexVar, ...],
    arrays: Sequence[Any],
    sizes: Mapping[IndexVar, int],
) -> jax.Array:
    """Compute ⊕ ⊗ arrays: multiply them and reduce the index variables that `kept` lacks.

    Args:
        terms: for each array the index variable of each axis; a repeated variable takes a diagonal.
        kept: the index variables of the result's axes.
        arrays: the factors, all of one dtype, which is the result's.
        sizes: the size of each index variable.

    Raises ShapeError if the iteration space is too large to count.
    """
    carried = dict.fromkeys((*kept, *(v for term in terms for v in term)))
    space = tuple(carried)
    shape = tuple(sizes[v] for v in space)
    summed = tuple(range(len(kept), len(space)))
    dtype = arrays[0].dtype
    check_bytes(shape, dtype, f"all combinations of indices by {semiring}", _SPARSE, MOST_COUNTED)
    if not prod(shape[len(kept) :]):
        return jnp.full(shape[: len(kept)], semiring.zero(dtype.name), dtype)
    aligned = [_aligned(x, term, space) for x, term in zip(arrays, terms, strict=True)]
    product = jnp.broadcast_to(reduce(_MULTIPLY[semiring.multiply], aligned), shape)
    return _sum(semiring, product, summed) if summed else product


def _aligned(x: Any, term: Sequence[IndexVar], space: Sequence[IndexVar]) -> Any:
    """Align an array with the iteration space: one axis for each index variable, of size 1 where the term lacks it."""
    names = list(term)
    while len(set(names)) < len(names):
        last = max(n for n, v in enumerate(names) if names.index(v) < n)
        first = names.index(names[last])
        x = jnp.diagonal(x, axis1=first, axis2=last)  # numpy puts the diagonal last
        names = [v for n, v in enumerate(names) if n not in (first, last)] + [names[last]]
    order = sorted(range(len(names)), key=lambda n: space.index(names[n]))
    return jnp.expand_dims(jnp.transpose(x, order), [n for n, v in enumerate(space) if v not in names])


def _sum(semiring: Semiring, product: Any, axes: tuple[int, ...]) -> Any:
    match semiring.add:
        case "+":
            return jnp.sum(product, axes, dtype=product.dtype)
        case "*":
            return jnp.prod(product, axes, dtype=product.dtype)
        case "min":
            return jnp.min(product, axes)
        case "max":
            return jnp.max(product, axes)
        case "|":
            return jax.lax.reduce_or(product, axes)
