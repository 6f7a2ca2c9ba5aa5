"""The transposed product on the R-MAT graph: with a vector, a matrix, and the gradient to values and operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from harness import Case
from jax.experimental import sparse
from numpy.typing import NDArray
from peers import Product, matmul, products

import jsparse

from ._data import dense, rmat_graph

WIDTH = 128


def cases() -> list[Case]:
    """The cases: the products, and the product with its gradient."""

    def operands() -> list[NDArray[np.float32]]:
        rows, columns = rmat_graph().shape
        return [dense(rows, WIDTH), dense(columns, WIDTH, seed=2)]

    def vector() -> list[NDArray[np.float32]]:
        return [np.ascontiguousarray(dense(rmat_graph().shape[0], 1)[:, 0])]

    nodes = "R-MAT graph (169,343 nodes, 2,300,000 edges)"
    graph = f"{nodes}, {WIDTH} columns, f32"
    return [
        Case(
            name="transpose_vector",
            description=f"Aᵀ x, {nodes}, f32",
            candidates=products(_forward("ij,i->j"), rmat_graph, vector),
            expected=lambda: rmat_graph().T @ vector()[0],
        ),
        Case(
            name="transpose",
            description=f"Aᵀ G, {graph}",
            candidates=products(_forward(), rmat_graph, lambda: operands()[:1]),
            expected=lambda: rmat_graph().T @ operands()[0],
        ),
        Case(
            name="transpose_grad",
            description=f"Aᵀ G with the gradient of sum(Aᵀ G * C) to the values of A and to G, {graph}",
            candidates=products(_gradient(), rmat_graph, operands),
            expected=lambda: _scipy_gradient(rmat_graph(), *operands()),
        ),
    ]


def _forward(subscripts: str = "ij,ik->jk") -> Product:
    return matmul(subscripts, lambda a, g: a.T @ g, torch=lambda _, a, g: a.t() @ g, bcsr=_bcsr_transposed)


def _gradient() -> Product:
    return Product(
        jsparse=_vjp(lambda a, v, g: jsparse.einsum("ij,ik->jk", a.with_values(v), g), lambda a: a.values),
        scipy=_scipy_gradient,
        torch=_torch_gradient,
        bcoo=_vjp(lambda a, v, g: _bcoo(a, v).T @ g, lambda a: a.data),
        bcsr=_vjp(lambda a, v, g: _bcsr_transposed(_bcsr(a, v), g), lambda a: a.data),
        dense=None,
    )


def _bcoo(a: sparse.BCOO, values: jax.Array) -> sparse.BCOO:
    return sparse.BCOO(
        (values, a.indices), shape=a.shape, indices_sorted=a.indices_sorted, unique_indices=a.unique_indices
    )


def _bcsr(a: sparse.BCSR, values: jax.Array) -> sparse.BCSR:
    return sparse.BCSR((values, a.indices, a.indptr), shape=a.shape)


def _bcsr_transposed(a: sparse.BCSR, g: jax.Array) -> jax.Array:
    return sparse.bcsr_dot_general(a, g, dimension_numbers=(((0,), (0,)), ((), ())))


def _vjp(product: Callable[..., jax.Array], values: Callable[[Any], jax.Array]) -> Callable[..., Any]:
    """The result of `product(a, values, g)`, and the pullbacks of `c` to the values and to `g`."""

    def both(a: Any, g: jax.Array, c: jax.Array) -> tuple[jax.Array, ...]:
        out, pull = jax.vjp(lambda v, x: product(a, v, x), values(a), g)
        return out, *pull(c)

    return both


def _torch_gradient(torch: Any, a: Any, g: Any, c: Any) -> tuple[Any, ...]:
    """The gradient, written out, since torch's autograd would make a dense gradient of a transposed matrix."""
    return a.t() @ g, torch.sparse.sampled_addmm(a, g, c.t(), beta=0).values(), a @ c


def _scipy_gradient(
    a: sp.csr_array, g: NDArray[np.float32], c: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    rows, columns = a.tocoo().coords
    values = np.empty(a.nnz, np.float32)
    for start in range(0, a.nnz, 100_000):
        part = slice(start, start + 100_000)
        np.einsum("pk,pk->p", g[rows[part]], c[columns[part]], out=values[part])
    return a.T @ g, values, a @ c
