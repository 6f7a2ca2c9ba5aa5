"""Jacobians and Hessians with respect to static and dynamic tensors, and of results that are tensors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

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


def test_what_has_no_jacobian_is_refused_by_name():
    """The index arrays of a dynamic tensor are integers."""
    A = jsparse.asarray(DENSE, format="csr", dynamic=True)
    for jacobian in (jax.jacrev, jax.hessian):
        with pytest.raises(TypeError, match="jacrev requires real-valued outputs .* got int32"):
            jacobian(lambda x: A * x)(X)
    for jacobian, name in ((jax.jacrev, "jacrev"), (jax.jacfwd, "jacfwd"), (jax.hessian, "jacfwd")):
        with pytest.raises(TypeError, match=f"{name} requires real.* inputs .* got int32"):
            jacobian(lambda A: A @ X)(A)
    expected = jax.jit(jax.jacrev(lambda x: (DENSE * x)[AT]))(X)
    np.testing.assert_array_equal(jax.jacrev(lambda x: (A * x).values)(X), expected)


FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (j : dense, i : compressed(nonunique))"]
SCALED = {
    "scaled": (lambda A, s: s * s * A, lambda D, s: s * s * D),
    "linear": (lambda A, s: A * s, lambda D, s: D * s),
    "constant": (lambda A, s: A, lambda D, s: D + 0 * s),
    "new pattern": (lambda A, s: jsparse.einsum("ij,kj->ik", s * A, A, nse=9), lambda D, s: s * D @ D.T),
    "union": (lambda A, s: A + s * A[::-1], lambda D, s: D + s * D[::-1]),
    "jit": (jax.jit(lambda A, s: s * s * A), lambda D, s: s * s * D),
    "scan": (lambda A, s: jax.lax.scan(lambda A, _: (s * A, None), A, length=3)[0], lambda D, s: s**3 * D),
    "custom": (lambda A, s: ruled(s * A, s), lambda D, s: s * s * D),
}


@jax.custom_jvp
def ruled(A, s):
    return s * A


@ruled.defjvp
def _(primals, tangents):
    (A, s), (dA, ds) = primals, tangents
    return s * A, dA.with_values(s * dA.values + ds * A.values)


def dense_of(J, axes):
    """The Jacobian as one array: the axes of a result, then the axes of its argument."""
    whole = lambda J: J.todense()  # noqa: E731
    for _ in range(axes):
        whole = jax.vmap(whole, -1, -1)
    return whole(J)


@pytest.mark.parametrize("name", SCALED)
def test_jacfwd_of_a_dynamic_result_is_a_tensor_with_its_entries(name):
    of_tensor, of_dense = SCALED[name]
    A = jsparse.asarray(DENSE, format="csr", dynamic=True)
    J = jax.jacfwd(lambda s: of_tensor(A, s))(3.0)
    expected = jax.jacfwd(lambda s: of_dense(jnp.asarray(DENSE), s))(3.0)
    np.testing.assert_array_equal(J.todense(), expected)
    J.pattern.validate()
    second = jax.jit(lambda A, s: jax.jacfwd(jax.jacfwd(lambda s: of_tensor(A, s)))(s).todense())(A, 3.0)
    expected = jax.jit(jax.jacfwd(jax.jacfwd(lambda s: of_dense(jnp.asarray(DENSE), s))))(3.0)
    np.testing.assert_array_equal(second, expected)


@pytest.mark.parametrize("wrapper", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_operations_on_jacobians(A, wrapper):
    """Also with transposed indices."""
    J = wrapper(lambda A, s: jax.jacfwd(lambda s: s * s * A)(s))(A, 3.0)
    np.testing.assert_array_equal(J @ X, 6 * DENSE @ X)
    np.testing.assert_array_equal(J.T @ jnp.arange(3.0), 6 * DENSE.T @ np.arange(3.0))
    np.testing.assert_array_equal(J.sum(1), 6 * DENSE.sum(1))
    np.testing.assert_array_equal((J + A).todense(), 7 * DENSE)
    assert jax.tree.structure(J) == jax.tree.structure(A)


@pytest.mark.parametrize("format", FORMATS)
def test_jacfwd_in_vectors_and_trees_repeats_the_index_arrays(format):
    A = jsparse.asarray(DENSE, format=format, dynamic=True)
    J = jax.jacfwd(lambda x: A * x)(X)
    np.testing.assert_array_equal(dense_of(J, 1), jax.jacfwd(lambda x: DENSE * x)(X))
    assert all(leaf.shape[-1] == len(X) for leaf in jax.tree.leaves(J))
    table = jnp.ones((2, 4))
    J = jax.jit(jax.jacfwd(lambda t: A * t.sum(0) ** 2))(table)
    np.testing.assert_array_equal(dense_of(J, 2), jax.jacfwd(lambda t: DENSE * t.sum(0) ** 2)(table))
    tree = {"s": jnp.float32(2), "x": X}
    found = jax.jacfwd(lambda tree: [A * tree["x"], tree["s"] * A])(tree)
    found = jax.tree.transpose(jax.tree.structure([A, A]), jax.tree.structure(tree), found)
    expected = jax.jacfwd(lambda tree: [DENSE * tree["x"], tree["s"] * DENSE])(tree)
    for n in range(2):
        np.testing.assert_array_equal(found["s"][n].todense(), expected[n]["s"])
        np.testing.assert_array_equal(dense_of(found["x"][n], 1), expected[n]["x"])
    batch = jax.vmap(jax.jacfwd(lambda s: s * s * A))(X)
    np.testing.assert_array_equal(jax.vmap(lambda J: J.todense())(batch), 2 * X[:, None, None] * DENSE)


def test_jacrev_in_a_dynamic_tensor_has_its_entries():
    """With `allow_int=True`, `jax.jacrev` differentiates tensors with index arrays."""
    A = jsparse.asarray(DENSE, format="csr", dynamic=True)
    J = jax.jacrev(lambda A: A @ X, allow_int=True)(A)
    expected = np.where(DENSE != 0, jax.jacrev(lambda D: D @ X)(jnp.asarray(DENSE)), 0)
    np.testing.assert_array_equal(jax.vmap(lambda J: J.todense())(J), expected)
    J = jax.jacrev(lambda A: (A @ X).sum(), allow_int=True)(A)
    np.testing.assert_array_equal(J.todense(), np.where(DENSE != 0, X, 0))


def test_a_jacobian_without_known_primal_is_refused():
    """A release of JAX may name its variables otherwise."""
    A = jsparse.asarray(DENSE, format="csr", dynamic=True)
    tangent = jax.tree.leaves(jax.jvp(lambda s: s * A, (3.0,), (1.0,))[1])[1]
    assert np.reshape(tangent, (4, 1)).shape == (4, 1)
    names = {"__name__": "jax._src.api", "np": np}
    exec("def unravelled(x): return np.reshape(x, (4, 1))", names)
    with pytest.raises(jsparse.LeafError, match=r"f\(x\)\.values"):
        names["unravelled"](tangent)


TANGENTS = {
    "jvp": lambda f, s: jax.jvp(f, (s,), (1.0,))[1],
    "linearize": lambda f, s: jax.linearize(f, s)[1](1.0),
    "jvp in jit": lambda f, s: jax.jit(lambda s: jax.jvp(f, (s,), (1.0,))[1])(s),
    "member of a batch": lambda f, s: jax.tree.map(
        lambda leaf: leaf[1], jax.vmap(lambda t: jax.jvp(f, (s,), (t,))[1])(jnp.array([0.0, 1.0]))
    ),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_tangents_of_dynamic_results_have_values_only(name):
    A = jsparse.asarray(DENSE, format="csr", dynamic=True)
    tangent = TANGENTS[name](lambda s: s * s * A, 3.0)
    np.testing.assert_array_equal(A.with_values(tangent.values).todense(), 6 * DENSE)
    np.testing.assert_array_equal(jax.jvp(lambda A: A @ X, (A,), (tangent,))[1], 6 * DENSE @ X)


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
