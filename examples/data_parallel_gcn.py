"""Train a graph convolutional network on batches of small graphs that are divided among devices.

    python examples/data_parallel_gcn.py                # four virtual devices in one process
    python examples/data_parallel_gcn.py --processes 2  # two processes with two devices each

The task is to distinguish graphs with two communities from random graphs with the same number of edges. A batch is a
stack of dynamic tensors under `jax.vmap`, and each device computes its own graphs of the batch. Only the loss and the
gradients of the parameters are summed over devices.
"""

from __future__ import annotations

from _processes import DEVICES, parse_and_start

args = parse_and_start(__doc__)

import jax  # noqa: E402  after XLA's flags are set
import numpy as np  # noqa: E402
import optax  # noqa: E402
from flax import nnx  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

import jsparse  # noqa: E402

NODES, EDGES, FEATURES, HIDDEN, BATCH, LEARNING_RATE = 40, 120, 8, 32, 32, 0.01


class Classifier(nnx.Module):
    """Two graph convolutions, the mean over nodes, and a linear layer."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = jsparse.nnx.GCNConv(FEATURES, HIDDEN, rngs=rngs)
        self.second = jsparse.nnx.GCNConv(HIDDEN, HIDDEN, rngs=rngs)
        self.last = nnx.Linear(HIDDEN, 2, rngs=rngs)

    def __call__(self, graph: jsparse.SparseTensor, features: jax.Array) -> jax.Array:
        """The scores of both classes, for one graph."""
        hidden = jax.nn.relu(self.first(graph, features))
        return self.last(jax.nn.relu(self.second(graph, hidden)).mean(0))


def draw_graph(rng: np.random.Generator, has_communities: bool) -> tuple[jsparse.SparseTensor, np.ndarray]:
    """Draw a graph, and node features: moments of random walks, which stay long in the same community."""
    half = np.arange(NODES) < NODES // 2
    weights = np.where(half[:, None] == half, 1.0, 0.05 if has_communities else 1.0)
    weights = np.triu(weights, 1).ravel() / np.triu(weights, 1).sum()
    chosen = rng.choice(NODES**2, EDGES, replace=False, p=weights)
    dense = np.zeros((NODES, NODES), np.float32)
    dense.ravel()[chosen] = 1
    dense += dense.T
    walk, features = dense / np.maximum(dense.sum(1, keepdims=True), 1), np.empty((NODES, FEATURES), np.float32)
    power = walk
    for n in range(FEATURES):
        features[:, n] = power.diagonal() * NODES
        power = power @ walk @ walk
    return jsparse.asarray(dense, format="csr", dynamic=True, nse=2 * EDGES), features


def draw_batch(seed: int) -> tuple[jsparse.SparseTensor, np.ndarray, np.ndarray]:
    """Draw a batch: a stack of graphs, their features and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, BATCH).astype(np.int32)
    graphs, features = zip(*(draw_graph(rng, bool(label)) for label in labels), strict=True)
    return jax.tree.map(lambda *x: np.stack(x), *graphs), np.stack(features), labels


def loss(model: Classifier, graphs: jsparse.SparseTensor, features: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross entropy of a batch."""
    scores = jax.vmap(model)(graphs, features)
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def main() -> None:
    """Train, and print the loss of each step."""
    mesh = jax.sharding.get_mesh()
    by_graph, whole = (NamedSharding(mesh, spec) for spec in (PartitionSpec("graphs"), PartitionSpec()))

    def placed(x: np.ndarray, sharding: NamedSharding) -> jax.Array:  # each process makes the parts of its devices
        return jax.make_array_from_callback(x.shape, sharding, lambda index: np.asarray(x)[index])

    definition, state = nnx.split(Classifier(nnx.Rngs(0)))
    state = jax.tree.map(lambda x: placed(np.asarray(x), whole), state)
    optimizer = optax.adam(LEARNING_RATE)
    moments = jax.jit(optimizer.init)(state)

    @jax.jit
    def step(
        state: nnx.State, moments: optax.OptState, *batch: jax.Array
    ) -> tuple[nnx.State, optax.OptState, jax.Array]:
        value, slopes = jax.value_and_grad(lambda state: loss(nnx.merge(definition, state), *batch))(state)
        updates, moments = optimizer.update(slopes, moments)
        return optax.apply_updates(state, updates), moments, value

    for number in range(args.steps):
        batch = jax.tree.map(lambda x: placed(x, by_graph), draw_batch(number))
        state, moments, value = step(state, moments, *batch)
        if jax.process_index() == 0:
            print(f"step {number + 1}: loss {float(value):.9g}", flush=True)


if __name__ == "__main__":
    with jax.set_mesh(jax.make_mesh((DEVICES,), ("graphs",))):
        main()
