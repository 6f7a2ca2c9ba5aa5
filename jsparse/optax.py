"""Optimizers of Optax for trees with dynamic tensors: `values_only(optax.adam(1e-3))`.

The module needs the extra `jsparse[optax]`. No other module of jsparse imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import PatternError
from jsparse.ops.trees import is_tensor, values, with_values
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.leaves import check_batched_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

try:
    import optax
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Expected the package optax for jsparse.optax, but there is none. Install it: pip install 'jsparse[optax]'.",
        name=error.name,
    ) from error

__all__ = ["restrict_state", "values_only"]


def values_only(transformation: Any) -> Any:
    """Let an optimizer see only the values of the SparseTensors in parameters and gradients.

        >>> optimizer = jsparse.optax.values_only(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)))
        >>> state = optimizer.init(params)
        >>> gradients = jsparse.grad(loss)(params)
        >>> updates, state = optimizer.update(gradients, state, params)
        >>> params = optax.apply_updates(params, updates)

    The index arrays of a dynamic tensor are leaves of its pytree. An optimizer would take moments and norms of them,
    and step them. Here its state has arrays of values only, and in its updates the index arrays are integer zeros, so
    `optax.apply_updates` leaves a pattern as it is. Updates are 0 in padding. Let this be the outermost wrapper.

    Args:
        transformation: any optax.GradientTransformation, with or without extra arguments. An extra argument
            `value_fn`, a function of the parameters, still gets SparseTensors.

    Returns an optax.GradientTransformationExtraArgs. Its update raises LeafError for gradients of index arrays (use
    jsparse.grad), PatternError for gradients on another pattern than the parameters.
    """
    inner = optax.with_extra_args_support(transformation)

    def init(params: Any) -> Any:
        return inner.init(values(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        _check(updates, params)
        arguments = {name: _argument(x, params if name == "value_fn" else None) for name, x in extra.items()}
        given = None if params is None else values(params)
        found, state = inner.update(values(updates), state, given, **arguments)
        return jax.tree.map(_as_update, updates, found, is_leaf=is_tensor), state

    return optax.GradientTransformationExtraArgs(init, update)


def restrict_state(transformation: Any, state: Any, old: Any, new: Any) -> Any:
    """Move the state of an optimizer to the patterns of new parameters, as `A.restrict` does.

        >>> pruned = {"W": params["W"].prune(keep=n).regrow(scores, k)}
        >>> state = jsparse.optax.restrict_state(optimizer, state, params, pruned)

    Args:
        transformation: the optimizer, with or without `values_only`.
        state: its state for parameters on the `old` patterns.
        old, new: parameters before and after, of equal structure but for the patterns.

    Moments of entries that are new are 0. Raises ShapeError if shapes of tensors changed.
    """

    def moved(moment: Any, before: Any, after: Any) -> Any:
        if isinstance(moment, SparseTensor):
            return moment.restrict(after)
        return before.with_values(moment).restrict(after).values if isinstance(before, SparseTensor) else moment

    return optax.tree_utils.tree_map_params(transformation, moved, state, old, new, is_leaf=is_tensor)


def _argument(x: Any, params: Any) -> Any:
    """An extra argument of an update. A function of parameters becomes one of their values."""
    if params is None or not callable(x):
        return values(x)
    function: Callable[..., Any] = x

    def of_values(given: Any, *rest: Any, **more: Any) -> Any:
        return function(with_values(params, given), *rest, **more)

    return of_values


def _as_update(gradient: Any, update: Any) -> Any:
    """The update of a tensor on the pattern of its gradient, with zeros as index arrays."""
    if not isinstance(gradient, SparseTensor):
        return update
    if not isinstance(gradient.pattern, DynamicPattern):
        return SparseTensor._unchecked(update, gradient.pattern)
    zeros = jax.tree.map(jnp.zeros_like, gradient.pattern.ordinary())
    return SparseTensor._unchecked(gradient.pattern.in_use(update), zeros)


def _check(updates: Any, params: Any) -> None:
    for x in jax.tree.leaves(updates, is_leaf=is_tensor):
        if isinstance(x, SparseTensor):
            check_batched_leaves(x, "the gradient of a tensor")
    if params is None:
        return

    def compare(gradient: Any, parameter: Any) -> None:
        if isinstance(gradient, SparseTensor) and isinstance(parameter, SparseTensor) and _differ(gradient, parameter):
            raise PatternError(
                f"Expected a gradient on the pattern of its parameter, {parameter.pattern!r}, but it is on "
                f"{gradient.pattern!r}. Move it there: gradient.restrict(parameter)."
            )

    jax.tree.map(compare, updates, params, is_leaf=is_tensor)


def _differ(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether two patterns are known to differ. That of traced index arrays is not known."""
    if not (isinstance(a.pattern, DynamicPattern) and isinstance(b.pattern, DynamicPattern)):
        return a.pattern != b.pattern
    if a.pattern.type != b.pattern.type:
        return True
    if same_entries(a.pattern, b.pattern) or not (a.pattern.concrete and b.pattern.concrete):
        return False
    pairs = zip(a.pattern.arrays, b.pattern.arrays, strict=True)
    return any(x is not y and not np.array_equal(x, y) for x, y in pairs)
