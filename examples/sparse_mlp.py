"""Train a multilayer perceptron whose weights are 95 % zeros, in two ways, and compare it with a dense one.

    python examples/sparse_mlp.py

- pruned: the dense network loses its smallest weights in four rounds, and trains on after each (Zhu and Gupta, 2017).
- RigL (Evci et al., 2020): sparse from the beginning, at random places. Every 25 steps a part of the smallest weights
  gives its places to those with the largest gradients. The number of weights stays, so nothing is compiled again.

The figure shows how many weights read each pixel of scikit-learn's digits: at random, before RigL moves the weights,
and then where digits have ink. On two cores all networks take about a minute and 0.8 GB, and the mean test accuracies
of two splits are within one point (0.01) of that of the dense network.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _digits import digits, draw_pixels
from flax import nnx
from tqdm import tqdm

import jsparse
import jsparse.nnx

WIDTHS, ZEROS, BATCH = (64, 512, 512, 10), 0.95, 128
ROUNDS, EVERY, MOVED = 4, 25, 0.3  # of pruning; steps between two rewirings, and the part of the weights that moves
SHAPES = list(pairwise(WIDTHS))


def sizes(zeros: float) -> list[int]:
    """The number of weights of each layer: fewer of larger ones, by Erdős and Rényi's rule."""
    total = (1 - zeros) * sum(a * b for a, b in SHAPES)
    return [min(a * b, round(total * (a + b) / sum(map(sum, SHAPES)))) for a, b in SHAPES]


class Mlp(nnx.Module):
    """Linear layers with relu between them."""

    def __init__(self, layers: Sequence[Any]) -> None:
        self.layers = nnx.List(layers)

    def __call__(self, x: jax.Array, probes: Sequence[Any] | None = None) -> tuple[jax.Array, list[jax.Array]]:
        """The logits, and the inputs of all layers. Probes are added to what the layers give."""
        inputs = [x]
        for n, layer in enumerate(self.layers):
            x = layer(inputs[-1]) if probes is None else layer(inputs[-1]) + probes[n]
            inputs.append(jax.nn.relu(x))
        return x, inputs[:-1]


def random_mlp(seed: int) -> Mlp:
    """A network of sparse layers at random places, which may move."""
    options, layers = {"dynamic": True, "rngs": nnx.Rngs(seed)}, zip(SHAPES, sizes(ZEROS), strict=True)
    return Mlp([jsparse.nnx.SparseLinear(a, b, density=n / (a * b), **options) for (a, b), n in layers])


def pruned(model: Mlp, zeros: float) -> Mlp:
    """The largest weights of each layer."""
    layers, is_dense = [], isinstance(model.layers[0], nnx.Linear)
    for layer, count in zip(model.layers, sizes(zeros), strict=True):
        kernel = jsparse.asarray(layer.kernel[...], format="csc") if is_dense else layer.kernel.tensor
        layers.append(jsparse.nnx.SparseLinear.of(kernel.prune(keep=min(count, kernel.nse)), layer.bias[...]))
    return Mlp(layers)


def loss_of(model: Mlp, x: jax.Array, y: jax.Array, probes: Any = None) -> tuple[jax.Array, list[jax.Array]]:
    """The mean cross-entropy, and the inputs of all layers."""
    logits, inputs = model(x, probes)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), inputs


@nnx.jit
def step(model: Mlp, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    """One step of the optimizer; the loss before it."""
    (loss, _), slopes = nnx.value_and_grad(loss_of, has_aux=True)(model, x, y)
    optimizer.update(model, slopes)
    return loss


@nnx.jit(static_argnums=4)
def rewire(model: Mlp, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array, part: float) -> None:
    """Move a part of the weights to where the gradients of the dense weights, inputᵀ · slope, are largest."""
    probes = [jnp.zeros((len(x), width)) for width in WIDTHS[1:]]
    slopes, inputs = jax.grad(lambda probes: loss_of(model, x, y, probes), has_aux=True)(probes)
    for n, (layer, given, slope) in enumerate(zip(model.layers, inputs, slopes, strict=True)):
        before = layer.kernel.tensor
        layer.rewire(jnp.abs(given.T @ slope), int(part * before.nse))
        for moments in (optimizer.opt_state[0].mu, optimizer.opt_state[0].nu):  # they move with the weights
            (moment,) = moments["layers"][n]["kernel"].values()
            moment[...] = before.with_values(moment[...]).restrict(layer.kernel.tensor).values


def train(model: Mlp, data: Any, steps: int, name: str, rewires: bool = False, progress: bool = True) -> list[float]:
    """Train a network. The result has the test accuracy after each 25 steps."""
    x, y, test_x, test_y = data
    rng, accuracies, tx = np.random.default_rng(0), list[float](), optax.adam(optax.cosine_decay_schedule(3e-3, steps))
    optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
    with tqdm(range(1, steps + 1), desc=f"{name:<12}", disable=not progress) as bar:
        for number in bar:
            batch = rng.integers(0, len(x), BATCH)
            loss = step(model, optimizer, x[batch], y[batch])
            if number % EVERY == 0:
                accuracies.append(float((model(test_x)[0].argmax(1) == test_y).mean()))
                bar.set_postfix_str(f"loss {float(loss):.4f}, test accuracy {accuracies[-1]:.3f}", refresh=False)
                if rewires and number < 0.75 * steps:
                    rewire(model, optimizer, x[batch], y[batch], round(MOVED * (1 - number / steps), 1))
    return accuracies


def compare(steps: int, seed: int = 0, progress: bool = True) -> tuple[dict[str, list[float]], Mlp]:
    """The accuracies of all networks, by name, and the network that RigL trained."""
    data, rngs = digits(seed), nnx.Rngs(seed)
    model = Mlp([nnx.Linear(a, b, rngs=rngs) for a, b in SHAPES])
    curves = {"dense": train(model, data, steps, "dense", progress=progress), "pruned": []}
    for number in range(1, ROUNDS + 1):
        zeros = float(jsparse.nn.gradual_sparsity(number, begin=0, end=ROUNDS, final=ZEROS))
        model = pruned(model, zeros)
        curves["pruned"] += train(model, data, steps // 2, f"{zeros:.1%} zeros", progress=progress)
    curves["RigL"] = train(model := random_mlp(seed), data, 2 * steps, "RigL", rewires=True, progress=progress)
    return curves, model


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example. The exit code is 1 if a sparse network is not within one point of the dense one."""
    parser = argparse.ArgumentParser(description="Train networks whose weights are 95 % zeros.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2, help="the number of splits")
    parser.add_argument("--output", type=Path, default=Path("sparse_mlp.png"), metavar="PNG")
    options = parser.parse_args(argv)
    found, networks = zip(*(compare(options.steps, seed) for seed in range(options.seeds)), strict=True)
    means = {name: np.mean([curves[name] for curves in found], axis=0) for name in found[0]}
    for name, curve in means.items():
        print(f"{name:<8} test accuracy {curve[-1]:.4f}, {'all' if name == 'dense' else '5 % of the'} weights")
    first = {"at random": random_mlp(0).layers[0], "moved by RigL": networks[0].layers[0]}
    pixels = {name: np.bincount(layer.kernel.tensor.coords[0], minlength=64) for name, layer in first.items()}
    draw_pixels(options.output, pixels | {"mean digit": digits(0)[0].mean(0)})
    return int(min(curve[-1] for curve in means.values()) < means["dense"][-1] - 0.01)


if __name__ == "__main__":
    sys.exit(main())
