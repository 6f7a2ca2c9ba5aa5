"""Lineax's solvers with sparse operators, under JAX's and Equinox's transformations, against dense solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.hlo import compiled_text, largest_array
from linalg.systems import N, grad, matrix, on_pattern, sparse, tolerance, vector

import jsparse

eqx = pytest.importorskip("equinox")
lx = pytest.importorskip("lineax")
from jsparse.lineax import SparseLinearOperator  # noqa: E402

CG = (lx.CG(1e-12, 1e-12), lx.positive_semidefinite_tag)
BICGSTAB = (lx.BiCGStab(1e-12, 1e-12), ())
GMRES = (lx.GMRES(1e-12, 1e-12), ())
TOLERANCE = tolerance("float64")


def solve(A, b, how=BICGSTAB):
    solver, tags = how
    return lx.linear_solve(SparseLinearOperator(A, tags), b, solver).value


def scalar(x):
    return jnp.sin(x).sum()


def dense_loss(dense, b):
    return scalar(jnp.linalg.solve(dense, b))


def system(how, dynamic, **options):
    dense = matrix("cg" if how is CG else "bicgstab")
    return dense, sparse(dense, dynamic, **options), vector()


CASES = [(CG, False, "csr"), (CG, True, "csc"), (BICGSTAB, False, "coo"), (GMRES, True, "csr")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how, dynamic, format", CASES, ids=["CG", "CG dynamic", "BiCGStab", "GMRES"])
def test_solutions_and_gradients(how, dynamic, format):
    dense, A, b = system(how, dynamic, format=format)
    np.testing.assert_allclose(jax.jit(lambda A, b: solve(A, b, how))(A, b), np.linalg.solve(dense, b), **TOLERANCE)
    dA, db = jax.jit(grad(dynamic)(lambda A, b: scalar(solve(A, b, how)), (0, 1)))(A, b)
    expected_dA, expected_db = jax.jit(jax.grad(dense_loss, (0, 1)))(dense, b)
    np.testing.assert_allclose(dA.todense(), on_pattern(expected_dA, dense), **TOLERANCE)
    np.testing.assert_allclose(db, expected_db, **TOLERANCE)


def test_complex_systems():
    dense, b = matrix("bicgstab", "complex128"), vector("complex128")
    np.testing.assert_allclose(solve(sparse(dense), b), np.linalg.solve(dense, b), **TOLERANCE)


def test_gradients_of_operators(dynamic):
    """The gradient of `eqx.filter_grad` has no index arrays; that of `jsparse.grad` has."""
    dense, A, b = system(BICGSTAB, dynamic)
    operator = SparseLinearOperator(A)
    loss = lambda operator: scalar(lx.linear_solve(operator, b, BICGSTAB[0]).value)  # noqa: E731
    expected = on_pattern(jax.jit(jax.grad(dense_loss))(dense, b), dense)
    filtered = eqx.filter_grad(loss)(operator)
    np.testing.assert_allclose(A.with_values(filtered.matrix.values).todense(), expected, **TOLERANCE)
    assert len(jax.tree.leaves(filtered)) == 1
    np.testing.assert_allclose(jsparse.grad(loss)(operator).matrix.todense(), expected, **TOLERANCE)
    stepped = eqx.apply_updates(operator, jax.tree.map(lambda g: -0.1 * g, filtered))
    assert loss(stepped) < loss(operator)


def test_forward_mode(dynamic):
    dense, A, b = system(CG, dynamic)
    tangent = vector(seed=4)
    found = jax.jvp(lambda v, b: solve(A.with_values(v), b, CG), (A.values, b), (3 * A.values, tangent))[1]
    expected = jax.jvp(jnp.linalg.solve, (dense, b), (3 * dense, tangent))[1]
    np.testing.assert_allclose(found, expected, **TOLERANCE)
    operator = SparseLinearOperator(A, CG[1])
    change = eqx.filter(operator, eqx.is_inexact_array)
    solved = lambda operator: lx.linear_solve(operator, b, CG[0]).value  # noqa: E731
    _, found = eqx.filter_jvp(solved, (operator,), (change,))
    np.testing.assert_allclose(found, -np.linalg.solve(dense, b), **TOLERANCE)


def test_batches():
    dense, A, _ = system(BICGSTAB, True)
    B = vector(count=(3,))
    found = jax.jit(jax.vmap(solve, (None, 0)))(A, B)
    np.testing.assert_allclose(found, np.linalg.solve(dense, B.T).T, **TOLERANCE)
    scaled = eqx.filter_vmap(lambda s: SparseLinearOperator(A * s))(jnp.array([1.0, 2.0, 4.0]))
    found = eqx.filter_vmap(lambda operator, b: lx.linear_solve(operator, b, BICGSTAB[0]).value)(scaled, B)
    expected = [np.linalg.solve(s * dense, b) for s, b in zip((1, 2, 4), B, strict=True)]
    np.testing.assert_allclose(found, expected, **TOLERANCE)


def test_gradients_mapped_over_right_hand_sides():
    dense, A, _ = system(CG, True)
    B = vector(count=(2,))
    gradient = lambda A, b: jsparse.grad(lambda A: scalar(solve(A, b, CG)))(A).todense()  # noqa: E731
    expected = on_pattern(jax.jit(jax.vmap(jax.grad(dense_loss), (None, 0)))(dense, B), dense)
    np.testing.assert_allclose(jax.vmap(gradient, (None, 0))(A, B), expected, **TOLERANCE)


def test_second_order():
    dense, A, b = system(CG, True)
    found = jax.grad(jax.grad(lambda s: scalar(solve(A * s, b, CG))))(2.0)
    expected = jax.jit(jax.grad(jax.grad(lambda s: dense_loss(dense * s, b))))(2.0)
    np.testing.assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize("how", [CG, BICGSTAB], ids=["CG", "BiCGStab"])
def test_preconditioners(how):
    dense, A, b = system(how, False)
    M = SparseLinearOperator(sparse(np.linalg.inv(dense)), lx.positive_semidefinite_tag)
    found = lx.linear_solve(SparseLinearOperator(A, how[1]), b, how[0], options={"preconditioner": M})
    np.testing.assert_allclose(found.value, np.linalg.solve(dense, b), **TOLERANCE)
    assert found.stats["num_steps"] <= 3


BANDS = [(0, lx.diagonal_tag, lx.Diagonal()), (1, lx.tridiagonal_tag, lx.Tridiagonal())]


@pytest.mark.parametrize("width, tag, solver", BANDS, ids=["Diagonal", "Tridiagonal"])
def test_bands_are_solved_directly(width, tag, solver, dynamic):
    dense, b = np.triu(np.tril(matrix(), width), -width), vector()
    f = lambda A, b: lx.linear_solve(SparseLinearOperator(A, tag), b).value  # noqa: E731
    A = sparse(dense, dynamic)
    np.testing.assert_allclose(f(A, b), np.linalg.solve(dense, b), **TOLERANCE)
    dA = grad(dynamic)(lambda A: scalar(f(A, b)))(A)
    np.testing.assert_allclose(dA.todense(), on_pattern(jax.jit(jax.grad(dense_loss))(dense, b), dense), **TOLERANCE)
    assert largest_array(compiled_text(f, A, b)) < N * N
    assert type(lx.AutoLinearSolver(well_posed=True).select_solver(SparseLinearOperator(A, tag))) is type(solver)


def test_direct_solvers_take_the_dense_matrix():
    dense, A, b = system(BICGSTAB, False)
    LU = (lx.LU(), ())
    np.testing.assert_allclose(solve(A, b, LU), np.linalg.solve(dense, b), **TOLERANCE)
    dA = jax.grad(lambda A: scalar(solve(A, b, LU)))(A)
    np.testing.assert_allclose(dA.todense(), on_pattern(jax.jit(jax.grad(dense_loss))(dense, b), dense), **TOLERANCE)


def test_least_squares():
    dense = np.vstack([matrix("bicgstab"), np.eye(3, N)])
    b = np.arange(N + 3.0)
    found = solve(sparse(dense), b, (lx.Normal(lx.CG(1e-12, 1e-12)), ()))
    np.testing.assert_allclose(found, np.linalg.lstsq(dense, b)[0], **TOLERANCE)


def test_the_matrix_is_never_dense(dynamic):
    n = 5000
    A = jsparse.SparseTensor.from_coords(np.arange(n)[None].repeat(2, 0), np.full(n, 2.0), (n, n), "csr")
    A = A.dynamic() if dynamic else A
    loss = lambda v, b: scalar(solve(A.with_values(v), b, CG))  # noqa: E731
    assert largest_array(compiled_text(jax.grad(loss, (0, 1)), A.values, np.ones(n))) <= n + 1
