"""Sparse matrix times dense matrix on the R-MAT graph, the aggregation of a graph network."""

from __future__ import annotations

from typing import Any

from harness import Case
from peers import Product, matmul, products

from ._data import dense, rmat_graph


def product() -> Product:
    """`A @ X`, written for each peer."""
    return matmul("ij,jk->ik")


def cases() -> list[Case]:
    """The cases, one for each width."""
    return [_case(width) for width in (32, 128, 256)]


def _case(width: int) -> Case:
    def operand() -> Any:
        return dense(rmat_graph().shape[1], width)

    return Case(
        name=f"spmm_{width}",
        description=f"A X, R-MAT graph (169,343 nodes, 2,300,000 edges), {width} columns, f32",
        candidates=products(product(), rmat_graph, lambda: [operand()]),
        expected=lambda: rmat_graph() @ operand(),
    )
