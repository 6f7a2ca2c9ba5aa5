"""Linear layers with sparse kernels for Linen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.nn.linear import affine, normal_initializer
from jsparse.nn.operands import sparse_or_dense
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

Initializer = Callable[..., jax.Array]


class SparseLinear(linen.Module, kw_only=True):
    """A linear layer x W + b in which W stores the entries of a pattern, or blocks of entries.

        >>> pattern = jsparse.random(jax.random.key(0), (64, 32), density=0.1, format="csc").pattern
        >>> layer, x = jsparse.linen.SparseLinear(pattern=pattern), jnp.ones((8, 64))
        >>> variables = layer.init(jax.random.key(1), x)
        >>> layer.apply(variables, x).shape
        (8, 32)

    The parameter "kernel" has the values of the stored entries, so gradients and optimizers work on these alone.

    Attributes:
        pattern: a Pattern (in, out) in any format, such as `jsparse.pattern.butterfly(n, 16, format="bsr(16, 16)")`, or
            for blocks a Pattern (in / b, out / c, b, c) whose last two levels are dense.
        use_bias: whether there is a bias.
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init: a function (key, (nse,), dtype) that gives the values. By default they are normal, and their
            variance is 1 divided by the mean number of stored entries of an output.
        bias_init: an initializer of the bias; by default zeros.

    Calls raise ShapeError for another pattern, and for x that does not fit.
    """

    pattern: Pattern | Composition
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Initializer | None = None
    bias_init: Initializer = jax.nn.initializers.zeros

    @linen.compact
    def __call__(self, x: TensorLike) -> jax.Array:
        """Compute x W + b for x (..., in), an array or a sparse tensor."""
        pattern = self.pattern
        if not isinstance(pattern, Pattern | Composition) or pattern.ndim not in (2, 4):
            raise ShapeError(f"Expected a Pattern (in, out), or one of blocks, in SparseLinear, but got {pattern!r}.")
        out = math.prod(pattern.shape[1::2])
        inputs = max(pattern.nse / max(out, 1), 1.0)
        init = normal_initializer(inputs) if self.kernel_init is None else self.kernel_init
        values = self.param("kernel", init, (pattern.nse,), self.param_dtype)
        bias = self.param("bias", self.bias_init, (out,), self.param_dtype) if self.use_bias else None
        x = sparse_or_dense(x, type(self).__name__, "x (..., in)")
        if isinstance(pattern, Composition):
            return affine(x, ComposedTensor(values, pattern), bias, self.dtype)
        return affine(x, SparseTensor(values, pattern), bias, self.dtype)
