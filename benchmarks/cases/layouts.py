"""Products in other layouts than CSR times dense: a matrix in coordinates, and a dense matrix times CSR."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from peers import import_torch, jitted
from suitesparse import dense_step

import jsparse

from ._data import dense

SIZE = 20_000


@functools.cache
def _matrix(stored: int) -> sp.csr_array:
    return uniform((SIZE, SIZE), stored)


def cases() -> list[Case]:
    """The cases: a matrix in coordinates times a dense one, and a dense matrix times a CSR one."""
    return [_coordinates(), _dense_first()]


def _coordinates() -> Case:
    stored, width = 200_000, 64

    def ours(format: str) -> Callable[[], Step]:
        def factory() -> Step:
            a = jsparse.asarray(_matrix(stored), format=format)
            return jitted(lambda a, x: jsparse.einsum("ij,jk->ik", a, x), a, jnp.asarray(dense(SIZE, width)))

        return factory

    def torch() -> Step:
        t = import_torch()
        a = _matrix(stored).tocoo()
        places = t.from_numpy(np.stack(a.coords).astype(np.int64))
        tensor = t.sparse_coo_tensor(places, t.from_numpy(a.data.copy()), a.shape).coalesce()
        x = t.from_numpy(dense(SIZE, width).copy())
        return lambda: t.sparse.mm(tensor, x)

    return Case(
        name="spmm_coo",
        description=f"A X, {SIZE:,}², {stored:,} entries as coordinates, {width} columns, f32",
        candidates={"jsparse, coo": ours("coo"), "jsparse, csr": ours("csr"), "torch, coo": torch},
        expected=lambda: _matrix(stored) @ dense(SIZE, width),
    )


def _dense_first() -> Case:
    rows, stored = 2_000, 400_000

    def ours() -> Step:
        a = jsparse.asarray(_matrix(stored))
        return jitted(lambda x, a: jsparse.einsum("ij,jk->ik", x, a), jnp.asarray(dense(rows, SIZE)), a)

    def scipy() -> Step:
        x, a = dense(rows, SIZE), _matrix(stored)
        return lambda: x @ a

    def torch() -> Step:
        t = import_torch()
        a = _matrix(stored)
        arrays = (a.indptr, a.indices, a.data.copy())
        tensor = t.sparse_csr_tensor(*map(t.from_numpy, arrays), size=a.shape)
        x = t.from_numpy(dense(rows, SIZE).copy())
        return lambda: x @ tensor

    def graphblas() -> Step:
        return dense_step(lambda a, x: x @ a, _matrix(stored), [dense(rows, SIZE)])

    return Case(
        name="dense_times_csr",
        description=f"X A, X {rows:,} x {SIZE:,}, A {SIZE:,}² with {stored:,} entries, f32",
        candidates={"jsparse": ours, "scipy": scipy, "torch": torch, "GraphBLAS": graphblas},
        expected=lambda: dense(rows, SIZE) @ _matrix(stored),
    )
