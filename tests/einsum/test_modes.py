"""JAX's execution and debugging modes, numbers of compilations, and concurrent threads."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

DENSE = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, -1]], np.float32)
X = jnp.arange(1.0, 5)


@pytest.fixture(params=["static", "dynamic"])
def A(request):
    return jsparse.asarray(DENSE, format="csr", dynamic=request.param == "dynamic", nse=8)


def operations(A):
    """Dense and sparse results on one pattern and on several, and a gradient."""
    B = jsparse.asarray(DENSE.T.copy(), format="csr")
    return {
        "product": A @ X,
        "sum": (A + A * X).todense(),
        "sparse product": jsparse.einsum("ij,jk->ik", A, B, nse=9).todense(),
        "gradient": jsparse.grad(lambda A: ((A @ X) ** 2).sum())(A).values,
        "batch": jax.vmap(lambda x: A @ x)(jnp.stack([X, -X])),
        "loop": jax.lax.fori_loop(0, 3, lambda n, A: A * 2, A).todense(),
    }


def agree(found, expected):
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


def test_without_jit(A):
    expected = jax.jit(operations)(A)
    np.testing.assert_array_equal(expected["product"], DENSE @ X)
    agree(operations(A), expected)
    with jax.disable_jit():
        agree(operations(A), expected)
        agree(jax.jit(operations)(A), expected)


def test_debug_nans(A):
    """A NaN in a result is an error; a NaN in an operand that meets no stored entry is not."""
    thin = jsparse.asarray(DENSE[1:2], format="csr", dynamic=A.is_dynamic, nse=4)
    bad = X.at[0].set(jnp.nan)
    with jax.debug_nans(True):
        np.testing.assert_array_equal(jax.jit(lambda A, x: A @ x)(A, X), DENSE @ X)
        for f in (lambda A, x: A @ x, jax.jit(lambda A, x: A @ x)):
            with pytest.raises(FloatingPointError, match="nan"):
                f(A, bad)
        np.testing.assert_array_equal(thin @ bad, DENSE[1:2] @ X)
        with pytest.raises(FloatingPointError, match="nan"):
            jsparse.grad(lambda A: jnp.sqrt((A @ X) * 0 - 1).sum())(A)


def test_no_tracer_leaks(A):
    with jax.checking_leaks():
        agree(jax.jit(operations)(A), operations(A))


def test_strict_promotion(A):
    """The implementation does not rely on implicit promotion."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        np.testing.assert_array_equal(jax.jit(lambda A, x: A @ x)(A, X), DENSE @ X)
        np.testing.assert_array_equal(jsparse.grad(lambda A: (A @ X).sum())(A).todense(), np.where(DENSE, X, 0))
        np.testing.assert_array_equal(jax.vmap(lambda x: A @ x)(X[None]), (DENSE @ X)[None])
        np.testing.assert_array_equal((A + A).todense(), 2 * DENSE)


def test_shapes_without_values(A):
    """`jax.eval_shape` runs nothing, and takes operands that are only described."""
    described = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), A)
    for given in (A, described):
        shapes = jax.eval_shape(operations, given)
        assert {name: x.shape for name, x in shapes.items()} == {n: x.shape for n, x in operations(A).items()}
        product = jax.eval_shape(lambda A: A * 2, given)
        assert isinstance(product, SparseTensor)
        assert (product.shape, product.nse, product.is_dynamic) == (A.shape, A.nse, A.is_dynamic)


def test_ahead_of_time(A):
    described = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), A)
    traced = jax.jit(lambda A, x: (A @ x, A * 2)).trace(described, X)
    compiled = traced.lower().compile()
    product, doubled = compiled(A, X)
    np.testing.assert_array_equal(product, DENSE @ X)
    np.testing.assert_array_equal(doubled.todense(), 2 * DENSE)
    assert compiled.cost_analysis() is not None
    with pytest.raises(TypeError, match="compiled"):
        compiled(A, X[:2])


def test_programs_of_dynamic_patterns_serve_all_of_their_capacity():
    """A program serves all contents of a pattern. Another capacity, format, shape or dtype needs another program."""
    product = jax.jit(lambda A, x: A @ x)
    make = lambda x, **how: jsparse.asarray(x, dynamic=True, **{"format": "csr", "nse": 8, **how})  # noqa: E731
    for x in (DENSE, 0 * DENSE, DENSE[::-1].copy(), np.ones_like(DENSE) * (DENSE > 1)):
        np.testing.assert_array_equal(product(make(x), X), x @ X)
    assert product._cache_size() == 1
    for count, A in enumerate(
        [make(DENSE, nse=9), make(DENSE, format="coo"), make(DENSE[:2]), make(DENSE).static()], 2
    ):
        product(A, X)
        assert product._cache_size() == count
    before = jsparse.base._native.live_calls()
    product(make(np.ones_like(DENSE) * (DENSE == 2)), X)
    assert jsparse.base._native.live_calls() <= before  # fewer if programs of other tests are dropped meanwhile


def test_a_loop_over_batches_compiles_once():
    """Each mini-batch has its own pattern, as from a graph sampler."""
    traces = []

    @jax.jit
    def step(A, w):
        traces.append(None)
        return w - 0.01 * jax.grad(lambda w: ((A @ w) ** 2).sum())(w)

    rng, w, expected = np.random.default_rng(0), X, np.asarray(X)
    for _ in range(5):
        dense = (rng.integers(-2, 3, (3, 4)) * (rng.random((3, 4)) < 0.5)).astype(np.float32)
        w = step(jsparse.asarray(dense, format="csr", dynamic=True, nse=12), w)
        expected = expected - 0.01 * 2 * dense.T @ (dense @ expected)
    np.testing.assert_allclose(w, expected, rtol=1e-5)
    assert len(traces) == 1


@pytest.mark.parametrize("shared", [True, False])
def test_eight_threads(shared):
    """Threads trace, compile and run at the same time, either the same programs or their own."""
    threads, rounds = 8, 3
    together = Barrier(threads)
    f = jax.jit(operations)

    def work(number):
        own = f if shared else jax.jit(operations)
        together.wait()
        for n in range(rounds):
            dense = np.roll(DENSE, n if shared else n + number, axis=1)
            for dynamic in (False, True):
                A = jsparse.asarray(dense, format=("csr", "coo", "csc")[n % 3], dynamic=dynamic, nse=8)
                found = own(A)
                np.testing.assert_array_equal(found["product"], dense @ X)
                np.testing.assert_array_equal(found["sparse product"], dense @ DENSE.T)
                np.testing.assert_array_equal(found["loop"], 8 * dense)
        if number == 0:
            jsparse.clear_cache()  # other threads keep the programs that they use
        return True

    jsparse.clear_cache()
    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(work, range(threads)))


def test_threads_that_run_one_program():
    """Concurrent runs of a kernel share no memory except operands."""
    rng = np.random.default_rng(0)
    dense = (rng.integers(-3, 4, (300, 200)) * (rng.random((300, 200)) < 0.2)).astype(np.float32)
    A = jsparse.asarray(dense, format="csr")
    C = jsparse.einsum("ij,kj->ik", A, A)
    f = jax.jit(lambda v, x: (A.with_values(v) @ x, jsparse.einsum("ij,kj->ik", A.with_values(v), A).values))

    def work(number):
        scale, x = np.float32(number + 1), jnp.full((200, 33), number, jnp.float32)
        for _ in range(20):
            product, values = f(A.values * scale, x)
            np.testing.assert_array_equal(product, np.tile(dense.sum(1, keepdims=True) * scale * number, 33))
            np.testing.assert_array_equal(values, C.values * scale)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
