"""Conversions on the host: coordinates to CSR, dense to CSR, the transposed index, and formats of blocks and slots."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from harness import Case, Step
from numpy.typing import NDArray

import jsparse
from jsparse.base.memo import forget_everything
from jsparse.formats import Format
from jsparse.formats.relayout import relayout_to

from ._data import rmat_graph


def cases() -> list[Case]:
    """The cases, each against scipy.sparse. Index arrays and values of the results are compared."""
    return [
        Case(
            name="coo_to_csr",
            description="10,000,000 random unsorted entries, 100,000 x 100,000, f32, to CSR",
            candidates={
                "jsparse": lambda: _from_coo(entries()),
                "scipy": lambda: lambda: _parts(entries().tocsr()),
            },
            expected=lambda: _parts(entries().tocsr()),
            rounds=15,
        ),
        Case(
            name="dense_to_csr",
            description="8,192 x 8,192 dense, 5 % nonzero, f32, to CSR",
            candidates={
                "jsparse": lambda: _from_dense(dense_matrix()),
                "scipy": lambda: lambda: _parts(sp.csr_array(dense_matrix())),
            },
            expected=lambda: _parts(sp.csr_array(dense_matrix())),
            rounds=15,
        ),
        Case(
            name="transposed_index",
            description="CSR to CSC, R-MAT graph (169,343 nodes, 2,300,000 edges); scipy moves the values too",
            candidates={"jsparse": _transposed, "scipy": lambda: lambda: _parts(rmat_graph().tocsc())[:2]},
            expected=lambda: _parts(rmat_graph().tocsc())[:2],
        ),
        *(_composed(format, f"CSR to {format}") for format in ("bsr(32, 32)", "group_coo(8)", "ell", "hyb")),
        *(_back(format, f"{format} to CSR") for format in ("bsr(32, 32)", "group_coo(8)", "ell", "hyb")),
    ]


def _composed(format: str, description: str) -> Case:
    """A conversion of new patterns, and one of a known pattern, whose values alone move."""
    scipy = {"scipy": lambda: lambda: (_blocky().tobsr((32, 32)), _expected(format))[1]}  # scipy does not sort blocks
    scipy = scipy if format.startswith("bsr") else {}
    return Case(
        name=f"to_{format.partition('(')[0]}",
        description=f"{description}, 4,096 x 4,096, 10 % of blocks of 32 x 32, f32",
        candidates={
            "jsparse": lambda: _moved(_blocky_tensor(), format, is_new=True),
            "jsparse, known pattern": lambda: _moved(_blocky_tensor(), format),
            **scipy,
            "scipy, csr to csc": lambda: lambda: (_blocky().tocsc(), _expected(format))[1],
        },
        expected=lambda: _expected(format),
        rounds=15,
    )


def _back(format: str, description: str) -> Case:
    scipy = {"scipy": _scipy_back} if format.startswith("bsr") else {}
    return Case(
        name=f"from_{format.partition('(')[0]}",
        description=f"{description}, 4,096 x 4,096, 10 % of blocks of 32 x 32, f32",
        candidates={
            "jsparse": lambda: _moved(_blocky_tensor().asformat(format), "csr", is_new=True),
            "jsparse, known pattern": lambda: _moved(_blocky_tensor().asformat(format), "csr"),
            **scipy,
            "scipy, csr to csc": lambda: lambda: (_blocky().tocsc(), _blocky().data)[1],
        },
        expected=lambda: _blocky().data,
        rounds=15,
    )


def _scipy_back() -> Step:
    matrix = _blocky().tobsr((32, 32))
    return lambda: matrix.tocsr().data


def _moved(tensor: jsparse.SparseTensor, format: str, is_new: bool = False) -> Step:
    def step() -> NDArray[np.float32]:
        if is_new:
            forget_everything()
            if isinstance(tensor.pattern, jsparse.Pattern):
                tensor.pattern._relayouts.clear()
        return np.asarray(jax.block_until_ready(tensor.asformat(format).values))

    return step


@functools.cache
def _blocky() -> sp.csr_array:
    rng = np.random.default_rng(0)
    where = sp.random_array((128, 128), density=0.1, format="csr", rng=rng)
    matrix = sp.csr_array(sp.kron(where.astype(bool), np.ones((32, 32), np.float32), format="csr"))
    matrix.sort_indices()
    matrix.data = rng.standard_normal(matrix.nnz).astype(np.float32)
    return matrix


@functools.cache
def _blocky_tensor() -> jsparse.SparseTensor:
    return jsparse.asarray(_blocky(), format="csr")


@functools.cache
def _expected(format: str) -> NDArray[np.float32]:
    return np.asarray(_blocky_tensor().asformat(format).values)


@functools.cache
def entries() -> sp.coo_array:
    """Entries in random order; a few entries have equal coordinates."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 100_000, (2, 10_000_000), np.int32)
    return sp.coo_array((rng.random(10_000_000, np.float32), (rows, columns)), shape=(100_000, 100_000))


@functools.cache
def dense_matrix() -> NDArray[np.float32]:
    """A matrix with uniform values in 5 % of its elements, and zeros elsewhere."""
    rng = np.random.default_rng(0)
    values = rng.random((8192, 8192), np.float32)
    return np.where(rng.random((8192, 8192), np.float32) < 0.05, values, np.float32(0))


def _parts(matrix: Any) -> tuple[Any, ...]:
    return matrix.indptr, matrix.indices, matrix.data


def _converted(make: Callable[[], jsparse.SparseTensor]) -> Step:
    def step() -> tuple[Any, ...]:
        tensor = make()
        return *tensor.pattern.arrays, np.asarray(jax.block_until_ready(tensor.values))

    return step


def _from_coo(matrix: sp.coo_array) -> Step:
    return _converted(lambda: jsparse.asarray(matrix, format="csr"))


def _from_dense(matrix: NDArray[np.float32]) -> Step:
    return _converted(lambda: jsparse.asarray(matrix, format="csr"))


def _transposed() -> Step:
    pattern = jsparse.asarray(rmat_graph(), format="csr").pattern
    target = Format.of("csc", 2)
    return lambda: relayout_to(pattern, target).target.arrays
