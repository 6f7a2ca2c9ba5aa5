"""Attention on a pattern by `jsparse.fuse`: softmax of scores, times values, for heads and batch axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.errors import NotYetSupportedError, ShapeError
from jsparse.formats import Pattern
from jsparse.ops.attention.dropout import dropout_factors
from jsparse.ops.einsum import contract
from jsparse.ops.evaluate import evaluate
from jsparse.ops.fuse import fuse
from jsparse.ops.reductions.softmax import softmax
from jsparse.planning.dtypes import wide_float
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern

_EXACT = 2**24  # float32 counts up to here


@dataclass(frozen=True, slots=True)
class Extra:
    """An array that is added to the scores, or multiplied with the weights.

    Attributes:
        array: the array. It has exactly the axes that the other attributes select, in their order.
        axes: for each batch axis, and then for the axis of heads, whether the array has that axis. If not, the array is
            shared along it.
        dense: None for an array with a value for each entry of the pattern. For other arrays a pair: whether there is
            an axis of queries, and whether there is an axis of keys.
    """

    array: Any
    axes: tuple[bool, ...]
    dense: tuple[bool, bool] | None = None

    @staticmethod
    def of_dense(x: jax.Array, shape: tuple[int, ...], name: str) -> Extra:
        """Make an extra of an array that broadcasts to (..., heads, T, S). Raises ShapeError if it does not."""
        try:
            fits = np.broadcast_shapes(x.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ShapeError(
                f"Expected a {name} that broadcasts to {shape}, which is (..., heads, T, S), but got {x.shape}."
            )
        sizes = (1,) * (len(shape) - x.ndim) + x.shape
        *axes, rows, columns = (size != 1 for size in sizes)
        return Extra(x.reshape([size for size in sizes if size != 1]), tuple(axes), (rows, columns))

    @staticmethod
    def of_dropout(
        pattern: Pattern | DynamicPattern,
        sizes: tuple[int, ...],
        rate: float,
        key: jax.Array | None,
        what: str,
        name: str = "key",
        broadcast: bool = False,
    ) -> Extra | None:
        """The dropout factor of each weight, 0 or 1 / (1 - rate); None for a rate of 0.

        Batches and heads, of these sizes, have factors of their own unless `broadcast`. If each head has a pattern,
        its entries are others than those of other heads, so heads have no axis.
        """
        axes = [not broadcast and (n + 1 < len(sizes) or pattern.ndim == 2) for n in range(len(sizes))]
        lead = [size for size, has_axis in zip(sizes, axes, strict=True) if has_axis]
        factors = dropout_factors((*lead, pattern.nse), rate, key, what, name)
        return None if factors is None else Extra(factors, tuple(axes))

    @property
    def kind(self) -> _Kind:
        """All attributes but the array."""
        return _Kind(self.axes, self.dense)


@dataclass(frozen=True, slots=True)
class _Kind:
    axes: tuple[bool, ...]
    dense: tuple[bool, bool] | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """The properties that decide how `jax.vmap` maps attention over heads and batch axes.

    Attributes:
        batch: the number of batch axes.
        heads, shared: the numbers of heads of queries and of keys; None if there is no axis of heads.
        lengths_first: whether the axis of lengths comes before the axis of heads.
        by_head: whether all heads share one pattern, so that a function of one head is mapped over the heads.
        added: the kinds of the arrays that are added to the scores.
        kept: the kind of the array by which weights are multiplied; None for no such array.
        is_causal: whether query i sees only the keys 0 to i.
    """

    batch: int
    heads: int | None
    shared: int | None
    lengths_first: bool
    by_head: bool
    added: tuple[_Kind, ...]
    kept: _Kind | None
    is_causal: bool

    def axes(self, level: int) -> tuple[Any, ...]:
        """Return the axes of `added` and `kept` for vmap: 0 for an array that has the axis, None for a shared array.

        `level` is the number of a batch axis, or -1 for the axis of heads.
        """
        added = tuple(0 if kind.axes[level] else None for kind in self.added)
        return added, 0 if self.kept is not None and self.kept.axes[level] else None


def attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    pattern: Pattern | DynamicPattern | Composition,
    scale: float | None,
    added: Sequence[Extra] = (),
    kept: Extra | None = None,
    lengths_first: bool = False,
    is_causal: bool = False,
) -> jax.Array:
    """Compute attention on a pattern of shape (n, m), or (heads, n, m). Shapes are not checked.

    Args:
        q, k, v: (..., heads, length, dim), or the same without heads; (..., length, heads, dim) if `lengths_first`.
        pattern: the pattern; a composition only if nothing is added or kept.
        added: the arrays that are added to the scores.
        kept: the array by which the weights are multiplied.
    """
    static = pattern if isinstance(pattern, Pattern | Composition) else None
    heads, shared = (None, None) if q.ndim == 2 else tuple(x.shape[-2 if lengths_first else -3] for x in (q, k))
    kinds, by_head = tuple(extra.kind for extra in added), pattern.ndim == 2
    batch = max(q.ndim - 3, 0)
    plan = _Plan(batch, heads, shared, lengths_first, by_head, kinds, None if kept is None else kept.kind, is_causal)
    factor = jnp.asarray(max(q.shape[-1], 1) ** -0.5 if scale is None else scale, wide_float(q.dtype))
    arrays = tuple(extra.array for extra in added), None if kept is None else kept.array
    out: jax.Array = _attention(static, plan)(q, k, v, None if static is not None else pattern, *arrays, factor)
    return out.astype(q.dtype)


@memoize(maxsize=256)
def _attention(pattern: Pattern | Composition | None, plan: _Plan) -> Callable[..., Any]:
    """Return attention as a function of (q, k, v, dynamic pattern, added, kept, scale), which `jsparse.fuse` compiles.

    The function closes over a static pattern.
    """

    def one(q: jax.Array, k: jax.Array, v: jax.Array, mask: DynamicPattern | None, *others: Any) -> jax.Array:
        return _attend(plan, q, k, v, mask if pattern is None else pattern, *others)

    function: Callable[..., Any] = one
    if plan.by_head and plan.heads is not None:
        extras = plan.axes(-1)
        if plan.heads == plan.shared:
            function = jax.vmap(one, (0, 0, 0, None, *extras, None))
        else:
            group = jax.vmap(one, (0, None, None, None, *extras, None))
            function = _in_groups(jax.vmap(group, (0, 0, 0, None, *extras, None)), plan)
    function = _lengths_first(function) if plan.lengths_first else function
    for level in reversed(range(plan.batch)):
        function = jax.vmap(function, (0, 0, 0, None, *plan.axes(level), None))
    return fuse(function)


def _in_groups(function: Callable[..., Any], plan: _Plan) -> Callable[..., Any]:
    """Map a function over the heads of queries. `heads / shared` heads of queries use the same head of keys."""

    def split(x: Any) -> jax.Array:
        return x.reshape(plan.shared, -1, *x.shape[1:])

    def attend_in_groups(
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        mask: Pattern | DynamicPattern | None,
        added: Any,
        kept: jax.Array | None,
        scale: jax.Array,
    ) -> jax.Array:
        of_added, of_kept = plan.axes(-1)
        added = tuple(x if axis is None else split(x) for x, axis in zip(added, of_added, strict=True))
        out = function(split(q), k, v, mask, added, kept if of_kept is None else split(kept), scale)
        return out.reshape(plan.heads, *out.shape[2:])

    return attend_in_groups


def _lengths_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a function to arrays (length, heads, dim). Swapped axes move no data in a function that is fused."""

    def attend_lengths_first(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        return jnp.swapaxes(function(*(jnp.swapaxes(x, 0, 1) for x in (q, k, v)), *rest), 0, 1)

    return attend_lengths_first


def _attend(
    plan: _Plan,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: Any,
    added: Any,
    kept: jax.Array | None,
    scale: jax.Array,
) -> Any:
    """Compute attention on a pattern (heads, n, m) for all heads, or on a pattern (n, m) for one head."""
    h, dtype = "" if plan.by_head else "h", wide_float(q.dtype)
    scores: Any = contract(f"{h}id,{h}jd->{h}ij", q, k, out_format=mask, preferred_element_type=dtype)
    logits = scores * scale
    for kind, array in zip(plan.added, added, strict=True):
        logits = logits.with_values(logits.values + _at_entries(kind, array, h, mask).astype(dtype))
    if plan.is_causal:
        if max(mask.shape[-2:]) > _EXACT:
            raise NotYetSupportedError(
                f"is_causal counts queries and keys in float32, up to {_EXACT}, but the mask has shape {mask.shape}. "
                f"Leave it out, and pass mask & jsparse.pattern.causal(n)."
            )
        row, column = (
            logits.with_values(_evaluate_at_entries(f"x[{name}]", h, mask, x=jnp.arange(size, dtype=jnp.float32)))
            for name, size in zip("ij", mask.shape[-2:], strict=True)
        )
        logits = logits.map(lambda s, i, j: jnp.where(j > i, -jnp.inf, s), row, column)
    weights = softmax(logits, axis=-1)
    if kept is not None:
        weights = weights.with_values(weights.values * kept.astype(dtype))
    return contract(f"{h}ij,{h}jd->{h}id", weights, v, preferred_element_type=dtype)


def _at_entries(kind: _Kind, array: jax.Array, h: str, mask: Pattern | DynamicPattern) -> jax.Array:
    """Return the elements of an array at the entries of the mask. An array without axes is returned unchanged."""
    if kind.dense is None:
        return array
    axes = (bool(h) and kind.axes[-1], *kind.dense)
    names = [name for name, has_axis in zip("hij", axes, strict=True) if has_axis]
    return _evaluate_at_entries(f"x[{','.join(names)}]", h, mask, x=array) if names else array


def _evaluate_at_entries(text: str, h: str, mask: Any, **arrays: Any) -> jax.Array:
    """Compute the expression `text` at the entries of the mask."""
    target = f"S[{'h,' * bool(h)}i,j]"
    sampled: Any = evaluate(f"{target} = {text}", out_format=mask, shape=tuple(mask.shape), **arrays)
    return sampled.values
