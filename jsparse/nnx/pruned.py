"""Linear layers whose weights are pruned while they train."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jsparse.convert.creation import asarray
from jsparse.errors import ShapeError, short_repr
from jsparse.nn.layer import check_sizes
from jsparse.nn.operands import sparse_or_dense
from jsparse.nn.sparsity import n_of_m_mask
from jsparse.nnx.linear import SparseLinear
from jsparse.nnx.shown import Shown
from jsparse.primitives.segments import largest
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


class Mask(nnx.Variable):
    """The mask of the kept weights: it belongs to a module's state, but is not a parameter."""


class PrunedLinear(nnx.Module, metaclass=Shown):
    """A linear layer x (W ∘ M) + b with a dense W, and a mask M of the weights that are kept.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.PrunedLinear(64, 32, rngs=nnx.Rngs(0))
        >>> layer.prune(0.9)  # in training, by jsparse.nn.gradual_sparsity(step, ...)
        >>> sparse = layer.to_sparse()
        >>> sparse.kernel.tensor.nse
        205

    The layer trains like a dense layer, and `prune` reads the weights a few times. Pruned weights have no gradient, and
    return if a later `prune` removes fewer (Zhu and Gupta, "To prune, or not to prune", 2017). `to_sparse` returns a
    layer that computes only with the kept weights.

    Args:
        in_features, out_features: the sizes of x and of the result.
        rngs: streams of random numbers; "params" is used.
        **options: the options of `flax.nnx.Linear`.
    """

    def __init__(self, in_features: int, out_features: int, *, rngs: nnx.Rngs, **options: Any) -> None:
        check_sizes("PrunedLinear", in_features=in_features, out_features=out_features)
        self.linear = nnx.Linear(in_features, out_features, rngs=rngs, **options)
        self.mask = Mask(jnp.ones((in_features, out_features), bool))

    def __call__(self, x: TensorLike) -> jax.Array:
        """Compute x (W ∘ M) + b for x (..., in_features), an array or a sparse tensor."""
        dtype = self.linear.dtype
        x = sparse_or_dense(x, "PrunedLinear", "x (..., in)", dtype=dtype)
        if not x.ndim or x.shape[-1] != self.mask.shape[0]:
            raise ShapeError(f"Expected x (..., {self.mask.shape[0]}) in PrunedLinear, but got {x.shape}.")
        kernel = jnp.where(self.mask[...], self.linear.kernel[...], 0)
        product: jax.Array = x @ kernel.astype(dtype or kernel.dtype)
        return product if self.linear.bias is None else product + self.linear.bias[...].astype(product.dtype)

    def prune(self, zeros: float | np.number | jax.Array) -> None:
        """Prune the weights of smallest magnitude: the fraction `zeros` of all weights. The fraction may be traced.

        If magnitudes are equal, the first weights stay. NaN is the largest magnitude, as in `A.prune`.
        """
        is_number = isinstance(zeros, int | float | np.number | jax.Array) and not np.ndim(zeros)
        if not is_number or (not isinstance(zeros, jax.core.Tracer) and not 0 <= zeros <= 1):
            raise ShapeError(f"Expected a fraction from 0 to 1 in PrunedLinear.prune, but got {short_repr(zeros)}.")
        kernel = self.linear.kernel[...]
        kept = jnp.clip(jnp.round((1 - jnp.asarray(zeros)) * kernel.size), 0, kernel.size).astype(jnp.int32)
        self.mask[...] = largest(kernel.reshape(-1), kept, by_magnitude=True).reshape(kernel.shape)

    def prune_n_of_m(self, n: int, m: int) -> None:
        """Keep the n largest magnitudes of each m consecutive weights of an output (Mishra et al., 2021).

        NaN is the largest magnitude. Raises ShapeError if m does not divide the number of inputs.
        """
        self.mask[...] = n_of_m_mask(self.linear.kernel[...], n, m, axis=0)

    def to_sparse(self) -> SparseLinear:
        """Make a sparse layer of the kept weights. Raises ShapeError inside jit, where the mask is not known."""
        mask = self.mask[...]
        if isinstance(mask, jax.core.Tracer):
            raise ShapeError("Expected a known mask in PrunedLinear.to_sparse. Call it outside jit.")
        pattern = asarray(mask, format="csc").pattern
        rows, columns = SparseTensor(jnp.zeros(pattern.nse), pattern).coords
        kernel = SparseTensor(self.linear.kernel[...][rows, columns], pattern)
        bias = None if self.linear.bias is None else self.linear.bias[...]
        return SparseLinear.of(kernel, bias, dtype=self.linear.dtype)
