"""`jsparse.config`: its settings are part of the keys under which jit caches programs."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor, config
from jsparse.tensor.dynamic_pattern import DynamicPattern

DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 4, 0]], np.float32)
FAILED = (jax.errors.JaxRuntimeError, ValueError)  # the way a call is dispatched decides which


@pytest.fixture(autouse=True)
def clamped():
    config.bounds = "clamp"
    yield
    config.bounds = "clamp"


def tensor(coordinates=(1, 3, 0, 2), pointers=(0, 2, 2, 4)):
    """The tensor of DENSE with these index arrays, which may be wrong."""
    A = jsparse.asarray(DENSE, format="csr", dynamic=True, nse=4)
    assert [list(x) for x in A.pattern.arrays] == [[0, 2, 2, 4], [1, 3, 0, 2]]
    arrays = tuple(jnp.array(x, jnp.int32) for x in (pointers, coordinates))
    return SparseTensor._wrap(A.values, DynamicPattern(A.pattern.type, arrays))


WRONG = {
    "do not increase": tensor((3, 1, 0, 2)),
    "repeated": tensor((1, 1, 0, 2)),
    "outside their dimension": tensor((1, 4, 0, 2)),
    "decrease": tensor(pointers=(0, 3, 2, 4)),
}

OPERATIONS = {
    "product": lambda A: A @ jnp.ones(4),
    "sum": lambda A: (A + jsparse.asarray(DENSE[::-1].copy())).values,
    "sparse product": lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=9).values,
    "conversion": lambda A: A.asformat("csc").values,
    "dense": lambda A: A.todense(),
}


def test_values():
    assert config.bounds == "clamp"
    with config(bounds="check"):
        assert config.bounds == "check"
        with config(bounds="clamp"):
            assert config.bounds == "clamp"
        programs = "bounds='check', backend='llvm', blocks='xla', tiles='auto', overflow='raise', autotune='off'"
        assert repr(config).startswith(f"jsparse.config({programs}, cache_dir=")
    assert "bounds" in dir(config)
    assert config.bounds == "clamp"


@pytest.mark.parametrize(
    "fault, operation",
    [*((fault, "product") for fault in WRONG), *(("outside their dimension", name) for name in OPERATIONS)],
)
def test_index_arrays_are_checked(fault, operation):
    f = jax.jit(OPERATIONS[operation])
    jax.block_until_ready(f(WRONG[fault]))
    with config(bounds="check"):
        with pytest.raises(FAILED, match=r"expected index arrays of a pattern 3 x 4 \(dense, compressed\).*" + fault):
            jax.block_until_ready(f(WRONG[fault]))
        np.testing.assert_array_equal(f(tensor()), jax.jit(OPERATIONS[operation])(tensor()))
    jax.block_until_ready(f(WRONG[fault]))


def test_functions_that_are_jitted_trace_once_for_each_value():
    traces = []

    @jax.jit
    def f(A):
        traces.append(config.bounds)
        return A @ jnp.ones(4)

    for value in ("clamp", "check", "clamp", "check"):
        config.bounds = value
        np.testing.assert_array_equal(f(tensor()), DENSE.sum(1))
    assert traces == ["clamp", "check"]
    with pytest.raises(FAILED, match="coordinates"):
        jax.block_until_ready(f(WRONG["repeated"]))


def test_a_block_affects_only_its_thread():
    f = jax.jit(lambda A: A @ jnp.ones(4))
    with ThreadPoolExecutor(1) as other, config(bounds="check"):
        assert other.submit(lambda: config.bounds).result() == "clamp"
        other.submit(lambda: jax.block_until_ready(f(WRONG["repeated"]))).result()
        with pytest.raises(FAILED):
            jax.block_until_ready(f(WRONG["repeated"]))


def test_derivatives_and_batches_are_checked():
    def loss(values, A):
        return (A.with_values(values) @ jnp.ones(4)).sum()

    stacked = jax.tree.map(lambda *x: jnp.stack(x), tensor(), WRONG["outside their dimension"])
    good = jax.tree.map(lambda *x: jnp.stack(x), tensor(), tensor())
    with config(bounds="check"):
        np.testing.assert_array_equal(jax.jit(jax.grad(loss))(tensor().values, tensor()), np.ones(4))
        with pytest.raises(FAILED, match="outside"):
            jax.block_until_ready(jax.jit(jax.grad(loss))(tensor().values, WRONG["outside their dimension"]))
        product = jax.jit(jax.vmap(lambda A: A @ jnp.ones(4)))
        np.testing.assert_array_equal(product(good), [DENSE.sum(1)] * 2)
        with pytest.raises(FAILED, match="outside"):
            jax.block_until_ready(product(stacked))


def test_overflows_and_tables_are_no_faults():
    """An overflow is no fault, its result is NaN. Indices in a table may be out of range."""
    with config(bounds="check"):
        assert jnp.isnan(jax.jit(lambda A: A @ jnp.ones(4))(tensor(pointers=(0, 2, 2, 5)))).all()
        table = jnp.array([2, -1, 7, 0])
        got = jax.jit(lambda t, x: jsparse.evaluate("y[t[p]] += x[p]", shape=(3,), t=t, x=x))(table, jnp.arange(1.0, 5))
        np.testing.assert_array_equal(got, [4, 0, 1])


def test_settings_come_from_the_environment():
    def printed(**variables):
        code = "import jsparse; print(jsparse.config)"
        unset = ("JSPARSE_BOUNDS", "JSPARSE_BACKEND", "JSPARSE_BLOCKS", "JSPARSE_OVERFLOW", "JSPARSE_LOG_COMPILES")
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", **dict.fromkeys(unset, ""), **variables}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        return done.stdout.strip() or done.stderr

    quiet = {"JSPARSE_PROGRESS": "0"}
    cache = {"JSPARSE_CACHE_DIR": "/some/where", "JSPARSE_CACHE_BYTES": "1000"}
    traced = {"JSPARSE_BOUNDS": "check", "JSPARSE_BACKEND": "interpret", "JSPARSE_BLOCKS": "pallas"}
    traced |= {"JSPARSE_OVERFLOW": "cut", "JSPARSE_TILES": "off", "JSPARSE_AUTOTUNE": "use"}
    found = printed(**traced, JSPARSE_LOG_COMPILES="1", **cache, **quiet)
    programs = "bounds='check', backend='interpret', blocks='pallas', tiles='off', overflow='cut', autotune='use'"
    changed = f"{programs}, cache_dir='/some/where', cache_bytes=1000, log_compiles=True"
    assert found == f"jsparse.config({changed}, progress=False)"
    found = printed(JSPARSE_CACHE_DIR="", JSPARSE_CACHE_BYTES="")
    programs = "bounds='clamp', backend='llvm', blocks='xla', tiles='auto', overflow='raise', autotune='off'"
    default = f"{programs}, cache_dir=None, cache_bytes={1 << 28}, log_compiles=False"
    assert found == f"jsparse.config({default}, progress=True)"
    assert "Expected the environment variable JSPARSE_BOUNDS to be 'clamp' or 'check'" in printed(JSPARSE_BOUNDS="yes")
    message = "Expected the environment variable JSPARSE_CACHE_BYTES to be a positive number of bytes, but got '-1'"
    assert message in printed(JSPARSE_CACHE_BYTES="-1")
