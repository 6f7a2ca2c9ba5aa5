"""Classify the entities of a knowledge graph with a relational graph network (Schlichtkrull et al., 2018).

    python examples/rgcn.py

The graph is made up: 8,000 entities of sixteen kinds, and 24 relations, each from one kind to another for nine ends
of edges of ten. The class of an entity is a set of kinds, so it shows in the relations of its edges, and in nothing
else: features are noise. A layer is the einsum `rij,jc,rcf->if`, which sums over relations, neighbours and features
in one kernel.

The figure shows about 64,000 edges, each relation in its colour. On two cores it takes about half a minute and 0.6 GB.
The accuracy on the test entities is at least 0.85. A GCN, for which all edges are equal, gets less than 0.5.
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
from _figure import draw_curve, new_figure, save_figure
from flax import nnx
from tqdm import tqdm

import jsparse
import jsparse.nnx

ENTITIES, RELATIONS, KINDS, CLASSES, FEATURES, HIDDEN, BAR = 8_000, 24, 16, 4, 16, 32, 0.85


class Network(nnx.Module):
    """Two layers of one kind."""

    def __init__(self, layer: Callable[..., Any], rngs: nnx.Rngs) -> None:
        self.first = layer(FEATURES, HIDDEN, rngs=rngs)
        self.second = layer(HIDDEN, CLASSES, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)

    def __call__(self, graph: Any, x: jax.Array) -> jax.Array:
        """The logits of all entities."""
        return self.second(graph, self.dropout(jax.nn.relu(self.first(graph, x))))


def relational(features: int, out: int, rngs: nnx.Rngs) -> jsparse.nnx.RGCNConv:
    """A layer with twelve bases for the kernels of the relations."""
    return jsparse.nnx.RGCNConv(features, out, RELATIONS, num_bases=12, rngs=rngs)


def knowledge(seed: int, entities: int = ENTITIES) -> tuple[Any, jax.Array, jax.Array, np.ndarray, np.ndarray]:
    """A graph (relations, entities, entities), features and classes of entities, a random order of them, and kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, KINDS, entities)
    members = [np.flatnonzero(kinds == kind) for kind in range(KINDS)]
    count, coords = entities // 3, []
    for relation in range(RELATIONS):
        ends = []
        for kind in (relation % KINDS, rng.integers(KINDS)):  # each kind is the target of some relation
            of_kind = rng.random(count) < 0.9
            ends.append(np.where(of_kind, rng.choice(members[kind], count), rng.integers(0, entities, count)))
        coords.append(np.stack([np.full(count, relation), *ends]))
    every = np.unique(np.concatenate(coords, axis=1), axis=1)
    graph = jsparse.SparseTensor.from_coords(every, 1.0, (RELATIONS, entities, entities), "csf").pattern
    x = rng.normal(size=(entities, FEATURES))
    x[:, 0] = 1
    classes = rng.permutation(KINDS)[kinds] % CLASSES
    return graph, jnp.asarray(x, jnp.float32), jnp.asarray(classes), rng.permutation(entities), kinds


@nnx.jit
def step(model: Network, optimizer: nnx.Optimizer, graph: Any, x: Any, labels: Any, known: Any) -> jax.Array:
    """One step; the loss before it."""

    def loss_of(model: Network) -> jax.Array:
        logits = model(graph, x)[known]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels[known]).mean()

    loss, slopes = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, slopes)
    return loss


def train(name: str, layer: Callable[..., Any], data: Any, epochs: int, progress: bool = True) -> list[float]:
    """Train a network on half of the entities. The test accuracy after each epoch."""
    graph, x, labels, order, _ = data
    known, test = order[: len(order) // 2], order[len(order) // 2 :]
    model = Network(layer, nnx.Rngs(0))
    optimizer, found = nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param), list[float]()
    evaluate = nnx.jit(lambda model, graph, x: model(graph, x).argmax(1))
    with tqdm(range(epochs), desc=name, disable=not progress) as bar:
        for _ in bar:
            model.train()
            loss = step(model, optimizer, graph, x, labels, jnp.asarray(known))
            model.eval()
            found.append(float((evaluate(model, graph, x) == labels)[test].mean()))
            bar.set_postfix_str(f"loss {float(loss):.3f}, test accuracy {found[-1]:.3f}", refresh=False)
    return found


def compare(epochs: int, seed: int = 0, entities: int = ENTITIES, progress: bool = True) -> dict[str, list[float]]:
    """The test accuracies of an RGCN, and of a GCN on the sum of all relations."""
    graph, *rest = knowledge(seed, entities)
    equal = jsparse.einsum("rij->ij", jsparse.SparseTensor(jnp.ones(graph.nse), graph), out_format="csr")
    curves = {"RGCN": train("RGCN", relational, (graph, *rest), epochs, progress)}
    curves["GCN"] = train("GCN", jsparse.nnx.GCNConv, (equal, *rest), epochs, progress)
    return curves


def draw(path: Path, graph: Any, classes: np.ndarray, kinds: np.ndarray, curves: dict[str, list[float]]) -> None:
    """Draw all edges, in the colour of their relation, between entities by class and kind; and the accuracies."""
    figure = new_figure(2.9)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1))
    place = np.argsort(np.lexsort((kinds, classes)))
    relation, target, source = graph.to_coords()
    left.scatter(place[source], place[target], 0.15, relation * 7 % RELATIONS, cmap="turbo", linewidths=0)
    bounds = np.r_[0, np.cumsum(np.bincount(classes))]
    left.set(aspect="equal", xlim=(0, len(kinds)), ylim=(len(kinds), 0))
    left.set(title="edges by relation", xlabel="entities, by class")
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks((bounds[1:] + bounds[:-1]) / 2, range(CLASSES))
    for (name, curve), color in zip(curves.items(), ("tab:blue", "tab:orange"), strict=True):
        draw_curve(right, np.array(curve), f"{name} {curve[-1]:.2f}", color)
    right.set(xlabel="epoch", title="test accuracy", ylim=(0.2, 1))
    save_figure(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example. The exit code is 1 if the accuracy is below its bar."""
    parser = argparse.ArgumentParser(description="Classify entities with an RGCN.")
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("rgcn.png"), metavar="PNG")
    options = parser.parse_args(argv)
    curves = compare(options.epochs, options.seed)
    for name, curve in curves.items():
        print(f"{name}: test accuracy {curve[-1]:.3f}{f' (at least {BAR} is expected)' if name == 'RGCN' else ''}")
    graph, _, classes, _, kinds = knowledge(options.seed)
    draw(options.output, graph, np.asarray(classes), kinds, curves)
    return int(curves["RGCN"][-1] < BAR)


if __name__ == "__main__":
    sys.exit(main())
