"""The functions of JAX that calls in statements stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["MEANINGS", "of_numbers"]


def _the_same(x: Any) -> Any:
    return x


def _largest(*values: Any) -> Any:
    return reduce(jnp.maximum, values)


def _smallest(*values: Any) -> Any:
    return reduce(jnp.minimum, values)


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, where integers and conditions count as floats, as in functions of jax.numpy."""

    def of_any(x: Any, *others: Any) -> Any:
        return function(x if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else x * 1.0, *others)

    return of_any


_OF_NUMPY = """
    abs arccos arcsin arctan arctan2 cbrt ceil cos cosh exp exp2 expm1 floor isfinite isinf isnan log log10 log1p log2
    round sign sin sinh sqrt square tan tanh trunc where
"""
_OF_NETWORKS = "elu gelu leaky_relu log_sigmoid selu sigmoid silu soft_sign softplus"

MEANINGS: dict[str, Callable[..., Any]] = {
    **{name: getattr(jnp, name) for name in _OF_NUMPY.split()},
    **{name: _of_floats(getattr(jax.nn, name)) for name in _OF_NETWORKS.split()},
    "": _the_same,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "max": _largest,
    "min": _smallest,
    "pow": jnp.power,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "rsqrt": _of_floats(jax.lax.rsqrt),
    "<": jnp.less,
    "<=": jnp.less_equal,
    ">": jnp.greater,
    ">=": jnp.greater_equal,
    "==": jnp.equal,
    "!=": jnp.not_equal,
}
"""The function that each name of `notation.functions`, each comparison, and "" (a sum in parentheses) stands for."""


def of_numbers(function: str, numbers: tuple[complex, ...]) -> complex:
    """The value for known numbers, which may be infinite or NaN."""
    with jax.ensure_compile_time_eval(), jax.debug_nans(False), jax.debug_infs(False):
        return complex(MEANINGS[function](*numbers))
