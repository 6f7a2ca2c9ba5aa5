"""Results do not depend on the number of threads: they are equal bit for bit."""

import gc
import os
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.stress import BAND, stress, windowed
from jax._src import util as jax_util
from programs.planned import planned_product

import jsparse
from jsparse import SparseTensor
from jsparse.compiler.runtime.bound_arrays import find_array
from jsparse.compiler.runtime.kernel_call import run_recipe
from jsparse.formats.relayout import relayout_to
from jsparse.planning import planner
from jsparse.primitives.execute import make_plan

ROWS, COLUMNS = 3000, 40_000


def skewed(format):
    """A matrix in which one row has about half of all entries. Its sums are rounded."""
    rng = np.random.default_rng(0)
    heavy = np.stack([np.full(COLUMNS, 5), np.arange(COLUMNS)])
    rest = np.stack([rng.integers(0, ROWS, COLUMNS), rng.integers(0, COLUMNS, COLUMNS)])
    values = rng.normal(size=2 * COLUMNS).astype(np.float32)
    return SparseTensor.from_coords(np.concatenate([heavy, rest], 1), values, (ROWS, COLUMNS), format)


def normal(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


PROGRAMS = {
    "spmv": ("ij,j->i", lambda A: [normal(A.shape[1])]),
    "spmm": ("ij,jk->ik", lambda A: [normal(A.shape[1], 24)]),
    "transposed": ("ij,i->j", lambda A: [normal(A.shape[0])]),
    "transposed spmm": ("ij,ik->jk", lambda A: [normal(A.shape[0], 8)]),
    "sum": ("ij->", lambda A: []),
    "weighted sum": ("ij,i,j->", lambda A: [normal(A.shape[0]), normal(A.shape[1])]),
    "small result": ("ij,ik,jl->kl", lambda A: [normal(A.shape[0], 3), normal(A.shape[1], 2)]),
}


def on_host(text, A, dense, threads):
    """The result of the generated kernel, run without XLA on a number of threads."""
    with pytest.MonkeyPatch.context() as patch:  # the whole product in one kernel
        patch.setattr(planner, "contraction_path", lambda *args: ())
        jsparse.clear_cache()
        work, factors = planned_product(text, [A, *dense], "dense")
    jsparse.clear_cache()
    arrays = list(map(np.asarray, factors))
    chosen, call = make_plan(work.spec, work.kernel_dtypes)
    result, *factors = chosen.problem.tensors
    for n, (tensor, term) in enumerate(zip(factors, work.spec.factors, strict=True)):
        if term.on is not None:
            relayout = relayout_to(work.spec.walks[0].pattern, chosen.patterns[0].format)
            arrays[n] = np.where(relayout.gather >= 0, arrays[n][relayout.gather], 0).astype(np.float32)
        else:
            arrays[n] = np.ascontiguousarray(arrays[n].transpose([axis.dim for axis in tensor.axes]))
    order = [axis.dim for axis in result.axes]
    shape = work.spec.shape(work.spec.result)
    out = np.full([shape[n] for n in order], np.nan, np.float32)
    run_recipe(call.recipe, [*arrays, *map(find_array, call.bound.split()), out], threads)
    return out.transpose(np.argsort(order)) if order else out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_the_host(name, format):
    text, operands = PROGRAMS[name]
    A = skewed(format)
    dense = operands(A)
    expected = on_host(text, A, dense, 1)
    np.testing.assert_allclose(expected, jsparse.einsum(text, A, *dense, out_format="dense"), rtol=1e-3, atol=1e-3)
    for threads in (1, 2, 3, 8):
        for _ in range(3):
            np.testing.assert_array_equal(on_host(text, A, dense, threads), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["csr", "coo"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "int32"])
def test_a_row_with_half_of_all_entries_is_divided(format, dtype):
    rng = np.random.default_rng(3)
    A = skewed(format)
    integers = rng.integers(0, 2, A.nse)
    A = A.with_values(integers.astype(np.float32)).astype(dtype)
    x = (np.arange(A.shape[1] * 3) % 5 == 0).reshape(-1, 3)
    work, _ = planned_product("ij,jk->ik", [A, x.astype(dtype)], "dense")
    chosen, _ = make_plan(work.spec, work.kernel_dtypes)
    assert chosen.schedule.found("parallelize").race == "split"
    exact = np.zeros((A.shape[0], 3), np.int64)
    rows, columns = A.pattern.to_coords()
    np.add.at(exact, rows, integers[:, None] * x[columns])
    found = jsparse.einsum("ij,jk->ik", A, x.astype(dtype))
    want = exact.astype(np.int8) if dtype == "int8" else np.asarray(jnp.asarray(exact, dtype), np.float64)
    np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(want, np.float64))


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("format", ["csr", "coo"])
def test_chunks_of_a_matrix_without_entries(format, backend):
    """No chunk looks for a run of equal rows at its boundary: the interpreter refuses an address outside."""
    A = SparseTensor.from_coords(np.zeros((2, 0), np.int32), np.zeros(0, np.float32), (5, 4), format)
    divided = jsparse.Schedule().parallelize("i", "owned", 1)
    with jsparse.config(backend=backend):
        product = jax.jit(lambda v, x: jsparse.einsum("ij,j->i", A.with_values(v), x, schedule=divided))
        np.testing.assert_array_equal(product(A.values, np.ones(4, np.float32)), np.zeros(5))


PROGRAM = textwrap.dedent("""
    import sys
    sys.path.insert(0, sys.argv[1])
    import hashlib, jax, numpy as np
    from einsum.test_threads import PROGRAMS, skewed
    import jsparse
    A = skewed("csr")
    for name in ("spmv", "spmm", "transposed", "sum"):
        text, operands = PROGRAMS[name]
        loss = lambda A, *x: (jsparse.einsum(text, A, *x) ** 2).sum()
        out, gradient = jsparse.einsum(text, A, *operands(A)), jax.grad(loss)(A, *operands(A))
        print(name, *[hashlib.sha256(np.asarray(x).tobytes()).hexdigest() for x in (out, gradient.values)])
    x = np.random.default_rng(0).normal(size=(A.shape[0], 128)).astype(np.float32)
    scattered = jax.jit(lambda A, x: jsparse.einsum("ij,ik->jk", A, x))(A.dynamic(), x)  # in two tiles, or in more
    print("scattered", hashlib.sha256(np.asarray(scattered).tobytes()).hexdigest())
""")


def test_for_any_pool_of_xla(tests_folder):
    """`PJRT_NPROC` sets the number of threads of XLA's pool where affinity does not."""
    outputs = {}
    for threads in (1, 2, 8):
        environment = {**os.environ, "PJRT_NPROC": str(threads), "NPROC": str(threads), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", PROGRAM, str(tests_folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        outputs[threads] = done.stdout
    assert len(outputs[1].splitlines()) == 5
    assert outputs[1] == outputs[2] == outputs[8]


def test_threads_compile_and_run_at_once():
    """Each of eight threads has its own programs and a shared one."""
    A = jsparse.asarray((normal(40, 50) > 0.5) * normal(40, 50))
    D = np.asarray(A.todense(), np.float64)
    failures, barrier = [], threading.Barrier(8)

    def work(me):
        try:
            barrier.wait()
            for n in range(4):
                width = 2 + me if n % 2 else 17
                X = normal(50, width)
                found = jax.jit(lambda A, X: A @ X)(A, X)
                np.testing.assert_allclose(found, D @ X, rtol=1e-4, atol=1e-4)
                gradient = jax.grad(lambda A, X: ((A @ X) ** 2).sum())(A, X)
                expected = (2 * (D @ X) @ X.T)[tuple(A.pattern.to_coords())]
                np.testing.assert_allclose(gradient.values, expected, rtol=1e-3, atol=1e-3)
        except BaseException as error:  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_make_patterns_at_once():
    """A pattern that all threads make and use at the same time is one object."""
    found, barrier = [None] * 8, threading.Barrier(8)

    def work(me):
        barrier.wait()
        A = SparseTensor.from_coords([[0, 3, 4], [1, 4, 1]], np.ones(3, np.float32), (123, 321), "csr")
        found[me] = A, A.asformat("csc"), jnp.ones(123) @ A

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(A.pattern) for A, _, _ in found}) == 1
    assert len({id(B.pattern) for _, B, _ in found}) == 1
    for _, _, y in found:
        assert (y[1], y[4]) == (2, 1)


def test_threads_call_kernels_while_others_clear_caches():
    """`python tests/einsum/stress.py 100000` is the long run."""
    assert not stress(300, pause=0.3)


def test_an_executable_outlives_the_caches_of_its_patterns():
    """`jax.clear_caches` empties JAX's caches in Python before those in C++, from which a thread may run meanwhile."""
    function, expected = jax.jit(lambda x: windowed(x)), BAND @ np.ones(12)
    for _ in range(2):  # the second call is from C++
        np.testing.assert_array_equal(function(np.ones(12, np.float32)), expected)
    jax_util.clear_all_caches()
    jsparse.clear_cache()
    gc.collect()
    np.testing.assert_array_equal(function(np.ones(12, np.float32)), expected)


FORKED = textwrap.dedent("""
    import os, warnings
    import jax, jax.numpy as jnp, numpy as np
    import jsparse
    warnings.simplefilter("ignore")
    if not os.fork():  # before JAX has started
        assert (jsparse.asarray(np.eye(3)) @ np.ones(3)).tolist() == [1, 1, 1]
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    A, x = jsparse.asarray(np.eye(3, dtype=np.float32)), jnp.ones(3)
    for _ in range(8):  # a program is compiled for what is computed often
        A @ x
    new = {
        "eager": lambda: A.T @ x, "jit": lambda: jax.jit(lambda x: 2 * (A @ x))(x), "sum": lambda: A.sum(1),
        "made": lambda: jsparse.SparseTensor.from_coords([[0], [1]], np.ones(1), (3, 3)), "product": lambda: A @ A,
    }
    if not os.fork():
        assert (A @ x).tolist() == [1, 1, 1]  # a program that was compiled before
        assert (jsparse.pattern.window(7, 1) | jsparse.pattern.window(7, 2)).nse == 29
        for name, call in new.items():
            try:
                for _ in range(8):
                    call()
                print(name, "returned", flush=True)
            except jsparse.JsparseError as error:
                assert "spawn or forkserver" in str(error)
                print(name, flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
""")


def test_programs_are_refused_in_a_forked_process():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    # a tensor is made without a program
    assert done.stdout.split() == ["eager", "jit", "sum", "made", "returned", "product"]
