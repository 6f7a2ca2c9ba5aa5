"""Kernels as programs of warps: a simulator runs them with the threads in both orders, and finds what is missing."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.backends.warps import distribute, emit
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel, nodes
from jsparse.compiler.kernel.algebra import block

if not shutil.which("cc"):
    pytest.skip("no C compiler for the simulator", allow_module_level=True)

RNG = np.random.default_rng(0)
ORDERS = ("forward", "reversed")
IN, OUT = (nodes.Buffer(name, Type("float32"), n, n == 1) for n, name in enumerate(("x", "y")))


def matrix(rows, columns, density=0.1):
    stored = RNG.random((rows, columns)) < density
    stored[rows // 2] = True  # a long row
    stored[rows // 3] = False
    return np.where(stored, RNG.integers(-3, 4, (rows, columns)), 0).astype(np.float32)


DENSE = matrix(70, 90)
A, CUBE = jsparse.asarray(DENSE), jsparse.asarray(DENSE.reshape(7, 10, 90))
MASK = jsparse.pattern.window(40, 5) | jsparse.pattern.global_(40, 1)
Q, K, V = (jnp.asarray(RNG.normal(size=(2, 40, 16)), "float32") for _ in range(3))


def columns(count, dtype="float32"):
    return jnp.asarray(RNG.integers(-3, 4, (90, count)), dtype)


def attention(q, k, v):
    return jsparse.sparse_attention(q, k, v, MASK)


CASES = {
    **{f"{n} columns": (lambda A, X: A @ X, (A, columns(n))) for n in (1, 3, 8, 20, 32, 40, 64, 100, 128)},
    "a vector": (lambda A, x: A @ x, (A, columns(1)[:, 0])),
    "dynamic": (lambda A, X: A @ X, (A.dynamic(900), columns(64))),
    "dynamic coo": (lambda A, X: A @ X, (A.asformat("coo").dynamic(900), columns(5))),
    "transposed": (lambda A, X: A.T @ X, (A, jnp.asarray(DENSE[:, :40]))),
    "sampled": (lambda A, X: jax.grad(lambda A: ((A @ X) ** 2).sum())(A).values, (A, columns(64))),
    "bfloat16": (lambda A, X: A @ X, (A.astype("bfloat16"), columns(64, "bfloat16"))),
    "a long sum": (lambda x: x.sum(), (jsparse.asarray(np.ones((3, 4000), np.float32)),)),
    "sums of rows": (lambda A: A.sum(1), (A,)),
    "min-plus": (lambda A, X: jsparse.einsum("ij,jk->ik", A, X, semiring="min_plus"), (A, columns(9))),
    "largest": (lambda A: A.max(1), (A,)),
    "three levels": (lambda T, X: jsparse.einsum("ijk,kl->ijl", T, X), (CUBE, columns(33))),
    "product": (lambda A, B: (A @ B).values, (A, jsparse.asarray(matrix(90, 60)))),
    "attention": (attention, (Q, K, V)),
    "gradients of attention": (jax.grad(lambda *x: (attention(*x) ** 2).sum(), (0, 1, 2)), (Q, K, V)),
}


@pytest.fixture
def warps(monkeypatch):
    from native import warps

    choices = warps.program_settings.CHOICES
    monkeypatch.setitem(BACKENDS, "warps", None)
    monkeypatch.setitem(choices, "backend", choices["backend"])
    warps.register()
    yield warps
    jsparse.clear_cache()
    jax.clear_caches()


def run(function, arguments):
    with jsparse.config(backend="warps"):
        return jax.jit(lambda *x: function(*x))(*arguments)


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_machine_code_computes(name, warps, monkeypatch):
    function, arguments = CASES[name]
    wanted = jax.jit(function)(*arguments)
    warps.refusals.clear()
    for order in ORDERS:
        monkeypatch.setenv("JSPARSE_WARP_ORDER", order)
        for found, other in zip(jax.tree.leaves(run(function, arguments)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(found.astype("float32"), other.astype("float32"), rtol=1e-5, atol=1e-5)
    assert warps.refusals[None] > 0
    assert set(warps.refusals) <= {None, "assembly"}


def without_first(store, thread, stmt):
    changed = store(thread, stmt)
    return block(*changed.stmts[1:]) if stmt.buffer.name in thread.shared else changed


def without_last(store, thread, stmt):
    changed = store(thread, stmt)
    return block(*changed.stmts[:-1]) if stmt.buffer.name in thread.shared else changed


BARRIERS = [("product", without_first), ("3 columns", without_last)]


@pytest.mark.parametrize(("name", "change"), BARRIERS, ids=["before a store", "after a store"])
def test_a_missing_barrier_is_noticed(name, change, warps, monkeypatch):
    store = distribute._Thread.store
    monkeypatch.setattr(distribute._Thread, "store", lambda thread, stmt: change(store, thread, stmt))
    assert is_noticed(name, monkeypatch)


def test_a_missing_step_of_a_reduction_is_noticed(warps, monkeypatch):
    value = emit._ThreadExpr.value

    def skip_last(thread, expr):
        is_sum = isinstance(expr, nodes.Across) and expr.least < expr.width // 2
        return value(thread, nodes.Across(expr.value, expr.op, expr.width, 2 * expr.least) if is_sum else expr)

    monkeypatch.setattr(emit._ThreadExpr, "value", skip_last)
    assert is_noticed("sampled", monkeypatch)


def is_noticed(name, monkeypatch):
    """Whether a case fails or gives wrong numbers in one order of the threads."""
    function, arguments = CASES[name]
    wanted = jax.jit(function)(*arguments)
    for order in ORDERS:
        monkeypatch.setenv("JSPARSE_WARP_ORDER", order)
        try:
            found = jax.block_until_ready(run(function, arguments))
        except RuntimeError as error:
            return "threads of a warp meet at different places" in str(error)
        if not np.allclose(found, wanted, rtol=1e-4, atol=1e-4):
            return True
    return False


def test_the_code_of_a_thread_as_text():
    total = nodes.HorizontalReduce(nodes.Load(IN, nodes.Const(0), 64))
    text = str(distribute.distribute(Kernel((IN, OUT), nodes.Store(OUT, nodes.Const(0), total))))
    assert "let warp.1: float32 = across 16…1(reduce(x[(lane * 2) : 2]))" in text
    assert "if (lane < 1):\n    y[0] = warp.2" in text


def test_what_is_refused():
    odd = nodes.WidenLanes(nodes.Load(IN, nodes.Const(0), 50), 64)
    reason = "a vector of odd length"
    with pytest.raises(distribute.NoWarpProgramError, match=reason):
        distribute.distribute(Kernel((IN, OUT), nodes.Store(OUT, nodes.Const(0), odd)))
