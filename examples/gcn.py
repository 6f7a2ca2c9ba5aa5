"""Train a two-layer graph convolutional network (Kipf and Welling, 2017) with sparse einsums.

    python examples/gcn.py                          # handwritten digits, a nearest-neighbour graph; nothing to download
    python examples/gcn.py --data path/to/cora.npz  # a citation network

A layer is Â (X W) + b. The normalised adjacency Â is sparse, and in a citation network the features X are, too. These
products are sparse einsums, and JAX differentiates them inside `jax.jit` like any other operation.

The figure shows the edges between 1,797 handwritten digits, most of them within a class, and how 100 labels are enough
for an accuracy of 0.95 on the others. On two cores it takes about 20 seconds and 0.8 GB. It ends with the times of an
aggregation and its gradient, which take at least twice as long with BCOO and BCSR, and 30 times with a dense matrix.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.sparse as sp
from _graph import DataError, Graph, digits_graph, load_graph, normalized
from _report import Curves, aggregation_times, draw
from tqdm import tqdm

import jsparse

DROPOUT, WEIGHT_DECAY, LEARNING_RATE = 0.5, 5e-4, 0.01


class Params(NamedTuple):
    """The weights and biases of the two layers."""

    w1: jax.Array
    b1: jax.Array
    w2: jax.Array
    b2: jax.Array


class Inputs(NamedTuple):
    """The constants of training: Â, the features (dense or sparse), the labels, and a 0/1 mask of each part."""

    adjacency: jsparse.SparseTensor
    features: jsparse.SparseTensor | jax.Array
    labels: jax.Array
    train: jax.Array
    val: jax.Array
    test: jax.Array


class Metrics(NamedTuple):
    """The training loss of an epoch, and the accuracies of the parameters after it."""

    loss: jax.Array
    train: jax.Array
    val: jax.Array
    test: jax.Array


def prepare(graph: Graph) -> Inputs:
    """Put `graph` on the device, with matrices as CSR tensors and parts as masks."""

    def mask(ids: np.ndarray) -> jax.Array:
        return jnp.zeros(graph.nodes).at[ids].set(1)

    is_sparse = sp.issparse(graph.features)
    return Inputs(
        adjacency=jsparse.asarray(normalized(graph.adjacency), format="csr"),
        features=jsparse.asarray(graph.features, format="csr") if is_sparse else jnp.asarray(graph.features),
        labels=jnp.asarray(graph.labels),
        train=mask(graph.train),
        val=mask(graph.val),
        test=mask(graph.test),
    )


def initial(key: jax.Array, features: int, hidden: int, classes: int) -> Params:
    """Glorot-uniform weights, zero biases."""
    first, second = jax.random.split(key)
    glorot = jax.nn.initializers.glorot_uniform()
    return Params(
        w1=glorot(first, (features, hidden)),
        b1=jnp.zeros(hidden),
        w2=glorot(second, (hidden, classes)),
        b2=jnp.zeros(classes),
    )


def dropout(key: jax.Array | None, x: jax.Array) -> jax.Array:
    """Zero each entry with probability `DROPOUT` and scale the others. Without a key, `x` is unchanged."""
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0)


def forward(params: Params, inputs: Inputs, key: jax.Array | None = None) -> jax.Array:
    """The logits of all nodes. With a `key`, dropout is applied."""
    first, second = (None, None) if key is None else jax.random.split(key)
    x, adjacency = inputs.features, inputs.adjacency
    if isinstance(x, jsparse.SparseTensor):
        xw = jsparse.einsum("ij,jk->ik", x.with_values(dropout(first, x.values)), params.w1)
    else:
        xw = dropout(first, x) @ params.w1
    hidden = jax.nn.relu(jsparse.einsum("ij,jk->ik", adjacency, xw) + params.b1)
    return jsparse.einsum("ij,jk->ik", adjacency, dropout(second, hidden) @ params.w2) + params.b2


def loss_of(params: Params, inputs: Inputs, key: jax.Array) -> jax.Array:
    """Mean cross-entropy of the labelled nodes, plus a penalty on the weights of the first layer, as in the paper."""
    losses = optax.softmax_cross_entropy_with_integer_labels(forward(params, inputs, key), inputs.labels)
    return jnp.vdot(losses, inputs.train) / inputs.train.sum() + WEIGHT_DECAY / 2 * jnp.vdot(params.w1, params.w1)


def make_epoch(tx: optax.GradientTransformation) -> Callable[..., tuple[Params, Any, Metrics]]:
    """A compiled epoch, which is a gradient step followed by the accuracies without dropout."""

    @jax.jit
    def epoch(params: Params, state: optax.OptState, inputs: Inputs, key: jax.Array) -> tuple[Params, Any, Metrics]:
        loss, grads = jax.value_and_grad(loss_of)(params, inputs, key)
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        hits = forward(params, inputs).argmax(axis=1) == inputs.labels
        accuracies = (jnp.vdot(hits, part) / part.sum() for part in (inputs.train, inputs.val, inputs.test))
        return params, state, Metrics(loss, *accuracies)

    return epoch


def train(graph: Graph, *, epochs: int = 200, hidden: int = 16, seed: int = 0, progress: bool = True) -> Curves:
    """Train on `graph`. The result has the metrics of all epochs."""
    inputs = prepare(graph)
    key, start = jax.random.split(jax.random.key(seed))
    params = initial(start, graph.features.shape[1], hidden, graph.classes)
    tx = optax.adam(LEARNING_RATE)
    state, epoch = tx.init(params), make_epoch(tx)
    history: list[Metrics] = []
    with tqdm(range(epochs), desc="epoch", disable=not progress) as bar:
        for number in bar:
            params, state, metrics = epoch(params, state, inputs, jax.random.fold_in(key, number))
            history.append(jax.tree.map(float, metrics))
            last = history[-1]
            bar.set_postfix_str(f"loss {last.loss:.3f}, validation accuracy {last.val:.3f}", refresh=False)
    return Curves(**{name: np.array([getattr(m, name) for m in history], np.float32) for name in Metrics._fields})


def plan(graph: Graph, hidden: int) -> str:
    """The plan by which jsparse computes the aggregation of the first layer."""
    adjacency = jsparse.asarray(normalized(graph.adjacency), format="csr")
    return jsparse.explain("ij,jk->ik", adjacency, jnp.zeros((graph.nodes, hidden))).summary


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""

    def positive(text: str) -> int:
        if not text.isdecimal() or int(text) == 0:
            raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
        return int(text)

    parser = argparse.ArgumentParser(description="Train a two-layer graph convolutional network with jsparse.")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="a graph to use instead of the bundled digits")
    parser.add_argument("--epochs", type=positive, default=200)
    parser.add_argument("--hidden", type=positive, default=16, help="width of the hidden layer (default: 16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("gcn.png"), metavar="PNG", help="the figure (gcn.png)")
    parser.add_argument("--no-plot", action="store_true", help="draw no figure")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example and return the exit code."""
    options = arguments(argv)
    try:
        graph = digits_graph(options.seed) if options.data is None else load_graph(options.data)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(graph)
    curves = train(graph, epochs=options.epochs, hidden=options.hidden, seed=options.seed)
    print(f"\ntest accuracy {curves.test[curves.best]:.3f} (epoch {curves.best + 1}, the best on validation)")
    print(f"\nThe plan of one aggregation, {graph.nodes:,} nodes x {options.hidden} columns:\n")
    print(plan(graph, options.hidden))
    print("\nOne aggregation step, median of alternating runs, ratio to jsparse:\n")
    print(aggregation_times(normalized(graph.adjacency), options.hidden))
    if not options.no_plot:
        try:
            draw(options.output, curves, graph.adjacency, graph.labels)
        except OSError as error:
            print(f"error: {options.output} cannot be written: {error.strerror}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
