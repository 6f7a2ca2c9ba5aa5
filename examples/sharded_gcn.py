"""Train a graph convolutional network on one graph whose rows are divided among devices.

    python examples/sharded_gcn.py                # four virtual devices in one process
    python examples/sharded_gcn.py --processes 2  # two processes with two devices each

Each device has some rows of the normalised adjacency, and the features of the same nodes. In each layer, it receives
the features of neighbours from the devices that have them (`jsparse.shard`). All devices have the weights, so JAX sums
their gradients over devices.
"""

from __future__ import annotations

from _processes import DEVICES, parse_and_start

args = parse_and_start(__doc__)

import jax  # noqa: E402  after XLA's flags are set
import numpy as np  # noqa: E402
import optax  # noqa: E402
from _graph import digits_graph  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

import jsparse  # noqa: E402

HIDDEN, LEARNING_RATE = 32, 0.01
Params = dict[str, jax.Array]


def padded(x: np.ndarray, rows: int) -> np.ndarray:
    """Add rows of zeros, so that all devices have the same number of rows."""
    return np.pad(x, [(0, rows - len(x)), *[(0, 0)] * (x.ndim - 1)])


def logits(params: Params, adjacency: jsparse.ShardedTensor, features: jax.Array) -> jax.Array:
    """The scores of each node's classes. Both products exchange rows between devices."""
    hidden = jax.nn.relu(adjacency @ (features @ params["w1"]) + params["b1"])
    return adjacency @ (hidden @ params["w2"]) + params["b2"]


def loss(
    params: Params, adjacency: jsparse.ShardedTensor, features: jax.Array, labels: jax.Array, weights: jax.Array
) -> jax.Array:
    """The cross entropy of the nodes that have a weight."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits(params, adjacency, features), labels)
    return (losses * weights).sum() / weights.sum()


def main() -> None:
    """Train, and print the loss of each step."""
    mesh = jax.sharding.get_mesh()
    by_rows, whole = (NamedSharding(mesh, spec) for spec in (PartitionSpec("nodes"), PartitionSpec()))

    def placed(x: np.ndarray, sharding: NamedSharding) -> jax.Array:  # each process makes the parts of its devices
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    graph = digits_graph()
    nodes = -(-graph.nodes // DEVICES) * DEVICES
    square = graph.adjacency.copy()
    square.resize(nodes, nodes)
    normalised = jsparse.graph.normalize(jsparse.graph.add_self_loops(jsparse.asarray(square.astype(np.float32))))
    adjacency = jsparse.shard(normalised, mesh, "nodes")
    features = placed(padded(np.asarray(graph.features), nodes), by_rows)
    labels = placed(padded(graph.labels, nodes), by_rows)
    weights = placed(np.isin(np.arange(nodes), graph.train).astype(np.float32), by_rows)

    rng = np.random.default_rng(0)
    sizes = (features.shape[1], HIDDEN, graph.classes)
    first = {f"w{n}": rng.normal(size=sizes[n - 1 : n + 1]) / sizes[n - 1] ** 0.5 for n in (1, 2)}
    first |= {f"b{n}": np.zeros(sizes[n]) for n in (1, 2)}
    params = {name: placed(x.astype(np.float32), whole) for name, x in first.items()}
    optimizer = optax.adam(LEARNING_RATE)
    state = jax.jit(optimizer.init)(params)

    @jax.jit
    def step(
        params: Params, state: optax.OptState, adjacency: jsparse.ShardedTensor, *data: jax.Array
    ) -> tuple[Params, optax.OptState, jax.Array]:
        value, slopes = jax.value_and_grad(loss)(params, adjacency, *data)
        updates, state = optimizer.update(slopes, state)
        return optax.apply_updates(params, updates), state, value

    if jax.process_index() == 0:
        print(graph, adjacency, f"each product exchanges {adjacency.layout.exchange}", sep="\n")
    for number in range(args.steps):
        params, state, value = step(params, state, adjacency, features, labels, weights)
        if jax.process_index() == 0:
            print(f"step {number + 1}: loss {float(value):.9g}", flush=True)


if __name__ == "__main__":
    with jax.set_mesh(jax.make_mesh((DEVICES,), ("nodes",))):
        main()
