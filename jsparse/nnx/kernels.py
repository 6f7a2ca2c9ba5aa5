"""The kernels of a model, and the modules that hold them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from flax import nnx
from flax.typing import PathParts

from jsparse.errors import DTypeError, short_repr
from jsparse.nnx.attention import SparseAttention
from jsparse.nnx.dense_layers import projection_layer
from jsparse.nnx.graph_layer import GraphLayer
from jsparse.nnx.param import SparseParam
from jsparse.nnx.pruned import PrunedLinear

Path: TypeAlias = PathParts
Held: TypeAlias = nnx.Param | SparseParam
Modules: TypeAlias = tuple[type[nnx.Module], ...]


@dataclass(frozen=True, slots=True)
class HeldKernel:
    """A kernel of a model.

    Attributes:
        param: the kernel.
        at: the path of `param`.
        module: the module that computes with the kernel.
        owner: the path of `module`.
        parent: what holds the module, or None if the module is the model.
        is_shared: whether `param` is in several places.
        is_read: whether the module reads `param[...]`, sparse or dense. Other modules have to be replaced.
    """

    param: Held
    at: Path
    module: nnx.Module
    owner: Path
    parent: object
    is_shared: bool
    is_read: bool


def kernels_of(model: object, modules: Modules, where: str) -> dict[Path, HeldKernel]:
    """Find the kernels of a model: parameters of two or more dimensions, except biases. A graph layer names its own.

    The key of a kernel is the path of its module, if the module has no other kernel, and calls this one "kernel".
    Otherwise, it is the path of the parameter. `modules` are the user's classes that read sparse kernels.

    Raises DTypeError unless `modules` is a tuple of classes of modules.
    """
    each = modules if isinstance(modules, tuple) else (None,)
    if not all(isinstance(one, type) and issubclass(one, nnx.Module) for one in each):
        raise DTypeError(
            f"Expected modules= of {where} to be a tuple of classes of modules, such as (MyLayer,), but got "
            f"{short_repr(modules)}."
        )
    nodes: dict[Path, Any] = dict(nnx.iter_graph(model))
    parents = {path: nodes[path[:-1]] if path else None for path in nodes}
    held = list[tuple[Path, Path, Held]]()
    for owner, node in nodes.items():
        if _is_owner(node, parents[owner]):
            held += [(owner, at, param) for at, param in _parameters(node, owner)]
    places = Counter(id(param) for _, _, param in held)
    kernels_of_owner = defaultdict[Path, list[HeldKernel]](list)
    for owner, at, param in held:
        module, parent = nodes[owner], parents[owner]
        if _is_kernel(param, at[len(owner) :], module):
            if isinstance(parent, SparseAttention) and isinstance(module, nnx.Dict):
                module = projection_layer(parent, str(owner[-1]))
            is_shared, is_read = places[id(param)] > 1, isinstance(module, (GraphLayer, *modules))
            kernels_of_owner[owner].append(HeldKernel(param, at, module, owner, parent, is_shared, is_read))
    return {
        owner if len(kernels) == 1 and kernel.at[-1] == "kernel" else kernel.at: kernel
        for owner, kernels in kernels_of_owner.items()
        for kernel in kernels
    }


def _is_owner(node: object, parent: object) -> bool:
    """Whether a node computes with the parameters in it. Lists and dictionaries only hold them for another module."""
    is_container = isinstance(node, nnx.List | nnx.Dict) and not isinstance(parent, SparseAttention | None)
    is_part = isinstance(node, SparseParam) or isinstance(parent, PrunedLinear)
    return isinstance(node, nnx.Module) and not (is_container or is_part)


def _parameters(node: object, path: Path) -> Iterator[tuple[Path, Held]]:
    """Yield the parameters of a module, with their paths: also those in lists and dictionaries."""
    fields = node if isinstance(node, dict) else vars(node) if isinstance(node, nnx.Module) else {}
    for key, child in enumerate(node) if isinstance(node, list | nnx.List) else fields.items():
        is_container = isinstance(child, list | dict | nnx.List | nnx.Dict) and not isinstance(node, SparseAttention)
        if isinstance(child, Held):
            yield (*path, key), child
        elif is_container or (isinstance(node, PrunedLinear) and isinstance(child, nnx.Linear)):
            yield from _parameters(child, (*path, key))


def _is_kernel(param: Held, name: Path, module: nnx.Module) -> bool:
    if isinstance(module, GraphLayer):
        return name[0] in module.definition.kernels()
    held = param.tensor if isinstance(param, SparseParam) else param
    return getattr(held, "ndim", 0) > 1 and name[-1] != "bias"
