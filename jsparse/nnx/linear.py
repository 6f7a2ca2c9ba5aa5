"""Linear layers with sparse kernels for NNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import ArrayLike, DTypeLike

from jsparse.convert.creation import asarray
from jsparse.errors import DTypeError, NotYetSupportedError, ShapeError, describe_type, short_repr
from jsparse.formats import Format
from jsparse.nn.layer import check_sizes
from jsparse.nn.linear import affine, normal_initializer
from jsparse.nn.operands import dense_array, sparse_or_dense
from jsparse.nnx.dense_layers import as_matrix
from jsparse.nnx.param import SparseParam
from jsparse.nnx.shown import Shown
from jsparse.ops.building.random import random
from jsparse.ops.surgery.selection import parse_count
from jsparse.primitives.segments import largest
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

Initializer = Callable[..., jax.Array]
Sizes = tuple[int | tuple[int, ...], int | tuple[int, ...]]
Source: TypeAlias = "SparseTensor | nnx.Linear | nnx.LinearGeneral | SparseLinear | BlockSparseLinear"


class _Linear(nnx.Module, metaclass=Shown):
    """A linear layer x W + b. The kernel W is sparse, in any format."""

    kernel: SparseParam

    def _set(
        self, kernel: SparseTensor, bias: ArrayLike | None, dtype: DTypeLike | None, sizes: Sizes | None = None
    ) -> None:
        rows, columns = kernel.shape
        self.in_features, self.out_features = (rows, columns) if sizes is None else sizes
        self.dtype = dtype
        self.kernel = SparseParam(kernel)
        self.bias = nnx.data(None if bias is None else nnx.Param(jnp.asarray(bias)))

    def __call__(self, x: TensorLike, out_sharding: None = None) -> jax.Array:
        """Compute x W + b for x (..., in_features), an array or a sparse tensor.

        `out_sharding` is an argument because some modules of Flax pass it to their layers.

        Raises ShapeError for x that does not fit, NotYetSupportedError for an `out_sharding` other than None.
        """
        name = type(self).__name__
        if out_sharding is not None:
            raise NotYetSupportedError(
                f"Expected out_sharding=None in {name}, but got {short_repr(out_sharding)}. Constrain its result with "
                "jax.lax.with_sharding_constraint."
            )
        x, inputs = sparse_or_dense(x, name, "x (..., in)"), self.in_features
        if isinstance(inputs, tuple):
            lead = x.ndim - len(inputs)
            if lead < 0 or x.shape[lead:] != inputs:
                raise ShapeError(f"Expected x (..., {', '.join(map(str, inputs))}) in {name}, but got {x.shape}.")
            x = x.reshape(*x.shape[:lead], math.prod(inputs))
        bias, outputs = None if self.bias is None else self.bias[...], self.out_features
        if isinstance(outputs, int):
            return affine(x, self.kernel.tensor, bias, self.dtype)
        rows = affine(x, self.kernel.tensor, None if bias is None else bias.reshape(-1), self.dtype)
        return rows.reshape(*rows.shape[:-1], *outputs)


class SparseLinear(_Linear):
    """A linear layer x W + b in which W stores entries at random positions, or at the positions of a tensor.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.SparseLinear(64, 32, density=0.1, rngs=nnx.Rngs(0))
        >>> layer(jnp.ones((8, 64))).shape
        (8, 32)

    The values are an `nnx.Param` (see `SparseParam`), so gradients and optimizers work on stored entries alone. With
    `dynamic=True`, `rewire` may change the pattern as long as the number of entries stays the same, and nothing is
    compiled again.

    Args:
        in_features, out_features: the sizes of x and of the result.
        density: the fraction of entries that are stored.
        dynamic: whether the pattern is data, so that it may change.
        use_bias: whether there is a bias.
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init: a function (key, (nse,), dtype) that gives the values. By default they are normal, with variance
            1 / (density · in_features). This is LeCun's initialization: an output has density · in_features inputs on
            average.
        bias_init: an initializer of the bias; by default zeros.
        rngs: streams of random numbers; "params" is used.

    Raises ShapeError for a density out of range.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        density: float,
        dynamic: bool = False,
        use_bias: bool = True,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        kernel_init: Initializer | None = None,
        bias_init: Initializer = nnx.initializers.zeros_init(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        check_sizes("SparseLinear", in_features=in_features, out_features=out_features)
        if not isinstance(density, int | float) or not 0 < density <= 1:
            raise ShapeError(f"Expected a density above 0, and at most 1, in SparseLinear, but got {density}.")
        init = normal_initializer(max(density * in_features, 1.0)) if kernel_init is None else kernel_init
        weight = random(
            rngs.params(), (in_features, out_features), density=density, dtype=param_dtype, format="csc", sampler=init
        )
        bias = bias_init(rngs.params(), (out_features,), param_dtype) if use_bias else None
        self._set(weight.dynamic() if dynamic else weight, bias, dtype)

    @classmethod
    def of(
        cls,
        source: Source,
        bias: ArrayLike | None = None,
        *,
        sparsity: float = 0.0,
        format: Format | str | None = None,
        dynamic: bool = False,
        dtype: DTypeLike | None = None,
    ) -> SparseLinear:
        """Make a layer from the kernel and the bias of another layer, or from a kernel (in, out), and prune the kernel.

            >>> from flax import nnx
            >>> dense = nnx.Linear(64, 32, rngs=nnx.Rngs(0))
            >>> layer = jsparse.nnx.SparseLinear.of(dense, sparsity=0.9)
            >>> layer.kernel.tensor.nse
            205
            >>> kernel = jsparse.asarray(dense.kernel[...], format="csc").prune(keep=200)
            >>> jsparse.nnx.SparseLinear.of(kernel, dense.bias[...]).kernel.tensor.nse
            200

        The largest magnitudes stay (Han et al., "Learning both weights and connections for efficient neural networks",
        2015). Weights that are 0 are not stored, so a layer that was pruned elsewhere needs no `sparsity`. The dtypes
        of a source layer and of its parameters are kept. The kernel of an `nnx.LinearGeneral`, as in
        `nnx.MultiHeadAttention`, becomes a matrix. The option `precision` has no effect: sums have the highest
        precision.

        Args:
            source: an `nnx.Linear`, an `nnx.LinearGeneral` over the last axes, a sparse layer, or a SparseTensor.
            bias: an array (out,) or None, if the source is a SparseTensor. A source layer provides its bias.
            sparsity: the fraction of the kernel that is not stored, from 0 to 1.
            format: the format of the kernel. By default a sparse kernel keeps its format, a dense one gets "csc".
            dynamic: whether the pattern is data, so that it may change. A sparse kernel may be dynamic already.
            dtype: the dtype of the computation; by default the dtype of the source layer.

        Raises DTypeError for any other source, and for a bias together with a layer; ShapeError for a kernel that is
        traced or not a matrix, and for a sparsity out of range; NotYetSupportedError for a layer that does not multiply
        by one matrix because of its options.
        """
        where = "SparseLinear.of"
        kernel, sizes, bias, own_dtype = parts_of(source, bias, where)
        kernel = prune_kernel(kernel, sparsity, where, format=format, dynamic=dynamic)
        layer = cls(1, 1, density=1, use_bias=False, rngs=nnx.Rngs(0))
        layer._set(kernel, bias, own_dtype if dtype is None else dtype, sizes)
        return layer

    def rewire(self, scores: TensorLike, count: jax.Array | int) -> None:
        """Do a step of RigL: drop the `count` smallest entries, and store 0 where the `count` largest scores are.

            >>> from flax import nnx
            >>> layer = jsparse.nnx.SparseLinear(64, 32, density=0.1, dynamic=True, rngs=nnx.Rngs(0))
            >>> layer.rewire(jnp.ones((64, 32)), 20)

        Evci et al., "Rigging the lottery: making all tickets winners", ICML 2020. The scores in this paper are the
        magnitudes of the gradient of the dense kernel, `jnp.abs(x.T @ gradient_of_the_result)`; `rigl_step` computes
        them. After the step, an optimizer's moments still belong to the old entries: `jsparse.nnx.restrict_state` moves
        the moments.

        Args:
            scores: an array (in_features, out_features), or a SparseTensor, whose entries are then the
                only candidates.
            count: an integer, at most the capacity of the kernel. It may be traced, so that one program serves a
                schedule.

        Raises PatternError if the pattern is static (`dynamic=True` makes it dynamic), ShapeError for a count that is
        not an integer >= 0.
        """
        kernel, (number, known) = self.kernel.tensor, parse_count(count)
        if number is None or (known or 0) > kernel.nse:
            raise ShapeError(
                f"Expected count in SparseLinear.rewire to be a number of entries from 0 to {kernel.nse:,}, but got "
                f"{short_repr(count)}."
            )
        if not isinstance(scores, SparseTensor):
            scores = dense_array(scores, "SparseLinear.rewire", "scores (in, out)")
        self.kernel.replace(rewire_kernel(kernel, scores, number))


class Parts(NamedTuple):
    """The kernel of a layer, the sizes of its input and output, its bias and its dtype. The kernel is a matrix."""

    kernel: SparseTensor | jax.Array
    sizes: Sizes
    bias: ArrayLike | None
    dtype: DTypeLike | None


def parts_of(source: Source, bias: ArrayLike | None, where: str) -> Parts:
    """Split the source of `of` into its parts. Raises the errors that `SparseLinear.of` documents."""
    if isinstance(source, SparseTensor):
        if source.ndim != 2:
            raise ShapeError(f"Expected a kernel (in, out) in {where}, but got {source.shape}.")
        if bias is not None and jnp.shape(bias) != source.shape[1:]:
            raise ShapeError(f"Expected a bias {source.shape[1:]} in {where}, but got {jnp.shape(bias)}.")
        return Parts(source, (source.shape[0], source.shape[1]), bias, None)
    kernel = source.kernel.tensor if isinstance(source, _Linear) else as_matrix(source, where)
    if bias is not None:
        raise DTypeError(f"Expected no bias together with {describe_type(source)} in {where}: the layer has its own.")
    bias = None if source.bias is None else source.bias[...]
    return Parts(kernel, (source.in_features, source.out_features), bias, source.dtype)


def count_to_keep(sparsity: float, shape: tuple[int, ...], where: str) -> int:
    """Return the number of kernel elements to keep. Raises ShapeError for a sparsity out of range."""
    if isinstance(sparsity, bool) or not isinstance(sparsity, int | float | np.number) or not 0 <= sparsity <= 1:
        raise ShapeError(f"Expected a sparsity from 0 to 1 in {where}, but got {short_repr(sparsity)}.")
    return round((1 - float(sparsity)) * math.prod(shape))


def prune_kernel(
    kernel: SparseTensor | jax.Array,
    sparsity: float,
    where: str,
    *,
    block: tuple[int, int] | None = None,
    format: Format | str | None = None,
    dynamic: bool = False,
) -> SparseTensor:
    """Keep the weights or blocks of a kernel that `SparseLinear.of` or `BlockSparseLinear.of` keeps."""
    if block is not None:
        return _keep_blocks(kernel, block, count_to_keep(sparsity, count_blocks(kernel.shape, block, where), where))
    count = count_to_keep(sparsity, kernel.shape, where)
    if not isinstance(kernel, SparseTensor):
        kernel = asarray(kernel, format=format or ("csc" if kernel.ndim == 2 else None))
    elif format is not None:
        kernel = kernel.asformat(format)
    kernel = kernel.prune(keep=count) if count < kernel.nse else kernel
    return kernel.dynamic() if dynamic else kernel


@jax.jit
def rewire_kernel(kernel: SparseTensor, scores: Any, count: Any) -> SparseTensor:
    """Return the kernel after a step of RigL. `count` may be traced."""
    nse = kernel.nse
    return kernel.prune(keep=nse - count, nse=nse).regrow(scores, count, nse=nse)


class BlockSparseLinear(_Linear):
    """A linear layer x W + b in which W stores blocks at random positions, in bsr, and all other blocks are 0.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.BlockSparseLinear(64, 32, block=(16, 16), density=0.5, rngs=nnx.Rngs(0))
        >>> layer(jnp.ones((8, 64))).shape
        (8, 32)

    Gray et al., "GPU kernels for block-sparse weights", 2017. Blocks of 16 columns fill vector registers, so products
    with such blocks are several times faster than products with single entries.

    Args:
        in_features, out_features: the sizes of x and of the result, multiples of the block's sizes.
        block: the rows and columns of a block.
        density: the fraction of blocks that are stored.
        use_bias: whether there is a bias.
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init: a function (key, (nse,), dtype) that gives the values. By default they are normal, with variance
            1 / (density · in_features).
        bias_init: an initializer of the bias; by default zeros.
        rngs: streams of random numbers; "params" is used.

    Raises ShapeError for a density out of range, and for blocks that do not divide the kernel.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        block: tuple[int, int],
        density: float,
        use_bias: bool = True,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        kernel_init: Initializer | None = None,
        bias_init: Initializer = nnx.initializers.zeros_init(),  # noqa: B008
        rngs: nnx.Rngs,
    ) -> None:
        check_sizes("BlockSparseLinear", in_features=in_features, out_features=out_features)
        blocks = count_blocks((in_features, out_features), block, "BlockSparseLinear")
        if not isinstance(density, int | float) or not 0 < density <= 1:
            raise ShapeError(f"Expected a density above 0, and at most 1, in BlockSparseLinear, but got {density}.")
        outer = random(rngs.params(), blocks, density=density, format="csr").pattern
        init = normal_initializer(max(density * in_features, 1.0)) if kernel_init is None else kernel_init
        pattern = Composition.of_blocks(outer, *block)
        kernel = ComposedTensor(init(rngs.params(), (pattern.nse,), param_dtype), pattern)
        self._set(kernel, bias_init(rngs.params(), (out_features,), param_dtype) if use_bias else None, dtype)

    @classmethod
    def of(
        cls,
        source: Source,
        bias: ArrayLike | None = None,
        *,
        block: tuple[int, int],
        sparsity: float = 0.0,
        dtype: DTypeLike | None = None,
    ) -> BlockSparseLinear:
        """Make a layer from another layer, or from a kernel (in, out), and keep the kernel's blocks of largest norm.

            >>> from flax import nnx
            >>> dense = nnx.Linear(64, 32, rngs=nnx.Rngs(0))
            >>> layer = jsparse.nnx.BlockSparseLinear.of(dense, block=(16, 16), sparsity=0.75)
            >>> layer.kernel.tensor.format, layer.kernel.tensor.nse
            (bsr(16, 16), 512)

        The norm of a block is the square root of the sum of its squared weights (Lagunas et al., "Block pruning for
        faster transformers", 2021, compares ways to choose blocks). Blocks of zeros are not stored.

        Args:
            source: as in `SparseLinear.of`.
            bias: an array (out,) or None, if the source is a SparseTensor. A source layer provides its bias.
            block: the rows and columns of a block.
            sparsity: the fraction of the blocks that are not stored, from 0 to 1.
            dtype: the dtype of the computation; by default the dtype of the source layer.

        Raises ShapeError for blocks that do not divide the kernel, and the errors of `SparseLinear.of`.
        """
        where = "BlockSparseLinear.of"
        kernel, sizes, bias, own_dtype = parts_of(source, bias, where)
        kernel = prune_kernel(kernel, sparsity, where, block=block)
        layer = cls(1, 1, block=(1, 1), density=1, use_bias=False, rngs=nnx.Rngs(0))
        layer._set(kernel, bias, own_dtype if dtype is None else dtype, sizes)
        return layer


def check_block(block: tuple[int, int], where: str) -> None:
    """Raise ShapeError unless a block is a pair of positive integers."""
    if not isinstance(block, tuple) or len(block) != 2:
        raise ShapeError(f"Expected block to be a pair (rows, columns) in {where}, but got {short_repr(block)}.")
    check_sizes(where, pairs=["block"], block=block)


def count_blocks(shape: tuple[int, ...], block: tuple[int, int], where: str) -> tuple[int, int]:
    """Return the numbers of blocks in a kernel's rows and columns. Raises ShapeError if blocks do not divide it."""
    check_block(block, where)
    if shape[0] % block[0] or shape[1] % block[1]:
        raise ShapeError(f"Expected a block that divides the kernel in {where}, but got {block} of {tuple(shape)}.")
    return shape[0] // block[0], shape[1] // block[1]


def block_norms(kernel: SparseTensor | jax.Array, block: tuple[int, int]) -> tuple[ComposedTensor, np.ndarray]:
    """Return a kernel in bsr, and the norm of each block that it stores."""
    if isinstance(kernel, SparseTensor):
        kernel = kernel.static()  # for a dynamic kernel, a capacity in blocks would have to be chosen
    blocks = asarray(kernel, format=f"bsr({block[0]}, {block[1]})")
    assert isinstance(blocks, ComposedTensor)
    values = np.asarray(blocks.values).reshape(-1, math.prod(block))
    wide = values.astype(np.promote_types(values.dtype, np.float64))  # squares of small float32 would be 0
    return blocks, np.linalg.norm(wide, axis=1)


def _keep_blocks(kernel: SparseTensor | jax.Array, block: tuple[int, int], count: int) -> ComposedTensor:
    """Return the kernel in bsr with the `count` blocks of largest norm, or fewer if fewer are not 0."""
    blocks, norms = block_norms(kernel, block)
    values = blocks.values.reshape(-1, math.prod(block))
    kept = np.asarray(largest(norms, min(count, len(norms)), by_magnitude=True)) & np.asarray(values.any(axis=1))
    outer = SparseTensor(norms, blocks.pattern.parts[0].core).prune(mask=kept).pattern
    return ComposedTensor(values[np.flatnonzero(kept)].reshape(-1), Composition.of_blocks(outer, *block))
