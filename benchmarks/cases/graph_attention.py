"""A training step of a graph attention network on the R-MAT graph, 64 features to 8 heads of 8 and 40 classes."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Step

import jsparse
from jsparse import Pattern
from jsparse.nn import gat_conv

from ._data import dense, rmat_graph
from ._training import loss_of, stepped

FEATURES, HEADS, CHANNELS, CLASSES = 64, 8, 8, 40


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="gat_step",
            description=f"GAT, {FEATURES} - {HEADS} x {CHANNELS} - {CLASSES}, the R-MAT graph, a training step, f32",
            candidates={
                "jsparse": lambda: _step(_layer),
                "jsparse, not fused": lambda: _step(_einsums),
                "jax, segment_sum": lambda: _step(_segments),
            },
            expected=lambda: _step(_segments)(),
            rounds=12,
            tolerance=1e-3,
        )
    ]


@cache
def _pattern() -> Pattern:
    return jsparse.asarray(rmat_graph(), format="csr").pattern


def program() -> tuple[Any, tuple[Any, ...]]:
    """Our training step, and its operands."""
    return _training(_layer), _operands()


def _training(layer: Any) -> Any:
    def model(p: Any, x: Any) -> jax.Array:
        return jax.nn.elu(layer(x, *p[:3])) @ p[3]

    return stepped(loss_of(model))


@cache
def _operands() -> tuple[Any, ...]:
    nodes = rmat_graph().shape[0]
    shapes = [(FEATURES, HEADS, CHANNELS), (HEADS, CHANNELS), (HEADS, CHANNELS), (HEADS * CHANNELS, CLASSES)]
    parameters = [jnp.asarray(dense(*shape, seed=n) / shape[0] ** 0.5) for n, shape in enumerate(shapes)]
    labels = np.random.default_rng(0).integers(0, CLASSES, nodes)
    return parameters, jnp.asarray(dense(nodes, FEATURES, seed=9)), jnp.asarray(labels)


def _step(layer: Any) -> Step:
    run, operands = jax.jit(_training(layer)), _operands()
    return lambda: [np.asarray(x) for x in jax.block_until_ready(run(*operands))]


def _layer(x: Any, kernel: Any, source: Any, target: Any) -> Any:
    return gat_conv(_pattern(), x, kernel, source, target, self_loops=False)


def _scores(x: Any, kernel: Any, source: Any, target: Any) -> tuple[Any, Any, Any]:
    h = (x @ kernel.reshape(FEATURES, -1)).reshape(-1, HEADS, CHANNELS)
    return h, *(x @ jnp.einsum("fhc,hc->fh", kernel, vector) for vector in (source, target))


def _einsums(x: Any, kernel: Any, source: Any, target: Any) -> Any:
    """The same by operations of this package, each a kernel."""
    h, sent, received = _scores(x, kernel, source, target)
    pattern, ones = _pattern().extended([HEADS]), jnp.ones_like(sent)
    left = jsparse.einsum("ih,jh->ijh", received, ones, out_format=pattern)
    right = jsparse.einsum("ih,jh->ijh", ones, sent, out_format=pattern)
    weights = jsparse.softmax(jsparse.leaky_relu(left + right, 0.2), 1)
    return jsparse.einsum("ijh,jhc->ihc", weights, h).reshape(len(x), -1)


def _segments(x: Any, kernel: Any, source: Any, target: Any) -> Any:
    h, sent, received = _scores(x, kernel, source, target)
    rows, columns = _pattern().to_coords()
    total = {"num_segments": len(x), "indices_are_sorted": True}
    scores = jax.nn.leaky_relu(received[rows] + sent[columns], 0.2)
    powers = jnp.exp(scores - jax.lax.stop_gradient(jax.ops.segment_max(scores, rows, **total))[rows])
    weights = powers / jax.ops.segment_sum(powers, rows, **total)[rows]
    return jax.ops.segment_sum(weights[:, :, None] * h[columns], rows, **total).reshape(len(x), -1)
