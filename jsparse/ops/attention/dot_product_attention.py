"""Attention with the arguments and the layout of `jax.nn.dot_product_attention`: lengths come before heads.

`attention_fn` makes functions with the arguments that Flax's attention layers pass.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import NotYetSupportedError, ShapeError
from jsparse.formats import Pattern
from jsparse.ops.attention.decoding import rows_of
from jsparse.ops.attention.fused import Extra, attend
from jsparse.planning.dtypes import wide_float
from jsparse.planning.signature import is_sparse, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: TensorLike | None = None,
    mask: TensorLike | PatternLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> jax.Array:
    """Attention with the arguments of `jax.nn.dot_product_attention`, where the mask may be sparse.

    With a sparse mask, this is `jsparse.sparse_attention` in the layout of jax.nn: one kernel forward and one backward.
    The result is then 0 for a query that sees no key. Without a sparse mask, `jax.nn.dot_product_attention` is called,
    whose result for a query that sees no key is a mean.

    Args:
        query: (..., T, heads, dim).
        key: (..., S, kv_heads, dim), where `kv_heads` divides `heads`.
        value: (..., S, kv_heads, dim of values).
        bias: added to the scores: an array that broadcasts to (..., heads, T, S), or a SparseTensor on the mask's
            pattern.
        mask: a Pattern, or a SparseTensor, whose values are ignored, of shape (T, S) or (heads, T, S), static or
            dynamic; or a mask that jax.nn accepts.
        scale: the factor of the scores; by default dim ** -0.5.
        is_causal: whether query i sees only the keys 0 to i. For n queries and n keys,
            `mask & jsparse.pattern.causal(n)` has the same effect, with fewer entries.

    Returns an array (..., T, heads, dim of values) of the query's dtype. Narrow floats are computed in float32.

    Raises ShapeError for shapes that do not match.

        >>> mask = jsparse.pattern.window(256, 16) | jsparse.pattern.global_(256, 1)
        >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 4, 256, 8, 32))
        >>> jsparse.dot_product_attention(q, k, v, mask=mask).shape
        (4, 256, 8, 32)
    """
    added, where = (as_sparse_operand(x, "jsparse.dot_product_attention") for x in (bias, mask))
    if not is_sparse(where):
        if is_sparse(added):
            raise ShapeError(
                f"Expected a sparse mask with the sparse bias {added!r}, which is added to the scores at the entries "
                f"of the mask, but got mask={type(where).__name__}. Pass mask=bias.pattern too, or bias.todense()."
            )
        return jax.nn.dot_product_attention(query, key, value, added, where, scale=scale, is_causal=is_causal)
    q, k, v = map(jnp.asarray, (query, key, value))
    return over_lengths(q, k, v, pattern_of_mask(where, q, k, v), added, scale=scale, is_causal=is_causal)


def pattern_of_mask(mask: PatternLike, query: Array, key: Array, value: Array) -> Pattern | DynamicPattern:
    """Return the pattern of a sparse mask. Raises ShapeError if shapes do not fit."""
    pattern = pattern_of(mask)
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape} and a mask of shape {tuple(mask.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 3 or len({x.shape[:-3] for x in (query, key, value)}) > 1:
        raise ShapeError(f"Expected arrays (..., length, heads, dim) with equal axes in front, but got {shapes}.")
    if query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
        raise ShapeError(f"Expected a key like the query and a value like the key, but got {shapes}.")
    heads, shared = query.shape[-2], key.shape[-2]
    if not shared or heads % shared:
        raise ShapeError(f"Expected the number of key heads to divide the number of query heads, but got {shapes}.")
    whole = (heads, query.shape[-3], key.shape[-3])
    if pattern is None or tuple(mask.shape) not in (whole, whole[1:]):
        raise ShapeError(f"Expected a mask of shape {whole[1:]}, or {whole} with one for each head, but got {shapes}.")
    if len(mask.shape) == 3 and heads != shared:
        raise ShapeError(f"Expected a head of keys for each pattern of the mask, but got {shapes}.")
    return pattern


def over_lengths(
    query: Any,
    key: Any,
    value: Any,
    pattern: Pattern | DynamicPattern,
    bias: SparseTensor | ArrayLike | None = None,
    dense_mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    kept: Extra | None = None,
) -> jax.Array:
    """Compute attention of arrays (..., length, heads, dim) on a pattern.

    Args:
        bias: an array that broadcasts to (..., heads, T, S), or a SparseTensor on the pattern.
        dense_mask: an array that broadcasts to (..., heads, T, S), False for entries of the pattern that are left out.
        kept: the factors by which the weights are multiplied.
    """
    shape = (*query.shape[:-3], query.shape[-2], query.shape[-3], key.shape[-3])
    added = []
    if isinstance(bias, SparseTensor):
        if not same_entries(bias.pattern, pattern):
            raise ShapeError(
                f"Expected a bias on the mask's pattern {pattern!r}, but got {bias!r}. Use B.restrict(mask)."
            )
        added.append(Extra(bias.values, (False,) * (query.ndim - 2)))
    elif bias is not None:
        added.append(Extra.of_dense(jnp.asarray(bias), shape, "bias"))
    if dense_mask is not None:
        out = jnp.where(jnp.asarray(dense_mask) != 0, 0, jnp.asarray(-jnp.inf, wide_float(query.dtype)))
        added.append(Extra.of_dense(out, shape, "mask"))
    return attend(query, key, value, pattern, scale, added, kept, lengths_first=True, is_causal=is_causal)


@dataclass(frozen=True)
class AttentionFn:
    """A function with the arguments of `flax.nnx.dot_product_attention` and `flax.linen.dot_product_attention`.

    Attributes:
        pattern: the pattern on which weights are computed; None if each call passes a sparse mask.
        scale: the factor of the scores; None for dim ** -0.5.
    """

    pattern: Pattern | DynamicPattern | None = None
    scale: float | None = None

    def __call__(
        self,
        query: Array,
        key: Array,
        value: Array,
        bias: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        broadcast_dropout: bool = True,
        dropout_rng: jax.Array | None = None,
        dropout_rate: float = 0.0,
        deterministic: bool = False,
        dtype: DTypeLike | None = None,
        precision: jax.lax.PrecisionLike = None,
        module: object = None,
        is_causal: bool = False,
    ) -> jax.Array:
        """Compute attention of arrays (..., length, heads, dim). See `attention_fn`."""
        if module is not None:
            raise NotYetSupportedError(
                "Sparse attention stores no weights, so sow_weights=True has none to sow. Compute them by "
                "jsparse.softmax of jsparse.einsum('ihd,jhd->ijh', q, k, out_format=mask)."
            )
        dtype = jnp.result_type(query, key, value) if dtype is None else dtype
        query, key, value = (jnp.asarray(x, dtype) for x in (query, key, value))
        sparse, dense = self._masks(mask)
        length = key.shape[-3]
        is_one = query.shape[-3] == 1 and length > 1 and sparse.shape[-2:] == (length, length)
        if is_one and dense is not None and jnp.shape(dense)[-2:] == (1, length):
            # A layer decodes: the query sees the keys in the row of the last key that any query is shown.
            rows = jnp.where(jnp.asarray(dense) != 0, jnp.arange(length, dtype=jnp.int32), -1)
            sparse = rows_of(sparse, rows.max())
        pattern = pattern_of_mask(sparse, query, key, value)
        kept = None
        if dropout_rate and not deterministic:
            sizes, options = (*query.shape[:-3], query.shape[-2]), ("attention_fn", "rng", broadcast_dropout)
            kept = Extra.of_dropout(pattern, sizes, dropout_rate, dropout_rng, *options)
        bias = as_sparse_operand(bias, "an attention_fn")
        return over_lengths(query, key, value, pattern, bias, dense, scale=self.scale, is_causal=is_causal, kept=kept)

    def _masks(self, mask: Any) -> tuple[Any, Any]:
        """Return the sparse mask, and the dense mask or None."""
        mask = as_sparse_operand(mask, "an attention_fn")
        if is_sparse(mask) and self.pattern is None:
            return mask, None
        if is_sparse(mask) or self.pattern is None:
            raise ShapeError(
                f"Expected one sparse mask, in attention_fn(mask) or in the call of the layer, but got "
                f"{'two' if is_sparse(mask) else 'none'}. Combine two by &; without any use Flax's own function."
            )
        return self.pattern, mask


def attention_fn(mask: PatternLike | None = None, *, scale: float | None = None) -> AttentionFn:
    """Make the `attention_fn` of Flax's attention layers from a sparse mask.

        >>> from flax import linen, nnx
        >>> mask = jsparse.pattern.causal(128, before=32) | jsparse.pattern.strided(128, 16)
        >>> attend = jsparse.attention_fn(mask)
        >>> layer = nnx.MultiHeadAttention(8, 64, decode=False, attention_fn=attend, rngs=nnx.Rngs(0))
        >>> layer(jnp.ones((2, 128, 64))).shape
        (2, 128, 64)
        >>> layer = linen.MultiHeadDotProductAttention(num_heads=8, attention_fn=attend)

    The layer passes queries, keys and values of shape (..., length, heads, dim), masks and biases that broadcast to
    (..., heads, T, S), and its dropout rate and key. The masks and biases are read at the entries of the sparse mask
    only. So a padding mask, such as `flax.nnx.make_attention_mask` returns, is passed to the layer as usual. The result
    is 0 for a query that sees no key.

    A layer that decodes (`decode=True`) passes one query, its cache of keys and values, and a mask that shows the keys
    written so far. The query then sees the keys in one row of the sparse mask: the row of the last key that the layer's
    mask shows to any query of the batch. If the sparse mask is causal, and has shape (m, m) for a cache of length m,
    the steps compute the same as one call for the whole sequence:

        >>> layer = nnx.MultiHeadAttention(8, 64, decode=True, attention_fn=attend, rngs=nnx.Rngs(0))
        >>> layer.init_cache((2, 128, 64))
        >>> layer(jnp.ones((2, 1, 64))).shape
        (2, 1, 64)

    Args:
        mask: a Pattern, or a SparseTensor, whose values are ignored, of shape (T, S) or (heads, T, S), static or
            dynamic. If it is None, each call of the layer has to pass one, as in `layer(x, mask=pattern)`.
        scale: the factor of the scores; by default dim ** -0.5.

    Returns a function. Two of these functions are equal if they have the same static pattern and scale. Precision is
    ignored: kernels multiply in float32. Calls raise ShapeError for shapes that do not match, NotYetSupportedError for
    `sow_weights=True`.

    Raises ShapeError if the mask is not sparse.
    """
    pattern = pattern_of(as_sparse_operand(mask, "jsparse.attention_fn"))
    if pattern is None and mask is not None:
        raise ShapeError(
            f"Expected a Pattern or a SparseTensor as the mask of attention_fn, but got {type(mask).__name__}. "
            f"jsparse.pattern.from_mask makes a pattern of an array of bools."
        )
    return AttentionFn(pattern, scale)
