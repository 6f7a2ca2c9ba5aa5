"""Functions of jax.numpy give the values that they give for dense arrays, and stay sparse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify.operands import DENSE, W, check, tensor, x, y

import jsparse

ELEMENTWISE = {
    "keeps zero": (lambda A: (jnp.sin(A), -A, A**2, jnp.abs(A) ** 0.5, A.astype(jnp.int32)), "sssss"),
    "gelu": (jax.nn.gelu, "s"),  # tanh(…) + 1 is 1 in the background, and its product with A is 0
    "exp of entries": (lambda A: jnp.where(A != 0, jnp.exp(A), 0), "s"),
    "reciprocal of entries": (lambda A: jnp.where(A == 0, 0, 1 / A), "s"),
    "shifted twice": (lambda A: (A + 1) - 1.0, "s"),
    "centred entries": (lambda A: jnp.where(A != 0, A - A.mean(0), 0), "s"),
    "scaled": (lambda A: A * x + A / y[:, None] * jnp.ones((6, 1)), "s"),
    "of two patterns": (lambda A: (A + A[::-1], A * A[::-1], jnp.maximum(A, A[::-1]), A - 2 * A), "ssss"),
    "with dense": (lambda A: (A + DENSE, DENSE - A, A * DENSE), "dds"),
    "logical": (lambda A: ((A > 0) & (A[::-1] > 0), (A > 0) | (A[::-1] > 0)), "ss"),
    "rows and columns": (lambda A: A[:, :1] * A + A[:1] * A, "s"),
    "one element": (lambda A: A[2:3, :1] * A, "s"),
    "complex": (lambda A: jnp.conj(A * (1 + 1j)), "s"),
    "dropout": (lambda A: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.5, A.shape), 2 * A, 0), "s"),
    "mask of a product": (lambda A: jnp.outer(y, x) * (A != 0), "s"),
}
PRODUCTS = {
    "matrix": (lambda A: (A @ W, A @ x, y @ A, jnp.dot(A, x)), "dddd"),
    "of two": (lambda A: (A.T @ A, A @ A.T), "ss"),
    "einsum": (lambda A: jnp.einsum("ij,ik,k->jk", A, A, x), "s"),
    "batched": (lambda A: jnp.matmul(A, jnp.ones((2, 5, 3))), "d"),
    "repeated": (lambda A: jnp.matmul(jnp.broadcast_to(A, (2, 6, 5)), jnp.ones((2, 5, 3))), "d"),
    "diagonal": (lambda A: (jnp.trace(A @ A.T), jnp.einsum("ii->i", A @ A.T)), "dd"),
    "integers": (lambda A: A.astype(jnp.int32) @ jnp.ones(5, jnp.int32), "d"),
    "narrow": (
        lambda A: jax.lax.dot(A.astype(jnp.bfloat16), W.astype(jnp.bfloat16), preferred_element_type="float32"),
        "d",
    ),
    "vmap inside": (lambda A: jax.vmap(lambda v: A @ v, 1, 1)(W), "d"),
    "rows inside vmap": (lambda A: jax.vmap(lambda row: jax.nn.relu(row) @ x)(A), "d"),
    "grad inside": (lambda A: jax.grad(lambda v: (A @ v) @ y)(x), "d"),
}
CASES = {**ELEMENTWISE, **PRODUCTS}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_values_and_kinds(name):
    function, kinds = CASES[name]
    check(function, tensor("csr"), kinds)


@pytest.mark.parametrize("name", ["gelu", "of two patterns", "matrix", "mask of a product"])
def test_dynamic_patterns(name):
    function, kinds = CASES[name]
    check(function, tensor("csc", is_dynamic=True), kinds, jit=True)


def test_inside_jit_known_numbers_stay_known():
    check(lambda A: (jnp.clip(A, -1, 1), A[jnp.array([0, 3])], jnp.where(jnp.float32(1) < A, A, 0)), tensor(), jit=True)


def test_capacity_of_dynamic_products():
    check(lambda A: A @ A.T, tensor(is_dynamic=True), "s", nse=40)


def test_background_of_other_patterns():
    """Where only one of two tensors stores an entry, the other has its background."""
    check(lambda A: ((A + 1) * (A[::-1] + 2)) - 2, tensor(), "s")
    check(lambda A: jnp.where(A > 0, A[::-1], A), tensor(), "s")


def test_vmap_outside():
    A, V = tensor(), jnp.stack([x, 2 * x])
    layer = jsparse.sparsify(lambda A, v: jax.nn.relu(A @ v))
    expected = jax.nn.relu(V @ DENSE.T)
    np.testing.assert_array_equal(jax.vmap(layer, (None, 0))(A, V), expected)
    values = jnp.stack([A.values, 2 * A.values])
    np.testing.assert_array_equal(jax.vmap(lambda v: layer(A.with_values(v), x))(values), expected)


def test_pytrees_and_other_arguments():
    @jsparse.sparsify
    def function(tree, power, *, name):
        return {"out": tree["A"] @ tree["x"] ** power, "none": None, "kept": (tree["A"], name == "relu")}

    found = function({"A": tensor(), "x": x}, 2, name="relu")
    np.testing.assert_array_equal(found["out"], DENSE @ x**2)
    assert found["none"] is None
    assert isinstance(found["kept"][0], jsparse.SparseTensor)
    assert bool(found["kept"][1])


def test_without_sparse_arguments_the_function_is_called():
    assert jsparse.sparsify(lambda a: (a, "text"))(3) == (3, "text")


def test_scipy_and_bcoo_arguments():
    A = tensor()
    for other in (A.to_scipy(), A.to_bcoo()):
        np.testing.assert_array_equal(jsparse.sparsify(lambda A: A @ x)(other), DENSE @ x)


def test_long_dimensions():
    """Nothing is made of the size of a dimension."""
    n = 10**9
    A = jsparse.SparseTensor.from_coords([[5, n - 1, 7], [7, 3, 7]], np.ones(3, np.float32), (n, n), "coo")

    def function(A):
        return jax.nn.gelu(A) + A.T, jnp.where(A > 0, 2 * A, 0)[5:100], A.sum(), jnp.trace(A), (A * A.T).sum()

    both, rows, total, trace, common = jsparse.sparsify(function)(A)
    assert (both.nse, rows.nse) == (5, 2)
    assert (float(total), float(trace), float(common)) == (3, 1, 1)


def test_empty_tensors():
    A = jsparse.zeros((3, 0), "float32", "csr")
    found = jsparse.sparsify(lambda A: (jax.nn.relu(A) @ jnp.ones((0, 2)), A.sum(1)))(A)
    np.testing.assert_array_equal(found[0], np.zeros((3, 2)))
    np.testing.assert_array_equal(found[1], np.zeros(3))
