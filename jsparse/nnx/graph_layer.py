"""Graph layers of `jsparse.nn` as NNX modules."""

from __future__ import annotations

from inspect import Parameter as Option
from inspect import Signature, signature
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import ArrayLike, DTypeLike

from jsparse.graph.graphs import Graph
from jsparse.nn.layer import Initializer, Layer, check_dtypes, initializers
from jsparse.nn.modules import COMMON, documentation
from jsparse.nn.operands import Features
from jsparse.nnx.shown import Shown
from jsparse.tensor.sparse_tensor import SparseTensor

EXAMPLE = (">>> from flax import nnx", ">>> layer = jsparse.nnx.{name}({args}, rngs=nnx.Rngs(0))")
RNGS = 'rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.'


class GraphLayer(nnx.Module, metaclass=Shown):
    """A graph layer with its parameters.

    Args:
        sizes, options: the sizes and options of the layer.
        rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init, attention_init, bias_init: initializers of kernels, of vectors of attention, and of biases.
    """

    _layer: ClassVar[type[Layer]]

    def __init__(
        self,
        *sizes: Any,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        **options: Any,
    ) -> None:
        check_dtypes(type(self).__name__, dtype=dtype, param_dtype=param_dtype)
        definition = self._layer(*sizes, **options)
        self.definition, self.dtype, self.deterministic = definition, dtype, False
        init, parameters = initializers(kernel_init, attention_init, bias_init), definition.parameters()
        self.names = tuple(parameters)
        for name, parameter in parameters.items():
            setattr(self, name, nnx.Param(parameter.initial_value(rngs.params(), init, param_dtype)))
        dropped = getattr(definition, "dropout_rate", 0.0)
        self.rngs = nnx.data(rngs.dropout.fork() if dropped else None)

    def __call__(
        self,
        graph: Graph,
        x: Features,
        *,
        edge_features: SparseTensor | ArrayLike | None = None,
        deterministic: bool | None = None,
    ) -> jax.Array:
        """Compute the layer for a graph and features x (nodes, in), or a pair for sources and targets.

        Layers of graph attention take features of edges, (nse, edge_features). There is no dropout if `deterministic`,
        or after `layer.eval()`.
        """
        quiet = self.deterministic if deterministic is None else deterministic
        return self.definition.apply(
            {name: getattr(self, name)[...] for name in self.names},
            graph,
            x,
            edge_features=edge_features,
            dropout_key=None if quiet or self.rngs is None else self.rngs(),
            dtype=self.dtype,
        )


def graph_layer(layer: type[Layer]) -> type[GraphLayer]:
    """Make the NNX module of a layer. Name, signature and docstring of the module come from the layer."""

    def __init__(self: GraphLayer, *sizes: object, **options: Any) -> None:  # noqa: N807  of the class that is made
        GraphLayer.__init__(self, *sizes, **options)

    first, *more = signature(GraphLayer.__init__).parameters.values()
    taken = [*signature(layer).parameters.values(), *(p for p in more if p.kind is Option.KEYWORD_ONLY)]
    __init__.__signature__ = Signature([first, *taken])  # type: ignore[attr-defined]
    __init__.__annotations__ = {p.name: p.annotation for p in taken}
    held = {"_layer": layer, "__init__": __init__, "__module__": "jsparse.nnx"}
    held["__doc__"] = documentation(layer, EXAMPLE, "layer(graph, x)", RNGS + COMMON)
    return type(layer.__name__, (GraphLayer,), held)
