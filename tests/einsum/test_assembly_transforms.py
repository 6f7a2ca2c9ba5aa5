"""Results on patterns of their own under JAX's transformations, against the same functions of dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.structure import dense_array, integers, stored_in
from programs.amount import sample

import jsparse
from jsparse import SparseTensor


def dense_of(A, values):
    """The dense array of `values` on the pattern of A, differentiable."""
    return jnp.zeros(A.shape, values.dtype).at[tuple(A.to_coords()[0])].set(values)


# the function by jsparse, the same function of dense arrays, the ranks of its operands, and their formats
FUNCTIONS = {
    "product": (lambda A, B: A @ B, lambda a, b: a @ b, (2, 2), ("csr", "coo")),
    "product in csc": (
        lambda A, B: jsparse.einsum("ij,jk->ik", A, B, out_format="csc"),
        lambda a, b: a @ b,
        (2, 2),
        ("csr", "csr"),
    ),
    "square": (lambda A: A @ A.T, lambda a: a @ a.T, (2,), ("dcsr",)),
    "chain": (lambda A, B, C: jsparse.einsum("ij,jk,kl->il", A, B, C), lambda a, b, c: a @ b @ c, (2, 2, 2),
              ("csr", "csc", "csr")),
    "elementwise": (lambda A, B: A * B, lambda a, b: a * b, (2, 2), ("csr", "csc")),
    "with itself turned": (lambda A: A * A.T, lambda a: a * a.T, (2,), ("csr",)),
    "diagonal": (lambda A: jsparse.einsum("ii->i", A), jnp.diagonal, (2,), ("csr",)),
    "diagonal of three": (lambda A: jsparse.einsum("iji->ij", A), lambda a: jnp.einsum("iji->ij", a), (3,), ("csf",)),
    "fibers": (lambda A, v: jsparse.einsum("ijk,k->ij", A, v), lambda a, v: a @ v, (3, 1), ("csf", None)),
    "fibers of sparse": (lambda A, v: jsparse.einsum("ijk,k->ij", A, v), lambda a, v: a @ v, (3, 1), ("coo", "coo")),
    "outer": (lambda u, v: jsparse.einsum("i,j->ij", u, v), jnp.outer, (1, 1), ("coo", "csf")),
    "sum": (lambda A, B: A + B, lambda a, b: a + b, (2, 2), ("csr", "csc")),
    "difference": (lambda A, B: A - 2 * B.T, lambda a, b: a - 2 * b.T, (2, 2), ("dcsc", "csr")),
    "sum with dense": (lambda A, x: (A + x) * A, lambda a, x: (a + x) * a, (2, 2), ("csr", None)),
    "broadcast": (lambda A, v: A * v, lambda a, v: a * v, (2, 1), ("csr", "coo")),
    "quotient": (lambda A, v: A / (v + 5), lambda a, v: a / (v + 5), (2, 1), ("csr", None)),
    "statement": (
        lambda A, B: jsparse.evaluate("C[i,j] = (A[i,k] + B[i,k]) * B[k,j] - A[j,i] / 2", A=A, B=B),
        lambda a, b: (a + b) @ b - a.T / 2,
        (2, 2),
        ("csr", "coo"),
    ),
    "three terms": (
        lambda A, B, C: jsparse.evaluate("D[i,j] = A[i,j] - 3 * B[i,j] + C[i,k] * A[k,j]", A=A, B=B, C=C),
        lambda a, b, c: a - 3 * b + c @ a,
        (2, 2, 2),
        ("csr", "coo", "dcsc"),
    ),
    "dense statement": (
        lambda A, x: jsparse.evaluate("y[i] = x[i] - 2 * A[i,j] * A[j,k] * x[k]", A=A, x=x),
        lambda a, x: x - 2 * a @ (a @ x),
        (2, 1),
        ("csc", None),
    ),
}  # fmt: skip


@pytest.fixture(params=sample(list(FUNCTIONS), 0, 3))
def pair(request):
    """(f, g, leaves): f by jsparse and g on dense arrays. Both map stored values and dense operands to arrays."""
    by_jsparse, by_numpy, orders, formats = FUNCTIONS[request.param]
    rng = np.random.default_rng(len(request.param))
    arrays = [integers(rng, (4,) * order, 0.5 if format else 1) for order, format in zip(orders, formats, strict=True)]
    operands = [x if f is None else stored_in(x, f, zeros=1) for x, f in zip(arrays, formats, strict=True)]
    leaves = [x.values if isinstance(x, SparseTensor) else jax.device_put(x) for x in operands]
    result = by_jsparse(*operands)
    where = tuple(result.to_coords()[0]) if isinstance(result, SparseTensor) else ...

    def f(*leaves):
        given = [x.with_values(v) if isinstance(x, SparseTensor) else v for x, v in zip(operands, leaves, strict=True)]
        out = by_jsparse(*given)
        return out.values if isinstance(out, SparseTensor) else out

    @jax.jit
    def g(*leaves):
        given = [dense_of(x, v) if isinstance(x, SparseTensor) else v for x, v in zip(operands, leaves, strict=True)]
        return by_numpy(*given)[where]

    return f, g, leaves


def close(found, expected):
    """Check that trees are equal. All numbers but quotients are small integers or halves of them."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), found, expected)


def test_derivatives(pair):
    f, g, leaves = pair
    every = tuple(range(len(leaves)))
    weights = jax.device_put(np.random.default_rng(0).integers(-3, 4, f(*leaves).shape).astype(np.float32))
    loss = lambda h: lambda *leaves: (weights * h(*leaves) ** 2).sum()  # noqa: E731
    close(*(jax.jit(jax.grad(loss(h), every))(*leaves) for h in (f, g)))
    tangents = [
        jax.device_put(np.random.default_rng(n).integers(-3, 4, x.shape).astype(x.dtype)) for n, x in enumerate(leaves)
    ]
    close(jax.jvp(f, leaves, tangents), jax.jit(lambda *o: jax.jvp(g, list(o), tangents))(*leaves))
    close(jax.vjp(f, *leaves)[1](weights), jax.jit(lambda *o: jax.vjp(g, *o)[1](weights))(*leaves))


def test_second_derivatives(pair):
    f, g, leaves = pair
    loss = lambda h: lambda leaves: (h(*leaves) ** 2).sum()  # noqa: E731
    directions = [jax.device_put(np.ones(x.shape, x.dtype)) for x in leaves]
    forward = lambda h: jax.jvp(jax.grad(loss(h)), (leaves,), (directions,))[1]  # noqa: E731
    close(forward(f), jax.jit(lambda: forward(g))())


def test_batches(pair):
    f, g, leaves = pair
    stacked = [jax.device_put(np.stack([x, 2 * x, 0 * x])) for x in map(np.asarray, leaves)]
    close(*(jax.jit(jax.vmap(h))(*stacked) for h in (f, g)))
    axes = (0, *[None] * (len(leaves) - 1))
    gradient = lambda h: jax.vmap(jax.grad(lambda *o: h(*o).sum()), in_axes=axes)  # noqa: E731
    close(gradient(f)(stacked[0], *leaves[1:]), jax.jit(gradient(g))(stacked[0], *leaves[1:]))


def test_hessians_and_jacobians():
    A = stored_in(integers(np.random.default_rng(0), (3, 4), 0.5), "csr", zeros=1)
    B = stored_in(integers(np.random.default_rng(1), (4, 3), 0.5), "coo", zeros=0)
    f = lambda a, b: ((A.with_values(a) @ B.with_values(b)).values ** 2).sum()  # noqa: E731
    g = lambda a, b: ((dense_of(A, a) @ dense_of(B, b)) ** 2).sum()  # noqa: E731
    close(jax.hessian(f, (0, 1))(A.values, B.values), jax.jit(jax.hessian(g, (0, 1)))(A.values, B.values))


def test_gradients_are_tensors_on_the_operands_patterns():
    A = stored_in(integers(np.random.default_rng(0), (4, 4), 0.5), "csr")
    B = stored_in(integers(np.random.default_rng(1), (4, 4), 0.5), "csc")
    for f in (lambda A, B: A @ B, lambda A, B: A + B, lambda A, B: A * B):
        loss = lambda A, B, f=f: (f(A, B).values ** 2).sum()  # noqa: E731
        for grad in (jax.grad, jsparse.grad):
            dA, dB = jax.jit(grad(loss, (0, 1)))(A, B)
            assert dA.pattern is A.pattern
            assert dB.pattern is B.pattern


def test_results_leave_and_enter_programs():
    """A pattern found while tracing can be used like any other."""
    A = stored_in(integers(np.random.default_rng(0), (5, 5), 0.4), "csr")
    step = jax.jit(lambda A, B: {"product": A @ B, "sum": A + B})
    found = step(A, A.T)
    again = step(found["product"], found["sum"])
    a = dense_array(A)
    np.testing.assert_array_equal(dense_array(again["product"]), a @ a.T @ (a + a.T))
    np.testing.assert_array_equal(dense_array(again["sum"]), a @ a.T + a + a.T)
    assert (A @ A.T).pattern is found["product"].pattern
    shapes = jax.eval_shape(lambda A: A @ A, A)
    assert shapes.pattern is (A @ A).pattern
    carried, _ = jax.lax.scan(lambda B, _: ((A * B) + 0 * A, None), A, length=2)
    np.testing.assert_array_equal(dense_array(carried), a**3)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_batches_of_differences_wrap(dtype, dynamic):
    A, B = (jsparse.asarray(np.array(x, dtype), format="csr") for x in ([[0, 3], [1, 0]], [[2, 0], [2, 0]]))
    A, B = (x.dynamic(4) if dynamic else x for x in (A, B))
    values = jnp.stack([A.values, A.values + 1])

    def subtracted(v):
        return jsparse.evaluate("C[i,j] = A[i,j] - 2 * B[i,j]", A=A.with_values(v), B=B, nse=4).todense()

    wanted = np.stack([np.asarray(A.with_values(v).todense()) - 2 * np.asarray(B.todense()) for v in values])
    np.testing.assert_array_equal(jax.vmap(subtracted)(values), wanted.astype(dtype))
