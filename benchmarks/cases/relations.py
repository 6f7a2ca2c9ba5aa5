"""Relational graph convolutions, `rij,jc,rcf->if`, on graphs of the sizes of AIFB, MUTAG and BGS: one einsum, and the
product of each relation by itself in JAX and in torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Step
from peers import import_torch

import jsparse
from jsparse import SparseTensor

EINSUM, WIDTH = "rij,jc,rcf->if", 32
SIZES = {"aifb": (7_262, 48_810, 45), "mutag": (27_163, 148_100, 46), "bgs": (94_806, 672_884, 96)}


def cases() -> list[Case]:
    """Results, and gradients of the sum of squares in features and kernels."""
    return [_case(name, backward) for name in SIZES for backward in (False, True)]


def _case(name: str, backward: bool) -> Case:
    nodes, edges, relations = SIZES[name]
    return Case(
        name=f"rgcn_{name}{'_gradients' if backward else ''}",
        description=f"{EINSUM}, {nodes:,} nodes, {edges:,} edges, {relations} relations, {WIDTH} -> {WIDTH}, f32",
        candidates={
            "jsparse": lambda: _step(name, _einsum, backward),
            "jax, relation by relation": lambda: _step(name, _by_relation, backward),
            "torch, relation by relation": lambda: _torch(name, backward),
        },
        expected=lambda: _expected(name, backward),
        tolerance=1e-3,
    )


@cache
def _coords(name: str) -> np.ndarray:
    """The relation, target and source of each edge, sorted: the sizes of relations follow Zipf's law."""
    nodes, edges, relations = SIZES[name]
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, relations + 1)
    relation = rng.choice(relations, edges, p=share / share.sum())
    return np.unique(np.stack([relation, *rng.integers(0, nodes, (2, edges))]), axis=1).astype(np.int32)


def _operands(name: str) -> tuple[np.ndarray, np.ndarray]:
    nodes, _, relations = SIZES[name]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((nodes, WIDTH)).astype(np.float32)
    return x, rng.standard_normal((relations, WIDTH, WIDTH)).astype(np.float32) / WIDTH


def _step(name: str, made: Callable[[str], Callable[..., Any]], backward: bool) -> Step:
    compute = made(name)
    run = jax.jit(jax.grad(lambda x, w: (compute(x, w) ** 2).sum(), (0, 1)) if backward else compute)
    arrays = [jnp.asarray(array) for array in _operands(name)]
    return lambda: _numpy(jax.block_until_ready(run(*arrays)))


def _numpy(result: Any) -> Any:
    return [np.asarray(x) for x in result] if isinstance(result, tuple | list) else np.asarray(result)


def _einsum(name: str) -> Callable[..., Any]:
    nodes, _, relations = SIZES[name]
    coords = _coords(name)
    graph = SparseTensor.from_coords(coords, np.ones(coords.shape[1], np.float32), (relations, nodes, nodes)).pattern
    return lambda x, w: jsparse.einsum(EINSUM, graph, x, w)


def _ends(name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    coords = _coords(name)
    return [tuple(coords[1:, coords[0] == r]) for r in range(SIZES[name][2])]


def _by_relation(name: str) -> Callable[..., Any]:
    ends = [tuple(map(jnp.asarray, pair)) for pair in _ends(name)]

    def compute(x: Any, w: Any) -> jax.Array:
        out = jnp.zeros((x.shape[0], w.shape[2]), x.dtype)
        for r, (target, source) in enumerate(ends):
            out = out.at[target].add(x[source] @ w[r])
        return out

    return compute


def _torch(name: str, backward: bool) -> Step:
    t = import_torch()
    x, w = (t.from_numpy(array).requires_grad_(backward) for array in _operands(name))
    ends = [tuple(t.from_numpy(end.astype(np.int64)) for end in pair) for pair in _ends(name)]

    def compute() -> Any:
        out = t.zeros(x.shape[0], w.shape[2])
        for r, (target, source) in enumerate(ends):
            out = out.index_add(0, target, x.index_select(0, source) @ w[r])
        return out

    if not backward:
        return lambda: compute().numpy()
    return lambda: [found.numpy() for found in t.autograd.grad((compute() ** 2).sum(), (x, w))]


def _expected(name: str, backward: bool) -> Any:
    x, w = (array.astype(np.float64) for array in _operands(name))
    ends = _ends(name)
    out = np.zeros((x.shape[0], WIDTH))
    for r, (target, source) in enumerate(ends):
        np.add.at(out, target, x[source] @ w[r])
    if not backward:
        return out
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for r, (target, source) in enumerate(ends):
        np.add.at(dx, source, 2 * out[target] @ w[r].T)
        dw[r] = x[source].T @ (2 * out[target])
    return [dx, dw]
