"""Jacobians and Hessians with respect to static and dynamic tensors, and of results that are tensors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

DENSE = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, -1]], np.float32)
AT = np.nonzero(DENSE)
X = jnp.arange(1.0, 5)


@pytest.fixture(params=["static", "dynamic", "with_transpose"])
def A(request):
    tensor = jsparse.asarray(DENSE, format="csr")
    return {"static": tensor, "dynamic": tensor.dynamic(), "with_transpose": tensor.dynamic().with_transpose()}[
        request.param
    ]


def whole(values):
    return jnp.zeros(DENSE.shape).at[AT].set(values)


def loss(A):
    return jnp.sin(A @ X).sum() + (A.values**3).sum()


def dense_loss(values):
    return jnp.sin(whole(values) @ X).sum() + (values**3).sum()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_of_arrays_in_values(A, jacobian):
    found = jacobian(lambda v: A.with_values(v) @ X)(A.values)
    np.testing.assert_array_equal(found, jacobian(lambda v: whole(v) @ X)(A.values))
    hessian = jax.hessian(lambda v: loss(A.with_values(v)))(A.values)
    np.testing.assert_allclose(hessian, jax.hessian(dense_loss)(A.values), rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_of_values_of_results(A, jacobian):
    B = jsparse.asarray(DENSE[:, ::-1].copy(), format="csr")
    B = B.dynamic() if A.is_dynamic else B
    for f, dense in [
        (lambda A: A * X, lambda a: a * X),
        (lambda A: A + B, lambda a: a + DENSE[:, ::-1]),
        (lambda A: jsparse.einsum("ij,kj->ik", A, B, nse=9), lambda a: a @ DENSE[:, ::-1].T),
    ]:
        coords, _ = f(A).to_coords()
        at_entries = lambda a, dense=dense, coords=coords: dense(whole(a))[tuple(coords)]  # noqa: E731
        found = jacobian(lambda v, f=f: f(A.with_values(v)).values)(A.values)
        expected = jacobian(at_entries)(A.values)
        np.testing.assert_array_equal(found[: len(expected)], expected)
        assert not found[len(expected) :].any()


def test_in_a_static_tensor_itself():
    """The derivative is a tree like the argument, with one array of the result's shape for each of its values."""
    A = jsparse.asarray(DENSE, format="csr")
    expected = jax.jit(jax.jacrev(lambda v: whole(v) @ X))(A.values)
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jacobian(lambda A: A @ X)(A)
        assert found.pattern is A.pattern
        np.testing.assert_array_equal(found.values, expected)
    hessian = jax.jit(jax.hessian(loss))(A)
    np.testing.assert_allclose(hessian.values.values, jax.hessian(dense_loss)(A.values), rtol=1e-5, atol=1e-6)
    found = jax.jacrev(lambda A: A * 2)(A)
    np.testing.assert_array_equal(found.values.values, 2 * np.eye(A.nse))


def test_jacobians_of_a_dynamic_result_are_refused_by_name():
    """The index arrays are part of the result and integers; only its values have a Jacobian."""
    A = jsparse.asarray(DENSE, format="csr", dynamic=True)
    with pytest.raises(TypeError, match="jacrev requires real-valued outputs .* got int32"):
        jax.jacrev(lambda x: A * x)(X)
    for jacobian, name in ((jax.jacrev, "jacrev"), (jax.jacfwd, "jacfwd"), (jax.hessian, "jacfwd")):
        with pytest.raises(TypeError, match=f"{name} requires real.* inputs .* got int32"):
            jacobian(lambda A: A @ X)(A)
    expected = jax.jit(jax.jacrev(lambda x: (DENSE * x)[AT]))(X)
    np.testing.assert_array_equal(jax.jacrev(lambda x: (A * x).values)(X), expected)
    np.testing.assert_array_equal(jax.jacfwd(lambda x: A * x)(X).values, expected)


def test_pushed_forward_and_pulled_back_as_a_tree(A):
    """Index arrays have tangents and cotangents of dtype float0."""
    nothing = lambda x: np.zeros(x.shape, jax.dtypes.float0)  # noqa: E731
    tangent = jax.tree.map(lambda x: jnp.ones_like(x) if x.dtype == np.float32 else nothing(x), A)
    out, change = jax.jvp(lambda A: A * X, (A,), (tangent,))
    np.testing.assert_array_equal(out.todense(), DENSE * X)
    np.testing.assert_array_equal(change.values[: len(AT[0])], X[AT[1]])
    _, push = jax.linearize(lambda A: A @ X, A)
    np.testing.assert_array_equal(
        push(tangent), jax.jvp(lambda v: whole(v) @ X, (A.values,), (jnp.ones_like(A.values),))[1]
    )
    _, pull = jax.vjp(lambda A: A @ X, A)
    (back,) = pull(jnp.ones(3))
    np.testing.assert_array_equal(back.values, X[AT[1]])
    assert all(x.dtype in (np.float32, jax.dtypes.float0) for x in jax.tree.leaves(back))
    allowed = jax.grad(lambda A: (A @ X).sum(), allow_int=True)(A)
    np.testing.assert_array_equal(allowed.values, X[AT[1]])


def test_gradients_of_gradients_and_batches_of_them(A):
    gradient = jsparse.grad(loss)
    direction = jnp.arange(1.0, 1 + A.nse)
    along = jsparse.grad(lambda A: (gradient(A).values * direction).sum())(A)
    expected = jax.jit(jax.grad(lambda v: (jax.grad(dense_loss)(v) * direction).sum()))(A.values)
    np.testing.assert_allclose(along.values, expected, rtol=1e-5, atol=1e-6)
    values = jnp.stack([A.values, 2 * A.values, -A.values])
    found = jax.jit(jax.vmap(lambda v: gradient(A.with_values(v)).values))(values)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(dense_loss))(values), rtol=1e-5, atol=1e-6)
    whole_batch = jsparse.grad(lambda B: jax.vmap(loss)(B).sum())
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), A)
    np.testing.assert_allclose(whole_batch(stacked).values, jnp.stack([gradient(A).values] * 2), rtol=1e-6)
    assert isinstance(whole_batch(stacked), SparseTensor)
