"""Products of matrices of many origins, by jsparse and by PyTorch with 32-bit indices (MKL)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from harness import Case, Step, UnavailableError
from matrices import matrices
from peers import import_torch, jitted

import jsparse

from ._data import dense
from .assembled import _ordered, _Torch

ROUNDS = 15
COLUMNS = 32
MOST = 1 << 28  # multiply-adds of A A: those of larger results are left out

Factory = Callable[[], sp.csr_array]


def cases() -> list[Case]:
    """Three cases for each matrix."""
    return [
        case for name, matrix in matrices().items() for case in (*_dense_products(name, matrix), _square(name, matrix))
    ]


def _dense_products(name: str, matrix: Factory) -> list[Case]:
    return [
        _dense_product(f"zoo_spmv_{name}", f"A x, {name}", matrix, (), "ij,j->i"),
        _dense_product(f"zoo_spmm_{name}", f"A X, {COLUMNS} columns, {name}", matrix, (COLUMNS,), "ij,jk->ik"),
    ]


def _dense_product(name: str, title: str, matrix: Factory, columns: tuple[int, ...], text: str) -> Case:
    def operand() -> np.ndarray:
        return dense(matrix().shape[1], *columns)

    def ours() -> Step:
        return jitted(
            lambda a, x: jsparse.einsum(text, a, x), jsparse.asarray(matrix(), format="csr"), jnp.asarray(operand())
        )

    def torch() -> Step:
        a, x = _torch(matrix()), import_torch().from_numpy(operand())
        return lambda: a @ x

    candidates = {"jsparse": ours, "torch (int32)": torch}
    return Case(name, f"{title}, f32", candidates, lambda: matrix() @ operand(), ROUNDS)


def _square(name: str, matrix: Factory) -> Case:
    """The product with itself, whose pattern is found in the same call (dynamic), or before (static)."""

    def checked() -> sp.csr_array:
        a = matrix()
        if a.shape[0] != a.shape[1]:
            raise UnavailableError("skipped: not square")
        if int(np.diff(a.indptr)[a.indices].sum()) > MOST:
            raise UnavailableError("skipped: too many products")
        return a

    def dynamic() -> Step:
        a = jsparse.asarray(checked())
        room = (a @ a).nse
        compute = jax.jit(lambda a: jsparse.einsum("ij,jk->ik", a, a, nse=room))
        given = a.dynamic()
        return lambda: jax.block_until_ready(compute(given)).values

    def static() -> Step:
        a = jsparse.asarray(checked())
        return jitted(lambda v: (a.with_values(v) @ a.with_values(v)).values, a.values)

    def torch() -> Step:
        a = _torch(checked())
        return lambda: _Torch(a @ a)

    def expected() -> np.ndarray:
        try:
            a = checked()
        except UnavailableError:
            return np.zeros(0)
        return _ordered(a @ a).data

    candidates = {"jsparse": dynamic, "jsparse, static": static, "torch (int32)": torch}
    return Case(f"zoo_spgemm_{name}", f"A A, {name}, f32", candidates, expected, ROUNDS)


def _torch(matrix: sp.csr_array) -> Any:
    torch = import_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that sparse CSR is in beta
        parts = (matrix.indptr, matrix.indices, matrix.data)
        return torch.sparse_csr_tensor(*(torch.from_numpy(part.copy()) for part in parts), size=matrix.shape)
