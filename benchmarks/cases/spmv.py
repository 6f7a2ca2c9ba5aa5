"""Sparse matrix times vector on the R-MAT graph."""

from __future__ import annotations

from harness import Case
from peers import matmul, products

from ._data import dense, rmat_graph


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="spmv",
            description="A x, R-MAT graph (169,343 nodes, 2,300,000 edges), f32",
            candidates=products(matmul("ij,j->i"), rmat_graph, lambda: [dense(rmat_graph().shape[1])]),
            expected=lambda: rmat_graph() @ dense(rmat_graph().shape[1]),
        )
    ]
