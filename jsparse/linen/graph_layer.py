"""What the graph layers of Linen have in common: parameters by a definition, dtypes, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

from jsparse.nn.definitions import Definition, Initializers, call_options, check_dtypes, edge_array, features, weighted

__all__ = ["GraphLayer"]

Initializer = Callable[..., jax.Array]


class GraphLayer(linen.Module, kw_only=True):
    """A layer with the parameters of a definition, whose inputs are those of the first call.

    Attributes:
        dtype: of the computation; by default that of x and the parameters.
        param_dtype: of the parameters.
        kernel_init, attention_init, bias_init: initializers of kernels, of vectors of attention, and of biases.
    """

    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Initializer = jax.nn.initializers.lecun_normal()  # a function
    attention_init: Initializer = jax.nn.initializers.glorot_uniform()
    bias_init: Initializer = jax.nn.initializers.zeros

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value, for features of these numbers."""
        raise NotImplementedError

    @linen.compact
    def __call__(
        self, graph: Any, x: Any, *, edge_features: Any = None, deterministic: bool | None = None
    ) -> jax.Array:
        """Compute the layer for a graph and features x (nodes, in), or a pair of those of sources and targets.

        Layers of graph attention take features of edges, (nse, edge_features). There is dropout if there is a stream
        "dropout" of random numbers, unless `deterministic`.
        """
        layer = type(self).__name__
        check_dtypes(layer, dtype=self.dtype, param_dtype=self.param_dtype)
        given = features(x, layer, self.dtype)
        inputs = tuple(each.shape[1] for each in given) if isinstance(given, tuple) else given.shape[1]
        if edge_features is not None:
            edge_features = edge_array(edge_features, layer, self.dtype)
        made = self.definition(inputs, None if edge_features is None else edge_features.shape[-1])
        initializers = Initializers(self.kernel_init, self.attention_init, self.bias_init)
        p = {
            name: self._cast(self.param(name, lambda key, of: of.initialized(key, initializers, self.param_dtype), of))
            for name, of in made.parameters().items()
        }
        drops = getattr(made, "dropout_rate", 0.0) and not deterministic and self.has_rng("dropout")
        options = call_options(
            made,
            edge_features,
            self.make_rng("dropout") if drops else None,
        )
        return made.apply(p, weighted(graph, layer, self.dtype), given, **options)

    def _cast(self, x: Any) -> Any:
        return jnp.asarray(x) if self.dtype is None else jnp.asarray(x, self.dtype)
