"""`attention_fn`: sparse attention with the arguments that Flax's attention layers pass."""

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
from jsparse.ops.attention.dot_product_attention import over_lengths, pattern_of_mask
from jsparse.ops.attention.fused import Extra
from jsparse.planning.signature import is_sparse, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import PatternLike


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
                "Sparse attention does not store weights, so sow_weights=True has none to sow. Compute them as "
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
                "Expected one sparse mask, in attention_fn(mask) or in the call of the layer, but got "
                f"{'two' if is_sparse(mask) else 'none'}. Combine two masks with &. Without a sparse mask, use Flax's "
                "own function."
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
            "jsparse.pattern.from_mask makes a pattern from an array of bools."
        )
    return AttentionFn(pattern, scale)
