"""Products and gradients of tensors in several parts and in a fixed number of slots, compared with csr."""

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
from peers import jitted

import jsparse

from ._data import dense

SIZES = (2048, 8192)
WIDTH = 128
NODES, EDGES, WIDTHS = 1 << 17, 1_860_000, (0, 16, 32, 64, 128, 512)
FORMATS = ("csr", "group_coo(8)", "hyb(1)")
COLUMN_PARTS = 16


def cases() -> list[Case]:
    """Cases with blocks and single entries, then cases on a power-law graph."""
    mixed = [case(size) for size in SIZES for case in (_mixed, _mixed_by_x)]
    return [*mixed, *(case(width) for width in WIDTHS for case in (_slots, _slots_by_x, _slots_by_a))]


@functools.cache
def _blocky(size: int) -> sp.csr_array:
    """Blocks of 16 x 16 at 5 % of the places, and 0.5 % single entries."""
    rng, places = np.random.default_rng(3), size // 16
    filled = np.kron(rng.random((places, places)) < 0.05, np.ones((16, 16), bool))
    matrix = filled * rng.standard_normal((size, size), dtype=np.float32)
    single = rng.integers(0, size, (2, size * size // 200))
    matrix[tuple(single)] = 1
    return sp.csr_array(matrix)


@functools.cache
def _parts(size: int) -> jsparse.SparseTensor:
    chosen = jsparse.block_fill(16, 16, 0.5), "bsr(16, 16)"
    return jsparse.decompose(jsparse.asarray(_blocky(size)), [chosen, (None, "csr")])


def _times(a: Any, x: Any) -> Any:
    return a @ x


def _apart(a: Any, x: Any) -> jax.Array:
    """The sum of products that are computed one by one."""
    blocks, single = (jax.lax.optimization_barrier(part @ x) for part in a.parts)
    return blocks + single


def _mixed(size: int) -> Case:
    return Case(
        name=f"parts_{size}",
        description=f"A X, {size:,}², 5 % of blocks of 16 x 16 and 0.5 % entries, {WIDTH} columns, f32",
        candidates={
            "jsparse, blocks + csr": lambda: jitted(_times, _parts(size), jnp.asarray(dense(size, WIDTH))),
            "jsparse, two products": lambda: jitted(_apart, _parts(size), jnp.asarray(dense(size, WIDTH))),
            "jsparse, csr": lambda: jitted(_times, jsparse.asarray(_blocky(size)), jnp.asarray(dense(size, WIDTH))),
        },
        expected=lambda: _blocky(size) @ dense(size, WIDTH),
        tolerance=1e-3,
    )


def _mixed_by_x(size: int) -> Case:
    def gradient(make: Callable[[], Any]) -> Step:
        weights = jnp.asarray(dense(size, WIDTH))
        return jitted(lambda a, w: jax.vjp(lambda x: a @ x, w)[1](w)[0], make(), weights)

    return Case(
        name=f"parts_{size}_by_x",
        description=f"the gradient in X of A X, {size:,}², the same, {WIDTH} columns, f32",
        candidates={
            "jsparse, blocks + csr": lambda: gradient(lambda: _parts(size)),
            "jsparse, csr": lambda: gradient(lambda: jsparse.asarray(_blocky(size))),
        },
        expected=lambda: _blocky(size).T @ dense(size, WIDTH),
        tolerance=1e-3,
    )


@functools.cache
def _graph() -> sp.csr_array:
    return rmat(NODES, EDGES, levels=17)


@functools.cache
def _tensor(format: str) -> jsparse.SparseTensor:
    return jsparse.asarray(_graph()).asformat(format)


@functools.cache
def _column_parts() -> jsparse.SparseTensor:
    """The graph in parts of its columns, in dcsr. One kernel walks the parts one after the other."""
    width = NODES // COLUMN_PARTS
    rules = [(functools.partial(_is_within, n * width, (n + 1) * width), "dcsr") for n in range(COLUMN_PARTS - 1)]
    return jsparse.decompose(jsparse.asarray(_graph()), [*rules, (None, "dcsr")])


def _is_within(first: int, stop: int, coords: np.ndarray) -> np.ndarray:
    return np.asarray((coords[1] >= first) & (coords[1] < stop))


def _columns(width: int) -> np.ndarray:
    return dense(NODES, width) if width else dense(NODES, 1)[:, 0].copy()


def _of_formats(step: Callable[[jsparse.SparseTensor], Step]) -> dict[str, Callable[[], Step]]:
    return {f"jsparse, {name}": functools.partial(lambda name: step(_tensor(name)), name) for name in FORMATS}


def _slots(width: int) -> Case:
    candidates = _of_formats(lambda a: jitted(_times, a, jnp.asarray(_columns(width))))
    if width >= 128:
        walked = f"jsparse, {COLUMN_PARTS} parts of columns in dcsr"
        candidates[walked] = lambda: jitted(_times, _column_parts(), jnp.asarray(_columns(width)))
    return Case(
        name=f"slots_{width or 'vector'}",
        description=f"A X, R-MAT graph of {NODES:,} nodes and {EDGES:,} edges, {width or 'one'} columns, f32",
        candidates=candidates,
        expected=lambda: _graph() @ _columns(width),
        tolerance=1e-3,
    )


def _slots_by_x(width: int) -> Case:
    def gradient(a: jsparse.SparseTensor) -> Step:
        return jitted(lambda a, w: jax.vjp(lambda x: a @ x, w)[1](w)[0], a, jnp.asarray(_columns(width)))

    return Case(
        name=f"slots_{width or 'vector'}_by_x",
        description=f"the gradient in X of the same product, {width or 'one'} columns, f32",
        candidates=_of_formats(gradient),
        expected=lambda: _graph().T @ _columns(width),
        tolerance=1e-3,
    )


def _slots_by_a(width: int) -> Case:
    def gradient(a: jsparse.SparseTensor) -> Step:
        def run(a: Any, x: jax.Array) -> jax.Array:
            return jax.vjp(lambda a: a @ x, a)[1](x)[0].values.sum()  # formats store the same numbers in other slots

        return jitted(run, a, jnp.asarray(_columns(width)))

    return Case(
        name=f"slots_{width or 'vector'}_by_a",
        description=f"the sum of the gradient in the values of the same product, {width or 'one'} columns, f32",
        candidates=_of_formats(gradient),
        expected=lambda: _sum_of_gradient(width),
        tolerance=1e-3,
    )


def _sum_of_gradient(width: int) -> np.ndarray:
    """The sum of x[i, k] x[j, k] over all edges."""
    graph, x = _graph(), _columns(width)
    ones = sp.csr_array((np.ones_like(graph.data), graph.indices, graph.indptr), graph.shape)
    return np.asarray(np.vdot(x, ones @ x), np.float32)
