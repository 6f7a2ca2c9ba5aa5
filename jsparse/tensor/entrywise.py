"""Functions of stored values, entry by entry.

The slots of a dynamic pattern that are out of use hold 0, where a function or its derivative may be infinite or NaN:
x ** -1, the derivative of x ** 0.5. What is infinite there reaches the whole gradient, since 0 * inf is NaN. So every
slot out of use is given a value at which functions and their derivatives are finite, *before* the function, and 0
after it. Whatever the function, values, tangents and cotangents of those slots are then exactly 0.
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

NEUTRAL = 0.5  # in the domain of powers, logarithms and inverse functions alike, at none of its ends


def entrywise(function: Callable[..., Any], pattern: Pattern | DynamicPattern, *arrays: Any) -> Any:
    """`function(*arrays)`, values (nse,) of any dtype, 0 in slots out of use; NaN if the pattern overflowed.

    Args:
        function: takes and gives values of single entries, as many as there are slots; it may be any.
        arrays: values on the pattern, each (nse,), or single ones (), which the derivative of no slot out of use
            reaches either.

    Raises ShapeError if the function gives another shape.
    """
    if not isinstance(pattern, DynamicPattern):
        return _checked(function(*arrays), pattern)
    protected = (pattern.in_use(x, neutral(x.dtype)) for x in arrays)
    return pattern.settled(_checked(function(*protected), pattern))


def compiled(function: Callable[..., Any], pattern: Pattern | DynamicPattern, *arrays: Any, **options: Hashable) -> Any:
    """As `entrywise`, but outside jit one compiled program. `function(*arrays, **options)` is one of a module, since
    programs are kept for it, and its result the same whether compiled or not."""
    if not isinstance(pattern, DynamicPattern):
        return function(*arrays, **options)
    return _compiled(function, pattern, arrays, tuple(options.items()))


@partial(jax.jit, static_argnames=("function", "options"), inline=True)
def _compiled(function: Callable[..., Any], pattern: DynamicPattern, arrays: tuple[Any, ...], options: Any) -> Any:
    return entrywise(partial(function, **dict(options)), pattern, *arrays)


def neutral(dtype: np.dtype) -> complex:
    """What slots out of use are given: a number that promotes no dtype."""
    return NEUTRAL if jnp.issubdtype(dtype, jnp.inexact) else 1


def _checked(values: Any, pattern: Pattern | DynamicPattern) -> Any:
    lead = pattern.arrays[0].shape[:-1] if isinstance(pattern, DynamicPattern) else ()
    if values.shape != (*lead, pattern.nse):
        raise ShapeError(
            f"Expected a function that gives values of shape {(*lead, pattern.nse)}, one for each slot of {pattern!r}, "
            f"but it gave {values.shape}."
        )
    return values
