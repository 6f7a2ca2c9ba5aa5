"""SparseTensors as operators and preconditioners of JAX's iterative solvers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.sparse import linalg
from linalg.systems import N, matrix, solve, sparse, tolerance, vector

import jsparse
from jsparse.errors import ShapeError

LAYOUTS = [
    ("csr", False, "float32"),
    ("csc", False, "complex128"),
    ("coo", False, "float64"),
    ("csr", True, "complex128"),
    ("csc", True, "float64"),
    ("coo", True, "float32"),
]
CASES = [("cg", *layout) for layout in LAYOUTS] + [("bicgstab", *layout) for layout in LAYOUTS[1::2]]
CASES += [("gmres", *layout) for layout in LAYOUTS[:4:3]] + [("incremental gmres", *LAYOUTS[1])]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("solver, format, dynamic, dtype", CASES)
def test_operator_and_preconditioner(solver, format, dynamic, dtype):
    dense, b = matrix(solver, dtype), vector(dtype)
    A, M = sparse(dense, dynamic, format), sparse(np.diag(1 / np.diag(dense)), dynamic, format)
    found = jax.jit(lambda A, b, M: solve(solver, A, b, M=M))(A, b, M)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.linalg.solve(dense, b), **tolerance(dtype))


def test_a_preconditioner_takes_part():
    """The exact inverse needs one step."""
    dense, b = matrix(), vector()
    M = sparse(np.linalg.inv(dense))
    found, _ = linalg.cg(sparse(dense), b, M=M, maxiter=1)
    np.testing.assert_allclose(found, np.linalg.solve(dense, b), rtol=1e-10)
    without, _ = linalg.cg(sparse(dense), b, maxiter=1)
    assert np.abs(without - np.linalg.solve(dense, b)).max() > 1e-3


@pytest.mark.parametrize("solver", ["cg", "bicgstab"])
def test_functions_closures_and_pytrees(solver, dynamic):
    dense, b = matrix(solver), vector()
    A = sparse(dense, dynamic)
    found = jax.jit(lambda b: solve(solver, lambda x: A @ x, b))(b)
    np.testing.assert_allclose(found, np.linalg.solve(dense, b), **tolerance("float64"))
    product = lambda x: {"top": A @ x["top"], "low": 2 * (A @ x["low"])}  # noqa: E731
    pair, _ = linalg.bicgstab(product, {"top": b, "low": b}, tol=1e-13)
    np.testing.assert_allclose(pair["top"], found, **tolerance("float64"))
    np.testing.assert_allclose(pair["low"], found / 2, **tolerance("float64"))


@pytest.mark.parametrize("solver, dynamic", [("cg", False), ("bicgstab", True)])
def test_several_right_hand_sides(solver, dynamic):
    dense, B = matrix(solver), vector(count=(3,))
    A = sparse(dense, dynamic)
    expected = np.linalg.solve(dense, B.T)
    np.testing.assert_allclose(solve(solver, A, B.T), expected, **tolerance("float64"))
    mapped = jax.jit(jax.vmap(lambda A, b: solve(solver, A, b), (None, 0)))(A, B)
    np.testing.assert_allclose(mapped, expected.T, **tolerance("float64"))


def test_a_batch_of_matrices(dynamic):
    dense, b = matrix(), vector()
    A = sparse(dense, dynamic)
    found = jax.vmap(lambda s: solve("cg", A * s, b))(jnp.array([1.0, 2.0, 5.0]))
    np.testing.assert_allclose(found, np.linalg.solve(dense, b) / np.array([[1], [2], [5]]), **tolerance("float64"))


def test_a_batch_of_patterns():
    matrices, B = [matrix("bicgstab", seed=seed) for seed in (1, 2)], vector(count=(2,))
    nse = max(np.count_nonzero(dense) for dense in matrices)
    tensors = [jsparse.asarray(dense, dynamic=True, nse=nse) for dense in matrices]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tensors)
    found = jax.vmap(lambda A, b: solve("bicgstab", A, b))(stacked, B)
    expected = [np.linalg.solve(dense, b) for dense, b in zip(matrices, B, strict=True)]
    np.testing.assert_allclose(found, expected, **tolerance("float64"))


def test_carried_by_a_scan(dynamic):
    """Each of three implicit steps also changes the matrix."""
    dense, b = matrix(), vector()

    def step(carry, _):
        A, x = carry
        return (2 * A, solve("cg", A, x)), None

    (_, found), _ = jax.jit(lambda A, b: jax.lax.scan(step, (A, b), length=3))(sparse(dense, dynamic), b)
    for scale in (1, 2, 4):
        b = np.linalg.solve(scale * dense, b)
    np.testing.assert_allclose(found, b, **tolerance("float64"))


@pytest.mark.parametrize(
    "of_matrix, of_vector", [("float32", "float64"), ("int32", "float32"), ("float64", "complex128")]
)
def test_dtypes_promote_as_those_of_dense_matrices(of_matrix, of_vector):
    dense, b = np.round(matrix()).astype(of_matrix), vector(of_vector)
    found = solve("cg", sparse(dense), b)
    assert found.dtype == of_vector
    np.testing.assert_allclose(found, np.linalg.solve(dense.astype(of_vector), b), **tolerance(of_vector))


def test_refusals():
    square, wide = sparse(matrix()), sparse(np.ones((N, N + 1)))
    with pytest.raises(ValueError, match=r"square matrix, but has shape: \(10, 11\)"):
        linalg.cg(wide, np.ones(N))
    with pytest.raises(ValueError, match=r"square matrix, but has shape: \(10,\)"):
        linalg.gmres(jsparse.asarray(np.ones(N)), np.ones(N))
    with pytest.raises(ShapeError, match=r"to agree, but got 10 and 4, of shapes \(10, 10\) and \(4,\)"):
        linalg.bicgstab(square, np.ones(4))
