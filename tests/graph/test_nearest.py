"""Nearest neighbours beside distances between all points, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import dense

from jsparse import graph
from jsparse.errors import DTypeError, PatternError, ShapeError
from jsparse.graph import nearest


def distances(x, metric):
    x = np.asarray(x, np.float64)
    if metric == "euclidean":
        return ((x[:, None] - x) ** 2).sum(axis=2)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    unit = np.divide(x, length, out=np.zeros_like(x), where=length > 0)
    return 1 - unit @ unit.T


def want(x, k, include_self, metric):
    d = distances(x, metric)
    np.fill_diagonal(d, -1 if include_self else np.inf)
    nearest_ones = np.argsort(d, axis=1, kind="stable")[:, :k]
    a = np.zeros(d.shape)
    np.put_along_axis(a, nearest_ones, 1, axis=1)
    return a


def points(n=40, size=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, size)).astype(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("block", [2**22, 300, 1])
def test_points(metric, include_self, block, monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK", block)
    jax.clear_caches()  # the size of blocks is no argument of the program
    x = points()
    for k in (1, 5, 39):
        A = graph.knn_graph(x, k, include_self=include_self, metric=metric)
        assert (A.shape, A.nse, A.dtype, A.format.name, A.is_dynamic) == ((40, 40), 40 * k, np.float32, "csr", False)
        np.testing.assert_array_equal(A.todense(), want(x, k, include_self, metric))


def test_traced_points():
    x = points()
    A = jax.jit(lambda x: graph.knn_graph(x, 4))(x)
    assert (A.is_dynamic, A.nse) == (True, 160)
    np.testing.assert_array_equal(dense(A), want(x, 4, False, "euclidean"))
    assert not np.asarray(jax.jit(jax.grad(lambda x: (graph.knn_graph(x, 4) @ jnp.ones(40)).sum()))(x)).any()
    several = jax.vmap(lambda x: graph.knn_graph(x, 4) @ jnp.arange(40.0))(jnp.stack([x, points(seed=1)]))
    np.testing.assert_allclose(several[1], want(points(seed=1), 4, False, "euclidean") @ np.arange(40), rtol=1e-6)


def test_far_from_the_origin_and_close_together():
    """Squares of 10⁸ in float32 are rounded to multiples of 8, but differences are exact."""
    x = np.concatenate([points(20) / 64, points(20, seed=1) / 64 + 5]).astype(np.float32) + 10_000
    np.testing.assert_array_equal(graph.knn_graph(x, 3).todense(), want(x, 3, False, "euclidean"))
    pairs = np.repeat(points(10) * 100, 2, axis=0)
    pairs[1::2] += 1e-4
    found = graph.knn_graph(pairs, 1).todense()
    np.testing.assert_array_equal(np.argmax(found, axis=1), np.arange(20) ^ 1)


def test_equal_points_and_ties():
    x = np.array([[0.0], [0.0], [0.0], [1.0]], np.float32)
    for include_self in (False, True):
        found = graph.knn_graph(x, 2, include_self=include_self)
        np.testing.assert_array_equal(found.todense(), want(x, 2, include_self, "euclidean"))


def test_cosine_of_zero():
    x = np.array([[1, 0], [-1, 0.1], [0, 0], [2, 0.1], [0.1, 1.2]], np.float32)
    for k in (1, 2, 3):
        found = graph.knn_graph(x, k, metric="cosine").todense()
        np.testing.assert_array_equal(np.delete(found, 2, 0), np.delete(want(x, k, False, "cosine"), 2, 0))


def test_dtypes():
    x = points() * 100
    assert graph.knn_graph(x.astype(np.int32), 2).dtype == np.float32
    assert graph.knn_graph(jnp.asarray(x, jnp.bfloat16), 2).dtype == jnp.bfloat16
    found = graph.knn_graph(x.astype(np.int32), 2).todense()
    np.testing.assert_array_equal(found, want(x.astype(np.int32), 2, False, "euclidean"))


def test_points_that_are_not_finite():
    x = points()
    x[7, 1] = np.nan
    with pytest.raises(PatternError, match="row 7 has NaN"):
        graph.knn_graph(x, 3)
    found = np.asarray(jax.jit(lambda x: graph.knn_graph(x, 3) @ jnp.ones(40))(x))
    assert np.isnan(found[7])
    np.testing.assert_array_equal(np.delete(found, 7), 3)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: graph.knn_graph(points(), 40), ShapeError, "from 1 to 39"),
        (lambda: graph.knn_graph(points(), 41, include_self=True), ShapeError, "from 1 to 40"),
        (lambda: graph.knn_graph(points(), 0), ShapeError, "but got 0"),
        (lambda: graph.knn_graph(points(), 1.5), ShapeError, "the k of jsparse.graph.knn_graph"),
        (lambda: graph.knn_graph(points()[0], 1), ShapeError, "(n, dimensions)"),
        (lambda: graph.knn_graph(points(), 1, metric="l1"), ShapeError, "'euclidean' or 'cosine', but got 'l1'"),
        (lambda: graph.knn_graph(points() * 1j, 1), DTypeError, "real numbers"),
        (lambda: graph.knn_graph(np.array(["a"]), 1), DTypeError, "points for jsparse.graph.knn_graph"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)
