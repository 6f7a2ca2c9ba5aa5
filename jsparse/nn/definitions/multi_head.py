"""Multi-head attention as a value: the parameters that it has, and how it computes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError
from jsparse.nn.attention import Projection, multi_head_attention, relative_bias
from jsparse.nn.definitions.parameters import check_sizes
from jsparse.nn.operands import dense_array
from jsparse.planning.bare_pattern import pattern_of

__all__ = ["MultiHead", "mask_pattern"]

Initializer = Callable[..., jax.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHead:
    """Attention of `num_heads` heads of queries and `kv_heads` heads of keys and values, each of `dim` features.

    Attributes:
        inputs, context: the features of what attends, and of what is attended to.
        out: the features of the result.
        max_distance: of biases by relative position; None without them.
        use_bias: whether projections have biases.
    """

    num_heads: int
    kv_heads: int
    dim: int
    inputs: int
    context: int
    out: int
    max_distance: int | None
    use_bias: bool

    @staticmethod
    def of(
        num_heads: int,
        inputs: int,
        context: int,
        *,
        qkv_features: int | None,
        out_features: int | None,
        num_kv_heads: int | None,
        max_distance: int | None,
        use_bias: bool,
    ) -> MultiHead:
        """The attention with the sizes that layers of Flax are made with.

        Raises ShapeError for numbers that do not divide.
        """
        check_sizes("SparseAttention", num_heads=num_heads, in_features=inputs, in_kv_features=context)
        check_sizes(
            "SparseAttention",
            optional=["num_kv_heads", "qkv_features", "out_features"],
            num_kv_heads=num_kv_heads,
            qkv_features=qkv_features,
            out_features=out_features,
        )
        if max_distance is not None and (not isinstance(max_distance, int) or max_distance < 0):
            raise ShapeError(
                f"Expected max_distance to be an integer from 0 in SparseAttention, but got {max_distance!r}."
            )
        width, kv_heads = qkv_features or inputs, num_kv_heads or num_heads
        if width % num_heads or num_heads % kv_heads:
            raise ShapeError(
                f"Expected qkv_features to be a multiple of num_heads, and that of num_kv_heads, in SparseAttention, "
                f"but got {width}, {num_heads} and {kv_heads}."
            )
        return MultiHead(
            num_heads=num_heads,
            kv_heads=kv_heads,
            dim=width // num_heads,
            inputs=inputs,
            context=context,
            out=out_features or inputs,
            max_distance=max_distance,
            use_bias=use_bias,
        )

    def projections(self) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """The dimensions of inputs and outputs of each kernel."""
        keys = (self.context,), (self.kv_heads, self.dim)
        return {
            "query": ((self.inputs,), (self.num_heads, self.dim)),
            "key": keys,
            "value": keys,
            "out": ((self.num_heads, self.dim), (self.out,)),
        }

    def initialized(
        self, name: str, next_key: Callable[[], Any], kernel_init: Initializer, bias_init: Initializer, dtype: Any
    ) -> dict[str, jax.Array]:
        """The kernel of a projection, and its bias if there are biases. `next_key()` gives another key each time."""
        inputs, outputs = self.projections()[name]
        kernel = kernel_init(next_key(), (prod(inputs), prod(outputs)), dtype).reshape(*inputs, *outputs)
        return {"kernel": kernel} | ({"bias": bias_init(next_key(), outputs, dtype)} if self.use_bias else {})

    def relative(self, dtype: Any) -> jax.Array | None:
        """The biases by relative position before training."""
        if self.max_distance is None:
            return None
        return jnp.zeros((self.num_heads, 2 * self.max_distance + 1), dtype)

    @staticmethod
    def apply(
        parameters: Mapping[str, Mapping[str, Any]],
        relative: Any,
        x: Any,
        context: Any,
        mask: Any,
        *,
        dtype: Any,
        dropout_rate: float,
        dropout_key: Any,
    ) -> jax.Array:
        """Attend from x (..., n, inputs) to the context (..., m, context); see `multi_head_attention`.

        Args:
            parameters: "kernel" and maybe "bias" of each projection.
            relative: biases by relative position, or None.
            dtype: of the computation; None for that of the operands.
        """

        def cast(x: Any) -> jax.Array:
            return jnp.asarray(x) if dtype is None else jnp.asarray(x, dtype)

        made = {
            name: Projection(cast(own["kernel"]), cast(own["bias"]) if "bias" in own else None)
            for name, own in parameters.items()
        }
        return multi_head_attention(
            cast(dense_array(x, "SparseAttention", "x (..., n, in)")),
            cast(dense_array(context, "SparseAttention", "context (..., m, in)")),
            mask,
            **made,
            bias=None if relative is None else relative_bias(cast(relative), mask),
            dropout_rate=dropout_rate,
            dropout_key=dropout_key,
        )


def mask_pattern(mask: Any) -> Any:
    """The pattern of a mask, static or dynamic. Raises ShapeError for anything else."""
    pattern = pattern_of(mask)
    if pattern is None:
        raise ShapeError(
            f"Expected a Pattern or a SparseTensor as the mask of SparseAttention, but got {type(mask).__name__}."
        )
    if pattern.ndim not in (2, 3):
        raise ShapeError(f"Expected a mask (n, m) or (heads, n, m) in SparseAttention, but got {pattern.shape}.")
    return pattern
