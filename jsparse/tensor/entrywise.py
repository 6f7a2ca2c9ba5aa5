"""Elementwise functions of stored values that are safe in the padding of dynamic patterns.

Padding holds 0, where a function or its derivative may be infinite or NaN: x ** -1, the derivative of x ** 0.5. An
infinite value in padding would reach the whole gradient, because 0 * inf is NaN. So padding gets a value at which
functions and their derivatives are finite *before* the function, and 0 after it. Values, tangents and cotangents of
padding are then exactly 0 for every function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = ["compiled", "entrywise"]

NEUTRAL = 0.5  # an inner point of the domains of powers, logarithms and inverse trigonometric functions


def entrywise(function: Callable[..., Any], pattern: Pattern | DynamicPattern, *arrays: Any) -> Any:
    """Compute `function(*arrays)` elementwise: values of shape (nse,), 0 in padding, NaN if the pattern overflowed.

    Args:
        function: any function from values of shape (nse,) to values of that shape, elementwise.
        arrays: values on the pattern, each of shape (nse,), or scalars of shape (). Padding contributes nothing to
            their derivatives.

    Raises ShapeError if the function returns another shape.
    """
    if not isinstance(pattern, DynamicPattern):
        return _checked(function(*arrays), pattern)
    protected = (pattern.in_use(x, neutral(x.dtype)) for x in arrays)
    return pattern.settled(_checked(function(*protected), pattern))


def compiled(function: Callable[..., Any], pattern: Pattern | DynamicPattern, *arrays: Any, **options: Hashable) -> Any:
    """Compute `entrywise(function, …)` as one compiled program, outside jit too.

    `function(*arrays, **options)` has to be a module's function, because compiled programs are cached by it.
    """
    if not isinstance(pattern, DynamicPattern):
        return function(*arrays, **options)
    return _compiled(function, pattern, arrays, tuple(options.items()))


@partial(jax.jit, static_argnames=("function", "options"), inline=True)
def _compiled(function: Callable[..., Any], pattern: DynamicPattern, arrays: tuple[Any, ...], options: Any) -> Any:
    return entrywise(partial(function, **dict(options)), pattern, *arrays)


def neutral(dtype: np.dtype) -> complex:
    """The value that padding gets before a function: a Python number, which promotes no dtype."""
    return NEUTRAL if jnp.issubdtype(dtype, jnp.inexact) else 1


def _checked(values: Any, pattern: Pattern | DynamicPattern) -> Any:
    lead = pattern.arrays[0].shape[:-1] if isinstance(pattern, DynamicPattern) else ()
    if values.shape != (*lead, pattern.nse):
        raise ShapeError(
            f"Expected a function that gives values of shape {(*lead, pattern.nse)}, one for each slot of {pattern!r}, "
            f"but it gave {values.shape}. Apply an elementwise function."
        )
    return values
