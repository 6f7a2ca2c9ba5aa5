"""Arrays that are sums of products of smaller arrays: a matrix u · g + b of a column u and rows g and b, as in norms.

The smaller arrays broadcast to the large array: each has as many dimensions, and size 1 in a dimension along which it
is constant. Sums over dimensions, and products with matrices, need no more memory than the smaller arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Products: TypeAlias = tuple[tuple[jax.Array, ...], ...]
"""A sum of products: for each term of the sum its factors. An empty tuple if an array is not known to be such a sum."""

MOST_TERMS = 8


def combine_products(name: str, operands: Sequence[Products], dtype: np.dtype) -> Products:
    """Apply an elementwise primitive to sums of products.

    Returns () if the result is not a sum of products, or has more than MOST_TERMS products.
    """
    products: Products = ()
    first, *others = operands
    if name in ("add", "add_any"):
        products = first + others[0]
    elif name == "sub":
        products = first + _each(others[0], jnp.negative)
    elif name == "neg":
        products = _each(first, jnp.negative)
    elif name == "mul":
        products = tuple(_merge_factors(a + b) for a in first for b in others[0])
    elif name == "div" and len(others[0]) == 1 and jnp.issubdtype(dtype, jnp.inexact):
        inverse = tuple(1 / x for x in others[0][0])
        products = tuple(_merge_factors(a + inverse) for a in first)
    elif name == "convert_element_type" and jnp.issubdtype(dtype, jnp.inexact):
        products = tuple(tuple(x.astype(dtype) for x in factors) for factors in first)
    return products if len(products) <= MOST_TERMS else ()


def _each(products: Products, function: Callable[[jax.Array], jax.Array]) -> Products:
    return tuple((function(factors[0]), *factors[1:]) for factors in products)


def _merge_factors(factors: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Replace two factors by their product if it is no larger than the larger factor. Returns the factors."""
    merged: list[jax.Array] = []
    for x in factors:
        for n, y in enumerate(merged):
            if prod(np.broadcast_shapes(x.shape, y.shape)) <= max(x.size, y.size):
                merged[n] = x * y
                break
        else:
            merged.append(x)
    return tuple(merged)


def total(products: Products, read: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Compute the sum of products of `read(factor)`, such as the factor itself or its elements at some points."""
    return reduce(jnp.add, (reduce(jnp.multiply, map(read, factors)) for factors in products))


def in_letters(x: jax.Array, letters: str) -> tuple[jax.Array, str]:
    """Remove the dimensions of size 1 from a factor. Returns the factor and the letters of the other dimensions."""
    kept = [dim for dim, size in enumerate(x.shape) if size != 1]
    return x.reshape([x.shape[dim] for dim in kept]), "".join(letters[dim] for dim in kept)
