"""Programs of solves and of their gradients have no arrays but vectors and values."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from einsum.hlo import compiled_text, largest_array
from jax.scipy.sparse import linalg

import jsparse

N = 20_000
RESTART = 20


def tridiagonal(dynamic):
    diagonals = [np.full(N - 1, -1.0), np.full(N, 4.0), np.full(N - 1, -1.0)]
    A = jsparse.asarray(sp.diags_array(diagonals, offsets=[-1, 0, 1]).tocsr())
    return A.dynamic() if dynamic else A


CASES = [(linalg.cg, 1, False), (linalg.cg, 1, True), (linalg.bicgstab, 1, True), (linalg.gmres, RESTART + 1, False)]


@pytest.mark.parametrize("solver, vectors, dynamic", CASES)
def test_the_matrix_is_never_dense(solver, vectors, dynamic):
    A, b = tridiagonal(dynamic), np.ones(N)
    loss = lambda v, b: (solver(A.with_values(v), b)[0] ** 2).sum()  # noqa: E731
    text = compiled_text(jax.grad(loss, (0, 1)), A.values, b)
    assert largest_array(text) <= max(vectors * N, A.nse + 1)


def test_the_solution_of_a_large_system():
    A, b = tridiagonal(False), np.linspace(0, 1, N)
    found, _ = jax.jit(linalg.cg)(A, b)
    residual = np.asarray(b) - A.to_scipy() @ np.asarray(found)
    assert np.linalg.norm(residual) <= 1e-4 * np.linalg.norm(b)
