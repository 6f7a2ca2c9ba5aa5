"""Wraps optimizers, so that they see only the values of tensors, and only the rows of a table in its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from jsparse.base.arrays import PyTree
from jsparse.base.dataclass import dataclass
from jsparse.convert.dynamic_composed import in_use
from jsparse.differentiation.rows import rows_of
from jsparse.errors import PatternError
from jsparse.formats import Pattern
from jsparse.ops.trees import is_tensor, move_values, values, with_values
from jsparse.optax.fingerprints import differ, fingerprint, is_other
from jsparse.optax.row_updates import TableRows, has_rows, in_state, rows_of_tables
from jsparse.tensor.composed import Composition, dynamic_patterns
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.leaves import check_batched_leaves
from jsparse.tensor.sparse_tensor import SparseTensor


@partial(jax.tree_util.register_dataclass, data_fields=["inner", "fingerprints"], meta_fields=[])
@dataclass(frozen=True)
class PatternedState:
    """The state of `values_only` with moments of dynamic tensors. It has the attributes and items of `inner`.

    Attributes:
        inner: the state of the optimizer that is wrapped, with arrays of values.
        fingerprints: for each dynamic tensor, the fingerprint of the pattern to which its moments belong, or None if
            the tensor has no moments.
    """

    inner: Any
    fingerprints: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "fingerprints"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __getitem__(self, number: Any) -> Any:
        return self.inner[number]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


def values_only(transformation: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Let an optimizer see only the values of the SparseTensors in parameters and gradients.

        >>> optimizer = jsparse.optax.values_only(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)))
        >>> state = optimizer.init(params)
        >>> gradients = jsparse.grad(loss)(params)
        >>> updates, state = optimizer.update(gradients, state, params)
        >>> params = optax.apply_updates(params, updates)

    The index arrays of a dynamic tensor are leaves of the tensor's pytree. A plain optimizer would compute moments and
    norms of index arrays, and update them. The wrapped optimizer has a state with arrays of values only, and the index
    arrays in its updates are integer zeros, so `optax.apply_updates` leaves a pattern as it is. Updates are 0 in
    padding. Let `values_only` be the outermost wrapper.

    If the gradient of an array has rows, as from `jsparse.grad(loss, rows=...)`, the optimizer sees only these rows of
    the gradient, of the moments and of the parameter. Functions of entire arrays, such as norms, are computed from
    these rows. Updates have the same rows, the moments of all other rows stay unchanged, and step counts count all
    steps. Apply such updates with `jsparse.optax.apply_updates`.

    Moments belong to the pattern that the parameters had. The moments of dynamic tensors are in a `PatternedState`.
    Using moments with another pattern raises PatternError; if the mismatch is found only while a program runs, all
    updates of floats are NaN. `restrict_state` moves the state to another pattern.

    Gradients from `equinox.filter_grad`, which lack the index arrays, are accepted if the parameters have index arrays.

    Args:
        transformation: any optax.GradientTransformation, with or without extra arguments. An extra argument
            `value_fn`, a function of the parameters, still gets SparseTensors.

    Returns an optax.GradientTransformationExtraArgs. Its update raises LeafError for gradients of index arrays (use
    jsparse.grad), PatternError for gradients or a state on another pattern than the parameters, ShapeError for
    gradients of rows without parameters, NotYetSupportedError for gradients of rows if moments are not arrays of rows.
    """
    inner = optax.with_extra_args_support(transformation)

    def init(params: Any) -> Any:
        return _with_fingerprints(inner.init(values(params)), params)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        _check(updates, params)
        tables = rows_of_tables(updates, params)
        is_stale = _is_stale(state, updates if params is None else params)
        arguments = {name: _argument(x, params if name == "value_fn" else None) for name, x in extra.items()}
        weights = None if params is None else values(params)
        moments = state.inner if isinstance(state, PatternedState) else state
        step = partial(_update_of_rows, inner, tables) if has_rows(tables) else inner.update
        seen = jax.tree.map(_optimizer_view, updates, tables, is_leaf=is_tensor)
        steps, moments = step(seen, moments, weights, **arguments)
        steps = _nan_if(is_stale, steps)
        state = PatternedState(moments, state.fingerprints) if isinstance(state, PatternedState) else moments
        on = updates if params is None else params
        return jax.tree.map(_as_update, updates, steps, tables, on, is_leaf=is_tensor), state

    return optax.GradientTransformationExtraArgs(init, update)


def restrict_state(transformation: optax.GradientTransformation, state: PyTree, old: PyTree, new: PyTree) -> PyTree:
    """Move the state of an optimizer to the patterns of new parameters, as `A.restrict` does.

        >>> pruned = {"W": params["W"].prune(keep=n).regrow(scores, k)}
        >>> state = jsparse.optax.restrict_state(optimizer, state, params, pruned)

    Args:
        transformation: the optimizer, with or without `values_only`.
        state: the state of the optimizer for parameters on the `old` patterns.
        old, new: the parameters before and after, of equal structure except for the patterns.

    Moments of new entries are 0. Raises ShapeError if shapes of tensors changed, PatternError if the state is known to
    belong to other patterns than the old ones. For an nnx.Optimizer, use `jsparse.nnx.restrict_state`.
    """

    def move_moment(moment: Any, before: Any, after: Any) -> Any:
        if isinstance(moment, SparseTensor):
            return moment.restrict(after)
        return move_values(moment, before, after) if isinstance(before, SparseTensor) else moment

    is_stale = _is_stale(state, old)
    moments = state.inner if isinstance(state, PatternedState) else state
    moved = optax.tree_utils.tree_map_params(transformation, move_moment, moments, old, new, is_leaf=is_tensor)
    moved = _nan_if(is_stale, moved)
    return _with_fingerprints(moved, new) if isinstance(state, PatternedState) else moved


def incremental_update(new: PyTree, old: PyTree, step_size: ArrayLike) -> PyTree:
    """Compute the moving average `step_size * new + (1 - step_size) * old` of trees with tensors, as Optax does.

        >>> average = jsparse.optax.incremental_update(params, average, 0.01)

    Args:
        new, old: trees of the same structure, with the same patterns of tensors. Index arrays are not averaged.
        step_size: a number.

    Raises PatternError if the patterns of two tensors differ: `average.restrict(params)` moves a tensor. If the
    difference is only found while a program runs, the average is NaN.
    """
    message = (
        "Expected an average of tensors on the same pattern, but got {a!r} and {b!r}. Move the average: "
        "old.restrict(new)."
    )

    def average(a: Any, b: Any) -> Any:
        if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
            return optax.incremental_update(a, b, step_size)
        if differ(a, b):
            raise PatternError(message.format(a=a, b=b))
        mean = a.with_values(optax.incremental_update(a.values, b.values, step_size))
        on, before = a.pattern, b.pattern
        pairs = zip(dynamic_patterns(on), dynamic_patterns(before), strict=True)
        if isinstance(on, Pattern) or isinstance(before, Pattern) or all(same_entries(*pair) for pair in pairs):
            return mean
        is_stale = is_other(fingerprint(before), on, message.format(a=a, b=b))
        return type(mean)._wrap(_nan_if(is_stale, mean.values), mean.pattern)

    return jax.tree.map(average, new, old, is_leaf=is_tensor)


def _dynamic(tree: Any) -> list[tuple[SparseTensor, DynamicPattern | Composition]]:
    """Return the dynamic tensors of a tree, and their patterns."""
    tensors = (x for x in jax.tree.leaves(tree, is_leaf=is_tensor) if isinstance(x, SparseTensor))
    return [(x, x.pattern) for x in tensors if isinstance(x.pattern, DynamicPattern | Composition) and x.is_dynamic]


def _with_fingerprints(state: Any, params: Any) -> Any:
    """Add to a state the fingerprint of each dynamic tensor whose values have moments in the state."""
    sizes = {np.shape(x)[-1:] for x in jax.tree.leaves(state)}
    hashes = tuple(fingerprint(on) if x.values.shape[-1:] in sizes else None for x, on in _dynamic(params))
    return PatternedState(state, hashes) if any(x is not None for x in hashes) else state


def _is_stale(state: Any, params: Any) -> Any:
    """Whether moments belong to other patterns than the parameters' patterns: a traced bool, or False."""
    if not isinstance(state, PatternedState):
        return False
    tensors = _dynamic(params)
    if len(tensors) != len(state.fingerprints):
        raise PatternError(
            f"Expected parameters with {len(state.fingerprints)} dynamic tensors, as the state has, but got "
            f"{len(tensors)}. Make a new state: optimizer.init(params)."
        )
    is_stale: Any = False
    for (tensor, pattern), stored in zip(tensors, state.fingerprints, strict=True):
        if stored is None:
            continue
        message = (
            f"Expected the state of an optimizer for the entries of {tensor!r}, but its moments belong to other "
            f"entries: the pattern changed. Move it: state = jsparse.optax.restrict_state(optimizer, state, old, new)."
        )
        is_stale = is_other(stored, pattern, message) | is_stale
    return is_stale


def _nan_if(is_stale: Any, tree: Any) -> Any:
    if is_stale is False:
        return tree
    anywhere = jnp.any(is_stale)
    return jax.tree.map(lambda x: jnp.where(anywhere, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.inexact) else x, tree)


def _argument(x: Any, params: Any) -> Any:
    """Convert an extra argument of an update. A function of parameters becomes a function of the parameters' values."""
    if params is None or not callable(x):
        return values(x)
    return lambda weights, *args, **kwargs: x(with_values(params, weights), *args, **kwargs)


def _optimizer_view(gradient: Any, rows: TableRows | bool) -> Any:
    """Return the part of a gradient that the optimizer sees: its rows or its values."""
    return rows_of(gradient) if isinstance(rows, TableRows) else values(gradient)


def _update_of_rows(inner: Any, tables: Any, updates: Any, state: Any, params: Any, **extra: Any) -> tuple[Any, Any]:
    """Update by an optimizer that sees only the rows of tables. Returns the updates and the complete new state."""

    def read(rows: TableRows | bool, x: Any) -> Any:
        return rows.read(x) if isinstance(rows, TableRows) else x

    def write_rows(rows: TableRows | bool, x: Any, whole: Any) -> Any:
        return rows.write(whole, x) if isinstance(rows, TableRows) else x

    places = in_state(inner, state, tables)
    moments, weights = jax.tree.map(read, places, state), jax.tree.map(read, tables, params)
    steps, moments = inner.update(updates, moments, weights, **extra)
    return steps, jax.tree.map(write_rows, places, moments, state)


def _as_update(gradient: Any, update: Any, rows: TableRows | bool, parameter: Any) -> Any:
    """Convert the update of a tensor or of rows to a tensor on the pattern of the gradient.

    An update of a tensor has zeros as index arrays, an update of rows has the index arrays of the gradient. Both are 0
    in padding.
    """
    if not isinstance(gradient, SparseTensor):
        return update
    if isinstance(rows, TableRows):
        pattern = gradient.pattern
        assert isinstance(pattern, DynamicPattern)
        return SparseTensor._wrap(pattern.in_use(update.reshape(-1)), pattern)
    if not gradient.is_dynamic:
        return type(gradient)._wrap(update, gradient.pattern)
    assert isinstance(gradient.pattern, DynamicPattern | Composition)
    zeros = jax.tree.map(jnp.zeros_like, gradient.pattern.ordinary())
    return type(gradient)._wrap(in_use(update, parameter.pattern), zeros)


def _check(updates: Any, params: Any) -> None:
    for x in jax.tree.leaves(updates, is_leaf=is_tensor):
        if isinstance(x, SparseTensor):
            is_filtered = any(on.arrays[0] is None for on in dynamic_patterns(x.pattern))  # by Equinox
            check_batched_leaves(x, "the gradient of a tensor", tangents=is_filtered)
    if params is None:
        return

    def compare(gradient: Any, parameter: Any) -> None:
        if isinstance(gradient, SparseTensor) and isinstance(parameter, SparseTensor) and differ(gradient, parameter):
            raise PatternError(
                f"Expected a gradient on the pattern of its parameter, {parameter.pattern!r}, but it is on "
                f"{gradient.pattern!r}. Move it to the pattern: gradient.restrict(parameter)."
            )

    jax.tree.map(compare, updates, params, is_leaf=is_tensor)
