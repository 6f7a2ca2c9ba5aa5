"""The tensors that powers and divisors in statements stand for."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jsparse.base.arrays import Array, jax_array
from jsparse.formats import Pattern
from jsparse.notation.statement import Statement
from jsparse.notation.terms import base_and_exponent
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor

__all__ = ["power", "with_powers"]


def with_powers(statement: Statement, tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors of a statement by name, powers such as "x**-1" included.

    A power of a sparse tensor acts on its stored entries only. Negative powers of integers are floats.
    """
    used = {name: base_and_exponent(name) for name in statement.tensors()}
    found = {name: x for name, x in tensors.items() if name in used or name == statement.target.tensor}
    for name, (base, exponent) in used.items():
        if name not in found:
            found[name] = power(tensors[base], exponent)
    return found


def power(x: PatternLike | Array, exponent: float) -> Any:
    """Raise a tensor of a statement to a power. In a sparse tensor, only stored entries are raised."""
    if isinstance(x, Pattern | DynamicPattern):
        return x  # a tensor of ones
    if not isinstance(x, SparseTensor):
        x = jax_array(x, "the base of a power in evaluate to be an array of numbers")
    if exponent == -1:
        return 1 / x
    if exponent < 0 and not jnp.issubdtype(x.dtype, jnp.inexact):
        x = x.astype(jnp.result_type(float))
    return x**exponent
