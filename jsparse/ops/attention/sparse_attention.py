"""Sparse attention: softmax of scores on a pattern, times values, as one kernel forward and one backward."""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.convert.composed import to_plain
from jsparse.convert.slots import plain_pattern
from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Pattern
from jsparse.ops.attention.fused import Extra, attend
from jsparse.planning.signature import pattern_of
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.overriding import Overriding
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


def sparse_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: PatternLike,
    *,
    bias: SparseTensor | ArrayLike | None = None,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Attention in which query i sees the keys j that a pattern stores.

        out[i] = Σ_j w[i, j] · v[j],   w[i, j] = softmax over stored j of (scale · q[i] · k[j] + bias[i, j])

    No array with an element for each stored entry is kept for derivatives: the backward pass computes the weights
    again, from the maximum and the sum of each row (Dao et al., FlashAttention, NeurIPS 2022). The result is 0 for a
    row without entries, and for a row whose biases are all -inf. `jsparse.dot_product_attention` has the arguments of
    `jax.nn`, and `jsparse.attention_fn` makes a function for Flax.

    Args:
        q: queries, (..., heads, n, dim).
        k: keys, (..., kv_heads, m, dim). There may be fewer heads than in q if kv_heads divides heads: consecutive
            heads of queries then share a head of keys (grouped queries; Ainslie et al., 2023).
        v: values, (..., kv_heads, m, dim of values).
        mask: a Pattern or a SparseTensor, whose values are ignored, of shape (n, m), or (heads, n, m) with a pattern
            for each head; static or dynamic. Queries also see the fill of blocks, as in bsr(16, 16). If blocks fill the
            shape, and there is neither bias nor dropout, the kernel runs over blocks.
        bias: added to the scores: a SparseTensor on the mask's pattern, or an array of its values, (nse,) or
            (heads, nse), or an array (n, m), (heads, n, m) or (..., heads, n, m) that is read at the mask's entries.
            If (n, m) and (heads, nse) are the same shape, the array is read as values; write (1, n, m) to avoid that.
        scale: the factor of the scores; by default dim ** -0.5.
        dropout_rate: the probability with which a weight becomes 0. The others are divided by 1 - rate.
        dropout_key: a key of `jax.random`, for dropout.

    Returns an array (..., heads, n, dim of values) of q's dtype. Narrow floats are computed in float32.

    Raises ShapeError for shapes that do not match, and PatternError for biases on another pattern.

        >>> mask = jsparse.pattern.window(256, 16) | jsparse.pattern.global_(256, 1)
        >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 8, 256, 32))
        >>> jsparse.sparse_attention(q, k, v, mask).shape
        (8, 256, 32)
    """
    if isinstance(mask, Overriding):
        options = {"scale": scale, "bias": bias, "dropout_rate": dropout_rate or None}
        options = {name: value for name, value in options.items() if value is not None}
        return cast("jax.Array", mask._call("sparse_attention", (q, k, v, mask), options))
    q, k, v = map(jnp.asarray, (q, k, v))
    pattern = pattern_of(mask)
    _check(q, k, v, mask, pattern)
    if isinstance(pattern, Composition):
        bias = to_plain(bias) if isinstance(bias, ComposedTensor) else bias
        has_blocks = pattern.ndim == 2 and isinstance(pattern.as_blocks, Pattern)
        if bias is None and dropout_rate == 0 and has_blocks:
            return attend(q, k, v, pattern, scale)
        pattern = plain_pattern(pattern)
    assert pattern is not None
    if pattern.ndim == 3 and k.shape[-3] != q.shape[-3]:  # heads that share keys have different entries
        k, v = (jnp.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
    added = [] if bias is None else [_bias_of_scores(bias, pattern, q)]
    kept = Extra.of_dropout(pattern, q.shape[:-2], dropout_rate, dropout_key, "sparse_attention")
    return attend(q, k, v, pattern, scale, added, kept)


def _bias_of_scores(bias: SparseTensor | ArrayLike, pattern: Pattern | DynamicPattern, q: jax.Array) -> Extra:
    """Return the biases, as values of the pattern's entries or as a dense array that is read there."""
    # For dynamic patterns, only the types are known to agree.
    if isinstance(bias, SparseTensor) and bias.pattern.type != pattern.type:
        raise PatternError(
            f"Expected biases on the mask's pattern {pattern!r}, but they are on {bias.pattern!r}. Convert one of them "
            "with asformat, or pass the values."
        )
    biases = bias.values if isinstance(bias, SparseTensor) else jnp.asarray(bias)
    of_values = [(pattern.nse,), *([(q.shape[-3], pattern.nse)] if pattern.ndim == 2 and q.ndim > 2 else [])]
    if biases.shape in of_values:
        return Extra(biases, (False,) * (q.ndim - 2 - biases.ndim + 1) + (True,) * (biases.ndim - 1))
    lengths = tuple(pattern.shape[-2:])
    if isinstance(bias, SparseTensor) or biases.ndim > q.ndim or biases.shape[-2:] != lengths:
        shapes = [*of_values, lengths, *([(*q.shape[:-2], *lengths)] if q.ndim > 2 else [])]
        raise ShapeError(f"Expected biases of shape {' or '.join(map(str, shapes))}, but got {biases.shape}.")
    return Extra.of_dense(biases, (*q.shape[:-2], *lengths), "bias")


def _check(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: PatternLike, pattern: Pattern | DynamicPattern | None
) -> None:
    if pattern is None or mask.ndim not in (2, 3):
        raise ShapeError(
            f"Expected a mask of shape (n, m) or (heads, n, m), a Pattern or a SparseTensor, in "
            f"sparse_attention, but got {shorten(repr(mask) if pattern is not None else type(mask).__name__)}."
        )
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape} and a mask of shape {tuple(mask.shape)} in sparse_attention"
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.ndim == k.ndim == v.ndim or q.shape[:-3] != k.shape[:-3]:
        raise ShapeError(f"Expected arrays (..., heads, length, dim) with equal leading axes, but got {shapes}.")
    fits = q.shape[-1] == k.shape[-1] and k.shape[:-1] == v.shape[:-1]
    if not fits:
        raise ShapeError(f"Expected keys that match the queries, and values that match the keys, but got {shapes}.")
    if tuple(mask.shape[-2:]) != (q.shape[-2], k.shape[-2]):
        raise ShapeError(
            f"Expected a mask for {q.shape[-2]} queries and {k.shape[-2]} keys, but it is for {mask.shape[-2]} and "
            f"{mask.shape[-1]}: {shapes}."
        )
    if q.ndim > 2 and (not k.shape[-3] or q.shape[-3] % k.shape[-3]):
        raise ShapeError(f"Expected the number of key heads to divide the number of query heads, but got {shapes}.")
    if mask.ndim == 3 and (q.ndim < 3 or mask.shape[0] != q.shape[-3]):
        raise ShapeError(f"Expected a head of queries for each pattern of the mask, but got {shapes}.")
