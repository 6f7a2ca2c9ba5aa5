"""Chains of operations on the R-MAT graph as one kernel each, and the same operations one by one: edge softmax with
aggregation, its softmax alone, FusedMM, and a layer of a graph network. The first one also as JAX spells it with
`segment_sum`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Step

import jsparse
from jsparse import Pattern, SparseTensor

from ._data import dense, rmat_graph

HEADS, CHANNELS = 8, 8
FEATURES = 64
HIDDEN = 256
INPUTS, OUTPUTS = 128, (40, 128, 256)

SEGMENTS, FIVE = "jax, segment_sum", "jsparse, by five operations"

Function = Callable[..., Any]
Operands = Callable[[], tuple[np.ndarray, ...]]


def cases() -> list[Case]:
    """The cases: forward all of them, and with gradients those that are trained."""
    gat = f"edge softmax and aggregation, {HEADS} heads of {CHANNELS}"
    return [
        _case("gat", gat, _edge_softmax, _scores, {SEGMENTS: _by_segments}),
        _case("gat_gradients", f"{gat}, gradients", _edge_softmax, _scores, {SEGMENTS: _by_segments}, backward=True),
        _case("edge_softmax", f"softmax over rows, {HEADS} values an entry", _softmax, _entries, {FIVE: _spelled}),
        _case("fused_mm", f"(A ∘ sigmoid(X Yᵀ)) Z, {FEATURES} features", _fused_mm, _features),
        _case("fused_mm_shared", f"(A ∘ sigmoid(X Yᵀ)) Y, {FEATURES} features", _fused_mm_shared, _features),
        _case("fused_mm_gradients", "its gradients in X, Y and Z", _fused_mm, _features, backward=True),
        _case("layer", f"relu(A X + b), {HIDDEN} features", _layer, _hidden),
        *(
            _case(f"dense_layer_{out}", f"relu((A X) W + b), {INPUTS} to {out} features", _dense_layer, _weighted(out))
            for out in OUTPUTS
        ),
    ]


def _case(
    name: str,
    description: str,
    function: Function,
    operands: Operands,
    peers: Mapping[str, Function] | None = None,
    backward: bool = False,
) -> Case:
    others = peers or {}
    functions = {"jsparse.fuse": jsparse.fuse(function), "jsparse, not fused": function, **others}
    independent = next(iter(others.values()), function)
    return Case(
        name=f"fused_{name}",
        description=f"{description}, R-MAT graph, f32",
        candidates={title: partial(_jitted, compute, operands, backward) for title, compute in functions.items()},
        expected=lambda: _jitted(independent, operands, backward)(),
        rounds=15,
        tolerance=1e-3,
    )


@cache
def _scores() -> tuple[np.ndarray, ...]:
    n = rmat_graph().shape[0]
    return dense(n, HEADS), dense(n, HEADS, seed=2), dense(n, HEADS, CHANNELS, seed=3)


@cache
def _entries() -> tuple[np.ndarray, ...]:
    return (dense(_pattern().nse * HEADS),)


@cache
def _features() -> tuple[np.ndarray, ...]:
    return tuple(dense(rmat_graph().shape[0], FEATURES, seed=seed) / 8 for seed in range(3))


@cache
def _hidden() -> tuple[np.ndarray, ...]:
    return dense(rmat_graph().shape[0], HIDDEN), dense(HIDDEN, seed=2)


def _weighted(out: int) -> Operands:
    return lambda: (dense(rmat_graph().shape[0], INPUTS), dense(INPUTS, out, seed=2) / 11, dense(out, seed=3))


def _jitted(compute: Function, operands: Operands, backward: bool) -> Step:
    arrays = [jnp.asarray(x) for x in operands()]

    def loss(*x: Any) -> Any:
        return (compute(*x) ** 2).sum()

    run = jax.jit(jax.grad(loss, tuple(range(len(arrays)))) if backward else compute)
    return lambda: _values(jax.block_until_ready(run(*arrays)))


def _values(result: Any) -> Any:
    return [np.asarray(x) for x in result] if isinstance(result, tuple | list) else np.asarray(result)


@cache
def _pattern() -> Pattern:
    return jsparse.asarray(rmat_graph(), format="csr").pattern


def _edge_softmax(source: Any, target: Any, features: Any) -> Any:
    pattern = _pattern().extended([HEADS])
    ones = jnp.ones_like(source)
    left = jsparse.einsum("ih,jh->ijh", source, ones, out_format=pattern)
    right = jsparse.einsum("ih,jh->ijh", ones, target, out_format=pattern)
    weights = jsparse.softmax(jsparse.leaky_relu(left + right, 0.2), 1)
    return jsparse.einsum("ijh,jhc->ihc", weights, features)


def _by_segments(source: Any, target: Any, features: Any) -> Any:
    rows, columns = _pattern().to_coords()
    total = {"num_segments": features.shape[0], "indices_are_sorted": True}
    scores = jax.nn.leaky_relu(source[rows] + target[columns], 0.2)
    largest = jax.ops.segment_max(scores, rows, **total)
    weights = jnp.exp(scores - largest[rows])
    sums = jax.ops.segment_sum(weights, rows, **total)
    messages = (weights / sums[rows])[:, :, None] * features[columns]
    return jax.ops.segment_sum(messages, rows, **total)


def _softmax(values: Any) -> Any:
    return jsparse.softmax(SparseTensor(values, _pattern().extended([HEADS])), 1).values


def _spelled(values: Any) -> Any:
    """A maximum, a difference, exp, a sum and a quotient."""
    pattern = _pattern().extended([HEADS])
    A = SparseTensor(values, pattern)
    ones = SparseTensor(jnp.ones_like(values), pattern)
    shifted = A - jsparse.einsum("ijh,ih->ijh", ones, A.max(1, stored=True))
    powers = jsparse.exp(shifted)
    sums = powers.sum(1)
    return jsparse.einsum("ijh,ih->ijh", powers, 1 / jnp.where(sums == 0, 1, sums)).values


def _fused_mm(x: Any, y: Any, z: Any) -> Any:
    scores = jsparse.einsum("id,jd->ij", x, y, out_format=_pattern())
    return (_weights() * jsparse.sigmoid(scores)) @ z


def _fused_mm_shared(x: Any, y: Any, _: Any) -> Any:
    return _fused_mm(x, y, y)


def _dense_layer(x: Any, w: Any, bias: Any) -> Any:
    return jax.nn.relu((_weights() @ x) @ w + bias)


def _layer(x: Any, bias: Any) -> Any:
    return jax.nn.relu(_weights() @ x + bias)


def _weights() -> SparseTensor:
    return SparseTensor(jnp.asarray(rmat_graph().data), _pattern())
