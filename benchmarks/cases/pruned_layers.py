"""Layers with pruned weights, and an exported model of three, beside dense ones, by the size of the batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step

import jsparse
from jsparse.nn import linear

from ._data import dense

SIZES, ZEROS, BATCHES = ((1_024, 1_024), (4_096, 4_096)), (90, 95, 98), (1, 32, 256, 1_024)
MODEL = (1_024, 4_096, 4_096, 1_024)  # the features of the exported model


def cases() -> list[Case]:
    """The cases: what a layer gives, and with the gradients of x and of the weights; what an exported model gives."""
    few = [_case((1_024, 1_024), *given, False) for given in product((50, 70, 80), (1, 32, 1_024))]
    served = [_served(*given) for given in product(ZEROS, (1, 32, 1_024))]
    return [*few, *(_case(*given) for given in product(SIZES, ZEROS, BATCHES, (False, True))), *served]


def _case(sizes: tuple[int, int], percent: int, batch: int, trains: bool) -> Case:
    inputs, outputs = sizes

    @functools.cache
    def weights() -> sp.csr_array:
        return uniform(sizes, inputs * outputs * (100 - percent) // 100)

    def x() -> jax.Array:
        return jnp.asarray(dense(batch, inputs))

    def sparse(format: str) -> Callable[[], Step]:
        return lambda: _step(lambda w, x: linear(x, w), jsparse.asarray(weights(), format=format), x(), trains)

    def expected() -> Any:
        y = np.asarray(x()) @ weights()
        return (y, y @ weights().T) if trains else y

    return Case(
        name=f"layer_{inputs}_{percent}_{batch}{'_trains' * trains}",
        description=f"x W{', and its gradients' * trains}, W {inputs:,} x {outputs:,} with {percent} % zeros, a batch "
        f"of {batch:,}, f32",
        candidates={
            "csc": sparse("csc"),
            "csr": sparse("csr"),
            "dense": lambda: _step(lambda w, x: x @ w, jnp.asarray(weights().toarray()), x(), trains),
        },
        expected=expected,
    )


def _step(layer: Callable[[Any, jax.Array], jax.Array], kernel: Any, x: jax.Array, trains: bool) -> Step:
    """A run of the layer; in training with the gradients of half its squares in the kernel and x."""

    def with_gradients(kernel: Any, x: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
        y, back = jax.vjp(layer, kernel, x)
        return y, *back(y)

    run = jax.jit(with_gradients if trains else layer)

    def step() -> Any:
        found = jax.block_until_ready(run(kernel, x))
        return (found[0], found[2]) if trains else found  # the gradient of the kernel differs by format

    return step


def _served(percent: int, batch: int) -> Case:
    """A model of three layers with relu, exported and read again. The dense model has the same zeros."""

    @functools.cache
    def weights() -> list[sp.csr_array]:
        return [uniform((m, n), m * n * (100 - percent) // 100) for m, n in pairwise(MODEL)]

    def x() -> jax.Array:
        return jnp.asarray(dense(batch, MODEL[0]))

    def read_again(kernels: list[Any]) -> Step:
        def model(x: jax.Array) -> jax.Array:
            for kernel in kernels[:-1]:
                x = jax.nn.relu(x @ kernel)
            return x @ kernels[-1]

        checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in jsparse.EXPORT_CALLS]
        data = jax.export.export(jax.jit(model), disabled_checks=checks)(x()).serialize()
        run, given = jax.jit(jax.export.deserialize(bytearray(data)).call), x()
        return lambda: jax.block_until_ready(run(given))

    def expected() -> np.ndarray:
        found = np.asarray(x())
        for kernel in weights()[:-1]:
            found = np.maximum(found @ kernel, 0)
        return found @ weights()[-1]

    return Case(
        name=f"served_{percent}_{batch}",
        description=f"exported model {' x '.join(map(str, MODEL))} with {percent} % zeros, a batch of {batch:,}, f32",
        candidates={
            "csc": lambda: read_again([jsparse.asarray(kernel, format="csc") for kernel in weights()]),
            "dense": lambda: read_again([jnp.asarray(kernel.toarray()) for kernel in weights()]),
        },
        expected=expected,
        tolerance=1e-3,
    )
