"""The product of two dense matrices at the entries of a sparse matrix."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from jax import numpy as jnp
from jax.experimental import sparse
from peers import import_torch, jitted
from suitesparse import masked_step

import jsparse

from ._data import dense

SIZE, STORED = 20_000, 200_000


@functools.cache
def _matrix() -> sp.csr_array:
    return uniform((SIZE, SIZE), STORED)


def cases() -> list[Case]:
    """The cases: 64 and 128 columns."""
    return [_case(width) for width in (64, 128)]


def _case(width: int) -> Case:
    def operands() -> tuple[np.ndarray, np.ndarray]:
        both = dense(SIZE, 2 * width)
        return np.ascontiguousarray(both[:, :width]), np.ascontiguousarray(both[:, width:])

    def ours() -> Step:
        pattern = jsparse.asarray(_matrix(), format="csr")
        return jitted(
            lambda x, y: jsparse.einsum("ik,jk->ij", x, y, out_format=pattern).values, *map(jnp.asarray, operands())
        )

    def bcoo() -> Step:
        indices = sparse.BCOO.from_scipy_sparse(_matrix()).indices
        numbers = (((1,), (1,)), ((), ()))
        return jitted(
            lambda x, y: sparse.bcoo_dot_general_sampled(x, y, indices, dimension_numbers=numbers),
            *map(jnp.asarray, operands()),
        )

    return Case(
        name=f"sddmm_{width}",
        description=f"X Yᵀ at {STORED:,} entries of {SIZE:,} x {SIZE:,}, {width} columns, f32",
        candidates={
            "jsparse": ours,
            "torch, Yᵀ strided": _torch(operands, False),
            "torch, Yᵀ copied": _torch(operands, True),
            "GraphBLAS": lambda: masked_step(_matrix(), *operands()),
            "jax BCOO": bcoo,
        },
        expected=lambda: _expected(*operands()),
    )


def _expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows, columns = _matrix().tocoo().coords
    return np.einsum("pk,pk->p", x[rows], y[columns])


def _torch(operands: Any, copied: bool) -> Any:
    def factory() -> Step:
        torch, a = import_torch(), _matrix()
        arrays = (a.indptr.astype(np.int32), a.indices.astype(np.int32), np.zeros_like(a.data))
        pattern = torch.sparse_csr_tensor(*map(torch.from_numpy, arrays), size=a.shape)
        x, y = (torch.from_numpy(operand.copy()) for operand in operands())
        transposed = y.T.contiguous() if copied else y.T
        return lambda: torch.sparse.sampled_addmm(pattern, x, transposed, beta=0.0).values()

    return factory
