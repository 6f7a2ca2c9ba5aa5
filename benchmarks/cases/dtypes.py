"""The product on the R-MAT graph in wider and narrower numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from harness import Case, Step
from peers import import_torch, jitted
from suitesparse import dense_step

import jsparse

from ._data import dense, rmat_graph

WIDTH = 128


def cases() -> list[Case]:
    """The cases: float64 against the peers, and bfloat16 against float32."""
    graph = f"A X, R-MAT graph (169,343 nodes, 2,300,000 edges), {WIDTH} columns"
    wide = {"jsparse": _ours("float64"), "scipy": _scipy, "torch": _torch, "GraphBLAS": _graphblas}
    narrow = {"jsparse, bfloat16": _ours("bfloat16"), "jsparse, float32": _ours("float32")}
    return [
        Case("spmm_f64", f"{graph}, f64", wide, _expected),
        Case("spmm_bf16", f"{graph}, bf16 and f32", narrow, _expected, tolerance=0.01),
    ]


def _operands() -> tuple[sp.csr_array, np.ndarray]:
    matrix = rmat_graph()
    return matrix.astype(np.float64), dense(matrix.shape[1], WIDTH).astype(np.float64)


def _expected() -> np.ndarray:
    a, x = _operands()
    return a @ x


def _ours(dtype: str) -> Callable[[], Step]:
    def factory() -> Step:
        with jax.enable_x64(dtype == "float64"):
            a, x = _operands()
            values = jnp.asarray(a.data).astype(dtype)
            step = jitted(
                lambda a, x: jsparse.einsum("ij,jk->ik", a, x),
                jsparse.asarray(a).with_values(values),
                jnp.asarray(x, dtype),
            )
            step()
        return _with_x64(step) if dtype == "float64" else step

    return factory


def _with_x64(step: Step) -> Step:
    def run() -> Any:
        with jax.enable_x64(True):
            return step()

    return run


def _scipy() -> Step:
    a, x = _operands()
    return lambda: a @ x


def _graphblas() -> Step:
    a, x = _operands()
    return dense_step(lambda a, x: a @ x, a, [x])


def _torch() -> Step:
    t = import_torch()
    a, x = _operands()
    tensor = t.sparse_csr_tensor(*map(t.from_numpy, (a.indptr, a.indices, a.data.copy())), size=a.shape)
    operand = t.from_numpy(x.copy())
    return lambda: tensor @ operand
