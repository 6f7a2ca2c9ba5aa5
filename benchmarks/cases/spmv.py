"""Sparse matrix times vector on the R-MAT graph, by sums of products and by minima of sums."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Step
from numpy.typing import NDArray
from peers import import_torch, jitted, matmul, products
from suitesparse import dense_step

import jsparse

from ._data import dense, rmat_graph


def cases() -> list[Case]:
    """The cases: the product, and the one by min_plus, a step of a shortest path."""
    graph = "R-MAT graph (169,343 nodes, 2,300,000 edges), f32"
    return [
        Case(
            name="spmv",
            description=f"A x, {graph}",
            candidates=products(matmul("ij,j->i"), rmat_graph, lambda: [_vector()]),
            expected=lambda: rmat_graph() @ _vector(),
        ),
        Case(
            name="min_plus_spmv",
            description=f"A x by min and +, {graph}",
            candidates={
                "jsparse": _ours,
                "GraphBLAS": lambda: dense_step(lambda a, x: a @ x, rmat_graph(), [_vector()], "min_plus"),
                "torch gather and scatter_reduce": _torch,
                "jax gather and segment_min": _jax,
            },
            expected=_minima,
        ),
    ]


def _vector() -> NDArray[np.float32]:
    return dense(rmat_graph().shape[1])


def _rows() -> NDArray[np.int32]:
    return rmat_graph().tocoo().coords[0]


def _minima() -> NDArray[np.float32]:
    a = rmat_graph()
    out = np.full(a.shape[0], np.inf, np.float32)
    stored = np.diff(a.indptr) > 0
    out[stored] = np.minimum.reduceat(a.data + _vector()[a.indices], a.indptr[:-1][stored])
    return out


def _ours() -> Step:
    matrix = jsparse.asarray(rmat_graph(), format="csr")
    return jitted(lambda a, x: jsparse.einsum("ij,j->i", a, x, semiring="min_plus"), matrix, jnp.asarray(_vector()))


def _torch() -> Step:
    torch, a = import_torch(), rmat_graph()
    rows, columns = torch.from_numpy(_rows().astype(np.int64)), torch.from_numpy(a.indices.copy())
    values, x = torch.from_numpy(a.data.copy()), torch.from_numpy(_vector().copy())

    def step() -> NDArray[np.float32]:
        sums = values + x.index_select(0, columns)
        return torch.full((a.shape[0],), torch.inf).scatter_reduce_(0, rows, sums, "amin").numpy()

    return step


def _jax() -> Step:
    a = rmat_graph()
    given = (a.data, a.indices, _rows(), _vector())

    def run(values: jax.Array, columns: jax.Array, rows: jax.Array, x: jax.Array) -> jax.Array:
        return jax.ops.segment_min(values + x[columns], rows, a.shape[0], indices_are_sorted=True)

    return jitted(run, *map(jnp.asarray, given))
