"""Classify the nodes of a graph with GCN and GAT layers for Flax, and compare the mean of several seeds with a bar.

    python examples/node_classification.py                          # handwritten digits; nothing to download
    python examples/node_classification.py --data path/to/cora.npz  # a citation network

The networks are those of Kipf and Welling (2017) and Veličković et al. (2018), with their hyperparameters: two
layers, ten to twenty labelled nodes in each class, and the epoch that is best on the validation part counts.

The figure shows the graph of digits, whose nodes are close together if GAT gives them similar logits. A colour is a
predicted class, and a ring a wrong one. On two cores both networks take about a minute and 0.8 GB. Mean test accuracies
of three seeds: on the digits at least 0.94 each; on Cora's standard split at least 0.81 (GCN) and 0.815 (GAT).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.sparse as sp
from _figure import draw_map, new_figure, save_figure
from _graph import DataError, Graph, digits_graph, load_graph
from flax import nnx
from tqdm import tqdm

import jsparse
import jsparse.nnx

BARS = {"digits": {"GCN": 0.94, "GAT": 0.94}, "others": {"GCN": 0.81, "GAT": 0.815}}
WEIGHT_DECAY = 5e-4


class Gcn(nnx.Module):
    """Two graph convolutions of 16 features."""

    rate, epochs, penalized = 0.01, 200, ("first",)

    def __init__(self, features: int, classes: int, rngs: nnx.Rngs) -> None:
        glorot = nnx.initializers.glorot_uniform()
        self.first = jsparse.nnx.GCNConv(features, 16, kernel_init=glorot, rngs=rngs)
        self.second = jsparse.nnx.GCNConv(16, classes, kernel_init=glorot, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, graph: Any, x: jax.Array) -> jax.Array:
        hidden = jax.nn.relu(self.first(graph, self.dropout(x)))
        return self.second(graph, self.dropout(hidden))


class Gat(nnx.Module):
    """Graph attention with 8 heads of 8 features, and one head for the classes."""

    rate, epochs, penalized = 0.005, 300, ("first", "second")

    def __init__(self, features: int, classes: int, rngs: nnx.Rngs) -> None:
        glorot = nnx.initializers.glorot_uniform()
        options = {"dropout_rate": 0.6, "kernel_init": glorot, "rngs": rngs}
        self.first = jsparse.nnx.GATConv(features, 8, heads=8, **options)
        self.second = jsparse.nnx.GATConv(64, classes, **options)
        self.dropout = nnx.Dropout(0.6, rngs=rngs)

    def __call__(self, graph: Any, x: jax.Array) -> jax.Array:
        hidden = jax.nn.elu(self.first(graph, self.dropout(x)))
        return self.second(graph, self.dropout(hidden))


MODELS: dict[str, Callable[..., Any]] = {"GCN": Gcn, "GAT": Gat}


def loss_of(model: Any, graph: Any, x: jax.Array, labels: jax.Array, train: jax.Array) -> jax.Array:
    """The mean cross-entropy of the labelled nodes, and a penalty on weights."""
    losses = optax.softmax_cross_entropy_with_integer_labels(model(graph, x)[train], labels[train])
    weights = (nnx.state(getattr(model, name), nnx.Param) for name in model.penalized)
    squares = sum(jnp.vdot(leaf, leaf) for state in weights for leaf in jax.tree.leaves(state))
    return losses.mean() + WEIGHT_DECAY / 2 * squares


@nnx.jit
def step(model: Any, optimizer: nnx.Optimizer, *data: Any) -> jax.Array:
    """One step of the optimizer; the loss before it."""
    loss, slopes = nnx.value_and_grad(loss_of)(model, *data)
    optimizer.update(model, slopes)
    return loss


@nnx.jit
def predict(model: Any, graph: Any, x: jax.Array) -> jax.Array:
    """The logits of all nodes."""
    return model(graph, x)


def train(
    name: str, data: Graph, seed: int, epochs: int | None = None, progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Train one network. Validation and test accuracies of all epochs, (epochs, 2), and the logits after the last."""
    graph = jsparse.asarray(data.adjacency, format="csr").pattern
    features = data.features.toarray() if sp.issparse(data.features) else data.features
    x, labels, labelled = jnp.asarray(features), jnp.asarray(data.labels), jnp.asarray(data.train)
    model = MODELS[name](x.shape[1], data.classes, nnx.Rngs(seed))
    optimizer = nnx.Optimizer(model, optax.adam(model.rate), wrt=nnx.Param)
    found = []
    with tqdm(range(epochs or model.epochs), desc=f"{name}, seed {seed}", disable=not progress) as bar:
        for _ in bar:
            model.train()
            loss = step(model, optimizer, graph, x, labels, labelled)
            model.eval()
            logits = np.asarray(predict(model, graph, x))
            hits = logits.argmax(1) == data.labels
            found.append((hits[data.val].mean(), hits[data.test].mean()))
            bar.set_postfix_str(f"loss {float(loss):.3f}, validation accuracy {found[-1][0]:.3f}", refresh=False)
    return np.array(found), logits


def accuracy(curves: np.ndarray) -> float:
    """The test accuracy of the epoch that is best on the validation part."""
    return float(curves[curves[:, 0].argmax(), 1])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example. The exit code is 1 if an accuracy is below its bar."""
    parser = argparse.ArgumentParser(description="Classify nodes with GCN and GAT.")
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help="a graph to use instead of the bundled digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("node_classification.png"), metavar="PNG")
    options = parser.parse_args(argv)
    try:
        data = digits_graph() if options.data is None else load_graph(options.data)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    bars, missed = BARS["digits" if options.data is None else "others"], 0
    for name in MODELS:
        trained = [train(name, data, seed) for seed in range(options.seeds)]
        found = [accuracy(curves) for curves, _ in trained]
        missed += np.mean(found) < bars[name]
        print(f"{name}: test accuracy {np.mean(found):.4f} ± {np.std(found):.4f} (at least {bars[name]} is expected)")
    figure, logits = new_figure(3), trained[0][1]
    edges, classes = np.stack(sp.triu(data.adjacency).coords), logits.argmax(1)
    draw_map(figure.subplots(), logits, edges, classes, classes != data.labels)
    save_figure(figure, options.output)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
