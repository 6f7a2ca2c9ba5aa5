"""Conversions of indices on the host: coordinates to CSR, dense to CSR, and the transposed index."""

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
    ]


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
