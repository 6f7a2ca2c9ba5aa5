"""Parameters of graph layers: their shapes, and their first values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, ShapeError, represented, shortened
from jsparse.graph.graphs import is_pattern
from jsparse.nn.operands import dense_array, sparse_or_dense
from jsparse.ops.relocation.operands import as_tensor
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = [
    "Arrays",
    "Definition",
    "Initializers",
    "Parameter",
    "bias_of",
    "call_options",
    "check_dtypes",
    "check_sizes",
    "chosen",
    "edge_array",
    "features",
    "pair",
    "weighted",
]

Initializer = Callable[..., jax.Array]
Arrays = Mapping[str, Any]


def _constant(value: float) -> Initializer:
    return lambda _, shape, dtype: jnp.full(shape, value, dtype)


@dataclass(frozen=True)
class Initializers:
    """The initializers of kernels, of vectors of attention, and of biases."""

    kernel: Initializer = field(default_factory=jax.nn.initializers.lecun_normal)
    attention: Initializer = field(default_factory=jax.nn.initializers.glorot_uniform)
    bias: Initializer = jax.nn.initializers.zeros


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a layer.

    Attributes:
        shape: its shape.
        kind: "kernel", "attention" or "bias", or a number that it begins with.
        batch: the leading axes over kernels that are independent of each other.
    """

    shape: tuple[int, ...]
    kind: str | float = "kernel"
    batch: int = 0

    def initialized(self, key: Any, given: Initializers, dtype: Any) -> jax.Array:
        """Its first value. A kernel is a matrix for its initializer, whatever its axes of results are."""
        if isinstance(self.kind, float):
            return _constant(self.kind)(key, self.shape, dtype)
        if self.kind != "kernel":
            return (given.bias if self.kind == "bias" else given.attention)(key, self.shape, dtype)
        each, (inputs, *outputs) = prod(self.shape[: self.batch]), self.shape[self.batch :]
        keys = jax.random.split(key, each) if self.batch else [key]
        found = [given.kernel(one, (inputs, prod(outputs)), dtype) for one in keys]
        return jnp.stack(found).reshape(self.shape)


class Definition(Protocol):
    """A layer: a frozen value with sizes and options."""

    def parameters(self) -> dict[str, Parameter]:
        """Its parameters, by name."""

    @property
    def apply(self) -> Callable[..., jax.Array]:
        """The layer as a function of its parameters by name, a graph, features, and options of a call."""


def call_options(definition: Definition, edge_features: Any, dropout_key: Any) -> dict[str, Any]:
    """The options of a call. Raises ShapeError for features of edges in a layer that takes none."""
    options: dict[str, Any] = {} if dropout_key is None else {"dropout_key": dropout_key}
    if edge_features is None:
        return options
    if getattr(definition, "edge_inputs", None) is None:
        name = type(definition).__name__
        raise ShapeError(
            f"Expected no edge_features in a {name} layer that is made without them. Layers of graph attention take "
            "them, if they are made with edge_features=, the number of features."
        )
    return options | {"edge_features": edge_features}


def check_sizes(layer: str, *, pairs: Sequence[str] = (), optional: Sequence[str] = (), **sizes: Any) -> None:
    """Raise ShapeError unless all sizes of a layer are positive integers; some may be pairs of these, or None."""
    for name, given in sizes.items():
        several = name in pairs and isinstance(given, tuple) and len(given) == 2
        if not (given is None and name in optional) and not all(map(_is_size, given if several else (given,))):
            raise ShapeError(f"Expected {name} to be a positive integer in {layer}, but got {represented(given)}.")


def _is_size(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool) and bool(x > 0)


def features(x: Any, layer: str, dtype: Any) -> Any:
    """The features of nodes, or the pair of those of sources and targets, in a dtype; None for their own.

    Raises DTypeError for what is no array of numbers, ShapeError for another rank than two.
    """
    if isinstance(x, tuple | list):
        if len(x) != 2:
            raise ShapeError(f"Expected an array, or a pair (x_source, x_target), in {layer}, but got {len(x)} arrays.")
        return tuple(features(each, layer, dtype) for each in x)
    found = sparse_or_dense(x, layer, "features (nodes, in)", " The graph is the first argument.", dtype)
    if found.ndim != 2:
        raise ShapeError(f"Expected features (nodes, in) of {layer}, but got shape {shortened(found.shape)}.")
    return found


def edge_array(x: Any, layer: str, dtype: Any) -> Any:
    """Features of edges as an array (nse, features), or a tensor, in a dtype; None for their own.

    Raises DTypeError and ShapeError for others.
    """
    if isinstance(x, SparseTensor):
        return x if dtype is None else x.astype(dtype)
    found = dense_array(x, layer, "edge_features (nse, features)")
    if found.ndim != 2:
        raise ShapeError(f"Expected edge_features (nse, features) of {layer}, but got shape {shortened(found.shape)}.")
    return found if dtype is None else found.astype(dtype)


def weighted(graph: Any, layer: str, dtype: Any) -> Any:
    """A graph with its weights in a dtype; None for their own."""
    return graph if dtype is None or is_pattern(graph) else as_tensor(graph, f"nn.{layer}").astype(dtype)


def check_dtypes(layer: str, **dtypes: Any) -> None:
    """Raise DTypeError unless dtypes are those of floats or complex numbers, or None."""
    for name, dtype in dtypes.items():
        if dtype is not None and not jnp.issubdtype(dtype, jnp.inexact):
            raise DTypeError(f"Expected {name} to be a dtype of floats in {layer}, but got {represented(dtype)}.")


def pair(features: int | tuple[int, int]) -> tuple[int, int]:
    """The numbers of features of sources and of targets."""
    return features if isinstance(features, tuple) else (features, features)


def chosen(**parameters: Parameter | None) -> dict[str, Parameter]:
    """The parameters that a layer has."""
    return {name: parameter for name, parameter in parameters.items() if parameter is not None}


def bias_of(out: int, use: bool) -> Parameter | None:
    """A bias, if it is used."""
    return Parameter((out,), "bias") if use else None
