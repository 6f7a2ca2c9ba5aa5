"""One compiled program, with one set of kernels, serves all patterns of one shape, format and capacity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import jsparse
from jsparse.compiler.backends.llvm import jit
from jsparse.convert.creation import asarray
from jsparse.tensor.sparse_tensor import SparseTensor


def patterns(count, format="csr", nse=30):
    rng = np.random.default_rng(0)
    dense = [rng.integers(1, 5, (9, 11)) * (rng.random((9, 11)) < 0.1 * (n % 3)) for n in range(count)]
    return [(x.astype(np.float32), asarray(x.astype(np.float32), format, dynamic=True, nse=nse)) for x in dense]


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_one_trace_and_one_set_of_kernels(format, monkeypatch):
    compiled, traces = [], []
    compile_kernel = jit.compile_kernel
    monkeypatch.setattr(jit, "compile_kernel", lambda *given: compiled.append(given) or compile_kernel(*given))

    @jax.jit
    def step(A, x):
        traces.append(None)
        loss = lambda A, x: ((A @ x) ** 2).sum()  # noqa: E731
        return A @ x, jsparse.grad(loss, argnums=(0, 1))(A, x), A.asformat("csc")

    counts = set()
    for x, A in patterns(9, format):
        v = jnp.arange(11.0)
        y, (dA, dv), B = step(A, v)
        np.testing.assert_array_equal(y, x @ v)
        np.testing.assert_allclose(dv, 2 * x.T @ (x @ v))
        np.testing.assert_array_equal(dA.todense(), np.where(x != 0, 2 * np.outer(x @ v, v), 0))
        np.testing.assert_array_equal(B.todense(), x)
        counts.add(len(compiled))
    assert len(traces) == 1
    assert len(counts) == 1


def test_one_program_of_coordinates_and_of_arrays():
    traces = []

    @jax.jit
    def product(coords, values, x):
        traces.append(None)
        return SparseTensor.from_coords(coords, values, (6, 8), "csr") @ x

    @jax.jit
    def total(x):
        traces.append(None)
        return asarray(x, dynamic=True, nse=48).values.sum()

    @jax.jit
    def through(x):
        traces.append(None)
        return asarray(x).todense()

    rng = np.random.default_rng(0)
    for _ in range(5):
        coords, values, x = rng.integers(0, 6, (2, 20)), rng.integers(0, 9, 20).astype(np.float32), np.ones(8, "f4")
        expected = np.zeros((6, 8), np.float32)
        np.add.at(expected, tuple(coords), values)
        np.testing.assert_array_equal(product(coords, values, x), expected @ x)
        assert total(expected) == expected.sum()
        np.testing.assert_array_equal(through(sparse.BCOO.fromdense(expected, nse=20)), expected)
    assert len(traces) == 3


def test_another_capacity_is_another_program():
    traces = []
    f = jax.jit(lambda A: (traces.append(None), A.values.sum())[1])
    for nse in (30, 31, 30):
        f(patterns(1, nse=nse)[0][1])
    assert len(traces) == 2


def test_no_index_array_is_in_the_program():
    A = asarray(np.eye(2000, dtype=np.float32), dynamic=True)
    text = jax.jit(lambda A, x: A @ x).lower(A, jnp.ones(2000)).compile().as_text()
    assert "s32[2000]{0} constant" not in text
