"""What the graph layers of NNX have in common: parameters by a definition, dtypes, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from jsparse.nn.definitions import Definition, Initializers, call_options, check_dtypes, edge_array, features, weighted

__all__ = ["GraphLayer"]

Initializer = Callable[..., jax.Array]


class GraphLayer(nnx.Module):
    """A layer with the parameters of a definition.

    Args:
        definition: the layer as a value.
        rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.
        dtype: of the computation; by default that of x and the parameters.
        param_dtype: of the parameters.
        kernel_init, attention_init, bias_init: initializers of kernels, of vectors of attention, and of biases.
    """

    def __init__(
        self,
        definition: Definition,
        rngs: nnx.Rngs,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None:
        check_dtypes(type(self).__name__, dtype=dtype, param_dtype=param_dtype)
        self.definition, self.dtype, self.deterministic = definition, dtype, False
        given = {"kernel": kernel_init, "attention": attention_init, "bias": bias_init}
        initializers = Initializers(**{name: init for name, init in given.items() if init is not None})
        parameters = definition.parameters()
        self.names = tuple(parameters)
        for name, parameter in parameters.items():
            setattr(self, name, nnx.Param(parameter.initialized(rngs.params(), initializers, param_dtype)))
        dropped = getattr(definition, "dropout_rate", 0.0)
        self.rngs = nnx.data(rngs.dropout.fork() if dropped else None)

    def __call__(
        self, graph: Any, x: Any, *, edge_features: Any = None, deterministic: bool | None = None
    ) -> jax.Array:
        """Compute the layer for a graph and features x (nodes, in), or a pair of those of sources and targets.

        Layers of graph attention take features of edges, (nse, edge_features). Without dropout if `deterministic`, or
        after `layer.eval()`.
        """
        p = {name: self._cast(getattr(self, name)[...]) for name in self.names}
        quiet = self.deterministic if deterministic is None else deterministic
        options = call_options(
            self.definition,
            None if edge_features is None else edge_array(edge_features, type(self).__name__, self.dtype),
            None if quiet or self.rngs is None else self.rngs(),
        )
        layer = type(self).__name__
        given, weights = features(x, layer, self.dtype), weighted(graph, layer, self.dtype)
        return self.definition.apply(p, weights, given, **options)

    def _cast(self, x: Any) -> Any:
        return jnp.asarray(x) if self.dtype is None else jnp.asarray(x, self.dtype)
