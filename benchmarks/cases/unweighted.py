"""Unweighted aggregation on the R-MAT graph: a pattern as the operand, against tensors of ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from harness import Case, Step
from peers import jitted
from suitesparse import dense_step

import jsparse

from ._data import dense, rmat_graph

WIDTHS = (1, 4, 16, 32, 64)


def cases() -> list[Case]:
    """The cases, one for each width."""
    return [_case(width) for width in WIDTHS]


def _case(width: int) -> Case:
    graph = "R-MAT graph (169,343 nodes, 2,300,000 edges)"
    return Case(
        name=f"unweighted_{width}",
        description=f"sums of the neighbours' rows, {graph}, {width} column{'s' * (width > 1)}, f32",
        candidates={
            "jsparse, a pattern": lambda: _of_pattern(width),
            "jsparse, ones": lambda: _of_ones(width),
            "GraphBLAS, plus_second": lambda: _graphblas(width),
            "jax gather and segment_sum": lambda: _gathered(width),
            "scipy, ones": lambda: lambda: _ones() @ _rows(width),
        },
        expected=lambda: _ones() @ _rows(width),
    )


@cache
def _ones() -> sp.csr_array:
    graph = rmat_graph()
    return sp.csr_array((np.ones_like(graph.data), graph.indices, graph.indptr), shape=graph.shape)


@cache
def _rows(width: int) -> Any:
    nodes = rmat_graph().shape[1]
    return dense(nodes) if width == 1 else dense(nodes, width)


def _product(a: Any, x: jax.Array) -> Any:
    return jsparse.einsum("ij,j...->i...", a, x)


def _of_pattern(width: int) -> Step:
    return jitted(_product, jsparse.asarray(_ones(), format="csr").pattern, jnp.asarray(_rows(width)))


def _of_ones(width: int) -> Step:
    return jitted(_product, jsparse.asarray(_ones(), format="csr"), jnp.asarray(_rows(width)))


def _graphblas(width: int) -> Step:
    return dense_step(lambda a, x: a @ x, _ones(), [_rows(width)], "plus_second")


def _gathered(width: int) -> Step:
    given = (_ones().indices, _ones().tocoo().coords[0], _rows(width))

    def run(columns: jax.Array, rows: jax.Array, x: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(x[columns], rows, _ones().shape[0], indices_are_sorted=True)

    return jitted(run, *map(jnp.asarray, given))
