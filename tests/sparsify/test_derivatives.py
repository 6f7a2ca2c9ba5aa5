"""Derivatives of sparsified functions, with the functions' own rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify.operands import DENSE, W, tensor, x

import jsparse


@jax.custom_jvp
def with_push(A):
    return jnp.sin(A)


@with_push.defjvp
def _(primals, tangents):
    return with_push(*primals), 3 * tangents[0] * primals[0]  # not the derivative: only the rule gives it


@jax.custom_vjp
def with_pull(A, v):
    return jnp.sin(A) @ v


with_pull.defvjp(lambda A, v: (with_pull(A, v), (A, v)), lambda kept, g: (jnp.outer(g, kept[1]) * 2, kept[0].T @ g))


@jax.custom_vjp
def pulled_entries(A):
    return A * 2


pulled_entries.defvjp(lambda A: (pulled_entries(A), None), lambda _, g: (5 * g,))


@jax.custom_vjp
def pulled_sum(A):
    return (A * A).sum()


pulled_sum.defvjp(lambda A: (pulled_sum(A), A.shape), lambda shape, g: (jnp.broadcast_to(g, shape),))

CASES = {
    "relu": lambda A: (jax.nn.relu(A) ** 2).sum() + jax.nn.relu(A).sum(),
    "gelu": lambda A: (jax.nn.gelu(A) @ W).sum(),
    "product": lambda A: ((A @ A.T) ** 2).sum(),
    "softmax": lambda A: (jax.nn.softmax(A, axis=1, where=A != 0) ** 2).sum(),
    "sampled product": lambda A: (jnp.outer(A @ x, x) * A).sum(),
    "custom_jvp": lambda A: (with_push(A) ** 2).sum(),
    "custom_vjp": lambda A: (with_pull(A, x) ** 2).sum(),
    "custom_vjp of entries": lambda A: (pulled_entries(A) ** 2).sum(),
    "custom_vjp of a sum": pulled_sum,
    "norm": jnp.linalg.norm,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    expected = jnp.where(DENSE != 0, jax.grad(CASES[name])(DENSE), 0)
    found = jax.grad(jsparse.sparsify(CASES[name]))(tensor())
    assert found.pattern is tensor().pattern
    np.testing.assert_allclose(found.todense(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["relu", "softmax", "custom_jvp", "custom_vjp", "custom_vjp of entries"])
def test_gradients_on_dynamic_patterns(name):
    expected = jnp.where(DENSE != 0, jax.grad(CASES[name])(DENSE), 0)
    found = jax.jit(jsparse.grad(jsparse.sparsify(CASES[name])))(tensor("csc", is_dynamic=True))
    np.testing.assert_allclose(found.todense(), expected, rtol=1e-4, atol=1e-4)


def test_cotangents_in_padding_are_0():
    A = tensor(is_dynamic=True)
    found = jax.grad(lambda v: jsparse.sparsify(pulled_sum)(jsparse.SparseTensor(v, A.pattern)))(A.values)
    np.testing.assert_array_equal(found, np.arange(A.nse) < int(A.nnz))
    assert int(A.nnz) < A.nse


@pytest.mark.parametrize("name", ["relu", "custom_jvp"])
def test_forward_and_second_derivatives(name):
    A, function = tensor(), jsparse.sparsify(CASES[name])
    moved = A.with_values(jnp.arange(A.nse, dtype=jnp.float32))
    found = jax.jvp(jax.grad(function), (A,), (moved,))[1]
    expected = jax.jvp(jax.grad(CASES[name]), (DENSE,), (moved.todense(),))[1]
    np.testing.assert_allclose(found.todense(), jnp.where(DENSE != 0, expected, 0), rtol=1e-5, atol=1e-5)


def test_relu_at_a_stored_zero():
    """The derivative of jax.nn.relu at 0 is 0, as its own rule says; that of max(x, 0) would be 1/2."""
    A = jsparse.SparseTensor.from_coords([[0, 1], [1, 0]], jnp.zeros(2), (2, 2), "csr")
    np.testing.assert_array_equal(jax.grad(jsparse.sparsify(lambda A: jax.nn.relu(A).sum()))(A).values, [0, 0])
