"""Linear layers with sparse weights against dense ones."""

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


@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_and_gradients(dynamic: bool) -> None:
    W = weight(dynamic)
    dense = W.todense()
    expected = X @ dense + BIAS
    np.testing.assert_allclose(jsparse.nn.linear(X, W, BIAS), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(jsparse.nn.linear)(X, W), expected - BIAS, rtol=1e-5, atol=1e-5)

    def loss(x, values, bias):
        return (jsparse.nn.linear(x, W.with_values(values), bias) ** 2).sum()

    found = jax.grad(loss, (0, 1, 2))(X, W.values, BIAS)
    wanted = jax.grad(lambda x, w, b: ((x @ w + b) ** 2).sum(), (0, 1, 2))(X, dense, BIAS)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-4)
    rows, columns = np.asarray(weight().coords)
    np.testing.assert_allclose(found[1][: len(rows)], wanted[1][rows, columns], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-4)


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


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((X, np.ones((12, 7))), "Expected a SparseTensor as the weight of linear, but got a ndarray"),
        ((X[..., :11], weight()), r"Expected x \(..., in\) and a weight \(in, out\) in linear, but got x \(2, 5, 11\)"),
        ((X, weight(), BIAS[:6]), r"Expected a bias \(7,\) in linear, but got \(6,\)"),
    ],
)
def test_errors(arguments: tuple, message: str) -> None:
    with pytest.raises(jsparse.JsparseError, match=message):
        jsparse.nn.linear(*arguments)


def test_n_of_m_keeps_the_largest_of_each_group() -> None:
    rng = np.random.default_rng(3)
    w = rng.integers(-4, 5, (12, 5)).astype(np.float32)
    for axis, m in ((0, 4), (1, 5), (-1, 5), (0, 3)):
        found = np.asarray(jsparse.nn.n_of_m(w, 2, m, axis=axis).todense())
        expected = np.zeros_like(w)
        for index in np.ndindex(*np.moveaxis(w, axis, -1).shape[:-1]):
            line, kept = np.moveaxis(w, axis, -1)[index], np.moveaxis(expected, axis, -1)[index]
            for first in range(0, len(line), m):
                largest = np.argsort(-np.abs(line[first : first + m]), kind="stable")[:2] + first
                kept[largest] = line[largest]
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(jsparse.ShapeError, match="multiple of m"):
        jsparse.nn.n_of_m(w, 2, 5)


def test_gradual_sparsity() -> None:
    steps = np.arange(-5, 40)
    found = np.asarray(
        jax.jit(lambda t: jsparse.nn.gradual_sparsity(t, begin=3, end=23, final=0.95, initial=0.2))(steps)
    )
    expected = 0.95 - 0.75 * (1 - np.clip((steps - 3) / 20, 0, 1)) ** 3
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(jsparse.ShapeError, match="begin < end"):
        jsparse.nn.gradual_sparsity(0, begin=3, end=3, final=0.5)
