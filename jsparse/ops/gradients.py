"""`jsparse.grad` and `jsparse.value_and_grad`: JAX's functions, extended to tensors with dynamic patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import jax

from jsparse.base.arrays import check_alive
from jsparse.errors import ShapeError
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["grad", "value_and_grad"]


def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any) -> Any:
    """Differentiate a function as `jax.grad` does, but only the values of tensors with dynamic patterns.

    `jax.grad` itself refuses such tensors, because their index arrays are integer leaves.

        >>> dA = jsparse.grad(lambda A: (A @ x).sum())(A)

    The gradient of a SparseTensor, anywhere in the pytree of an argument, is a SparseTensor on the same pattern, and 0
    in padding. A gradient with a dynamic pattern has a leaf that refuses arithmetic, as a mark. So optimizers, norms
    and steps raise an error if they are mapped over all leaves, index arrays among them. Apply them to
    `jsparse.values(gradient)`, or with `jsparse.optax.values_only`. `A.with_values(gradient.values)` is a tensor
    without a mark.

    Args:
        fun: a function that returns a scalar, or with `has_aux` a pair of a scalar and further results.
        argnums: the numbers of the positional arguments to differentiate.
        has_aux: as in `jax.grad`.
        options: `holomorphic` and `allow_int` of `jax.grad`.

    Gradients have the shapes and dtypes of the arguments. Raises ShapeError if a call has no argument of that number,
    TypeError as `jax.grad` does (integer values, say).
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
    """Compute a function's value and gradient as `jax.value_and_grad` does; see `grad`.

    >>> total, dA = jsparse.value_and_grad(lambda A: (A @ x).sum())(A)

    Raises ShapeError and TypeError as `grad` does.
    """

    @wraps(fun)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        numbers = [_argument_index(n, args) for n in ([argnums] if isinstance(argnums, int) else argnums)]

        def of_values(*chosen: Any) -> Any:
            given = list(args)
            for n, x in zip(numbers, chosen, strict=True):
                given[n] = _closed(x)
            return fun(*given, **kwargs)

        positions = tuple(range(len(numbers)))
        function = jax.value_and_grad(of_values, argnums=positions, has_aux=has_aux, **options)
        value, found = function(*(_opened(args[n]) for n in numbers))
        found = tuple(_closed(x, of_gradients=True) for x in found)
        return value, found[0] if isinstance(argnums, int) else found

    return differentiated


@partial(jax.tree_util.register_dataclass, data_fields=["values"], meta_fields=["pattern"])
@dataclass(frozen=True)
class _Values:
    """The values of a dynamic tensor, as the only leaf. The pattern is metadata, hashed by identity."""

    values: Any
    pattern: DynamicPattern


def _opened(x: Any) -> Any:
    """Replace each dynamic tensor in a pytree by its values."""

    def opened(leaf: Any) -> Any:
        if isinstance(leaf, SparseTensor):
            check_alive(leaf.values, "the values of each tensor that jsparse.grad takes")
        if isinstance(leaf, SparseTensor) and isinstance(leaf.pattern, DynamicPattern):
            return _Values(leaf.values, leaf.pattern)
        return leaf

    return jax.tree.map(opened, x, is_leaf=lambda leaf: isinstance(leaf, SparseTensor))


def _closed(x: Any, of_gradients: bool = False) -> Any:
    """Invert `_opened`. Gradients are set to 0 in padding, where the function may have produced anything."""

    def closed(leaf: Any) -> Any:
        if not isinstance(leaf, _Values):
            return leaf
        if not of_gradients:
            return SparseTensor._unchecked(leaf.values, leaf.pattern)
        is_number = leaf.values.dtype != jax.dtypes.float0
        in_use = leaf.pattern.in_use(leaf.values) if is_number else leaf.values
        return SparseTensor._unchecked(in_use, leaf.pattern.of_gradient())

    return jax.tree.map(closed, x, is_leaf=lambda leaf: isinstance(leaf, _Values))


def _argument_index(n: int, args: Sequence[Any]) -> int:
    if not -len(args) <= n < len(args):
        raise ShapeError(
            f"Expected argnums to name some of the {len(args)} positional arguments, but got {n}. Pass numbers from 0 "
            f"to {len(args) - 1}, and these arguments by position."
        )
    return n % len(args)
