"""Tensors whose elements that are not stored differ: centred and normalized ones, in values, gradients and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify.operands import DENSE, W, check, tensor, x, y

import jsparse

STATISTICS = {
    "variances": lambda A: (jnp.var(A), jnp.var(A, 0, ddof=1), jnp.std(A, 1, keepdims=True)),
    "of stored entries": lambda A: (jnp.var(A, 1, where=A != 0), jnp.std(A, 0, where=A != 0, keepdims=True)),
    "covariances": lambda A: (jnp.cov(A), jnp.corrcoef(A.T)),
    "logsumexp": lambda A: (
        jax.nn.logsumexp(A, 1),
        jax.scipy.special.logsumexp(A),
        jax.nn.logsumexp(A, 0, where=A != 0),
    ),
    "extremes": lambda A: ((A - A.mean(1, keepdims=True)).max(1), (A - y[:, None]).argmin(1), (A.mean(0) < A).any(0)),
    "over several axes": lambda A: (
        (A - A.mean(0)).max(),
        ((A - x) ** 2).sum(),
        jnp.abs(A - x).sum(1),
        (A * 1j - x).mean(),
    ),
    "products": lambda A: ((A + 2).prod(1), (A - A.mean() - 1).prod(0)),
    "three dimensions": lambda A: (A.reshape(2, 3, 5) - A.reshape(2, 3, 5).mean(0)).std((0, 2)),
}
NORMS = {
    "layer norm": lambda A: jnp.where(
        A != 0, (A - A.mean(1, keepdims=True)) / (jnp.std(A, 1, keepdims=True) + 1) * x, 0
    ),
    "rms norm": lambda A: A * jax.lax.rsqrt(jnp.mean(A**2, 1, keepdims=True) + 1e-3) * x,
    "batch norm": lambda A: jnp.where(A != 0, (A - A.mean(0)) / jnp.sqrt(A.var(0) + 1e-3) * x + 1, 0),
    "of stored entries": lambda A: (
        (m := jnp.mean(A, 1, keepdims=True, where=A != 0)),
        jnp.where(A != 0, (A - m) / jnp.sqrt(jnp.var(A, 1, keepdims=True, where=A != 0) + 1), 0),
    )[1],
    "softmax": lambda A: (jnp.where(A > 0, jax.nn.softmax(A), 0), jnp.where(A > 0, jax.nn.log_softmax(A, 0), 0)),
    "standardize": lambda A: jnp.where(A != 0, jax.nn.standardize(A + 1, epsilon=1e-2), 0),
}
THEN = {
    "affine layers": lambda A: (jax.nn.sigmoid(A) @ W, (A - A.mean(0)) @ W, y @ (A - A.mean(1, keepdims=True))),
    "attention": lambda A: jax.nn.softmax(A, 1) @ W,
    "relu of a norm": lambda A: jax.nn.relu((A - A.mean(0)) / (A.std(0) + 1)) @ W,
    "of two": lambda A: (A - A.mean(0)).T @ (A + 1),
    "rows and columns": lambda A: (
        (A + x + y[:, None]) @ W,
        y @ ((A - x) * y[:, None] / x),
        (A * y[:, None] + x).T @ (A - 1),
    ),
    "sums of rows and columns": lambda A: (
        ((A - A.mean(1, keepdims=True)) * (x / y[:, None]) - x).sum(0),
        (-(A + x - y[:, None])).sum(1),
        ((A + x) * y[:, None] + 1).reshape(2, 3, 5).mean((0, 2)),
        ((A + x) * y[:, None] + 1) * DENSE,
    ),
    "layers": lambda A: ((A - A.mean(1, keepdims=True)) * (jax.lax.rsqrt(A.var(1, keepdims=True) + 1) * x) + x) @ W,
    "moved": lambda A: (
        ((A - A.mean(0)).T[1:, ::-1].reshape(4, 2, 3)[:, 1] * 2).sum(1),
        (jnp.tile(A - x, (2, 2))[3:][:, np.array([1, 7])] + 1).sum(0),
        jnp.concatenate([A - y[:, None], A - 1, jnp.ones((2, 5))]).sum(1),
        jnp.concatenate([A - x, A - 1], 1).sum(0),
        jnp.stack([A - x, A], 1).sum(0),
        jnp.pad(A + 1, 1, constant_values=1).sum(0),
        jnp.split(A - x, 2)[1].sum(0),
    ),
    "elements": lambda A: (
        jnp.take_along_axis(jax.nn.log_softmax(A), jnp.arange(6)[:, None] % 5, 1),
        (A - x)[jnp.array([0, 5]), jnp.array([2, 1])],
        (A - x)[y.astype(int)].sum(1),
    ),
    "loops": lambda A: jax.lax.scan(lambda c, t: (c + t, (A - A.mean(0)) * t), 0.0, y[:3])[1].sum((0, 1)),
    "checkpoints": lambda A: jax.checkpoint(lambda A: (A - A.mean(0)) ** 2)(A).sum(0),
    "branches": lambda A: jax.lax.cond(A.sum() > 0, lambda: A - A.mean(0), lambda: A - 2 * A.mean(0)).std(0),
}
CASES = {**STATISTICS, **{f"{name} ": f for name, f in NORMS.items()}, **THEN}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_values(name):
    check(CASES[name], tensor(), jit=name in ("moved", "elements"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["layer norm ", "softmax ", "extremes", "layers"])
def test_dynamic_patterns(name):
    check(CASES[name], tensor("csc", is_dynamic=True), jit=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name", ["layer norm ", "attention", "relu of a norm", "over several axes", "of two", "layers"]
)
def test_gradients_and_batches(name):
    def loss(A):
        return sum((jnp.abs(jnp.asarray(leaf)) ** 2).sum() for leaf in jax.tree.leaves(CASES[name](A)))

    A, function = tensor(), jax.jit(jax.grad(jsparse.sparsify(loss)))
    expected = jnp.where(DENSE != 0, jax.vmap(jax.grad(loss))(jnp.stack([DENSE, DENSE / 2])), 0)
    np.testing.assert_allclose(function(A).todense(), expected[0], rtol=1e-4, atol=1e-4)
    found = jax.vmap(lambda v: function(A.with_values(v)).todense())(jnp.stack([A.values, A.values / 2]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_derivative_of_its_own_sees_the_background():
    @jax.custom_jvp
    def squares(A):
        return A * A

    squares.defjvp(lambda given, change: (squares(*given), 3 * given[0] * change[0]))  # only the rule gives the 3

    def function(A):
        return squares(A - A.mean(0)).sum()

    expected = jax.grad(function)(DENSE) * (DENSE != 0)
    np.testing.assert_allclose(jax.grad(jsparse.sparsify(function))(tensor()).todense(), expected, rtol=1e-4, atol=1e-4)


def test_a_reverse_derivative_of_its_own_is_refused():
    @jax.custom_vjp
    def twice(A):
        return A * 2

    twice.defvjp(lambda A: (A * 2, None), lambda _, g: (g * 2,))
    function = jsparse.sparsify(lambda A: twice(A - A.mean(0)).sum())
    np.testing.assert_allclose(function(tensor()), 0, atol=1e-5)
    with pytest.raises(jsparse.NotYetSupportedError, match=r"custom reverse derivative.*custom_jvp"):
        jax.grad(function)(tensor())


def test_full_rows_have_no_background():
    """An infinite background plays no part where everything is stored."""
    full = jnp.asarray([[1.0, 2, 4], [0, 5, 0]])
    A = jsparse.asarray(np.asarray(full), format="csr")
    function = jsparse.sparsify(lambda A: ((1 / A).sum(1), (1 / A).min(1), jnp.log(A).max(1)))
    for found, expected in zip(function(A), ([1.75, np.inf], [0.25, 0.2], [np.log(4), np.log(5)]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    gradient = jax.grad(lambda A: jsparse.sparsify(lambda A: (1 / A).sum(1))(A)[0])(A)
    np.testing.assert_allclose(gradient.values, [-1, -1 / 4, -1 / 16, 0], rtol=1e-6)


def test_an_infinite_background_gives_nan_in_products():
    found = jsparse.sparsify(lambda A: jnp.log(jnp.abs(A)) @ jnp.ones(5))(tensor())
    assert np.isnan(found).all()


def test_halves_are_summed_in_float32():
    """The mean of 4,000 rows of 1 + 2⁻⁷, of which few are stored, is exact in bfloat16."""
    number = 1 + 2.0**-7
    A = jsparse.SparseTensor.from_coords([[0, 3999], [0, 1]], jnp.zeros(2, jnp.bfloat16), (4000, 3), "csr")
    found = jsparse.sparsify(lambda A: ((A + number).sum(0) / 4000, (A + number).T @ jnp.ones(4000, jnp.bfloat16)))(A)
    assert found[0].dtype == jnp.bfloat16
    np.testing.assert_array_equal(found[0], np.full(3, number))
    np.testing.assert_array_equal(found[1], np.full(3, 4000 * number).astype(jnp.bfloat16))


def test_large_means_keep_their_digits():
    """Σ (x - m)² is summed, not Σ x² - n m²."""
    full = jnp.asarray([[1e4, 1e4 + 1, 1e4 + 2, 0]])
    A = jsparse.asarray(np.asarray(full), format="csr")
    for function in (lambda A: jnp.var(A[:, :3]), lambda A: jnp.var(A, where=A != 0)):
        np.testing.assert_allclose(jsparse.sparsify(function)(A), 2 / 3, rtol=1e-5)


def test_long_dimensions():
    """Nothing is made of the size of a dimension."""
    n = 10**9
    A = jsparse.SparseTensor.from_coords([[5, n - 1, 7], [7, 3, 7]], np.ones(3, np.float32), (n, n), "coo")
    found, total = jsparse.sparsify(lambda A: (jnp.where(A != 0, (A - A.mean()) / 2, 0), (A - 1e-18).sum()))(A)
    assert found.nse == 3
    np.testing.assert_allclose(total, 2, rtol=1e-6)


def test_a_background_of_all_elements_is_unknown():
    with pytest.raises(jsparse.PatternError, match=r"'add' in .*test_backgrounds.py:\d+.*'dot_general'.*may differ"):
        jsparse.sparsify(lambda A: jnp.exp(A + x + y[:, None]) @ W)(tensor())


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", ["(i, j) -> (i : compressed, j : dense)", "(i, j) -> (j : compressed, i : dense)"])
def test_elements_that_dense_levels_add_are_those_of_the_background(format, dynamic):
    a, b = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]], np.float32), np.array([[0.0, 0, 0], [1, 0, 5], [0, 3, 0]])
    A, B = jsparse.asarray(a, format=format), jsparse.asarray(b.astype(np.float32), format=format)
    for function in (
        lambda x, y: jnp.pad(jnp.exp(x), ((1, 0), (2, 1)), constant_values=1.0).sum(0),
        lambda x, y: jnp.concatenate([jnp.exp(x), jnp.exp(y)], 0).sum(0),
        lambda x, y: jnp.concatenate([jnp.exp(x), jnp.exp(y)], 1).sum(0),
        lambda x, y: jnp.stack([jnp.exp(x), y + y.sum(0)], 1).sum(0),
        lambda x, y: jnp.concatenate([x - x.sum(0), y - y.sum(0)], 1).sum(0),
    ):
        found = jsparse.sparsify(function)(*(x.dynamic() if dynamic else x for x in (A, B)))
        np.testing.assert_allclose(found, function(a, b), rtol=1e-6, atol=1e-6)
