"""Sparse attention layers, and a transformer block, for Linen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import ArrayLike

from jsparse.base.arrays import Array
from jsparse.errors import ShapeError
from jsparse.nn.attention import MultiHead, mask_pattern
from jsparse.nn.decoding import KVCache, apply_layer
from jsparse.nn.layer import check_sizes
from jsparse.tensor.sparse_tensor import PatternLike

Initializer = Callable[..., jax.Array]
Parameters = Mapping[str, Mapping[str, jax.Array]]
CACHED = ("cached_key", "cached_value", "cache_index")
"""The names of the variables of a KV cache, as in `linen.MultiHeadDotProductAttention`."""


class SparseAttention(linen.Module):
    """Multi-head attention in which each query sees the keys that a pattern stores.

        >>> mask = jsparse.pattern.window(128, 16) | jsparse.pattern.global_(128, 1)
        >>> layer, x = jsparse.linen.SparseAttention(mask, 8, max_distance=16), jnp.ones((2, 128, 64))
        >>> variables = layer.init(jax.random.key(0), x)
        >>> layer.apply(variables, x).shape
        (2, 128, 64)

    Without a context it is self-attention; `layer.apply(variables, x, context)` is cross-attention. Parameters have the
    names and shapes that they have in `jsparse.nnx.SparseAttention`.

    With `decode=True`, as in `linen.MultiHeadDotProductAttention`, `init` with x of full length makes a KV cache, and
    each call computes the next positions: x is one position, or several such as a prompt, the mask is causal, and there
    is no dropout. For sequences that are shorter than the mask, its leading part is used.

        >>> layer = jsparse.linen.SparseAttention(jsparse.pattern.causal(128, before=16), 8, decode=True)
        >>> variables = layer.init(jax.random.key(0), x)
        >>> y, changed = layer.apply(variables, x[:, :1], mutable=["cache"])
        >>> y.shape, int(changed["cache"]["cache_index"])
        ((2, 1, 64), 1)

    Attributes:
        mask: a Pattern or SparseTensor (n, m) or (heads, n, m). A call may pass another one, static or dynamic.
        num_heads: the number of heads of queries.
        qkv_features: the features of all heads together; by default the features of x.
        out_features: the features of the result; by default the features of x.
        num_kv_heads: the number of heads of keys and values, which divides `num_heads`; by default `num_heads`.
        max_distance: if given, a trained bias is added for each head and each distance j - i, clipped to ±max_distance.
        dropout_rate: the dropout rate of the stored weights, applied if there is a stream "dropout" of random numbers.
        use_bias: whether projections have biases.
        decode: whether calls compute the next positions with a KV cache.
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init, bias_init: initializers of the projections.

    Calls raise ShapeError if num_kv_heads does not divide num_heads, if num_heads does not divide qkv_features, and for
    shapes that do not fit.
    """

    mask: Any
    num_heads: int
    qkv_features: int | None = None
    out_features: int | None = None
    num_kv_heads: int | None = None
    max_distance: int | None = None
    dropout_rate: float = 0.0
    use_bias: bool = True
    decode: bool = False
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Initializer = jax.nn.initializers.lecun_normal()  # a function
    bias_init: Initializer = jax.nn.initializers.zeros

    @linen.compact
    def __call__(
        self,
        x: ArrayLike,
        context: ArrayLike | None = None,
        *,
        mask: PatternLike | None = None,
        deterministic: bool | None = None,
    ) -> jax.Array:
        """Attend from x (..., n, in) to the context (..., m, context_in), by default x itself.

        There is no dropout if `deterministic`.
        """
        context = x if context is None else context
        options = {field.name: getattr(self, field.name) for field in fields(MultiHead) if hasattr(self, field.name)}
        sizes = MultiHead(in_features=jnp.shape(x)[-1], in_kv_features=jnp.shape(context)[-1], **options)

        def initialize_projection(key: jax.Array, name: str) -> dict[str, jax.Array]:
            keys = iter(jax.random.split(key, 2))
            return sizes.initial_projection(
                name, lambda: next(keys), self.kernel_init, self.bias_init, self.param_dtype
            )

        parameters = {name: self.param(name, initialize_projection, name) for name in sizes.projections()}
        relative = None
        if self.max_distance is not None:
            relative = self.param("relative", lambda _: sizes.relative(self.param_dtype))
        pattern, cache = mask_pattern(self.mask if mask is None else mask), None
        if self.decode and self._has_cache(sizes, x, context, parameters):
            cache = KVCache(*(self.get_variable("cache", name) for name in CACHED))
        drops = cache is None and bool(self.dropout_rate) and not deterministic and self.has_rng("dropout")
        dropout = (self.dropout_rate, self.make_rng("dropout")) if drops else (0.0, None)
        result, cache = apply_layer(parameters, relative, x, context, pattern, cache, self.dtype, *dropout)
        if cache is not None:
            for name, array in zip(CACHED, (cache.key, cache.value, cache.index), strict=True):
                self.put_variable("cache", name, array)
        return result

    def _has_cache(self, sizes: MultiHead, x: ArrayLike, context: ArrayLike, parameters: Parameters) -> bool:
        """Return whether a KV cache exists already. If no cache exists, make a cache for x (..., length, in)."""
        if context is not x:
            raise ShapeError("Expected x alone in SparseAttention with decode=True, but got a context.")
        has_cache = bool(self.has_variable("cache", "cached_key"))
        dtype = self.dtype or parameters["key"]["kernel"].dtype
        *batch, length, _ = jnp.shape(x)
        empty = KVCache.empty(batch, length, sizes.kv_heads, sizes.dim, dtype)
        for name, array in zip(CACHED, (empty.key, empty.value, empty.index), strict=True):
            self.variable("cache", name, lambda x: x, array)
        return has_cache


class TransformerBlock(linen.Module):
    """A pre-norm transformer block: x + attention(norm(x)), then x + W₂ gelu(W₁ norm(x)).

        >>> block, x = jsparse.linen.TransformerBlock(jsparse.pattern.causal(64, before=8), 4), jnp.ones((2, 64, 32))
        >>> variables = block.init(jax.random.key(0), x)
        >>> block.apply(variables, x).shape
        (2, 64, 32)

    Xiong et al., "On layer normalization in the transformer architecture", ICML 2020.

    Attributes:
        mask: as in `SparseAttention`.
        num_heads: the number of heads.
        mlp_features: the features of the hidden layer, whose activation is gelu; by default four times the features of
            x.
        num_kv_heads, max_distance: as in `SparseAttention`.
        dropout_rate: the dropout rate of the attention weights, and of the results of attention and of the MLP.
        dtype, param_dtype: the dtypes of the computation and of the parameters.
        decode: as in `SparseAttention`.

    Calls raise ShapeError for sizes that do not divide (see `SparseAttention`), and for shapes that do not fit.
    """

    mask: Any
    num_heads: int
    mlp_features: int | None = None
    num_kv_heads: int | None = None
    max_distance: int | None = None
    dropout_rate: float = 0.0
    dtype: Any = None
    param_dtype: Any = jnp.float32
    decode: bool = False

    @linen.compact
    def __call__(self, x: Array, *, mask: PatternLike | None = None, deterministic: bool | None = None) -> jax.Array:
        """Apply the block to x (..., length, features)."""
        dtypes = {"dtype": self.dtype, "param_dtype": self.param_dtype}
        check_sizes("TransformerBlock", optional=["mlp_features"], mlp_features=self.mlp_features)
        features, still = jnp.shape(x)[-1], bool(deterministic) or not self.has_rng("dropout")
        attention = SparseAttention(
            self.mask,
            self.num_heads,
            num_kv_heads=self.num_kv_heads,
            max_distance=self.max_distance,
            dropout_rate=self.dropout_rate,
            decode=self.decode,
            name="attention",
            **dtypes,
        )
        normed = linen.LayerNorm(name="attention_norm", **dtypes)(x)
        attended = attention(normed, mask=mask, deterministic=deterministic)
        x = x + linen.Dropout(self.dropout_rate, deterministic=still)(attended)
        hidden = linen.LayerNorm(name="mlp_norm", **dtypes)(x)
        hidden = jax.nn.gelu(linen.Dense(self.mlp_features or 4 * features, name="up", **dtypes)(hidden))
        hidden = linen.Dense(features, name="down", **dtypes)(hidden)
        return x + linen.Dropout(self.dropout_rate, deterministic=still)(hidden)


class TransformerEncoder(linen.Module):
    """Pre-norm transformer blocks, one after the other, and a last layer normalisation.

        >>> mask = jsparse.pattern.window(64, 8) | jsparse.pattern.global_(64, 1)
        >>> encoder, x = jsparse.linen.TransformerEncoder(mask, 2, 4), jnp.ones((2, 64, 32))
        >>> variables = encoder.init(jax.random.key(0), x)
        >>> encoder.apply(variables, x).shape
        (2, 64, 32)

    Attributes:
        mask: as in `SparseAttention`, for all blocks.
        num_layers: the number of blocks.
        num_heads, mlp_features, num_kv_heads, max_distance, dropout_rate, dtype, param_dtype, decode: as in
            `TransformerBlock`.

    Calls raise ShapeError for sizes that do not divide (see `SparseAttention`), and for shapes that do not fit.
    """

    mask: Any
    num_layers: int
    num_heads: int
    mlp_features: int | None = None
    num_kv_heads: int | None = None
    max_distance: int | None = None
    dropout_rate: float = 0.0
    dtype: Any = None
    param_dtype: Any = jnp.float32
    decode: bool = False

    @linen.compact
    def __call__(self, x: Array, *, mask: PatternLike | None = None, deterministic: bool | None = None) -> jax.Array:
        """Apply the blocks to x (..., length, features), with `mask` in place of the encoder's mask if it is given."""
        check_sizes("TransformerEncoder", num_layers=self.num_layers)
        names = [field.name for field in fields(TransformerBlock) if field.name not in ("name", "parent")]
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        for number in range(self.num_layers):
            block = TransformerBlock(**options, name=f"blocks_{number}")
            x = block(x, mask=mask, deterministic=deterministic)
        return linen.LayerNorm(dtype=self.dtype, param_dtype=self.param_dtype, name="norm")(x)
