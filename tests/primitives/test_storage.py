"""Dense arrays moved to the storage order of kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.primitives import storage_order
from jsparse.primitives.routine import swap_last_axes
from jsparse.primitives.storage_order import transpose_to

DTYPES = ["bool", "int8", "uint16", "float16", "bfloat16", "int32", "float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (16, 16), (17, 33), (1, 300), (300, 1), (200, 131), (0, 5), (5, 0), (3, 40, 50), (2, 3, 70, 9)]


def numbers(shape, dtype):
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    x = rng.integers(0, 100, shape)
    return jnp.asarray(x + 1j * rng.integers(0, 100, shape) if dtype.startswith("complex") else x, dtype)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_last_two_dimensions_are_exchanged(dtype, shape):
    with jax.enable_x64(True):
        x = numbers(shape, dtype)
        got = jax.jit(swap_last_axes)(x)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, np.swapaxes(x, -1, -2))


def test_large_arrays_are_divided_over_threads():
    x = np.arange(1000 * 2100, dtype=np.int32).reshape(1000, 2100)
    np.testing.assert_array_equal(swap_last_axes(x), x.T)
    np.testing.assert_array_equal(swap_last_axes(x.T.copy()), x)


def test_bits_are_kept():
    x = np.array([[np.nan, -0.0], [np.inf, 1e-45]], np.float32)
    np.testing.assert_array_equal(np.asarray(swap_last_axes(x)).view(np.int32), x.T.copy().view(np.int32))


def test_a_batch_is_one_call():
    x = numbers((4, 20, 30), "float32")
    np.testing.assert_array_equal(jax.vmap(swap_last_axes)(x), np.swapaxes(x, 1, 2))
    np.testing.assert_array_equal(jax.vmap(swap_last_axes, 1, 2)(x), np.transpose(x, (2, 0, 1)))


@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 2, 3, 1), ()])
@pytest.mark.parametrize("large", [False, True])
def test_any_order(order, large, monkeypatch):
    monkeypatch.setattr(storage_order, "LARGE", 0 if large else 1 << 30)
    x = numbers(tuple(range(3, 3 + len(order))), "float32")
    np.testing.assert_array_equal(transpose_to(x, order), np.transpose(x, order))


def test_xla_transposes_nothing_large(monkeypatch):
    monkeypatch.setattr(storage_order, "LARGE", 1 << 16)
    rng = np.random.default_rng(0)
    A = jsparse.asarray(
        np.where(rng.random((300, 400)) < 0.02, rng.integers(1, 5, (300, 400)), 0).astype(np.float32), "csr"
    )
    x = rng.integers(-3, 4, (320, 300)).astype(np.float32)
    program = jax.jit(lambda x: jsparse.einsum("ki,ij->kj", x, A)).lower(x).compile()
    assert "transpose(" not in program.as_text()
    np.testing.assert_array_equal(program(x), x @ np.asarray(A.todense()))
