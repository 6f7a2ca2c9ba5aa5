"""Pruning of a model: its linear layers become sparse layers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import jax
import numpy as np
from flax import nnx
from flax.nnx import filterlib
from flax.typing import PathParts

from jsparse.errors import DTypeError, describe_type, short_repr
from jsparse.formats import Format
from jsparse.nnx.attention import SparseAttention
from jsparse.nnx.dense_layers import projection_layer, refusal
from jsparse.nnx.linear import BlockSparseLinear, SparseLinear, block_norms, check_block, count_to_keep, parts_of
from jsparse.nnx.param import SparseParam
from jsparse.nnx.pruned import PrunedLinear
from jsparse.primitives.segments import largest
from jsparse.tensor.sparse_tensor import SparseTensor

M = TypeVar("M")
Path: TypeAlias = PathParts
Sparsity: TypeAlias = "float | Callable[[Path, nnx.Module], float]"
Block: TypeAlias = tuple[int, int]
Sparse: TypeAlias = SparseLinear | BlockSparseLinear
Source: TypeAlias = nnx.Linear | nnx.LinearGeneral | Sparse
Layer: TypeAlias = Source | PrunedLinear


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
    across_layers: bool = False,
    block: Block | None = None,
    format: Format | str | None = None,
    dynamic: bool = False,
) -> tuple[M, PruningSummary]:
    """Replace the linear layers of a model by sparse layers, which keep the weights or blocks of largest magnitude.

        >>> from flax import nnx
        >>> rngs = nnx.Rngs(0)
        >>> model = nnx.Sequential(nnx.Linear(64, 256, rngs=rngs), nnx.relu, nnx.Linear(256, 10, rngs=rngs))
        >>> pruned, summary = jsparse.nnx.prune_model(model, 0.9, where=lambda path, layer: layer.out_features > 10)
        >>> print(summary)
        kernel    shape      stored  share
        layers/0  (64, 256)   1,638  10.0%
        layers/2  (256, 10)   2,560  100.0%  dense: not chosen by where=
        parameters: 4,464 of 19,210 (23.2%); bytes with index arrays: 25,436 of 76,840 (33.1%)

    Han et al., "Learning both weights and connections for efficient neural networks", 2015. Linear layers are
    `nnx.Linear`, `nnx.LinearGeneral` over the last axes of x, as in `nnx.MultiHeadAttention`, the projections of
    `SparseAttention`, which count as `nnx.LinearGeneral`, and layers that are pruned already: a `SparseLinear` is
    pruned again, and the mask of a `PrunedLinear` is applied. Layers may be in modules, lists and dictionaries. A
    layer in several places stays one layer, with its first path. Weights that are 0 are not stored, so a sparsity of 0
    makes a model that was pruned elsewhere sparse.

    With `block=(16, 16)`, layers become `BlockSparseLinear`, which keep whole blocks (see `BlockSparseLinear.of`).
    Layers that blocks do not divide stay dense.

    Args:
        model: a module, or a list or dictionary of modules. It is not changed.
        sparsity: the fraction of the weights to remove, from 0 to 1, or a function (path, layer) that gives it.
        where: which layers are pruned: a filter of NNX, such as a function (path, layer) -> bool.
        across_layers: whether the magnitudes of all layers are compared with one another, so that `sparsity` is a
            fraction of all chosen kernels together.
        block: the rows and columns of blocks; by default single weights are kept.
        format: the format of the kernels; by default "csc" for dense kernels, while sparse kernels keep their format.
        dynamic: whether patterns are data, so that `SparseLinear.rewire` may change them.

    Returns the new model, and a `PruningSummary` that also names the kernels that stay dense, and why. Train the new
    model with a new optimizer, because the two models have different parameters.

    Raises DTypeError if no layer is chosen, if `sparsity` is a function and `across_layers` is set, or if `block` is
    combined with `format` or `dynamic`; ShapeError for a sparsity out of range, and for kernels that are traced (inside
    jit).
    """
    if block is not None and (format is not None or dynamic):
        raise DTypeError(
            f"Expected block= without format= and dynamic= in prune_model, but got format={short_repr(format)} and "
            f"dynamic={dynamic}. Kernels with blocks are static, in bsr."
        )
    if block is not None:
        check_block(block, "prune_model")
    copy = nnx.clone(model)
    chosen, others = _kernels(copy, where, block)
    if not chosen:
        names = ", ".join(f"{_text(kernel.path)} ({kernel.note})" for kernel in others) or "no kernels"
        raise DTypeError(
            "Expected a model with linear layers in prune_model, and a where= that chooses some of them, but got "
            f"{describe_type(model)} with {names}."
        )
    sources: dict[Path, Source] = {
        path: layer.to_sparse() if isinstance(layer, PrunedLinear) else layer for path, layer in chosen.items()
    }
    if across_layers:
        fractions = _across_layers(sources, sparsity, block)
    else:
        fractions = {path: sparsity(path, x) if callable(sparsity) else sparsity for path, x in chosen.items()}
    layers = dict[Path, Sparse]()
    for path, dense in chosen.items():
        layer: Sparse
        if block is None:
            layer = SparseLinear.of(sources[path], sparsity=fractions[path], format=format, dynamic=dynamic)
        else:
            layer = BlockSparseLinear.of(sources[path], sparsity=fractions[path], block=block)
        if layer.bias is not None:  # with its metadata; other layers may have the same one
            layer.bias = dense.linear.bias if isinstance(dense, PrunedLinear) else dense.bias
        layers[path] = layer
    pruned = nnx.recursive_map(lambda path, node: layers.get(path, node), copy)
    rows = [_summary(path, layer) for path, layer in layers.items()]
    kernels = tuple(sorted([*rows, *others], key=lambda kernel: [str(key) for key in kernel.path]))
    (before, old), (after, new) = _size(model), _size(pruned)
    return pruned, PruningSummary(kernels, (before, after), (old, new))


def _kernels(
    model: object, where: filterlib.Filter, block: Block | None
) -> tuple[dict[Path, Layer], list[KernelSummary]]:
    """Find the layers to prune, and summarize the kernels that stay unchanged."""
    nodes, predicate = dict(nnx.iter_graph(model)), filterlib.to_predicate(where)
    modules = {path: node for path, node in nodes.items() if isinstance(node, nnx.Module)}
    owners = Counter(id(x) for module in modules.values() for x in vars(module).values() if isinstance(x, nnx.Param))
    chosen, others = dict[Path, Layer](), list[KernelSummary]()
    for path, module in modules.items():
        parent = nodes[path[:-1]] if path else None
        if isinstance(parent, Sparse | PrunedLinear):
            continue  # its parts
        if isinstance(parent, SparseAttention) and isinstance(module, nnx.Dict):
            module = projection_layer(parent, str(path[-1]))
        reason = None
        if isinstance(module, BlockSparseLinear) and block is None:
            reason = "blocks are pruned with block="
        elif not isinstance(module, Sparse | PrunedLinear):
            reason = refusal(module)
            if reason is None and owners[id(vars(module)["kernel"])] > 1:
                reason = "another module has the same kernel"
        if reason is None and isinstance(parent, tuple):
            reason = "in a tuple, which cannot be changed"
        if reason is None and block is not None and isinstance(module, Layer):
            source = module.linear if isinstance(module, PrunedLinear) else module
            shape = parts_of(source, None, "prune_model").kernel.shape
            if any(size % width for size, width in zip(shape, block, strict=True)):
                reason = f"blocks {block} do not divide {shape}"
        if reason is None and isinstance(module, Layer) and predicate(path, module):
            chosen[path] = module
        else:
            others += _summarize_unchanged(path, module, reason or "not chosen by where=")
    return chosen, others


def _summarize_unchanged(path: Path, module: nnx.Module, reason: str) -> list[KernelSummary]:
    """Summarize the kernels among a module's attributes: parameters of two or more dimensions, except biases."""
    if isinstance(module, Sparse):
        return [_summary(path, module, reason)]
    if isinstance(module, PrunedLinear):
        module = module.linear
    held = {name: x for name, x in vars(module).items() if isinstance(x, nnx.Param) and x.ndim > 1 and name != "bias"}
    paths = {name: path if name == "kernel" else (*path, name) for name in held}
    return [KernelSummary(paths[name], x.shape, x.size, f"dense: {reason}") for name, x in held.items()]


def _summary(path: Path, layer: Sparse, note: str = "") -> KernelSummary:
    kernel = layer.kernel.tensor
    return KernelSummary(path, kernel.shape, kernel.nse, note)


def _across_layers(sources: dict[Path, Source], sparsity: Sparsity, block: Block | None) -> dict[Path, float]:
    """Compare the magnitudes of all layers. Returns the fraction of weights or blocks to remove from each layer."""
    if callable(sparsity):
        raise DTypeError(
            "Expected a number as the sparsity in prune_model with across_layers=True, but got a function."
        )
    kernels = [parts_of(layer, None, "prune_model").kernel for layer in sources.values()]
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
