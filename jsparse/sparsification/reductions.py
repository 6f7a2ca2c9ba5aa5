"""Rules of reductions, with numpy's meaning: what is not stored takes part as the background."""

from __future__ import annotations

from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.ops.reductions.fullness import counts
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, check_background, plain, whole

__all__: list[str] = []


@sparse_rule("reduce_sum")
def sums(equation: Equation, x: SparseValue) -> Any:
    """Sum the entries. An entry of a repeated tensor is counted once for each repeat."""
    check_background(x, equation)
    axes = equation.params["axes"]
    times = prod(x.shape[dim] for dim in axes if dim not in x.dims)
    if not set(range(x.ndim)) - set(x.dims) <= set(axes):
        x, times = whole(x), 1
    found = x.tensor.sum(tuple(n for n, dim in enumerate(x.dims) if dim in axes), dtype=x.dtype)
    return plain(found * times if times != 1 else found)


METHODS = {"reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_or": "any", "reduce_and": "all"}
NEUTRAL = {"reduce_max": -np.inf, "reduce_min": np.inf, "reduce_prod": 1, "reduce_or": False, "reduce_and": True}


@sparse_rule(*METHODS)
def extremes(equation: Equation, x: SparseValue) -> Any:
    """Reduce stored entries, and the background where a part does not store all of its elements."""
    if equation.name in ("reduce_or", "reduce_and") and x.dtype != bool:
        raise equation.unsupported("combines bits of integers", "Pass A.todense() there.")
    tensor, axes, name = whole(x).tensor, equation.params["axes"], equation.name
    method = getattr(tensor, METHODS[name])
    if x.background.is_zero:
        return plain(method(axes))
    if x.background.value is None:
        check_background(x, equation)
    stored = method(axes, stored=True) if name != "reduce_or" else method(axes)
    if x.background.value == NEUTRAL[name]:
        return plain(stored)
    if name == "reduce_prod":
        check_background(x, equation)
    background = jnp.asarray(x.background.value, x.dtype)
    total = prod(x.shape[dim] for dim in axes)
    combine = {"reduce_max": jnp.maximum, "reduce_min": jnp.minimum}.get(name, jnp.logical_or)
    combine = jnp.logical_and if name == "reduce_and" else combine
    return jnp.where(counts(tensor, axes) == total, stored, combine(stored, background))


@sparse_rule("argmax", "argmin")
def arguments(equation: Equation, x: SparseValue) -> Any:
    """Raise an error: elements that are not stored take part, and their indices are not known."""
    raise equation.unsupported(
        "needs the elements that are not stored",
        f"jsparse's A.{equation.name}(axis), outside of jsparse.sparsify, finds the index of a stored entry.",
    )


@sparse_rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "sort")
def scans(equation: Equation, *inputs: Any) -> Any:
    """Raise an error: the result has an element for each one of the dense array."""
    raise equation.unsupported("would give a dense array", "Pass A.todense() there.")
