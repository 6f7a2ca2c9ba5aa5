"""The base class of graph layers. The sizes and options of a layer determine its parameters and its computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import DTypeError, ShapeError, short_repr, shorten
from jsparse.graph.graphs import Graph, is_pattern
from jsparse.nn.operands import Features, dense_array, sparse_or_dense
from jsparse.ops.relocation.operands import as_tensor
from jsparse.tensor.sparse_tensor import SparseTensor

Initializer: TypeAlias = Callable[..., jax.Array]
Arrays = Mapping[str, Any]


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
        shape: the shape of the parameter.
        kind: the initializer, "kernel", "attention" or "bias", or a float: the initial value of all elements.
        batch: the number of leading axes that enumerate independent kernels.
    """

    shape: tuple[int, ...]
    kind: str | float = "kernel"
    batch: int = 0

    def initial_value(self, key: jax.Array, initializers: Initializers, dtype: DTypeLike) -> jax.Array:
        """Return the initial value. A kernel is initialized as a matrix, however many output axes it has."""
        if isinstance(self.kind, float):
            return jnp.full(self.shape, self.kind, dtype)
        if self.kind != "kernel":
            return getattr(initializers, self.kind)(key, self.shape, dtype)
        each, (inputs, *outputs) = prod(self.shape[: self.batch]), self.shape[self.batch :]
        keys = jax.random.split(key, each) if self.batch else [key]
        kernels = [initializers.kernel(one, (inputs, prod(outputs)), dtype) for one in keys]
        return jnp.stack(kernels).reshape(self.shape)


class Layer:
    """A graph layer as a value: its sizes and options, without its parameters.

    `jsparse.nnx` and `jsparse.linen` turn layers into modules. Without Flax, a layer takes a dictionary of parameters:

        >>> layer = jsparse.nn.SAGEConv(4, 2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> parameters = layer.init(jax.random.key(1))
        >>> jax.grad(lambda p: layer.apply(p, graph, x).sum())(parameters)["kernel"].shape
        (4, 2)

    Layers raise ShapeError for sizes that are not positive integers.
    """

    __slots__ = ()
    inferred: ClassVar[tuple[str, ...]] = ("in_features", "edge_features")  # options that follow from a call
    _apply: ClassVar[Callable[..., jax.Array]]  # of parameters, graph, features, and options that the layer has

    def parameters(self) -> dict[str, Parameter]:
        """The parameters of the layer by name: their shapes, and how they are initialized."""
        raise NotImplementedError

    def kernels(self) -> dict[str, Parameter]:
        """The parameters that may be SparseTensors."""
        return {name: parameter for name, parameter in self.parameters().items() if parameter.kind == "kernel"}

    def init(
        self,
        key: jax.Array,
        *,
        param_dtype: DTypeLike = jnp.float32,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> dict[str, jax.Array]:
        """Make the initial parameters, arrays by name.

        Args:
            key: a key of random numbers.
            param_dtype: the dtype of the parameters.
            kernel_init, attention_init, bias_init: functions (key, shape, dtype) for kernels, vectors of attention,
                and biases; by default `lecun_normal`, `glorot_uniform` and `zeros` of `jax.nn.initializers`.
        """
        init, parameters = initializers(kernel_init, attention_init, bias_init), self.parameters()
        keys = jax.random.split(key, len(parameters))
        pairs = zip(parameters.items(), keys, strict=True)
        return {name: one.initial_value(key, init, param_dtype) for (name, one), key in pairs}

    @classmethod
    def of_call(cls, x: Features, edge_features: SparseTensor | ArrayLike | None, **options: Any) -> Layer:
        """Make a layer with the given options, for the numbers of features that `x` and `edge_features` have."""
        name, sizes = cls.__name__, dict[str, Any]()
        if "in_features" in cls.inferred:
            ends = features(x, name, None)
            sizes["in_features"] = tuple(one.shape[1] for one in ends) if isinstance(ends, tuple) else ends.shape[1]
        if "edge_features" in cls.inferred and edge_features is not None and hasattr(cls, "edge_features"):
            sizes["edge_features"] = edge_array(edge_features, name, None).shape[-1]
        return cls(**options, **sizes)

    def apply(
        self,
        parameters: Arrays,
        graph: Graph,
        x: Features,
        *,
        edge_features: SparseTensor | ArrayLike | None = None,
        dropout_key: jax.Array | None = None,
        dtype: DTypeLike | None = None,
    ) -> jax.Array:
        """Compute the layer.

        Args:
            parameters: arrays by name, as `init` gives them. Kernels may be SparseTensors.
            graph: a SparseTensor or a pattern (targets, sources), static or dynamic.
            x: features (nodes, in), or a pair: the features of sources and of targets.
            edge_features: features (nse, edge_features), for graph attention layers made with this number as an option.
            dropout_key: a key of random numbers, for layers with a `dropout_rate`; without it nothing is dropped.
            dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.

        Raises ShapeError for shapes that do not fit, and DTypeError for a dense graph.
        """
        name = type(self).__name__
        options: dict[str, Any] = {} if dropout_key is None else {"dropout_key": dropout_key}
        if edge_features is not None:
            if getattr(self, "edge_features", None) is None:
                raise ShapeError(
                    f"Expected no edge_features in a {name} layer that was made without them. Graph attention layers "
                    "take them if you make the layers with edge_features=, the number of features."
                )
            options["edge_features"] = edge_array(edge_features, name, dtype)
        x = features(x, name, dtype)
        if dtype is not None and not is_pattern(graph):
            graph = as_tensor(graph, f"nn.{name}").astype(dtype)
        p = {key: self._convert_parameter(key, one, dtype) for key, one in parameters.items()}
        return self._apply(p, graph, x, **options)

    def _convert_parameter(
        self, name: str, value: SparseTensor | ArrayLike, dtype: DTypeLike | None
    ) -> SparseTensor | jax.Array:
        """Convert the value of a parameter to an array of a dtype. A kernel may stay a SparseTensor."""
        if isinstance(value, SparseTensor) and name in self.kernels():
            return value if dtype is None else value.astype(dtype)
        return value if dtype is None and isinstance(value, jax.Array) else jnp.asarray(value, dtype)


def initializers(
    kernel_init: Initializer | None, attention_init: Initializer | None, bias_init: Initializer | None
) -> Initializers:
    """Return the given initializers. A default initializer replaces each None."""
    functions = {"kernel": kernel_init, "attention": attention_init, "bias": bias_init}
    return Initializers(**{name: init for name, init in functions.items() if init is not None})


def check_sizes(layer: str, *, pairs: Sequence[str] = (), optional: Sequence[str] = (), **sizes: Any) -> None:
    """Raise ShapeError unless all sizes are positive integers.

    The sizes that `pairs` names may be pairs of positive integers. The sizes that `optional` names may be None.
    """
    for name, size in sizes.items():
        if size is None and name in optional:
            continue
        for one in size if name in pairs and isinstance(size, tuple) and len(size) == 2 else (size,):
            if isinstance(one, bool) or not isinstance(one, int | np.integer) or one <= 0:
                raise ShapeError(f"Expected {name} to be a positive integer in {layer}, but got {short_repr(size)}.")


def features(x: Features, layer: str, dtype: DTypeLike | None) -> Any:
    """Convert the features of nodes, or the pair for sources and targets, to a dtype. None keeps their dtype.

    Raises DTypeError unless the features are arrays of numbers, and ShapeError unless their rank is two.
    """
    if isinstance(x, tuple | list):
        if len(x) != 2:
            raise ShapeError(f"Expected an array, or a pair (x_source, x_target), in {layer}, but got {len(x)} arrays.")
        return tuple(features(each, layer, dtype) for each in x)
    array = sparse_or_dense(x, layer, "features (nodes, in)", " The graph is the first argument.", dtype)
    if array.ndim != 2:
        raise ShapeError(f"Expected features (nodes, in) of {layer}, but got shape {shorten(array.shape)}.")
    return array


def edge_array(x: SparseTensor | ArrayLike, layer: str, dtype: DTypeLike | None) -> SparseTensor | jax.Array:
    """Convert features of edges, an array (nse, features) or a SparseTensor, to a dtype. None keeps their dtype.

    Raises DTypeError and ShapeError for other features.
    """
    if isinstance(x, SparseTensor):
        return x if dtype is None else x.astype(dtype)
    array = dense_array(x, layer, "edge_features (nse, features)")
    if array.ndim != 2:
        raise ShapeError(f"Expected edge_features (nse, features) of {layer}, but got shape {shorten(array.shape)}.")
    return array if dtype is None else array.astype(dtype)


def check_dtypes(layer: str, **dtypes: Any) -> None:
    """Raise DTypeError unless each dtype is None, or a dtype of floats or complex numbers."""
    for name, dtype in dtypes.items():
        if dtype is not None and not jnp.issubdtype(dtype, jnp.inexact):
            raise DTypeError(f"Expected {name} to be a dtype of floats in {layer}, but got {short_repr(dtype)}.")


def pair(features: int | tuple[int, int]) -> tuple[int, int]:
    """Return a pair: the number of features of sources, and the number of features of targets."""
    return features if isinstance(features, tuple) else (features, features)


def chosen(**parameters: Parameter | None) -> dict[str, Parameter]:
    """Return the parameters that are not None, by name."""
    return {name: parameter for name, parameter in parameters.items() if parameter is not None}


def bias_of(out: int, use: bool) -> Parameter | None:
    """Return the parameter of a bias (out,), or None if `use` is False."""
    return Parameter((out,), "bias") if use else None
