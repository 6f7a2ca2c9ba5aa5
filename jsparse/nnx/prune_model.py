"""Pruning of a model: its linear layers become sparse layers, and kernels of other layers become sparse parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from flax import nnx
from flax.nnx import filterlib

from jsparse.convert.creation import asarray
from jsparse.errors import DTypeError, FormatError, ShapeError, describe_type, short_repr
from jsparse.formats import Format
from jsparse.nnx.dense_layers import refusal
from jsparse.nnx.graph_layer import GraphLayer
from jsparse.nnx.kernels import Held, HeldKernel, Modules, Path, kernels_of
from jsparse.nnx.linear import (
    BlockSparseLinear,
    SparseLinear,
    block_norms,
    check_block,
    count_to_keep,
    parts_of,
    prune_kernel,
)
from jsparse.nnx.param import SparseParam
from jsparse.nnx.pruned import PrunedLinear
from jsparse.primitives.segments import largest
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.sparse_tensor import SparseTensor

M = TypeVar("M")
Sparsity: TypeAlias = "float | Callable[[Path, nnx.Module], float]"
Block: TypeAlias = tuple[int, int]
Sparse: TypeAlias = SparseLinear | BlockSparseLinear
Source: TypeAlias = nnx.Linear | nnx.LinearGeneral | Sparse | Held


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """The path and the shape of a kernel, the number of its stored weights, and a note if the kernel was not pruned."""

    path: Path
    shape: tuple[int, ...]
    nse: int
    note: str = ""

    def row(self) -> tuple[str, str, str, str]:
        """Return the texts of the kernel's line in a table."""
        share = self.nse / max(math.prod(self.shape), 1)
        return _text(self.path), str(self.shape), f"{self.nse:,}", f"{share:.1%}  {self.note}".rstrip()


@dataclass(frozen=True, slots=True)
class PruningSummary:
    """A summary of what `prune_model` did, which prints as a table.

    Attributes:
        kernels: all kernels of the new model, including the dense ones, in the order of their paths.
        parameters: the number of all parameters, including biases, before and after.
        nbytes: the bytes of all parameters and of the index arrays of sparse ones, before and after.
    """

    kernels: tuple[KernelSummary, ...]
    parameters: tuple[int, int]
    nbytes: tuple[int, int]

    def __str__(self) -> str:
        rows = [("kernel", "shape", "stored", "share"), *(kernel.row() for kernel in self.kernels)]
        a, b, c, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{path:<{a}}  {shape:<{b}}  {nse:>{c}}  {share}" for path, shape, nse, share in rows]
        number, size = (f"{new:,} of {old:,} ({new / max(old, 1):.1%})" for old, new in (self.parameters, self.nbytes))
        return "\n".join([*lines, f"parameters: {number}; bytes with index arrays: {size}"])


def prune_model(
    model: M,
    sparsity: Sparsity,
    *,
    where: filterlib.Filter = ...,
    modules: Modules = (),
    across_layers: bool = False,
    block: Block | None = None,
    format: Format | str | None = None,
    dynamic: bool = False,
) -> tuple[M, PruningSummary]:
    """Prune the layers of a model. Their kernels keep the weights or blocks of largest magnitude.

        >>> from flax import nnx
        >>> rngs = nnx.Rngs(0)
        >>> model = nnx.Sequential(nnx.Linear(64, 256, rngs=rngs), nnx.relu, nnx.Linear(256, 10, rngs=rngs))
        >>> pruned, summary = jsparse.nnx.prune_model(model, 0.9, where=lambda path, layer: layer.out_features > 10)
        >>> print(summary)
        kernel    shape      stored  share
        layers/0  (64, 256)   1,638  10.0%
        layers/2  (256, 10)   2,560  100.0%  dense: not chosen by where=
        parameters: 4,464 of 19,210 (23.2%); bytes with index arrays: 25,436 of 76,840 (33.1%)

    Han et al., "Learning both weights and connections for efficient neural networks", 2015. Linear layers become
    sparse layers. They are `nnx.Linear`, `nnx.LinearGeneral` over the last axes of x, as in `nnx.MultiHeadAttention`,
    the projections of `SparseAttention`, which count as `nnx.LinearGeneral`, and layers that are pruned already: a
    `SparseLinear` is pruned again, and the mask of a `PrunedLinear` is applied. The kernels of graph layers, and of the
    classes in `modules`, become a `SparseParam`. Layers may be in modules, lists and dictionaries. A layer in several
    places stays one layer, with its first path. Weights that are 0 are not stored, so a sparsity of 0 makes a model
    that was pruned elsewhere sparse.

    The path of a kernel is the path of its layer. If a layer has several kernels, their names follow:

        >>> layer = jsparse.nnx.SAGEConv(8, 4, rngs=rngs)
        >>> pruned, summary = jsparse.nnx.prune_model(layer, lambda path, layer: 0.5 if path == ("root",) else 0.75)
        >>> [(kernel.path, kernel.nse) for kernel in summary.kernels]
        [(('kernel',), 8), (('root',), 16)]

    With `block=(16, 16)`, whole blocks are kept (see `BlockSparseLinear.of`), and linear layers become
    `BlockSparseLinear`. Kernels that blocks do not divide stay dense. So do kernels to which `format` does not apply:
    those of attention have three dimensions.

    Args:
        model: a module, or a list or dictionary of modules. It is not changed.
        sparsity: the fraction of the weights to remove, from 0 to 1, or a function (path, layer) that gives it.
        where: which kernels are pruned: a filter of NNX, such as a function (path, layer) -> bool.
        modules: classes of your own modules. Their parameters with two dimensions or more are pruned, except those
            with the name "bias". The modules read them as `self.kernel[...]`, an array or a SparseTensor, and multiply
            with `@` or `jsparse.einsum`.
        across_layers: whether the magnitudes of all layers are compared with one another, so that `sparsity` is a
            fraction of all chosen kernels together.
        block: the rows and columns of blocks; by default single weights are kept.
        format: the format of the kernels; by default "csc" for dense matrices and "csf" for other dense kernels, while
            sparse kernels keep their format.
        dynamic: whether patterns are data, so that `rigl_step` may change them.

    Returns the new model, and a `PruningSummary` that also names the kernels that stay dense, and why. Train the new
    model with a new optimizer, because the two models have different parameters.

    Raises DTypeError if no kernel is chosen, if `modules` is not a tuple of classes, if `sparsity` is a function and
    `across_layers` is set, or if `block` is combined with `format` or `dynamic`; ShapeError for a sparsity out of
    range, and for kernels that are traced (inside jit).
    """
    if block is not None and (format is not None or dynamic):
        raise DTypeError(
            f"Expected block= without format= and dynamic= in prune_model, but got format={short_repr(format)} and "
            f"dynamic={dynamic}. Kernels with blocks are static, in bsr."
        )
    if block is not None:
        check_block(block, "prune_model")
    copy = nnx.clone(model)
    chosen, others = _choose(kernels_of(copy, modules, "prune_model"), where, block, format)
    if not chosen:
        names = ", ".join(f"{_text(kernel.path)} ({kernel.note})" for kernel in others) or "no kernels"
        raise DTypeError(
            "Expected a model with linear or graph layers in prune_model, and a where= that chooses some, but got "
            f"{describe_type(model)} with {names}."
        )
    sources = {path: _source(kernel) for path, kernel in chosen.items()}
    if across_layers:
        fractions = _across_layers(sources, sparsity, block)
    else:
        fractions = {path: sparsity(path, x.module) if callable(sparsity) else sparsity for path, x in chosen.items()}
    rows, replacements = list[KernelSummary](), dict[Path, Sparse | SparseParam]()
    for path, source in sources.items():
        kernel, layer = chosen[path], chosen[path].module
        sparse = _prune(source, fractions[path], block, format, dynamic)
        if isinstance(sparse, Sparse) and sparse.bias is not None:  # with its metadata; other layers may have the same
            sparse.bias = vars(layer.linear if isinstance(layer, PrunedLinear) else layer)["bias"]
        replacements[kernel.at if kernel.is_read else kernel.owner] = sparse
        rows.append(_summary(path, sparse.kernel.tensor if isinstance(sparse, Sparse) else sparse.tensor))
    pruned = nnx.recursive_map(lambda path, node: replacements.get(path, node), copy)
    kernels = tuple(sorted([*rows, *others], key=lambda kernel: [str(key) for key in kernel.path]))
    (before, old), (after, new) = _size(model), _size(pruned)
    return pruned, PruningSummary(kernels, (before, after), (old, new))


def _choose(
    kernels: dict[Path, HeldKernel], where: filterlib.Filter, block: Block | None, format: Format | str | None
) -> tuple[dict[Path, HeldKernel], list[KernelSummary]]:
    """Choose the kernels to prune, and summarize the kernels that stay unchanged."""
    predicate = filterlib.to_predicate(where)
    chosen, others = dict[Path, HeldKernel](), list[KernelSummary]()
    for path, kernel in kernels.items():
        reason = _reason_by_module(kernel) or _reason_by_shape(kernel, block, format)
        if reason is None and predicate(path, kernel.module):
            chosen[path] = kernel
        else:
            others.append(_summary(path, kernel.param[...], reason or "not chosen by where="))
    return chosen, others


def _reason_by_module(kernel: HeldKernel) -> str | None:
    """Return the reason why the kernel is not pruned in its module, or None if it can be."""
    module, shape = kernel.module, kernel.param[...].shape
    if not kernel.is_read and not isinstance(module, Sparse | PrunedLinear) and (reason := refusal(module)) is not None:
        is_users = type(module).__module__.partition(".")[0] not in ("flax", "jsparse")
        return f"{reason}; pass modules=({type(module).__name__},) to prune it" if is_users else reason
    if isinstance(module, GraphLayer) and shape != (expected := module.definition.kernels()[str(kernel.at[-1])].shape):
        return f"a kernel {shape} in place of {expected}, as nnx.vmap makes it"
    if kernel.is_shared:
        return "another module has the same kernel"
    return "in a tuple, which cannot be changed" if isinstance(kernel.parent, tuple) and not kernel.is_read else None


def _reason_by_shape(kernel: HeldKernel, block: Block | None, format: Format | str | None) -> str | None:
    """Return the reason why the options do not fit the kernel, or None if they do."""
    module = kernel.module
    value = _value(module.linear if isinstance(module, PrunedLinear) else _source(kernel))
    if block is None and isinstance(value, ComposedTensor) and not isinstance(module, SparseLinear):
        return "blocks are pruned with block="
    if block is not None and (value.ndim != 2 or any(n % width for n, width in zip(value.shape, block, strict=True))):
        return f"blocks {block} do not divide {value.shape}"
    if format is not None and value.ndim != 2:
        try:
            asarray(np.zeros((1,) * value.ndim), format=format)
        except FormatError:
            return f"{format} is not a format of {value.ndim} dimensions"
    return None


def _source(kernel: HeldKernel) -> Source:
    """Return what is pruned: a parameter, or a linear layer."""
    layer: Any = kernel.module
    source: Source = kernel.param if kernel.is_read else layer.to_sparse() if isinstance(layer, PrunedLinear) else layer
    return source


def _prune(
    source: Source, sparsity: float, block: Block | None, format: Format | str | None, dynamic: bool
) -> Sparse | SparseParam:
    if isinstance(source, Held):
        kernel = _value(source)
        return SparseParam(prune_kernel(kernel, sparsity, "prune_model", block=block, format=format, dynamic=dynamic))
    if block is not None:
        return BlockSparseLinear.of(source, sparsity=sparsity, block=block)
    return SparseLinear.of(source, sparsity=sparsity, format=format, dynamic=dynamic)


def _value(source: Source) -> SparseTensor | jax.Array:
    if not isinstance(source, Held):
        return parts_of(source, None, "prune_model").kernel
    value: SparseTensor | jax.Array = source[...]
    if isinstance(value, jax.core.Tracer):
        raise ShapeError("Expected a known kernel in prune_model. Call it outside jit.")
    return value


def _summary(path: Path, kernel: SparseTensor | jax.Array, note: str = "") -> KernelSummary:
    if isinstance(kernel, SparseTensor):
        return KernelSummary(path, kernel.shape, kernel.nse, note)
    return KernelSummary(path, kernel.shape, kernel.size, f"dense: {note}")


def _across_layers(sources: dict[Path, Source], sparsity: Sparsity, block: Block | None) -> dict[Path, float]:
    """Compare the magnitudes of all layers. Returns the fraction of weights or blocks to remove from each layer."""
    if callable(sparsity):
        raise DTypeError(
            "Expected a number as the sparsity in prune_model with across_layers=True, but got a function."
        )
    kernels = list(map(_value, sources.values()))
    if block is None:
        values = [np.asarray(kernel.values if isinstance(kernel, SparseTensor) else kernel) for kernel in kernels]
        flat = [x.reshape(-1).astype(np.promote_types(x.dtype, np.float32)) for x in values]
    else:
        flat = [block_norms(kernel, block)[1] for kernel in kernels]
    weights = np.concatenate(flat)
    sizes = [math.prod(kernel.shape) // math.prod(block or (1, 1)) for kernel in kernels]
    count = min(count_to_keep(sparsity, (sum(sizes),), "prune_model"), weights.size)
    kept = np.asarray(largest(weights, count, by_magnitude=True))
    counts = [int(part.sum()) for part in np.split(kept, np.cumsum([x.size for x in flat])[:-1])]
    return {path: 1 - kept / size for path, kept, size in zip(sources, counts, sizes, strict=True)}


def _size(model: object) -> tuple[int, int]:
    """Return the number of parameters of a model, and their bytes, including the index arrays of sparse parameters."""
    values = jax.tree.leaves(nnx.state(model, nnx.Param))
    tensors = [node.tensor for _, node in nnx.iter_graph(model) if isinstance(node, SparseParam)]
    indices = sum(tensor.nbytes - int(tensor.values.nbytes) for tensor in tensors)
    return sum(x.size for x in values), sum(int(x.nbytes) for x in values) + indices


def _text(path: Path) -> str:
    return "/".join(map(str, path)) or "the model itself"
