"""Einsums beside the best that is known to write by hand: products in another order, sums first, a reshape, a chain.

`python benchmarks/cliffs.py` draws random einsums beside these, and looks for the best spelling itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from graphs import rmat
from harness import Case, Step

import jsparse
from jsparse import SparseTensor, einsum

from ._data import dense

NODES, EDGES, LEVELS = 8_192, 102_543, 13
SIDE, STORED, RANK = 300, 295_000, 16
WIDTHS = (16, 64, 256)

# Products of the R-MAT graph with itself: the einsum of as many operands, by hand, by scipy.
GRAPH: dict[str, tuple[Callable[..., Any], Callable[[sp.csr_array], Any]]] = {
    "ij,jk,kl,li->": (
        lambda a: (lambda b: einsum("ij,ji->", b, b))(a @ a),
        lambda a: (lambda b: (b * b.T).sum())(a @ a),
    ),
    "ij,ik,kl,lj->ij": (
        lambda a: einsum("ij,ik,kj->ij", a, a, a @ a),
        lambda a: a * (a @ (a @ a)),
    ),
    "ij,jk->i": (lambda a: a @ a.sum(1), lambda a: a @ a.sum(1)),
    "ij,jk->k": (lambda a: a.sum(0) @ a, lambda a: a.sum(0) @ a),
    "ij,jk,kl->i": (lambda a: a @ (a @ a.sum(1)), lambda a: a @ (a @ a.sum(1))),
    "ij,kl->": (lambda a: a.sum() * a.sum(), lambda a: a.sum() ** 2),
    "ij,kl->ij": (lambda a: a * a.sum(), lambda a: a * a.sum()),
    "ij,jk,lm->ik": (lambda a: (a @ a) * a.sum(), lambda a: (a @ a) * a.sum()),
}


def cases() -> list[Case]:
    """The cases: products of a graph, a Tucker product, the sum of a tensor, scores times values, shared fibres."""
    graph = f"R-MAT graph ({NODES:,} nodes, {EDGES:,} edges), f32"
    of_graph = [
        Case(
            f"cliffs_{n}", f"{text}, {graph}", _both(_spelled(text), by_hand, _graph), _of_graph(scipy), tolerance=1e-3
        )
        for n, (text, (by_hand, scipy)) in enumerate(GRAPH.items())
    ]
    tensor = f"{STORED:,} of {SIDE}³ entries, f32"
    fibres = Case(
        "fibres",
        f"ijk,ijl->kl, {tensor}, twice",
        _both(*FIBRES, lambda: [_tensor(0), _tensor(1)]),
        _fibres_result,
        tolerance=1e-3,
    )
    entries = Case(
        "entries",
        f"ijk->, {tensor}",
        _both(*ENTRIES, lambda: [_tensor()]),
        lambda: _entries(0)[1].sum(),
        tolerance=1e-3,
    )
    tucker = Case(
        "tucker",
        f"ijk,ia,jb,kc->abc, {tensor}, rank {RANK}",
        _both(*TUCKER, _tucker_operands),
        _tucker_result,
    )
    return [*of_graph, tucker, entries, fibres, *[_scores(width) for width in WIDTHS]]


def _spelled(text: str) -> Callable[..., Any]:
    return lambda a: einsum(text, *[a] * (text.count(",") + 1))


def _values(x: Any) -> Any:
    """What is compared: the values of a sparse result."""
    return x.values if isinstance(x, SparseTensor) else x


TUCKER = (
    functools.partial(einsum, "ijk,ia,jb,kc->abc"),
    lambda t, x, y, z: jnp.einsum("ijc,ia,jb->abc", einsum("ijk,kc->ijc", t, z, out_format="dense"), x, y),
)
ENTRIES = functools.partial(einsum, "ijk->"), lambda t: t.values.sum()
FIBRES = (
    lambda s, t: einsum("ijk,ijl->kl", s, t).todense(),
    lambda s, t: einsum("pk,pl->kl", s.reshape(SIDE**2, SIDE), t.reshape(SIDE**2, SIDE)).todense(),
)


def _scores(width: int) -> Case:
    """Scores of the entries times values: one einsum, two, and two that are fused."""

    def in_two(a: SparseTensor, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return einsum("ij,jl->il", einsum("ij,ik,jk->ij", a, q, k), v)

    def operands() -> list[Any]:
        return [_graph()[0], *(jnp.asarray(dense(NODES, width, seed=n)) for n in range(3))]

    def expected() -> Any:
        a, q, k, v = _graph_scipy().tocoo(), *(dense(NODES, width, seed=n) for n in range(3))
        scores = np.einsum("pk,pk->p", q[a.coords[0]], k[a.coords[1]]) * a.data
        return sp.csr_array((scores, a.coords), a.shape) @ v

    whole = functools.partial(einsum, "ij,ik,jk,jl->il")
    candidates = _both(whole, in_two, operands) | _both(None, jsparse.fuse(in_two), operands, "by hand, fused")
    return Case(f"scores_{width}", f"ij,ik,jk,jl->il, R-MAT graph, {width} columns, f32", candidates, expected)


def _both(
    whole: Callable[..., Any] | None,
    by_hand: Callable[..., Any],
    operands: Callable[[], list[Any]],
    name: str = "by hand",
) -> dict[str, Callable[[], Step]]:
    """The einsum and its spelling by hand as candidates."""

    def prepared(function: Callable[..., Any]) -> Step:
        arguments, compiled = operands(), jax.jit(lambda *x: _values(function(*x)))
        return lambda: jax.block_until_ready(compiled(*arguments))

    own = {} if whole is None else {"jsparse": functools.partial(prepared, whole)}
    return own | {name: functools.partial(prepared, by_hand)}


@functools.cache
def _graph_scipy() -> sp.csr_array:
    return rmat(NODES, EDGES, LEVELS)


def _graph() -> list[Any]:
    return [jsparse.asarray(_graph_scipy())]


def _of_graph(product: Callable[[sp.csr_array], Any]) -> Callable[[], Any]:
    def expected() -> Any:
        found = product(_graph_scipy().astype(np.float64))
        if not isinstance(found, sp.csr_array):
            return found
        found.sort_indices()
        return found.data

    return expected


@functools.cache
def _entries(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates and values of a random tensor."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(SIDE**3, STORED, replace=False))
    return np.stack(np.unravel_index(places, (SIDE,) * 3)), rng.random(STORED, np.float32)


def _tensor(seed: int = 0) -> SparseTensor:
    return SparseTensor.from_coords(*_entries(seed), (SIDE,) * 3, "csf")


def _dense_tensor(seed: int = 0) -> np.ndarray:
    found = np.zeros((SIDE,) * 3, np.float32)
    coords, values = _entries(seed)
    found[tuple(coords)] = values
    return found


def _tucker_operands() -> list[Any]:
    return [_tensor(), *(jnp.asarray(dense(SIDE, RANK, seed=n)) for n in range(3))]


def _tucker_result() -> np.ndarray:
    x, y, z = (dense(SIDE, RANK, seed=n) for n in range(3))
    return np.einsum("ijk,ia,jb,kc->abc", _dense_tensor(), x, y, z, optimize=True)


def _fibres_result() -> np.ndarray:
    first, second = (_dense_tensor(seed).reshape(-1, SIDE) for seed in (0, 1))
    return first.T @ second
