"""Code generators behind one seam: the interpreter in place of LLVM, wherever kernels run."""

import json
import os
import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import config
from jsparse.base import _native
from jsparse.compiler.backends import BACKENDS, interpret
from jsparse.compiler.backends.llvm import jit
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.algebra import add, block, const, mul
from jsparse.compiler.kernel.nodes import (
    Binary,
    Borrow,
    Buffer,
    Const,
    Declare,
    Extent,
    For,
    Load,
    LocalArray,
    ParallelFor,
    Set,
    Store,
    Threads,
    Var,
)
from jsparse.compiler.runtime import kernel_call as runtime
from jsparse.compiler.runtime.recipe import backend_of, read_recipe
from jsparse.compiler.signature import static_buffer_type
from jsparse.primitives.execute import make_plan

FAILED = (jax.errors.JaxRuntimeError, ValueError)  # which of them depends on the way a call is dispatched
I32 = Type("int32")
X, Y = Buffer("x", I32, 0), Buffer("y", I32, 1, True)
N, M, R = Var("n"), Var("m"), Var("r", I32)
DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 4, 0], [0, 5, 0, 6]], np.int32)


@pytest.fixture
def entered(monkeypatch):
    """What LLVM was asked for."""
    asked = []
    for name in ("_emit_llvm", "link_object"):
        own = getattr(jit, name)
        monkeypatch.setattr(jit, name, lambda *given, own=own, name=name: asked.append(name) or own(*given))
    return asked


def run(backend, body, source, out, threads=2):
    buffers = [static_buffer_type(x.dtype, *x.shape) for x in (source, out)]
    compiled = BACKENDS[backend].compile(Kernel((X, Y), body), buffers)
    return _native.run(compiled.address, [source, out], threads)


def stored(index, value):
    return Store(Y, index, value)


ROW = Buffer("row", I32, -1)
BODIES = {
    "shapes and chunks": ParallelFor(
        N,
        Extent(X, 0),
        For(M, const(0), Extent(X, 1), stored(add(mul(N, Extent(X, 1)), M), Const(7, I32))),
    ),
    "integers wrap": ParallelFor(
        N, const(12), stored(N, Binary("*", Load(X, N), Binary("+", Load(X, N), Const(2**31 - 1, I32))))
    ),
    "borrowed and local memory": ParallelFor(
        N,
        const(12),
        block(
            LocalArray(ROW, 1),
            Store(ROW, const(0), Load(X, N)),
            Borrow(
                Buffer("w", I32, -1),
                const(3),
                stored(N, Binary("+", Load(ROW, const(0)), Load(Buffer("w", I32, -1), const(2)))),
            ),
        ),
    ),
    "loops within chunks": ParallelFor(
        N, const(4), ParallelFor(M, const(3), stored(add(mul(N, const(3)), M), Load(X, M)))
    ),
    "registers": block(
        Declare(R, Const(1, I32)),
        For(N, const(0), const(12), block(Set(R, Binary("*", R, Load(X, N))), stored(N, R))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_both_write_the_same(name):
    source = np.arange(1 << 20, 13 << 20, 1 << 20, dtype=np.int32).reshape(3, 4)
    found = []
    for backend in BACKENDS:
        out = np.full((3, 4), -1, np.int32)
        assert run(backend, BODIES[name], source, out) == 0
        found.append(out)
    np.testing.assert_array_equal(*found)
    assert not (found[0] == -1).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_see_the_threads_that_there_are(threads):
    y = Buffer("y", Type("int64"), 1, True)
    for backend in BACKENDS.values():
        out = np.zeros(2, np.int64)
        compiled = backend.compile(
            Kernel((X, y), Store(y, const(1), Threads())),
            [static_buffer_type("int32", 0), static_buffer_type("int64", 2)],
        )
        assert _native.run(compiled.address, [np.zeros(0, np.int32), out], threads) == 0
        assert out.tolist() == [0, threads]


@pytest.mark.parametrize("length", [2**61, 2**61 + 1, 2**62, 2**63 - 1, -1, -(2**61)])
def test_memory_of_more_bytes_than_64_bits_count_is_an_error(length):
    """The number of bytes, eight times the length, would wrap to a small one."""
    source, w = Buffer("x", Type("int64"), 0), Buffer("w", Type("int64"), -1)
    body = Borrow(w, Load(source, const(0)), stored(const(0), Const(1, I32)))
    compiled, out = jit.compile_kernel(Kernel((source, Y), body)), np.zeros(1, np.int32)
    assert _native.run(compiled.address, [np.array([length]), out]) != 0
    assert out.tolist() == [0]


@pytest.mark.parametrize("within", [lambda body: body, lambda body: ParallelFor(N, const(5), body)])
def test_what_the_interpreter_raises_is_the_kernels_error(within):
    out = np.zeros(3, np.int32)
    assert run("interpret", within(stored(const(3), Const(1, I32))), out.copy(), out) != 0
    assert _native.last_error() == "the interpreter of kernels failed with IndexError: y[3 : 1] of 3"
    assert run("interpret", stored(const(0), Const(1, I32)), out.copy(), out) == 0
    assert out.tolist() == [1, 0, 0]
    assert _native.last_error() == ""


def test_arguments_cannot_be_written():
    x = np.zeros(3, np.int32)
    assert run("interpret", Store(X, const(0), Const(1, I32)), x, x.copy()) != 0
    assert "read-only" in _native.last_error()
    assert x.tolist() == [0, 0, 0]


def test_an_interrupt_before_the_first_instruction_is_an_error(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(interpret._Interpreted, "__call__", interrupted)
    out = np.zeros(3, np.int32)
    assert run("interpret", stored(const(0), Const(1, I32)), out.copy(), out) != 0
    assert _native.last_error() == "the function of a kernel that Python runs was interrupted"


def sparse(dynamic=False, format="csr"):
    return jsparse.asarray(DENSE, format=format, **({"dynamic": True, "nse": 8} if dynamic else {}))


OPERATIONS = {
    "product": (lambda A, B, x: A @ x, DENSE @ np.arange(4)),
    "transposed": (lambda A, B, x: jsparse.einsum("ij,i->j", A, x), DENSE.T @ np.arange(4)),
    "sparse result": (lambda A, B, x: jsparse.einsum("ij,jk->ik", A, A).todense(), DENSE @ DENSE),
    "union": (lambda A, B, x: (A + A.T).todense(), DENSE + DENSE.T),
    "dynamic": (lambda A, B, x: B @ x, DENSE @ np.arange(4)),
    "dynamic result": (lambda A, B, x: jsparse.einsum("ij,jk->ik", B, B, nse=16).todense(), DENSE @ DENSE),
    "sorted result": (lambda A, B, x: jsparse.einsum("ij,ik->jk", B, B, nse=16).todense(), DENSE.T @ DENSE),
    "both": (lambda A, B, x: (A + B).todense(), DENSE + DENSE),
    "semiring": (lambda A, B, x: jsparse.einsum("ij,j->i", A, x, semiring="max_plus"), [4, -(2**31), 6, 9]),
    "batch": (
        lambda A, B, x: jax.vmap(lambda x: A @ x)(jnp.stack([x, 2 * x])),
        np.arange(4) @ DENSE.T * [[1], [2]],
    ),
    "batch of patterns": (
        lambda A, B, x: jax.vmap(lambda B: jsparse.einsum("ij,jk->ik", B, B, nse=16).todense())(
            jax.tree.map(lambda *x: jnp.stack(x), B, B)
        ),
        np.stack([DENSE @ DENSE] * 2),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_llvm_is_not_entered_and_integers_agree(name, entered):
    operation, want = OPERATIONS[name]
    A, B, x = sparse(format="csc" if name == "both" else "csr"), sparse(dynamic=True), jnp.arange(4, dtype=jnp.int32)
    f = jax.jit(operation)
    runtime.clear_cache()
    with config(backend="interpret"):
        interpreted = f(A, B, x)
        np.testing.assert_array_equal(operation(A, B, x), interpreted)
    assert not entered
    runtime.clear_cache()
    compiled = f(A, B, x)
    assert entered
    for found in (interpreted, compiled):
        assert found.dtype == jnp.int32
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", ["product", "sparse result", "dynamic result", "sorted result", "batch of patterns"])
def test_errors_reach_the_caller(name, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("on purpose\0here")

    operands = sparse(), sparse(dynamic=True), jnp.arange(4, dtype=jnp.int32)
    monkeypatch.setattr("jsparse.compiler.kernel.interpret.execute", fail)
    runtime.clear_cache()
    with (
        config(backend="interpret"),
        pytest.raises((*FAILED, RuntimeError), match="ZeroDivisionError: on purpose here"),
    ):
        jax.block_until_ready(jax.jit(lambda *x: OPERATIONS[name][0](*x))(*operands))


def test_functions_are_traced_once_for_each_backend():
    traces = []
    f = jax.jit(lambda A, x: traces.append(config.backend) or A @ x)
    for backend in ("llvm", "interpret", "llvm", "interpret"):
        with config(backend=backend):
            np.testing.assert_array_equal(f(sparse(), jnp.ones(4, jnp.int32)), DENSE.sum(1))
    assert traces == ["llvm", "interpret"]


def recipe_of(backend):
    work = jsparse.explain("ij,j->i", sparse(), np.ones(4, np.int32)).contraction
    return make_plan(work.spec, work.kernel_dtypes, backend)[1].recipe


def test_a_recipe_states_another_backend_than_llvm():
    ours, others = recipe_of("llvm"), recipe_of("interpret")
    assert json.loads(others) == {"backend": "interpret", **json.loads(ours)}
    assert "backend" not in ours
    assert [backend_of(ours), backend_of(others)] == ["llvm", "interpret"]
    assert read_recipe(ours) == read_recipe(others)


def test_an_exported_program_keeps_its_backend(entered):
    A, x = sparse(dynamic=True), jnp.arange(4, dtype=jnp.int32)
    type_, stored = A.pattern.type, type(A.pattern)
    f = jax.jit(lambda arrays, values, x: jsparse.SparseTensor._wrap(values, stored(type_, arrays)) @ x)
    with config(backend="interpret"):
        exported = jsparse.export(f)(A.pattern.arrays, A.values, x).serialize()
    runtime.clear_cache()
    loaded = jax.export.deserialize(exported)
    np.testing.assert_array_equal(loaded.call(A.pattern.arrays, A.values, x), DENSE @ np.arange(4))
    assert not entered


def test_its_kernels_are_not_stored(tmp_path):
    before = config.cache_dir
    config.cache_dir = tmp_path / "kernels"
    try:
        for backend, count in (("interpret", 0), ("llvm", 1)):
            runtime.clear_cache()
            runtime.kernel_of(recipe_of(backend))
            assert len(list(tmp_path.glob("kernels/*.kernel"))) == count
    finally:
        config.cache_dir = before


def test_what_explain_shows():
    operands = "ij,j->i", sparse(), np.ones(4, np.int32)
    assert "backend" not in str(jsparse.explain(*operands))
    assert "\nLLVM IR\n" in str(jsparse.explain(*operands))
    with config(backend="interpret"):
        shown = str(jsparse.explain(*operands))
    assert "\nbackend\n  interpret\n" in shown
    assert "LLVM" not in shown


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np, jsparse
A = jsparse.asarray(np.ones((40, 300), np.float32), format="csr")
f = jax.jit(lambda x: A @ x)
f(jnp.ones(300))
"""


def test_a_process_may_end_while_a_kernel_runs():
    environment = {**os.environ, "JSPARSE_BACKEND": "interpret", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
