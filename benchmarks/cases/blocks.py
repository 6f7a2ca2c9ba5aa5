"""A matrix of small dense blocks times a dense matrix: the rows of a block are computed together."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from peers import import_torch, jitted

import jsparse

from ._data import dense

BLOCK, ROWS, STORED, WIDTH = 8, 500, 5_000, 128
FORMAT = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"


@functools.cache
def _matrix() -> sp.bsr_array:
    where = uniform((ROWS, ROWS), STORED)
    blocks = np.random.default_rng(4).standard_normal((where.nnz, BLOCK, BLOCK)).astype(np.float32)
    return sp.bsr_array((blocks, where.indices, where.indptr), shape=(ROWS * BLOCK, ROWS * BLOCK))


def _operand() -> np.ndarray:
    return dense(ROWS * BLOCK, WIDTH)


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="blocks",
            description=f"A X, {ROWS}² blocks of {BLOCK} x {BLOCK}, {STORED:,} stored, {WIDTH} columns, f32",
            candidates={"jsparse": _blocked, "jsparse, csr": _scalar, "scipy bsr": _scipy, "torch bsr": _torch},
            expected=lambda: _matrix() @ _operand(),
        )
    ]


def _blocked() -> Step:
    matrix = _matrix()
    rows = np.repeat(np.arange(ROWS), np.diff(matrix.indptr))
    inside = np.indices((BLOCK, BLOCK)).reshape(2, -1)
    of_block = np.repeat(np.stack([rows, matrix.indices]), BLOCK * BLOCK, axis=1)
    coords = np.concatenate([of_block, np.tile(inside, len(rows))])
    shape = (ROWS, ROWS, BLOCK, BLOCK)
    tensor = jsparse.SparseTensor.from_coords(coords, matrix.data.ravel(), shape, FORMAT)

    def run(values: Any, x: Any) -> jax.Array:
        stacked = x.reshape(ROWS, BLOCK, WIDTH)
        return jsparse.einsum("ijab,jbk->iak", tensor.with_values(values), stacked).reshape(-1, WIDTH)

    return jitted(run, tensor.values, jnp.asarray(_operand()))


def _scalar() -> Step:
    tensor = jsparse.asarray(_matrix().tocsr(), format="csr")
    return jitted(lambda a, x: jsparse.einsum("ij,jk->ik", a, x), tensor, jnp.asarray(_operand()))


def _scipy() -> Step:
    matrix, x = _matrix(), _operand()
    return lambda: matrix @ x


def _torch() -> Step:
    torch, matrix = import_torch(), _matrix()
    arrays = (torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that sparse BSR is in beta
        tensor = torch.sparse_bsr_tensor(*arrays, size=matrix.shape)
    x = torch.from_numpy(_operand().copy())
    return lambda: (tensor @ x).numpy()
