"""Sparse matrix times vector on the R-MAT graph."""

from __future__ import annotations

from typing import Any

from harness import Case
from peers import Product, products

import jsparse

from ._data import dense, rmat_graph


def cases() -> list[Case]:
    """The one case."""

    def matvec(a: Any, x: Any) -> Any:
        return a @ x

    product = Product(
        jsparse=lambda a, x: jsparse.einsum("ij,j->i", a, x),
        scipy=matvec,
        torch=lambda _, a, x: a @ x,
        bcoo=matvec,
        bcsr=matvec,
        dense=matvec,
    )
    return [
        Case(
            name="spmv",
            description="A x, R-MAT graph (169,343 nodes, 2,300,000 edges), f32",
            candidates=products(product, rmat_graph, lambda: [dense(rmat_graph().shape[1])]),
            expected=lambda: rmat_graph() @ dense(rmat_graph().shape[1]),
        )
    ]
