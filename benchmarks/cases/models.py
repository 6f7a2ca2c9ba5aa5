"""Whole models, in jsparse and in torch, with equal parameters: a GCN on the R-MAT graph and a sparse autoencoder.

The GCN has 128, 256 and 40 features; a training step is a gradient of the mean cross-entropy in all parameters, and a
step of gradient descent. torch's transpose of the matrix is made once, before. The autoencoder, 784-2048-1024-2048-784,
has pruned weights and batches of 256.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from peers import import_torch, torch_csr

import jsparse
from jsparse.nn import gcn_conv, linear

from ._data import rmat_graph
from ._training import RATE, loss_of, stepped

GCN, AUTOENCODER, BATCH = (128, 256, 40), (784, 2048, 1024, 2048, 784), 256


def cases() -> list[Case]:
    """The GCN's inference and training step, and the autoencoder's inference at three sparsities."""
    return [_gcn(False), _gcn(True), *map(_autoencoder, (80, 95, 99))]


# The GCN


def _gcn(trains: bool) -> Case:
    graph = "the R-MAT graph of 169,343 nodes and 2,300,000 edges"
    return Case(
        name="gcn_step" if trains else "gcn",
        description=f"GCN, {' - '.join(map(str, GCN))}, {graph}, {'a training step' if trains else 'inference'}, f32",
        candidates={
            "jsparse": lambda: _gcn_in_jax(trains),
            "torch.sparse (int32)": lambda: _gcn_in_torch(trains),
        },
        expected=lambda: _gcn_in_scipy(trains),
        rounds=12,
        tolerance=1e-3,
    )


@cache
def _gcn_operands() -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Features, two kernels and biases, and the class of each node."""
    rng = np.random.default_rng(0)
    nodes = rmat_graph().shape[0]
    parameters: list[np.ndarray] = []
    for inputs, out in pairwise(GCN):
        parameters += [rng.standard_normal((inputs, out)) / inputs, rng.standard_normal(out) / 10]
    x = rng.standard_normal((nodes, GCN[0])).astype(np.float32)
    return x, [p.astype(np.float32) for p in parameters], rng.integers(0, GCN[-1], nodes)


def gcn_program(trains: bool) -> tuple[Any, tuple[Any, ...]]:
    """Our program, and its operands."""
    x, parameters, labels = _gcn_operands()
    graph = jsparse.asarray(rmat_graph(), format="csr")
    plain = {"self_loops": False, "normalize": False}

    @jsparse.fuse
    def model(p: Any, x: Any) -> jax.Array:
        hidden = jax.nn.relu(gcn_conv(graph, x, p[0], p[1], **plain))
        return gcn_conv(graph, hidden, p[2], p[3], **plain)

    operands = (list(map(jnp.asarray, parameters)), jnp.asarray(x))
    return (stepped(loss_of(model)), (*operands, jnp.asarray(labels))) if trains else (model, operands)


def _gcn_in_jax(trains: bool) -> Step:
    function, operands = gcn_program(trains)
    run = jax.jit(function)
    return lambda: jax.tree.map(np.asarray, jax.block_until_ready(run(*operands)))


def _gcn_in_torch(trains: bool) -> Step:
    t = import_torch()
    x, parameters, labels = _gcn_operands()
    A = torch_csr(t, rmat_graph(), np.int32)
    transposed = torch_csr(t, sp.csr_array(rmat_graph().T), np.int32)
    given, classes = t.from_numpy(x), t.from_numpy(labels)

    class Product(t.autograd.Function):  # type: ignore[misc, name-defined]
        """A x, whose gradient is Aᵀ y by the transpose that is kept."""

        @staticmethod
        def forward(_: Any, x: Any) -> Any:
            return A @ x

        @staticmethod
        def backward(_: Any, y: Any) -> Any:
            return transposed @ y

    def model(p: Any) -> Any:
        hidden = t.relu(Product.apply(given @ p[0]) + p[1])
        return Product.apply(hidden @ p[2]) + p[3]

    def step() -> Any:
        p = [t.from_numpy(a).requires_grad_() for a in parameters]
        slopes = t.autograd.grad(t.nn.functional.cross_entropy(model(p), classes), p)
        return [(a - RATE * slope).detach().numpy() for a, slope in zip(p, slopes, strict=True)]

    def infer() -> Any:
        with t.no_grad():
            return model([t.from_numpy(a) for a in parameters]).numpy()

    return step if trains else infer


def _gcn_in_scipy(trains: bool) -> Any:
    x, (w1, b1, w2, b2), labels = _gcn_operands()
    A = rmat_graph()
    aggregated = A @ x
    hidden = np.maximum(aggregated @ w1 + b1, 0)
    propagated = A @ (hidden @ w2)
    logits = propagated + b2
    if not trains:
        return logits
    powers = np.exp(logits - logits.max(1, keepdims=True))
    slope = powers / powers.sum(1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= len(labels)
    back = A.T @ slope
    dhidden = (back @ w2.T) * (hidden > 0)
    slopes = [aggregated.T @ dhidden, dhidden.sum(0), hidden.T @ back, slope.sum(0)]
    return [a - RATE * s for a, s in zip((w1, b1, w2, b2), slopes, strict=True)]


# The autoencoder


def _weights(percent: int) -> list[sp.csr_array]:
    sizes = pairwise(AUTOENCODER)
    return [uniform((out, inputs), inputs * out * (100 - percent) // 100) for inputs, out in sizes]


def _batch() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((BATCH, AUTOENCODER[0])).astype(np.float32)


def autoencoder_program(percent: int) -> tuple[Any, tuple[Any, ...]]:
    """Our program, and its operands."""
    kernels = [jsparse.asarray(sp.csr_array(w.T), format="csc") for w in _weights(percent)]

    @jsparse.fuse
    def model(kernels: Any, x: Any) -> jax.Array:
        for kernel in kernels[:-1]:
            x = jax.nn.relu(linear(x, kernel))
        return jax.nn.sigmoid(linear(x, kernels[-1]))

    return model, (kernels, jnp.asarray(_batch()))


def _autoencoder(percent: int) -> Case:
    def ours() -> Step:
        model, operands = autoencoder_program(percent)
        run = jax.jit(model)
        return lambda: np.asarray(run(*operands))

    def torch(made: Callable[[Any, sp.csr_array], Any]) -> Callable[[], Step]:
        def factory() -> Step:
            t = import_torch()
            matrices, x = [made(t, w) for w in _weights(percent)], t.from_numpy(_batch())

            def run() -> Any:
                with t.no_grad():
                    h = x.T
                    for w in matrices[:-1]:
                        h = t.relu(w @ h)
                    return t.sigmoid(matrices[-1] @ h).T.numpy()

            return run

        return factory

    def expected() -> np.ndarray:
        h = _batch().T
        *first, last = _weights(percent)
        for w in first:
            h = np.maximum(w @ h, 0)
        return np.asarray(1 / (1 + np.exp(-(last @ h)))).T

    return Case(
        name=f"autoencoder_{percent}",
        description=(
            f"autoencoder, {' - '.join(map(str, AUTOENCODER))}, {percent} % zeros, batch {BATCH}, inference, f32"
        ),
        candidates={
            "jsparse": ours,
            "torch.sparse (int32)": torch(lambda t, w: torch_csr(t, w, np.int32)),
            "torch dense": torch(lambda t, w: t.from_numpy(w.toarray())),
        },
        expected=expected,
        tolerance=1e-3,
    )
