"""Derivatives through solves, against derivatives of dense solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linalg.systems import grad, matrix, on_pattern, solve, sparse, tolerance, vector


def scalar(x):
    return jnp.sin(jnp.abs(x) ** 2).sum()


def loss(solver):
    return lambda A, b: scalar(solve(solver, A, b))


def dense_loss(dense, b):
    return scalar(jnp.linalg.solve(dense, b))


CASES = [
    ("cg", "csr", "float64", False),
    ("cg", "coo", "complex128", True),
    ("bicgstab", "csc", "float64", True),
    ("bicgstab", "csr", "float32", True),
    ("gmres", "csr", "complex128", True),
    ("incremental gmres", "coo", "float64", False),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("solver, format, dtype, dynamic", CASES)
def test_reverse_mode(solver, format, dtype, dynamic):
    dense, b = matrix(solver, dtype), vector(dtype)
    A = sparse(dense, dynamic, format)
    dA, db = jax.jit(grad(dynamic)(loss(solver), (0, 1)))(A, b)
    expected_dA, expected_db = jax.jit(jax.grad(dense_loss, (0, 1)))(dense, b)
    assert dA.shape == A.shape
    np.testing.assert_allclose(dA.todense(), on_pattern(expected_dA, dense), **tolerance(dtype))
    np.testing.assert_allclose(db, expected_db, **tolerance(dtype))


def test_forward_mode():
    dense, b = matrix("bicgstab"), vector()
    A, tangent = sparse(dense), vector(seed=3)
    change = A.with_values(jnp.cos(jnp.arange(A.nse)))
    value, found = jax.jvp(lambda A, b: solve("bicgstab", A, b), (A, b), (change, tangent))
    expected_value, expected = jax.jvp(jnp.linalg.solve, (dense, b), (np.asarray(change.todense()), tangent))
    np.testing.assert_allclose(value, expected_value, **tolerance("float64"))
    np.testing.assert_allclose(found, expected, **tolerance("float64"))


def test_forward_mode_in_the_values_of_a_dynamic_tensor():
    dense, b = matrix("bicgstab"), vector()
    A = sparse(dense, dynamic=True)
    _, found = jax.jvp(lambda v: solve("bicgstab", A.with_values(v), b), (A.values,), (A.values,))
    np.testing.assert_allclose(found, -np.linalg.solve(dense, b), **tolerance("float64"))


def test_second_order():
    """The variable is a factor of A in s A + D, so the matrix stays symmetric, as "cg" requires."""
    dense, b = matrix(), vector()
    A, D = sparse(dense), sparse(np.diag(np.diag(dense)), dynamic=True)
    factor = lambda s: scalar(solve("cg", lambda x: s * (A @ x) + D @ x, b))  # noqa: E731
    found = jax.jit(jax.grad(jax.grad(factor)))(0.5)
    expected = jax.jit(jax.grad(jax.grad(lambda s: dense_loss(s * dense + np.diag(np.diag(dense)), b))))(0.5)
    np.testing.assert_allclose(found, expected, **tolerance("float64"))


def test_second_order_in_the_entries():
    dense, b = matrix("bicgstab"), vector()
    A, slots = sparse(dense, dynamic=True), np.count_nonzero(dense)
    weights = jnp.cos(jnp.arange(A.nse)) * (jnp.arange(A.nse) < slots)
    along = lambda v: weights @ jax.grad(lambda v: loss("bicgstab")(A.with_values(v), b))(v)  # noqa: E731
    found = jax.jit(jax.grad(along))(A.values)
    of_weights = A.with_values(weights).todense()
    expected = jax.jit(jax.grad(lambda d: (of_weights * jax.grad(dense_loss)(d, b)).sum()))(jnp.asarray(dense))
    np.testing.assert_allclose(A.with_values(found).todense(), on_pattern(expected, dense), **tolerance("float64"))


def test_gradients_mapped_over_right_hand_sides():
    dense, B = matrix("bicgstab"), vector(count=(3,))
    A = sparse(dense)
    found = jax.vmap(jax.grad(loss("bicgstab")), (None, 0))(A, B)
    expected = jax.jit(jax.vmap(jax.grad(dense_loss), (None, 0)))(dense, B)
    rows, columns = np.nonzero(dense)
    np.testing.assert_allclose(found.values, expected[:, rows, columns], **tolerance("float64"))


def test_through_a_scan_that_carries_the_matrix(dynamic):
    dense, b = matrix("bicgstab"), vector()

    def rolled(A, b):
        step = lambda carry, _: ((carry[0], solve("bicgstab", *carry)), None)  # noqa: E731
        return scalar(jax.lax.scan(step, (A, b), length=2)[0][1])

    dA, db = jax.jit(grad(dynamic)(rolled, (0, 1)))(sparse(dense, dynamic), b)
    twice = lambda d, b: scalar(jnp.linalg.solve(d, jnp.linalg.solve(d, b)))  # noqa: E731
    expected_dA, expected_db = jax.jit(jax.grad(twice, (0, 1)))(dense, b)
    np.testing.assert_allclose(dA.todense(), on_pattern(expected_dA, dense), **tolerance("float64"))
    np.testing.assert_allclose(db, expected_db, **tolerance("float64"))


def test_a_custom_linear_solve(dynamic):
    """Richardson's iteration uses the transposed matrix in the backward pass."""
    dense, b = matrix("bicgstab"), vector()

    def solved(A, b):
        iterate = lambda M: lambda _, b: jax.lax.fori_loop(0, 200, lambda _, x: x + (b - M @ x) / 9, 0 * b)  # noqa: E731
        return jax.lax.custom_linear_solve(lambda x: A @ x, b, iterate(A), iterate(A.T))

    A = sparse(dense, dynamic)
    np.testing.assert_allclose(solved(A, b), np.linalg.solve(dense, b), **tolerance("float64"))
    dA, db = jax.jit(grad(dynamic)(lambda A, b: scalar(solved(A, b)), (0, 1)))(A, b)
    expected_dA, expected_db = jax.jit(jax.grad(dense_loss, (0, 1)))(dense, b)
    np.testing.assert_allclose(dA.todense(), on_pattern(expected_dA, dense), **tolerance("float64"))
    np.testing.assert_allclose(db, expected_db, **tolerance("float64"))


def test_transposed_products(dynamic):
    dense = matrix("bicgstab")
    A, y = sparse(dense, dynamic), vector(seed=2)
    (found,) = jax.linear_transpose(lambda x: A @ x, y)(y)
    np.testing.assert_allclose(found, dense.T @ y, rtol=1e-12)
    (found,) = jax.linear_transpose(lambda x: x @ A, y)(y)
    np.testing.assert_allclose(found, dense @ y, rtol=1e-12)
    (found,) = jax.linear_transpose(lambda v: A.with_values(v) @ y, A.values)(y)
    expected = on_pattern(np.outer(y, y), dense)
    np.testing.assert_allclose(A.with_values(found).todense(), expected, rtol=1e-12)
