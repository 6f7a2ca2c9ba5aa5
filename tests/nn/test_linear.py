"""Linear layers with sparse weights against dense ones."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jsparse
import jsparse.linen
import jsparse.nnx
from jsparse import SparseTensor

X = jnp.asarray(np.random.default_rng(0).standard_normal((2, 5, 12)), jnp.float32)
BIAS = jnp.arange(7.0)


def weight(dynamic: bool = False) -> SparseTensor:
    W = jsparse.random(jax.random.key(1), (12, 7), density=0.3, sampler=jax.random.normal)
    return W.dynamic(W.nse + 3) if dynamic else W


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
def test_sparse_inputs(dtype) -> None:
    bags = np.where(np.random.default_rng(4).random((6, 12)) < 0.3, np.float32(1.5), 0)
    x, exact = jsparse.asarray(bags), bags.astype(np.float64)
    blocks = jsparse.random(jax.random.key(2), (4, 2), density=0.5).pattern.extended([3, 2])
    W, wide = weight(), jsparse.SparseTensor(jnp.arange(blocks.nse) % 7 + 1.0, blocks)
    layers = {
        "linear": (lambda x: jsparse.nn.linear(x, W, BIAS, dtype=dtype), exact @ np.asarray(W.todense()) + BIAS),
        "block_linear": (
            lambda x: jsparse.nn.block_linear(x, wide, dtype=dtype),
            exact @ np.asarray(wide.todense().transpose(0, 2, 1, 3).reshape(12, 4)),
        ),
        "nnx": (jsparse.nnx.SparseLinear.of(W, BIAS, dtype=dtype), exact @ np.asarray(W.todense()) + BIAS),
    }
    pruned = jsparse.nnx.PrunedLinear(12, 7, dtype=dtype, rngs=nnx.Rngs(0))
    layers["pruned"] = (pruned, exact @ np.asarray(pruned.linear.kernel[...]))
    other = jsparse.linen.SparseLinear(pattern=W.pattern, dtype=dtype)
    variables = {"params": {"kernel": W.values, "bias": BIAS}}
    layers["linen"] = (lambda x: other.apply(variables, x), layers["nnx"][1])
    for name, (layer, expected) in layers.items():
        found = [layer(given) for given in (x, x.dynamic(x.nse + 2), x.to_scipy())]
        for one in found:
            assert isinstance(one, jax.Array)
            assert one.dtype == (dtype or jnp.float32)
            tolerance = 1e-5 if dtype is None else 2e-2
            np.testing.assert_allclose(np.asarray(one, float), expected, tolerance, tolerance, err_msg=name)


def largest_of_groups(w: np.ndarray, n: int, m: int, axis: int) -> np.ndarray:
    """The n largest magnitudes of each group by Python's numbers, with NaN as the largest; 0 elsewhere."""
    expected = np.zeros_like(w)
    for index in np.ndindex(*np.moveaxis(w, axis, -1).shape[:-1]):
        line, kept = np.moveaxis(w, axis, -1)[index], np.moveaxis(expected, axis, -1)[index]
        sizes = [math.inf if np.isnan(x) else abs(complex(x)) for x in line]
        is_nan = [bool(np.isnan(x)) for x in line]
        for first in range(0, len(line), m):
            group = range(first, first + m)
            largest = sorted(group, key=lambda at: (not is_nan[at], -sizes[at], at))[:n]
            kept[largest] = line[largest]
    return expected


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "int8", "int32", "uint8", "uint16", "uint32", "bool", "complex64"]
)
def test_n_of_m_keeps_the_largest_of_each_group(dtype: str) -> None:
    rng = np.random.default_rng(3)
    w = rng.integers(-4, 5, (12, 5)).astype(dtype)
    if w.dtype.kind == "i":
        w[:3, 0] = np.iinfo(dtype).min, 1, np.iinfo(dtype).max
    if w.dtype.kind == "u":
        w[3:5, 1] = 0, np.iinfo(dtype).max
    if w.dtype.kind not in "iub":
        w[1, 2], w[2, 2], w[7, 1] = np.nan, np.inf, -np.nan
    for axis, m in ((0, 4), (1, 5), (-1, 5), (0, 3), (0, 12)) if dtype == "float32" else ((0, 4), (1, 5)):
        expected = largest_of_groups(w, 2, m, axis)
        f = partial(jsparse.nn.n_of_m, n=2, m=m, axis=axis)
        for found in (f(w), f(jnp.asarray(w)), jax.jit(f)(w)):
            assert (found.dtype, found.nse, found.shape) == (w.dtype, w.size * 2 // m, w.shape)
            np.testing.assert_array_equal(*(np.asarray(x, np.complex64) for x in (found.todense(), expected)))
        assert not f(w).is_dynamic
        assert jax.jit(f)(w).is_dynamic
        assert not jax.jit(lambda f=f: f(w))().is_dynamic


@pytest.mark.parametrize(
    "format",
    ["csr", "csc", "coo", "dense", "(i, j) -> (i : compressed, j : dense)", "(i, j) -> (j : dense, i : range)"],
)
def test_n_of_m_in_all_formats(format: str) -> None:
    """The elements that are not kept are 0, also where a row or a run is stored as a whole."""
    w = np.random.default_rng(4).integers(1, 9, (8, 6)).astype(np.float32)
    f = partial(jsparse.nn.n_of_m, n=1, m=4, format=format)
    for found in (f(w), jax.jit(f)(w)):
        assert found.format == jsparse.Format.of(format, 2)
        np.testing.assert_array_equal(np.asarray(found.todense()), largest_of_groups(w, 1, 4, 0))


def test_n_of_m_is_differentiable_and_maps() -> None:
    w = jnp.asarray(np.random.default_rng(5).normal(size=(8, 3)), jnp.float32)
    mask = largest_of_groups(np.asarray(w), 2, 4, 0) != 0

    def loss(w: jax.Array) -> jax.Array:
        return (jsparse.nn.n_of_m(w, 2, 4).todense() ** 3).sum()

    for f in (jax.grad(loss), jax.jit(jax.grad(loss)), jax.grad(jax.jit(loss))):
        np.testing.assert_allclose(f(w), np.where(mask, 3 * w**2, 0), rtol=1e-6)
    several = jnp.stack([w, -w[::-1]])
    found = jax.vmap(lambda w: jsparse.nn.n_of_m(w, 2, 4).todense())(several)
    for one, given in zip(found, several, strict=True):
        np.testing.assert_array_equal(one, largest_of_groups(np.asarray(given), 2, 4, 0))


def test_n_of_m_takes_integers_of_numpy() -> None:
    assert jsparse.nn.n_of_m(np.ones((4, 2), np.float32), np.int64(1), np.int64(4)).nse == 2


def test_gradual_sparsity() -> None:
    steps = np.arange(-5, 40)
    found = np.asarray(
        jax.jit(lambda t: jsparse.nn.gradual_sparsity(t, begin=3, end=23, final=0.95, initial=0.2))(steps)
    )
    expected = 0.95 - 0.75 * (1 - np.clip((steps - 3) / 20, 0, 1)) ** 3
    np.testing.assert_allclose(found, expected, rtol=1e-6)
