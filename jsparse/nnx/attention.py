"""Sparse attention layers, and a transformer block, for NNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from jsparse.base.arrays import Array
from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.nn.attention import MultiHead, mask_pattern
from jsparse.nn.decoding import KVCache, apply_layer
from jsparse.nn.layer import check_sizes
from jsparse.nnx.param import SparseIndex
from jsparse.nnx.shown import Shown
from jsparse.ops.attention.dropout import check_rate
from jsparse.tensor.sparse_tensor import PatternLike

Initializer = Callable[..., jax.Array]
KERNEL, ZEROS = nnx.initializers.lecun_normal(), nnx.initializers.zeros_init()


class SparseAttention(nnx.Module, metaclass=Shown):
    """Multi-head attention in which each query sees the keys that a pattern stores.

        >>> from flax import nnx
        >>> mask = jsparse.pattern.window(128, 16) | jsparse.pattern.global_(128, 1)
        >>> layer = jsparse.nnx.SparseAttention(mask, 8, 64, max_distance=16, rngs=nnx.Rngs(0))
        >>> layer(jnp.ones((2, 128, 64))).shape
        (2, 128, 64)

    Without a context the layer computes self-attention. `layer(x, context)` computes cross-attention, with a mask
    (length of x, length of the context).

    For sequences that are shorter than the mask, its leading part is used.

    With `decode=True`, in the constructor or in a call, a call computes the next positions with a KV cache: x is one
    position, as in `nnx.MultiHeadAttention`, or several such as a prompt. The mask is causal, there is no dropout, and
    `init_cache` has to be called first.

        >>> layer = jsparse.nnx.SparseAttention(jsparse.pattern.causal(128, before=16), 8, 64, rngs=nnx.Rngs(0))
        >>> layer.init_cache((2, 128, 64))
        >>> prompt, following = layer(jnp.ones((2, 20, 64)), decode=True), layer(jnp.ones((2, 1, 64)), decode=True)
        >>> prompt.shape, following.shape
        ((2, 20, 64), (2, 1, 64))

    Args:
        mask: a Pattern or SparseTensor (n, m) or (heads, n, m). A call may pass another one, static or dynamic.
        num_heads: the number of heads of queries.
        in_features: the features of x.
        qkv_features: the features of all heads together; by default in_features.
        out_features: the features of the result; by default in_features.
        num_kv_heads: the number of heads of keys and values, which divides `num_heads`; by default `num_heads`.
        in_kv_features: the features of the context; by default in_features.
        max_distance: if given, a trained bias is added for each head and each distance j - i, clipped to ±max_distance.
        dropout_rate: the dropout rate of the stored weights in training. The stream "dropout" of `rngs` gives the keys.
        use_bias: whether projections have biases.
        decode: whether calls compute the next positions with a KV cache.
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init, bias_init: initializers of the projections.
        rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.

    Raises ShapeError if num_kv_heads does not divide num_heads, or if num_heads does not divide qkv_features.
    """

    def __init__(
        self,
        mask: PatternLike,
        num_heads: int,
        in_features: int,
        qkv_features: int | None = None,
        out_features: int | None = None,
        *,
        num_kv_heads: int | None = None,
        in_kv_features: int | None = None,
        max_distance: int | None = None,
        dropout_rate: float = 0.0,
        use_bias: bool = True,
        decode: bool = False,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        kernel_init: Initializer = KERNEL,
        bias_init: Initializer = ZEROS,
        rngs: nnx.Rngs,
    ) -> None:
        check_rate(dropout_rate, "SparseAttention")
        sizes = MultiHead(
            num_heads=num_heads,
            in_features=in_features,
            in_kv_features=in_kv_features or in_features,
            qkv_features=qkv_features,
            out_features=out_features,
            num_kv_heads=num_kv_heads,
            max_distance=max_distance,
            use_bias=use_bias,
        )

        def projection(name: str) -> nnx.Dict:
            arrays = sizes.initial_projection(name, rngs.params, kernel_init, bias_init, param_dtype)
            return nnx.Dict({part: nnx.Param(array) for part, array in arrays.items()})

        pattern = mask_pattern(mask)
        self.mask: Any = pattern if isinstance(pattern, Pattern) else SparseIndex(pattern)
        self.query, self.key, self.value, self.out = map(projection, ("query", "key", "value", "out"))
        relative = sizes.relative(param_dtype)
        self.relative = nnx.data(None if relative is None else nnx.Param(relative))
        self.dropout_rate, self.dtype, self.deterministic = dropout_rate, dtype, False
        self.rngs = nnx.data(rngs.dropout.fork() if dropout_rate else None)
        self.decode = decode
        self.cached_key: Any = nnx.data(None)
        self.cached_value: Any = nnx.data(None)
        self.cache_index: Any = nnx.data(None)

    def __call__(
        self,
        x: Array,
        context: Array | None = None,
        *,
        mask: PatternLike | None = None,
        deterministic: bool | None = None,
        decode: bool | None = None,
    ) -> jax.Array:
        """Attend from x (..., n, in_features) to the context (..., m, in_kv_features), by default x itself.

        There is no dropout if `deterministic`, or after `layer.eval()`. With `decode`, x has the next positions, one or
        several, which attend to the positions in the cache and to the earlier ones of x.
        """
        if mask is None:
            mask = self.mask if isinstance(self.mask, Pattern) else self.mask.get_value()
        projections = {"query": self.query, "key": self.key, "value": self.value, "out": self.out}
        parameters = {  # a pruned model has sparse layers as projections
            name: {part: x[...] for part, x in one.items()} if isinstance(one, nnx.Dict) else one
            for name, one in projections.items()
        }
        relative = None if self.relative is None else self.relative[...]
        cache = None
        if self.decode if decode is None else decode:
            if context is not None:
                raise ShapeError("Expected x alone in SparseAttention with decode=True, but got a context.")
            if self.cache_index is None:
                raise ShapeError(
                    "Expected a KV cache in SparseAttention with decode=True. Call init_cache(shape of x) first."
                )
            cache = KVCache(self.cached_key[...], self.cached_value[...], self.cache_index[...])
        drops = cache is None and not (self.deterministic if deterministic is None else deterministic)
        rate = self.dropout_rate if drops else 0.0
        key = self.rngs() if rate and self.rngs is not None else None
        result, cache = apply_layer(parameters, relative, x, context, mask, cache, self.dtype, rate, key)
        if cache is not None:
            self.cached_key[...], self.cached_value[...], self.cache_index[...] = cache.key, cache.value, cache.index
        return result

    def init_cache(self, input_shape: Sequence[int], dtype: DTypeLike | None = None) -> None:
        """Make an empty KV cache to decode inputs x of `input_shape` (..., length, in_features).

        The default dtype is the layer's `dtype`, or the dtype of the parameters if the layer has none. See the class.
        """
        is_dense = isinstance(self.key, nnx.Dict)
        kv_heads, dim = self.key["kernel"].shape[1:] if is_dense else self.key.out_features
        of_kernel = (self.key["kernel"] if is_dense else self.key.kernel.tensor).dtype
        *batch, length, _ = input_shape
        cache = KVCache.empty(batch, length, kv_heads, dim, dtype or self.dtype or of_kernel)
        self.cached_key, self.cached_value = nnx.Cache(cache.key), nnx.Cache(cache.value)
        self.cache_index = nnx.Cache(cache.index)


class TransformerBlock(nnx.Module, metaclass=Shown):
    """A pre-norm transformer block with sparse self-attention: x + attention(norm(x)), then x + mlp(norm(x)).

        >>> from flax import nnx
        >>> block = jsparse.nnx.TransformerBlock(jsparse.pattern.causal(64, before=8), 4, 32, rngs=nnx.Rngs(0))
        >>> block(jnp.ones((2, 64, 32))).shape
        (2, 64, 32)

    With `decode=True`, a call computes the next positions with a KV cache, as `SparseAttention` does.

    Xiong et al., "On layer normalization in the transformer architecture", ICML 2020.

    Args:
        mask: as in `SparseAttention`.
        num_heads: the number of heads.
        features: the features of x and of the result.
        mlp_features: the features of the hidden layer, whose activation is gelu; by default four times `features`.
        dropout_rate: the dropout rate of the attention weights, and of the results of attention and of the MLP.
        rngs: streams of random numbers.
        **attention: other arguments of `SparseAttention`.
    """

    def __init__(
        self,
        mask: PatternLike,
        num_heads: int,
        features: int,
        *,
        mlp_features: int | None = None,
        dropout_rate: float = 0.0,
        rngs: nnx.Rngs,
        **attention: Any,
    ) -> None:
        check_sizes("TransformerBlock", optional=["mlp_features"], features=features, mlp_features=mlp_features)
        if attention.get("out_features", features) != features:
            raise ShapeError(
                f"Expected out_features to be {features}, the features of the TransformerBlock, but got "
                f"{attention['out_features']}."
            )
        dtypes = {name: attention[name] for name in ("dtype", "param_dtype") if name in attention}
        self.features = features
        hidden = 4 * features if mlp_features is None else mlp_features
        self.attention_norm = nnx.LayerNorm(features, rngs=rngs, **dtypes)
        self.attention = SparseAttention(mask, num_heads, features, dropout_rate=dropout_rate, rngs=rngs, **attention)
        self.mlp_norm = nnx.LayerNorm(features, rngs=rngs, **dtypes)
        self.up = nnx.Linear(features, hidden, rngs=rngs, **dtypes)
        self.down = nnx.Linear(hidden, features, rngs=rngs, **dtypes)
        self.dropout = nnx.Dropout(dropout_rate, rngs=rngs)

    def init_cache(self, input_shape: Sequence[int], dtype: DTypeLike | None = None) -> None:
        """Make an empty KV cache, for decoding. See `SparseAttention.init_cache`."""
        self.attention.init_cache(input_shape, dtype)

    def __call__(
        self,
        x: Array,
        *,
        mask: PatternLike | None = None,
        deterministic: bool | None = None,
        decode: bool | None = None,
    ) -> jax.Array:
        """Apply the block to x (..., length, features)."""
        if jnp.ndim(x) < 2 or jnp.shape(x)[-1] != self.features:
            raise ShapeError(f"Expected x (..., length, {self.features}) in TransformerBlock, but got {jnp.shape(x)}.")
        normed = self.attention_norm(x)
        attended = self.attention(normed, mask=mask, deterministic=deterministic, decode=decode)
        total = jnp.add(x, self.dropout(attended, deterministic=deterministic))
        hidden = jax.nn.gelu(self.up(self.mlp_norm(total)))
        return total + self.dropout(self.down(hidden), deterministic=deterministic)


class TransformerEncoder(nnx.Module, metaclass=Shown):
    """Pre-norm transformer blocks, one after the other, and a last layer normalisation.

        >>> from flax import nnx
        >>> mask = jsparse.pattern.window(64, 8) | jsparse.pattern.global_(64, 1)
        >>> encoder = jsparse.nnx.TransformerEncoder(mask, 2, 4, 32, rngs=nnx.Rngs(0))
        >>> encoder(jnp.ones((2, 64, 32))).shape
        (2, 64, 32)

    With `decode=True` and a causal mask, a call computes the next positions with a KV cache, as `SparseAttention` does.

    Args:
        mask: as in `SparseAttention`, for all blocks.
        num_layers: the number of blocks.
        num_heads, features: as in `TransformerBlock`.
        rngs: streams of random numbers.
        **block: other arguments of `TransformerBlock`.

    Raises ShapeError for sizes that do not divide (see `SparseAttention`).
    """

    def __init__(
        self, mask: PatternLike, num_layers: int, num_heads: int, features: int, *, rngs: nnx.Rngs, **block: Any
    ) -> None:
        check_sizes("TransformerEncoder", num_layers=num_layers)
        blocks = [TransformerBlock(mask, num_heads, features, rngs=rngs, **block) for _ in range(num_layers)]
        self.blocks = nnx.List(blocks)
        dtypes = {name: block[name] for name in ("dtype", "param_dtype") if name in block}
        self.norm = nnx.LayerNorm(features, rngs=rngs, **dtypes)

    def init_cache(self, input_shape: Sequence[int], dtype: DTypeLike | None = None) -> None:
        """Make an empty KV cache in each block, for decoding. See `SparseAttention.init_cache`."""
        for block in self.blocks:
            block.init_cache(input_shape, dtype)

    def __call__(
        self,
        x: Array,
        *,
        mask: PatternLike | None = None,
        deterministic: bool | None = None,
        decode: bool | None = None,
    ) -> jax.Array:
        """Apply the blocks to x (..., length, features), with `mask` in place of the encoder's mask if it is given."""
        for block in self.blocks:
            x = block(x, mask=mask, deterministic=deterministic, decode=decode)
        return self.norm(x)
