"""Einsums in loops and branches, and under derivatives that users state, beside the same functions of dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import Case

import jsparse


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def agree(found, expected):
    """Check that trees of arrays are equal up to the rounding of sums in another order."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_scan_with_a_tensor_as_carry_and_as_inputs():
    """A carry keeps its pattern; stacked values are a batch on one pattern."""
    A = Case("ij,j->i", "csc").tensor("float64")
    x = jnp.arange(7.0)

    def f(A, x):
        def step(A, scale):
            A = A * scale
            return A, A @ x

        return jax.lax.scan(step, A, jnp.array([1.0, -2.0, 0.5]))

    last, products = jax.jit(f)(A, x)
    assert last.pattern is A.pattern
    agree(last.values, -A.values)
    agree(products, jnp.stack([s * (A.todense() @ x) for s in (1.0, -2.0, -1.0)]))
    gradient = jax.grad(lambda A: f(A, x)[1].sum())(A)
    agree(gradient.values, -2 * x[A.pattern.to_coords()[1]])

    stacked = jax.tree.map(lambda v: jnp.stack([v, 2 * v]), A)
    _, products = jax.lax.scan(lambda c, A: (c, A @ x), 0, stacked)
    agree(products, jnp.stack([A.todense() @ x, 2 * (A.todense() @ x)]))


def test_custom_derivatives_around_an_einsum():
    A = Case("ij,j->i", "csr").tensor("float64")

    @jax.custom_vjp
    def f(A, x):
        return A @ x

    f.defvjp(lambda A, x: (A @ x, (A, x)), lambda saved, ct: (saved[0] * 2.0, jsparse.einsum("ij,i->j", saved[0], ct)))
    dA, dx = jax.grad(lambda A, x: f(A, x).sum(), (0, 1))(A, jnp.ones(7))
    agree(dA.values, 2 * A.values)
    agree(dx, A.todense().sum(0))


def test_a_custom_jvp_around_an_einsum():
    A = Case("ij,j->i", "csr").tensor("float64")

    @jax.custom_jvp
    def f(A, x):
        return A @ x

    @f.defjvp
    def _(primals, tangents):
        (A, x), (dA, dx) = primals, tangents
        return A @ x, 3 * (A @ dx) + jsparse.einsum("ij,j->i", dA, x)

    x = jnp.arange(7.0)
    dA, dx = jax.grad(lambda A, x: f(A, x).sum(), (0, 1))(A, x)
    agree(dA.values, x[A.pattern.to_coords()[1]])
    agree(dx, 3 * A.todense().sum(0))
    D = A.todense()
    agree(jax.jvp(f, (A, x), (A * 2, x))[1], 5 * (D @ x))
    agree(jax.hessian(lambda x: (f(A, x) ** 2).sum())(x), 6 * D.T @ D)  # the rule's result is differentiated again


@pytest.mark.parametrize("dynamic", [False, True])
def test_derivatives_of_loops(dynamic):
    """A tensor is carried by a loop, multiplied with the carry, or closed over."""
    square = jnp.asarray(np.pad(Case("ij,j->i", "csr").tensor("float64").todense(), ((0, 2), (0, 0)))) / 4
    A = jsparse.asarray(square, format="csr")
    A, at = (A.dynamic() if dynamic else A), tuple(A.to_coords()[0])
    dense = lambda v: jnp.zeros((7, 7)).at[at].set(v)  # noqa: E731

    def fori(A, x):
        carried = jax.lax.fori_loop(0, 3, lambda n, c: (c[0] * 1.5, jnp.sin(c[0] @ c[1]) + n), (A, x))
        return carried[1]

    def doubling(A, x):
        return jax.lax.while_loop(lambda c: jnp.abs(c[1]).sum() < 50, lambda c: (c[0], c[1] * 2 + c[0] @ c[1]), (A, x))[
            1
        ]

    def branch(A, x):
        return jax.lax.cond(x[0] > 0, lambda A: A @ x, lambda A: (A * 3) @ x, A)

    def chosen(A, x):
        return jax.lax.switch(2, [lambda A: A @ x, lambda A: A @ (2 * x), lambda A: A.T @ x], A)

    x = jnp.arange(1.0, 8)
    for f in (fori, branch, chosen):
        loss = lambda v, x, f=f, on=A.with_values: (f(on(v), x) ** 2).sum()  # noqa: E731
        reference = lambda v, x, f=f: (f(dense(v), x) ** 2).sum()  # noqa: E731
        agree(*(jax.jit(jax.grad(g, (0, 1)))(A.values, x) for g in (loss, reference)))
        agree(*(jax.jit(jax.vmap(jax.grad(g), (None, 0)))(A.values, jnp.stack([x, -x])) for g in (loss, reference)))
    for f in (fori, doubling, branch, chosen):
        push = lambda on, f=f: jax.jit(lambda v: jax.jvp(lambda v: f(on(v), x), (v,), (v,)))  # noqa: E731
        agree(push(A.with_values)(A.values), push(dense)(A.values))
