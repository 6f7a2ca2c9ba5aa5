"""Loops, branches and calls of sparse tensors, in values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify.operands import DENSE, check, tensor, x, y

import jsparse


def constant_of_scan(A):
    return jax.lax.scan(lambda c, s: (s * (A @ (A.T @ c)), c.sum()), y, jnp.arange(3.0))


def carry_of_scan(A):
    return jax.lax.fori_loop(0, 3, lambda n, B: jnp.where(B > 0, B * A, B) / 2, A)


def loop(A):
    return jax.lax.while_loop(
        lambda c: (jnp.abs(c[0]).sum() < 300) & (c[1] < 9), lambda c: (c[0] * 2, c[1] + 1), (A, 0)
    )


def branch(A):
    return jax.lax.cond(x.sum() > 0, lambda A, v: (2 * A, A @ v), lambda A, v: (A, A @ v + 1), A, x)


def several_branches(A):
    return jax.lax.switch(A.sum().astype(int) % 3, [lambda A: A, jnp.sin, lambda A: A * x], A)


def checkpointed(A):
    return jax.checkpoint(lambda A, t: jnp.clip(jnp.sin(A), -t, t) @ x)(A, 0.5)


def jitted(A):
    return jax.jit(lambda A, v: jnp.dot(A, v))(A, x)


def solved(A):
    return jax.scipy.sparse.linalg.cg(lambda v: A.T @ (A @ v) + 9 * v, x, maxiter=30)[0]


CASES = [solved, constant_of_scan, carry_of_scan, branch, several_branches, checkpointed, jitted]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [*CASES, loop])
def test_values(function):
    check(function, tensor())


@pytest.mark.parametrize("function", [constant_of_scan, carry_of_scan, loop])
def test_values_on_dynamic_patterns(function):
    check(function, tensor("csc", is_dynamic=True), jit=True)


def squares(function):
    return lambda A: sum((leaf**2).sum() for leaf in jax.tree.leaves(function(A)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "is_dynamic"), [*((case, False) for case in CASES), (carry_of_scan, True), (branch, True)]
)
def test_gradients(function, is_dynamic):
    gradient = jax.jit(jsparse.grad(jsparse.sparsify(squares(function))))(tensor("coo", is_dynamic))
    expected = jnp.where(DENSE != 0, jax.grad(squares(function))(DENSE), 0)
    np.testing.assert_allclose(gradient.todense(), expected, rtol=1e-5, atol=1e-4)


def test_deferred_arrays_of_a_loop_are_not_used_outside():
    def function(A):
        outer = jnp.outer(y, x) * jnp.ones((6, 5))
        inside = jax.lax.fori_loop(0, 2, lambda n, c: c + (A * outer).sum(), 0.0)
        return inside, A * outer

    check(function, tensor(), "ds")
