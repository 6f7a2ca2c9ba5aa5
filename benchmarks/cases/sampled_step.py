"""The time until a training step on sampled neighbours has run once, by phase. Every round starts without programs.

The phase "compile" is XLA's. Kernels are in the disk cache.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Laps, Step

import jsparse

from ._training import loss_of, stepped

NODES, EDGES, FEATURES, HIDDEN, CLASSES, BATCH, FANOUT = 20_000, 240_000, 32, 64, 10, 256, 10
FIRST, SECOND = jsparse.nn.SAGEConv(FEATURES, HIDDEN), jsparse.nn.SAGEConv(HIDDEN, CLASSES)
Model = Callable[..., Any]


@functools.cache
def _data() -> tuple[Any, ...]:
    """The parameters, the features of all nodes, the labels of the batch, its seeds and the graph, which is dynamic."""
    rng = np.random.default_rng(0)
    A = jsparse.graph.from_edges(*rng.integers(0, NODES, (2, EDGES)), nodes=NODES).dynamic()
    keys = jax.random.split(jax.random.key(0))
    parameters = {"first": FIRST.init(keys[0]), "second": SECOND.init(keys[1])}
    x = jnp.asarray(rng.normal(size=(NODES, FEATURES)), jnp.float32)
    return parameters, (x, A, jnp.arange(BATCH), jax.random.key(1)), jnp.asarray(rng.integers(0, CLASSES, BATCH))


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="sampled_step",
            description=f"first training step of SAGE, {BATCH} seeds, fanout {FANOUT} + {FANOUT}, kernels on disk, f32",
            candidates={
                "jsparse": _phases(_sampled),
                "jax, neighbours drawn with replacement": _phases(_with_replacement),
            },
            expected=lambda: True,
            rounds=5,
        )
    ]


def _sampled(parameters: Any, data: Any) -> jax.Array:
    x, A, seeds, key = data
    above, below = jax.random.split(key)
    outer = jsparse.graph.sample_neighbors(above, A, seeds, FANOUT)
    inner = jsparse.graph.sample_neighbors(below, A, outer.nodes, FANOUT)
    h = x.at[inner.nodes].get(mode="fill", fill_value=0)
    h = jax.nn.relu(FIRST.apply(parameters["first"], inner.graph, (h, h[: len(outer.nodes)])))
    return SECOND.apply(parameters["second"], outer.graph, (h, h[:BATCH]))


def _with_replacement(parameters: Any, data: Any) -> jax.Array:
    """The same network on a tree: each seed has FANOUT neighbours, which may be equal, and each of these has FANOUT."""
    x, A, seeds, key = data
    pointers, columns = A.pattern.arrays
    above, below = jax.random.split(key)
    outer = _drawn(above, pointers, columns, seeds)
    inner = _drawn(below, pointers, columns, jnp.concatenate([seeds, outer.reshape(-1)]))
    targets = x[jnp.concatenate([seeds, outer.reshape(-1)])]
    h = jax.nn.relu(_layer(parameters["first"], x[inner].mean(axis=1), targets))
    return _layer(parameters["second"], h[BATCH:].reshape(BATCH, FANOUT, HIDDEN).mean(axis=1), h[:BATCH])


def _drawn(key: jax.Array, pointers: jax.Array, columns: jax.Array, nodes: jax.Array) -> jax.Array:
    start, degree = pointers[nodes], pointers[nodes + 1] - pointers[nodes]
    offset = jax.random.randint(key, (len(nodes), FANOUT), 0, jnp.maximum(degree, 1)[:, None])
    return jnp.where(degree[:, None] > 0, columns[start[:, None] + offset], nodes[:, None])


def _layer(parameters: dict[str, jax.Array], source: jax.Array, target: jax.Array) -> jax.Array:
    kernel, root, bias = (parameters[name] for name in ("kernel", "root", "bias"))
    return source @ kernel + target @ root + bias


def _phases(model: Model) -> Callable[[], Step]:
    """A candidate that times tracing, lowering, compilation and the first run of a step."""

    def factory() -> Step:
        parameters, data, labels = _data()
        folder = tempfile.mkdtemp()

        def step() -> Laps:
            jsparse.config.cache_dir = folder
            jsparse.clear_cache()
            jax.clear_caches()
            times = [time.perf_counter()]
            traced = jax.jit(stepped(loss_of(model))).trace(parameters, data, labels)
            times.append(time.perf_counter())
            lowered = traced.lower()
            times.append(time.perf_counter())
            compiled = lowered.compile()
            times.append(time.perf_counter())
            result = jax.block_until_ready(compiled(parameters, data, labels))
            times.append(time.perf_counter())
            phases = ("trace", "lower", "compile", "first run")
            seconds = dict(zip(phases, (after - before for before, after in itertools.pairwise(times)), strict=True))
            is_finite = all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(result))
            return Laps(seconds | {"total": times[-1] - times[0]}, is_finite)

        return step

    return factory
