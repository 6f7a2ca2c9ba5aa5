"""Multi-head attention on a sparse mask, and biases by relative position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.nn.layer import Initializer, check_sizes
from jsparse.nn.operands import dense_array, wide
from jsparse.ops.attention.sparse_attention import sparse_attention
from jsparse.planning.signature import pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


class Projection(NamedTuple):
    """The kernel of a linear projection, and its bias or None.

    The bias has the shape of the kernel's output axes. Kernel and bias are (in, heads, dim) and (heads, dim) for
    queries, keys and values, and (heads, dim, out) and (out,) for the output, as in Flax's attention layers.
    """

    kernel: Any
    bias: Any = None


Projector: TypeAlias = "Projection | Callable[[jax.Array], jax.Array]"
Parameters: TypeAlias = "Mapping[str, ArrayLike] | Callable[[jax.Array], jax.Array]"


def multi_head_attention(
    x: ArrayLike,
    context: ArrayLike,
    mask: PatternLike,
    *,
    query: Projector,
    key: Projector,
    value: Projector,
    out: Projector,
    bias: ArrayLike | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """For each head, compute softmax((x Q) (c K)ᵀ / √dim) (c V) over stored keys of a context c, and project the heads.

        >>> rng = np.random.default_rng(0)
        >>> qkv = [jsparse.nn.Projection(rng.normal(size=(16, 4, 8)) / 4) for _ in range(3)]
        >>> out = jsparse.nn.Projection(rng.normal(size=(4, 8, 16)) / 4)
        >>> x, mask = jnp.ones((2, 64, 16)), jsparse.pattern.window(64, 8)
        >>> jsparse.nn.multi_head_attention(x, x, mask, query=qkv[0], key=qkv[1], value=qkv[2], out=out).shape
        (2, 64, 16)

    Args:
        x: the input of the queries, (..., n, in).
        context: c, the input of the keys and values, (..., m, context_in); `x` itself for self-attention.
        mask: a Pattern or a SparseTensor (n, m) or (heads, n, m), static or dynamic, as in `jsparse.sparse_attention`.
        query, key, value: projections (in, heads, dim), or functions such as layers with sparse kernels, from (..., n,
            in) to (..., n, heads, dim). Keys and values may have fewer heads, if their number divides the queries'
            number of heads (grouped queries; Ainslie et al., 2023).
        out: a projection (heads, dim of values, out), or a function from (..., n, heads, dim) to (..., n, out).
        bias: biases of the scores, (nse,) or (heads, nse), as `relative_bias` gives them, or (n, m), or (heads, n, m).
        dropout_rate, dropout_key: the dropout rate of the stored attention weights, and a key of random numbers.

    Returns an array (..., n, out).

    Raises ShapeError for shapes that do not fit.
    """
    layer = "multi_head_attention"
    x, context = dense_array(x, layer, "x (..., n, in)"), dense_array(context, layer, "context (..., m, in)")
    projected = []  # queries, keys and values (..., heads, length, dim)
    for name, array, projection in (("x", x, query), ("context", context, key), ("context", context, value)):
        if not isinstance(projection, Projection):
            projected.append(jnp.swapaxes(call_projection(projection, array, layer), -3, -2))
            continue
        if array.ndim < 2 or jnp.ndim(projection.kernel) != 3 or array.shape[-1] != projection.kernel.shape[0]:
            raise ShapeError(
                f"Expected {name} (..., length, in) and kernels (in, heads, dim) in multi_head_attention, but got "
                f"{array.shape} and {jnp.shape(projection.kernel)}."
            )
        of_heads = jnp.einsum("...nf,fhd->...hnd", array, projection.kernel)
        projected.append(plus(of_heads, None if projection.bias is None else projection.bias[:, None]))
    q, k, v = projected
    attended = sparse_attention(q, k, v, mask, bias=bias, dropout_rate=dropout_rate, dropout_key=dropout_key)
    if not isinstance(out, Projection):
        return out(jnp.swapaxes(attended, -3, -2))
    heads, dim = attended.shape[-3], attended.shape[-1]
    if jnp.ndim(out.kernel) != 3 or (heads, dim) != jnp.shape(out.kernel)[:2]:
        raise ShapeError(
            f"Expected an output kernel (heads, dim, out) in multi_head_attention, for {heads} heads of "
            f"{dim}, but got {jnp.shape(out.kernel)}."
        )
    return plus(jnp.einsum("...hnd,hdo->...no", attended, out.kernel), out.bias)


def to_heads(x: jax.Array, projection: Projector, where: str) -> jax.Array:
    """Project x (..., length, in) to (..., length, heads, dim)."""
    if not isinstance(projection, Projection):
        return call_projection(projection, x, where)
    return plus(jnp.einsum("...nf,fhd->...nhd", x, projection.kernel), projection.bias)


def from_heads(x: jax.Array, projection: Projector) -> jax.Array:
    """Project x (..., length, heads, dim) to (..., length, out)."""
    if not isinstance(projection, Projection):
        return projection(x)
    return plus(jnp.einsum("...nhd,hdo->...no", x, projection.kernel), projection.bias)


def call_projection(project: Callable[[jax.Array], jax.Array], x: jax.Array, where: str) -> jax.Array:
    """Call a function that projects x to heads. Raises ShapeError unless the result is (..., length, heads, dim)."""
    of_heads = project(x)
    if of_heads.shape[:-2] != x.shape[:-1] or x.ndim < 2:
        raise ShapeError(
            f"Expected a function from (..., length, in) to (..., length, heads, dim) as a projection in {where}, but "
            f"got {of_heads.shape} for {x.shape}."
        )
    return of_heads


def plus(x: jax.Array, bias: jax.Array | None) -> jax.Array:
    """Return x + bias, or x if there is no bias. The bias's cotangent is a sum over positions. It is rounded once."""
    return x if bias is None else (wide(x) + wide(jnp.asarray(bias))).astype(jnp.result_type(x, bias))


def relative_bias(table: ArrayLike, mask: PatternLike, *, first: ArrayLike = 0) -> jax.Array:
    """Look up a bias for each stored entry of a mask by the distance of key and query (Shaw et al., 2018).

        bias[h, p] = table[h, d + clip(j - i, -d, d)]    for the p-th stored entry (i, j)

        >>> mask = jsparse.pattern.window(64, 8)
        >>> jsparse.nn.relative_bias(jnp.zeros((4, 17)), mask).shape == (4, mask.nse)
        True

    The result is differentiable in the table. It has one element for each head and stored entry, and no others.

    Args:
        table: an array (heads, 2 d + 1); the middle column is for j = i.
        first: the index i of the first row of the mask.
        mask: a Pattern or a SparseTensor (n, m), static or dynamic.

    Returns an array (heads, nse), 0 in the padding of a dynamic mask.

    Raises ShapeError for other shapes of the table or the mask.
    """
    table, pattern = jnp.asarray(table), pattern_of(mask)
    if pattern is None or pattern.ndim != 2:
        raise ShapeError(f"Expected a mask (n, m) in relative_bias, a Pattern or a SparseTensor, but got {mask!r}.")
    if table.ndim != 2 or table.shape[1] % 2 == 0:
        raise ShapeError(f"Expected a table (heads, 2 d + 1) in relative_bias, but got {table.shape}.")
    most = table.shape[1] // 2
    rows, columns = SparseTensor(jnp.zeros(pattern.nse, table.dtype), pattern).coords
    distances = jnp.clip(columns - (rows + first), -most, most)
    biases = wide(table)[:, distances + most]  # its cotangent is a sum over entries
    biases = biases if isinstance(pattern, Pattern) else jnp.where(columns < pattern.shape[1], biases, 0)
    return biases.astype(table.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHead:
    """The sizes of attention, with the names that Flax's layers use.

    Attributes:
        num_heads: the number of heads of queries.
        in_features: the number of features of the positions that attend (queries).
        in_kv_features: the number of features of the positions to which queries attend (keys and values).
        qkv_features: the number of features of all heads together; None for `in_features`.
        out_features: the number of features of the result; None for `in_features`.
        num_kv_heads: the number of heads of keys and values; None for `num_heads`.
        max_distance: the largest distance that has a separate bias; None if there are no biases by relative position.
        use_bias: whether projections have biases.

    Raises ShapeError if sizes are invalid, if num_kv_heads does not divide num_heads, or if num_heads does not divide
    qkv_features.
    """

    num_heads: int
    in_features: int
    in_kv_features: int
    qkv_features: int | None
    out_features: int | None
    num_kv_heads: int | None
    max_distance: int | None
    use_bias: bool

    def __post_init__(self) -> None:
        names = ("num_heads", "in_features", "in_kv_features", "num_kv_heads", "qkv_features", "out_features")
        check_sizes("SparseAttention", optional=names[3:], **{name: getattr(self, name) for name in names})
        if self.max_distance is not None and (not isinstance(self.max_distance, int) or self.max_distance < 0):
            raise ShapeError(
                f"Expected max_distance to be an integer >= 0 in SparseAttention, but got {self.max_distance!r}."
            )
        width = self.qkv_features or self.in_features
        if width % self.num_heads or self.num_heads % self.kv_heads:
            raise ShapeError(
                f"Expected qkv_features to be a multiple of num_heads, and num_heads of num_kv_heads, in "
                f"SparseAttention, but got {width}, {self.num_heads} and {self.kv_heads}."
            )

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.num_kv_heads or self.num_heads

    @property
    def dim(self) -> int:
        """The number of features of each head."""
        return (self.qkv_features or self.in_features) // self.num_heads

    def projections(self) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the input dimensions and the output dimensions of each projection's kernel, by name."""
        heads, keys = (self.num_heads, self.dim), ((self.in_kv_features,), (self.kv_heads, self.dim))
        out = (self.out_features or self.in_features,)
        return {"query": ((self.in_features,), heads), "key": keys, "value": keys, "out": (heads, out)}

    def initial_projection(
        self,
        name: str,
        next_key: Callable[[], jax.Array],
        kernel_init: Initializer,
        bias_init: Initializer,
        dtype: DTypeLike,
    ) -> dict[str, jax.Array]:
        """Initialize the kernel of a projection, and its bias if `use_bias`. Each `next_key()` returns a new key."""
        inputs, outputs = self.projections()[name]
        kernel = kernel_init(next_key(), (prod(inputs), prod(outputs)), dtype).reshape(*inputs, *outputs)
        return {"kernel": kernel} | ({"bias": bias_init(next_key(), outputs, dtype)} if self.use_bias else {})

    def relative(self, dtype: DTypeLike) -> jax.Array | None:
        """Return the initial biases by relative position, which are 0, or None if there are no such biases."""
        if self.max_distance is None:
            return None
        return jnp.zeros((self.num_heads, 2 * self.max_distance + 1), dtype)


def caster(dtype: DTypeLike | None) -> Callable[[ArrayLike], jax.Array]:
    """Return a function that converts arrays to a dtype. For None, the function keeps the dtype."""
    return lambda x: jnp.asarray(x) if dtype is None else jnp.asarray(x, dtype)


def projections_of(parameters: Mapping[str, Parameters], dtype: DTypeLike | None) -> dict[str, Projector]:
    """Make projections from parameters, cast to a dtype. Each has a "kernel", and may have a "bias". Functions stay."""
    cast = caster(dtype)
    return {
        name: x if callable(x) else Projection(cast(x["kernel"]), cast(x["bias"]) if "bias" in x else None)
        for name, x in parameters.items()
    }


def mask_pattern(mask: PatternLike) -> Pattern | DynamicPattern:
    """Return the pattern of a mask, static or dynamic. Raises ShapeError unless it is (n, m) or (heads, n, m)."""
    pattern = pattern_of(mask)
    if pattern is None:
        raise ShapeError(
            f"Expected a Pattern or a SparseTensor as the mask of SparseAttention, but got {type(mask).__name__}."
        )
    if pattern.ndim not in (2, 3):
        raise ShapeError(f"Expected a mask (n, m) or (heads, n, m) in SparseAttention, but got {pattern.shape}.")
    return pattern
