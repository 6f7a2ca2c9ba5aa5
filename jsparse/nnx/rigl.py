"""RigL: the entries of sparse layers move to where the gradients of dense kernels are largest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from flax.nnx import filterlib
from jax.typing import ArrayLike

from jsparse.base.arrays import PyTree
from jsparse.errors import PatternError, ShapeError, describe_type, short_repr
from jsparse.nn.operands import sparse_or_dense
from jsparse.nnx.kernels import Modules, kernels_of
from jsparse.nnx.linear import SparseLinear, rewire_kernel
from jsparse.nnx.moments import restrict_state
from jsparse.nnx.param import SparseParam
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def rigl_step(
    model: nnx.Module,
    loss: Callable[..., PyTree],
    *batch: PyTree,
    fraction: ArrayLike,
    optimizer: nnx.Optimizer | None = None,
    where: filterlib.Filter = ...,
    modules: Modules = (),
) -> None:
    """Do a step of RigL: drop the smallest weights of sparse layers, and store weights where gradients are largest.

        >>> from flax import nnx
        >>> import optax
        >>> layer = jsparse.nnx.SparseLinear(64, 32, density=0.1, dynamic=True, rngs=nnx.Rngs(0))
        >>> optimizer = nnx.Optimizer(layer, optax.adam(1e-3), wrt=nnx.Param)
        >>> x, y = jnp.ones((8, 64)), jnp.zeros((8, 32))
        >>> loss = lambda model, x, y: ((model(x) - y) ** 2).mean()
        >>> jsparse.nnx.rigl_step(layer, loss, x, y, fraction=0.3, optimizer=optimizer)

    Evci et al., "Rigging the lottery: making all tickets winners", ICML 2020. In each `SparseLinear` with a dynamic
    pattern, and in each such kernel of a graph layer, a fraction of the entries is dropped, those of smallest
    magnitude, and the same number of entries of value 0 is stored where the gradient of the loss in the kernel, taken
    as dense, is largest. The paper does a step about every 100 steps of the optimizer, with a fraction that decays by a
    cosine: `optax.cosine_decay_schedule(0.3, steps)(step)`.

    The step may be called inside `nnx.jit`, and nothing is compiled again for other fractions. It computes the
    gradients of dense kernels, which take as much time and memory as those of a dense model; sums are in float32.

    Args:
        model: a module. Its layers change; all else in it, such as statistics and streams of random numbers, stays.
        loss: a function (model, *batch) that returns a number, or a tuple that begins with one.
        batch: what `loss` takes besides the model.
        fraction: the fraction of the entries that move, from 0 to 1. It may be traced.
        optimizer: an optimizer of the model, whose moments move with the entries (see `restrict_state`). Otherwise, the
            moments would belong to other entries than before.
        where: which layers change: a filter of NNX, such as a function (path, layer) -> bool.
        modules: classes of your own modules whose kernels change, too, as in `prune_model`. The step passes dense
            kernels to these modules.

    Raises PatternError if there is no dynamic layer to change, ShapeError for a fraction out of range, DTypeError if
    `modules` is not a tuple of classes.
    """
    if not isinstance(fraction, jax.core.Tracer):
        number = np.asarray(fraction)
        if number.shape or number.dtype.kind not in "fiu" or not 0 <= number <= 1:
            raise ShapeError(f"Expected a fraction from 0 to 1 in rigl_step, but got {short_repr(fraction)}.")
    chosen = filterlib.to_predicate(where)
    kernels = {
        kernel.owner if isinstance(kernel.module, SparseLinear) else kernel.at: kernel.param
        for path, kernel in kernels_of(model, modules, "rigl_step").items()
        if isinstance(kernel.param, SparseParam) and (kernel.is_read or isinstance(kernel.module, SparseLinear))
        if kernel.param.tensor.is_dynamic and chosen(path, kernel.module)
    }
    if not kernels:
        raise PatternError(
            "Expected a model with dynamic sparse layers in rigl_step, and a where= that chooses some of them, but got "
            f"{describe_type(model)} without such layers. Make them with jsparse.nnx.SparseLinear(..., dynamic=True), "
            "or with jsparse.nnx.prune_model(model, sparsity, dynamic=True)."
        )
    old = None if optimizer is None else nnx.clone(model)
    probed = nnx.recursive_map(lambda path, node: _probe(node) if path in kernels else node, nnx.clone(model))

    def value(model: nnx.Module) -> ArrayLike:
        result = loss(model, *batch)
        return result[0] if isinstance(result, tuple) else result

    gradients = nnx.to_flat_state(nnx.grad(value, argnums=nnx.DiffState(0, _Zeros))(probed))
    scores = {path[:-1]: jnp.abs(gradient[...]) for path, gradient in gradients}
    for path, kernel in kernels.items():
        count = jnp.round(jnp.asarray(fraction) * kernel.tensor.nse).astype(int)
        kernel.replace(rewire_kernel(kernel.tensor, scores[path], count))
    if optimizer is not None:
        restrict_state(optimizer, old, model)


class _Zeros(nnx.Variable):
    """A dense kernel of zeros, which is there for its gradient."""


def _probe(node: SparseLinear | SparseParam) -> nnx.Module:
    return _Probed(node) if isinstance(node, SparseLinear) else _ProbedParam(node.tensor)


class _ProbedParam(SparseParam):
    """A kernel W of a layer that takes dense ones, as the dense array W + Z with a dense Z of zeros."""

    def __init__(self, tensor: SparseTensor) -> None:
        super().__init__(tensor)
        self.zeros = _Zeros(jnp.zeros(tensor.shape, tensor.dtype))

    @property
    def tensor(self) -> jax.Array:  # type: ignore[override]
        """The kernel as a dense array."""
        return super().tensor.todense() + self.zeros[...]


class _Probed(nnx.Module):
    """A layer x W + b with a sparse W, to which x Z is added for a dense Z of zeros.

    The gradient in Z is the gradient in W if W were dense.
    """

    def __init__(self, layer: SparseLinear) -> None:
        kernel = layer.kernel.tensor
        self.layer = layer
        self.zeros = _Zeros(jnp.zeros(kernel.shape, jnp.promote_types(kernel.dtype, jnp.float32)))

    def __call__(self, x: TensorLike, out_sharding: None = None) -> jax.Array:
        result = self.layer(x, out_sharding)
        zeros, inputs = self.zeros[...], self.layer.in_features
        x = sparse_or_dense(x, "SparseLinear", "x (..., in)")
        lead = x.shape[: x.ndim - (len(inputs) if isinstance(inputs, tuple) else 1)]
        rows = x.reshape(math.prod(lead), len(zeros)).astype(zeros.dtype)
        return result + (rows @ zeros).reshape(result.shape).astype(result.dtype)

    def __getattr__(self, name: str) -> Any:  # models read attributes such as out_features
        if "layer" not in vars(self):  # while Flax makes a copy
            raise AttributeError(name)
        return getattr(self.layer, name)
