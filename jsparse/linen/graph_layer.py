"""Graph layers of `jsparse.nn` as Linen modules."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import ArrayLike

from jsparse.graph.graphs import Graph
from jsparse.nn.layer import Initializer, Initializers, Layer, check_dtypes
from jsparse.nn.modules import COMMON, documentation
from jsparse.nn.operands import Features
from jsparse.tensor.sparse_tensor import SparseTensor

EXAMPLE = (">>> layer = jsparse.linen.{name}({args})",)


class GraphLayer(linen.Module, kw_only=True):
    """A graph layer with its parameters. The first call determines the sizes of its inputs.

    Attributes:
        dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
        param_dtype: the dtype of the parameters.
        kernel_init, attention_init, bias_init: initializers of kernels, of vectors of attention, and of biases.
    """

    _layer: ClassVar[type[Layer]]
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Initializer = jax.nn.initializers.lecun_normal()  # a function
    attention_init: Initializer = jax.nn.initializers.glorot_uniform()
    bias_init: Initializer = jax.nn.initializers.zeros

    @linen.compact
    def __call__(
        self,
        graph: Graph,
        x: Features,
        *,
        edge_features: SparseTensor | ArrayLike | None = None,
        deterministic: bool | None = None,
    ) -> jax.Array:
        """Compute the layer for a graph and features x (nodes, in), or a pair for sources and targets.

        Layers of graph attention take features of edges, (nse, edge_features). There is dropout if there is a stream
        "dropout" of random numbers, unless `deterministic`.
        """
        name = type(self).__name__
        check_dtypes(name, dtype=self.dtype, param_dtype=self.param_dtype)
        options = {option.name: getattr(self, option.name) for option in _options(self._layer)}
        definition = self._layer.of_call(x, edge_features, **options)
        initializers = Initializers(self.kernel_init, self.attention_init, self.bias_init)
        drops = getattr(definition, "dropout_rate", 0.0) and not deterministic and self.has_rng("dropout")
        p = {
            name: self.param(name, lambda key, of: of.initial_value(key, initializers, self.param_dtype), of)
            for name, of in definition.parameters().items()
        }
        return definition.apply(
            p,
            graph,
            x,
            edge_features=edge_features,
            dropout_key=self.make_rng("dropout") if drops else None,
            dtype=self.dtype,
        )


def _options(layer: type[Layer]) -> list[Field[Any]]:
    """Return the fields of a layer that users set. Sizes that follow from the arguments of a call are left out."""
    return [option for option in fields(layer) if option.name not in layer.inferred]  # type: ignore[arg-type]


def graph_layer(layer: type[Layer]) -> type[GraphLayer]:
    """Make the Linen module of a layer, with the name and options of the layer and a docstring."""
    options = _options(layer)
    held: dict[str, Any] = {x.name: x.default for x in options if x.default is not MISSING}
    held |= {"_layer": layer, "__module__": "jsparse.linen", "__annotations__": {x.name: x.type for x in options}}
    call = "layer.init_with_output(jax.random.key(1), graph, x)[0]"
    held["__doc__"] = documentation(layer, EXAMPLE, call, COMMON, layer.inferred).replace(
        "\nArgs:\n", "\nAttributes:\n"
    )
    return type(layer.__name__, (GraphLayer,), held)
