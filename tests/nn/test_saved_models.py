"""Models of NNX, saved by Orbax and restored into models with other parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nn.graphs import normal, weights

import jsparse
import jsparse.nnx

ocp = pytest.importorskip("orbax.checkpoint")
GRAPH, X = jsparse.asarray(weights(9, 9)), normal(1, 9, 8)
MASK = jsparse.pattern.window(9, 2)


class Model(nnx.Module):
    """A graph layer, a transformer block, and a sparse weight whose pattern is data."""

    def __init__(self, seed: int) -> None:
        rngs = nnx.Rngs(seed)
        self.first = jsparse.nnx.GATConv(8, 4, heads=2, rngs=rngs)
        self.block = jsparse.nnx.TransformerBlock(MASK, 2, 8, max_distance=2, rngs=rngs)
        self.last = jsparse.nnx.SparseLinear(8, 5, density=0.4, dynamic=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.block(jax.nn.elu(self.first(GRAPH, x))))


# Orbax warns of shardings that are not given.
@pytest.mark.filterwarnings("ignore")
def test_a_model_is_saved_and_restored(tmp_path) -> None:
    model, other = Model(0), Model(1)
    model.last.rewire(jnp.ones((8, 5)), 3)
    assert np.abs(model(X) - other(X)).max() > 1e-3
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", nnx.state(model))
        checkpointer.wait_until_finished()
        abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), nnx.state(other))
        nnx.update(other, checkpointer.restore(tmp_path / "state", abstract))
    np.testing.assert_array_equal(other(X), model(X))
    np.testing.assert_array_equal(other.last.kernel.tensor.todense(), model.last.kernel.tensor.todense())
