"""Sparse attention: softmax of scores on a pattern, times values, as one kernel forward and one backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.base.memo import remembered
from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.ops.einsum import einsum
from jsparse.ops.fuse import fuse
from jsparse.ops.reductions.softmax import softmax
from jsparse.planning.bare_pattern import pattern_of
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["sparse_attention"]


def sparse_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    *,
    bias: Any = None,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Any = None,
) -> jax.Array:
    """Attention in which query i sees the keys j that a pattern stores.

        out[i] = Σ_j w[i, j] · v[j],   w[i, j] = softmax over stored j of (scale · q[i] · k[j] + bias[i, j])

    Nothing with an element for each stored entry is kept for derivatives: the backward pass computes the weights anew
    from the maximum and the sum of each row (Dao et al., FlashAttention, NeurIPS 2022). A row without entries gives 0,
    and so does one whose biases are all -inf.

    Args:
        q: queries, (..., heads, n, dim).
        k: keys, (..., kv_heads, m, dim). There may be fewer heads than queries have, if their number divides it:
            consecutive heads of queries share one (grouped queries; Ainslie et al., 2023).
        v: values, (..., kv_heads, m, dim of values).
        mask: a Pattern or a SparseTensor, whose values play no part, of shape (n, m), or (heads, n, m) with a pattern
            for each head; static or dynamic.
        bias: added to the scores: a SparseTensor on the mask's pattern, or an array of its values, (nse,) or
            (heads, nse).
        scale: the factor of the scores; by default dim ** -0.5.
        dropout_rate: the probability with which a weight becomes 0. The others are divided by 1 - rate.
        dropout_key: a key of `jax.random`, for dropout.

    Returns an array (..., heads, n, dim of values) of q's dtype. Narrow floats are computed in float32.

    Raises ShapeError for shapes that do not fit.

        >>> mask = jsparse.pattern.window(256, 16) | jsparse.pattern.global_(256, 1)
        >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 8, 256, 32))
        >>> jsparse.sparse_attention(q, k, v, mask).shape
        (8, 256, 32)
    """
    q, k, v = map(jnp.asarray, (q, k, v))
    pattern = pattern_of(mask)
    _check(q, k, v, mask, pattern)
    assert pattern is not None
    if dropout_rate and dropout_key is None:
        raise ValueError("Expected dropout_key=, a key of jax.random, since dropout_rate is not 0.")
    added = bias.values if isinstance(bias, SparseTensor) else None if bias is None else jnp.asarray(bias)
    kept = _kept(q, pattern, dropout_rate, dropout_key) if dropout_rate else None
    factor = jnp.asarray(q.shape[-1] ** -0.5 if scale is None else scale, _computed(q.dtype))
    static = pattern if isinstance(pattern, Pattern) else None
    shape = _Shape(q.ndim, pattern.ndim, 1 if q.ndim == 2 else q.shape[-3], 1 if k.ndim == 2 else k.shape[-3])
    attend = _attention(static, shape, 0 if added is None else added.ndim, kept is not None)
    out: jax.Array = attend(q, k, v, None if static is not None else pattern, added, kept, factor)
    return out.astype(q.dtype)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What of the shapes decides how heads and batch axes are mapped: the numbers of dimensions and of heads."""

    ndim: int
    mask_ndim: int
    heads: int
    shared: int


def _kept(q: Any, pattern: Any, rate: float, key: Any) -> Any:
    """For each weight 0 or 1 / (1 - rate)."""
    lead = q.shape[:-2] if pattern.ndim == 2 else q.shape[:-3]
    return jax.random.bernoulli(key, 1 - rate, (*lead, pattern.nse)) / jnp.float32(1 - rate)


@remembered(maxsize=256)
def _attention(pattern: Pattern | None, shape: _Shape, bias_ndim: int, drops: bool) -> Callable[..., Any]:
    """The fused function of (q, k, v, dynamic pattern, bias, kept weights, scale). A static pattern is part of it."""
    by_head = shape.mask_ndim == 2

    def one(q: Any, k: Any, v: Any, mask: Any, bias: Any, kept: Any, scale: Any) -> Any:
        return _attend(q, k, v, mask if pattern is None else pattern, bias, kept, scale, by_head)

    function: Callable[..., Any] = one
    drop, lead = 0 if drops else None, shape.ndim - shape.mask_ndim
    if by_head and lead:
        own = 0 if bias_ndim == 2 else None
        inner = function
        if shape.heads != shape.shared:
            group = jax.vmap(inner, (0, None, None, None, own, drop, None))
            inner = jax.vmap(group, (0, 0, 0, None, own, drop, None))
            function = _in_groups(inner, shape, own is not None)
        else:
            function = jax.vmap(inner, (0, 0, 0, None, own, drop, None))
        lead -= 1
    for _ in range(lead):
        function = jax.vmap(function, (0, 0, 0, None, None, drop, None))
    return fuse(function)


def _in_groups(function: Callable[..., Any], shape: _Shape, has_own_bias: bool) -> Callable[..., Any]:
    """The function over heads of queries. Each head of keys serves `heads / shared` heads of queries."""

    def split(x: Any) -> Any:
        return None if x is None else x.reshape(shape.shared, shape.heads // shape.shared, *x.shape[1:])

    def grouped(q: Any, k: Any, v: Any, mask: Any, bias: Any, kept: Any, scale: Any) -> Any:
        out = function(split(q), k, v, mask, split(bias) if has_own_bias else bias, split(kept), scale)
        return out.reshape(shape.heads, *out.shape[2:])

    return grouped


def _attend(q: Any, k: Any, v: Any, mask: Any, bias: Any, kept: Any, scale: Any, by_head: bool) -> Any:
    """Attention on one pattern, whose first dimension is the head unless one head is computed."""
    h, dtype = "" if by_head else "h", _computed(q.dtype)
    scores: Any = einsum(f"{h}id,{h}jd->{h}ij", q, k, out_format=mask, preferred_element_type=dtype)
    logits = scores * scale
    if bias is not None:
        logits = logits.with_values(logits.values + bias.astype(dtype))
    weights = softmax(logits, axis=-1)
    if kept is not None:
        weights = weights.with_values(weights.values * kept.astype(dtype))
    return einsum(f"{h}ij,{h}jd->{h}id", weights, v, preferred_element_type=dtype)


def _computed(dtype: Any) -> Any:
    return jnp.promote_types(dtype, jnp.float32)


def _check(q: Any, k: Any, v: Any, mask: Any, pattern: Any) -> None:
    if pattern is None or mask.ndim not in (2, 3):
        raise ShapeError(
            f"Expected a mask of shape (n, m) or (heads, n, m), a Pattern or a SparseTensor, but got {mask!r}."
        )
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape} and a mask of shape {tuple(mask.shape)}"
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.ndim == k.ndim == v.ndim or q.shape[:-3] != k.shape[:-3]:
        raise ShapeError(f"Expected arrays (..., heads, length, dim) with equal leading axes, but got {shapes}.")
    fits = q.shape[-1] == k.shape[-1] and k.shape[:-1] == v.shape[:-1]
    if not fits or tuple(mask.shape[-2:]) != (q.shape[-2], k.shape[-2]):
        raise ShapeError(f"Expected keys like queries, values like keys and a mask (n, m), but got {shapes}.")
    if q.ndim > 2 and (not k.shape[-3] or q.shape[-3] % k.shape[-3]):
        raise ShapeError(f"Expected a number of key heads that divides that of query heads, but got {shapes}.")
    if mask.ndim == 3 and (q.ndim < 3 or mask.shape[0] != q.shape[-3] or k.shape[-3] != q.shape[-3]):
        raise ShapeError(f"Expected a head of queries and keys for each pattern of the mask, but got {shapes}.")
