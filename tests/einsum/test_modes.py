"""JAX's execution and debugging modes, numbers of compilations, and concurrent threads."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

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


EMPTY_ROW = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 4], [1, 0, 0, 0]], np.float32)
ONES = jnp.ones((4, 2))
FINITE = {
    "max": lambda A: A.max(1),
    "min": lambda A: A.min(0),
    "nanmax": lambda A: jsparse.nanmax(A, 1),
    "logsumexp": lambda A: jnp.exp(jsparse.logsumexp(A, 1)),
    "softmax": lambda A: jsparse.softmax(A).values,
    "semiring": lambda A: jnp.where(EMPTY_ROW.any(1), jsparse.einsum("ij,j->i", A, X, semiring="max_times"), 0),
    "aggregate": lambda A: jsparse.nn.aggregate(A, ONES, "max") + jsparse.nn.aggregate(A, ONES, "min"),
    "pool": lambda A: jsparse.nn.pool((A @ X)[:, None], jnp.array([0, 0, 2, 2]), 4, "max"),
    "attention_pool": lambda A: jsparse.nn.attention_pool(ONES, A @ X, jnp.array([0, 0, 2, 2]), 4),
    "attention": lambda A: jsparse.sparse_attention(ONES * A.sum(), ONES, ONES, A),
    "gat": lambda A: jsparse.nn.gat_conv(A, ONES * A.sum(), jnp.ones((2, 2, 3)), jnp.ones((2, 3)), jnp.ones((2, 3))),
    "fused": lambda A: jsparse.fuse(lambda A: jsparse.softmax(A * 2, axis=1) @ X)(A),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_debug_infs_allows_maxima_of_nothing_on_the_way_to_finite_results(name, dynamic):
    A, f = jsparse.asarray(EMPTY_ROW, dynamic=dynamic), FINITE[name]
    gradient = jsparse.grad(lambda A: (f(A) * 1.5).sum())
    expected = jax.jit(f)(A), jax.jit(gradient)(A).values
    with jax.debug_infs(True):
        np.testing.assert_allclose(f(A), expected[0], rtol=1e-6)
        np.testing.assert_allclose(gradient(A).values, expected[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.jit(gradient)(A).values, expected[1], rtol=1e-5, atol=1e-6)


def test_debug_infs_finds_other_infinities(A):
    with jax.debug_infs(True):
        for f in (
            lambda A: A @ jnp.full(4, 3e38),
            lambda A: A * 3e38,
            lambda A: (A * 3e38).max(1),
            lambda A: jsparse.einsum("ij,j->i", A, jnp.full(4, jnp.finfo("float32").max), semiring="max_times"),
            lambda A: jsparse.fuse(lambda A: jsparse.softmax(A) @ jnp.full(4, 3e38) * 9)(A),
        ):
            for wrapped in (f, jax.jit(f)):
                with pytest.raises(FloatingPointError, match="inf"):
                    wrapped(A)
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
            jsparse.einsum("ij,j->i", A, X.at[0].set(jnp.nan), semiring="max_times")


NAN = jnp.full(4, jnp.nan)
FOUND = {
    "divided by a number": ("division by zero", lambda A: A / 0.0),
    "divided by entries": ("division by zero", lambda A: A / A.with_values(A.values * 0)),
    "mapped": ("division by zero", lambda A: A.map(lambda v: 1 / (v - 1))),
    "statement": ("division by zero", lambda A: jsparse.evaluate("y[i] = A[i,j] * x[j] / z", A=A, x=X, z=0.0)),
    "fused": ("division by zero", lambda A: jsparse.fuse(lambda A: (A / 0.0) @ X)(A)),
    "product": ("nan", lambda A: A @ NAN),
    "maximum": ("nan", lambda A: jsparse.einsum("ij,j->i", A, NAN, semiring="max_times")),
    "logarithm": ("nan", lambda A: A.map(jnp.log)),
    "softmax": ("nan", lambda A: jsparse.softmax(A * jnp.inf)),
    "logsumexp": ("nan", lambda A: jsparse.logsumexp(A.map(lambda v: jnp.inf * v) - A * jnp.inf, 1)),
    "overflow": ("nan", lambda A: jsparse.einsum("ij,kj->ik", A.dynamic(nse=8), A, nse=1)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FOUND)
def test_checkify_finds_nan_and_divisions_by_zero(A, name):
    what, f = FOUND[name]
    for wrapped in (f, jax.jit(f)):
        error, _ = checkify.checkify(wrapped, errors=checkify.float_checks)(A)
        assert what in error.get()
        assert checkify.checkify(wrapped, errors=checkify.user_checks)(A)[0].get() is None


def test_checkify_finds_nothing_in_sound_programs(A):
    """Padding has the value 0, by which nothing is divided."""

    def f(A, x):
        inverse = A.map(lambda v: 1 / v)
        greatest = jsparse.nn.aggregate(A, jnp.ones((4, 2)), "max")
        return (A / inverse) @ x, jsparse.softmax(A).values, A.max(1), A.mean(0, stored=True), greatest, operations(A)

    error, found = checkify.checkify(jax.jit(f), errors=checkify.float_checks)(A, X)
    assert error.get() is None
    np.testing.assert_allclose(found[0], DENSE**2 @ X, rtol=1e-6)


def test_checkify_may_be_imported_late():
    """Importing it takes long, so we do not. Our primitives become known to it at their next use."""
    program = """
        import jax, jax.numpy as jnp, numpy as np, sys, jsparse
        A, f = jsparse.asarray(np.eye(3, dtype=np.float32)), jax.jit(lambda A: A @ jnp.full(3, jnp.nan))
        f(A)
        assert "jax._src.checkify" not in sys.modules
        from jax.experimental import checkify
        assert "nan" in checkify.checkify(lambda A: f(A) + A @ jnp.ones(3), errors=checkify.float_checks)(A)[0].get()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_no_tracer_leaks(A):
    with jax.checking_leaks():
        agree(jax.jit(operations)(A), operations(A))


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
