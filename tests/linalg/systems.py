"""Linear systems with known solutions, and JAX's iterative solvers by name."""

from functools import partial

import jax
import numpy as np
from jax.scipy.sparse import linalg

import jsparse

N = 10

SOLVERS = {
    "cg": linalg.cg,
    "bicgstab": linalg.bicgstab,
    "gmres": partial(linalg.gmres, solve_method="batched"),
    "incremental gmres": partial(linalg.gmres, solve_method="incremental"),
}


def solve(solver, A, b, **options):
    """The solution, to the precision of its dtype."""
    return SOLVERS[solver](A, b, tol=1e-6 if np.dtype(b.dtype).itemsize == 4 else 1e-13, **options)[0]


def tolerance(dtype):
    return {"rtol": 1e-4, "atol": 1e-4} if np.dtype(dtype) == np.float32 else {"rtol": 1e-8, "atol": 1e-10}


def matrix(solver="cg", dtype="float64", seed=0):
    """A dense, diagonally dominant matrix (N, N) with about a third of its elements nonzero; Hermitian for "cg"."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(N, N)) + (1j * rng.normal(size=(N, N)) if np.dtype(dtype).kind == "c" else 0)
    dense = dense * (rng.random((N, N)) < 0.3)
    if solver == "cg":
        dense = (dense + dense.conj().T) / 2
    return (dense + np.diag(np.linspace(6, 9, N))).astype(dtype)


def vector(dtype="float64", seed=1, count=()):
    rng = np.random.default_rng(seed)
    shape = (*count, N)
    return (rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else 0)).astype(dtype)


def sparse(dense, dynamic=False, format="csr"):
    """The matrix as a SparseTensor. A dynamic one has unused slots."""
    A = jsparse.asarray(dense, format=format)
    return A.dynamic(A.nse + 7) if dynamic else A


def grad(dynamic):
    """The function that differentiates by a tensor: `jsparse.grad` or `jax.grad`."""
    return jsparse.grad if dynamic else jax.grad


def on_pattern(gradient, dense):
    """The elements of a dense gradient where the dense matrix is nonzero."""
    return np.where(dense != 0, gradient, 0)
