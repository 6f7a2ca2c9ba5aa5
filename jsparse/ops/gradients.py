"""`jsparse.grad` and `jsparse.value_and_grad`: those of JAX, for sparse tensors with dynamic patterns too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import jax

from jsparse.errors import ShapeError
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["grad", "value_and_grad"]


def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any) -> Any:
    """As `jax.grad`, which refuses the index arrays of a dynamic pattern: here only its values are differentiated.

    The gradient of a SparseTensor is a SparseTensor on the very same pattern, wherever it stands in the pytree of an
    argument, and 0 in slots that are out of use. Its index arrays are those of the pattern, not zeros: let an optimizer
    step `A.values`, not the whole tree of a dynamic tensor. `options` are `holomorphic` and `allow_int` of `jax.grad`.
    Raises ShapeError if the function has no such argument, TypeError as `jax.grad` does, for integer values say.
    """
    differentiated = value_and_grad(fun, argnums, has_aux, **options)

    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = differentiated(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any
) -> Any:
    """As `jax.value_and_grad`; see `grad`."""

    @wraps(fun)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        places = [_place(n, args) for n in ([argnums] if isinstance(argnums, int) else argnums)]

        def of_values(*chosen: Any) -> Any:
            given = list(args)
            for place, x in zip(places, chosen, strict=True):
                given[place] = _closed(x)
            return fun(*given, **kwargs)

        wanted = tuple(range(len(places)))
        function = jax.value_and_grad(of_values, argnums=wanted, has_aux=has_aux, **options)
        value, found = function(*(_opened(args[place]) for place in places))
        found = tuple(_closed(x, of_gradients=True) for x in found)
        return value, found[0] if isinstance(argnums, int) else found

    return differentiated


@partial(jax.tree_util.register_dataclass, data_fields=["values"], meta_fields=["pattern"])
@dataclass(frozen=True)
class _Values:
    """The values of a dynamic tensor, whose pattern is the same for all that is done here. Hashed by identity."""

    values: Any
    pattern: DynamicPattern


def _opened(x: Any) -> Any:
    """With the values alone of each dynamic tensor in a pytree."""

    def opened(leaf: Any) -> Any:
        if isinstance(leaf, SparseTensor) and isinstance(leaf.pattern, DynamicPattern):
            return _Values(leaf.values, leaf.pattern)
        return leaf

    return jax.tree.map(opened, x, is_leaf=lambda leaf: isinstance(leaf, SparseTensor))


def _closed(x: Any, of_gradients: bool = False) -> Any:
    """The inverse of `_opened`. A gradient says nothing of slots out of use, whatever the function did to them."""

    def closed(leaf: Any) -> Any:
        if not isinstance(leaf, _Values):
            return leaf
        is_number = of_gradients and leaf.values.dtype != jax.dtypes.float0
        return SparseTensor._unchecked(leaf.pattern.in_use(leaf.values) if is_number else leaf.values, leaf.pattern)

    return jax.tree.map(closed, x, is_leaf=lambda leaf: isinstance(leaf, _Values))


def _place(n: int, args: Sequence[Any]) -> int:
    if not -len(args) <= n < len(args):
        raise ShapeError(f"Expected argnums to name some of the {len(args)} positional arguments, but got {n}.")
    return n % len(args)
