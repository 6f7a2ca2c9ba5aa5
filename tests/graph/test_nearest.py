"""Nearest neighbours beside distances between all points, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import dense

from jsparse import graph
from jsparse.graph import neighbours


def distances(x, metric):
    x = np.asarray(x, np.float64)
    if metric == "euclidean":
        return ((x[:, None] - x) ** 2).sum(axis=2)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    unit = np.divide(x, length, out=np.zeros_like(x), where=length > 0)
    return 1 - unit @ unit.T


def want(x, k, include_self, metric="euclidean", batch=None, radius=np.inf):
    d = distances(x, metric)
    np.fill_diagonal(d, -1 if include_self else np.inf)
    if batch is not None:
        d[batch[:, None] != batch] = np.inf
    d[d > radius**2] = np.inf
    nearest_ones = np.argsort(d, axis=1, kind="stable")[:, :k]
    a = np.zeros(d.shape)
    np.put_along_axis(a, nearest_ones, np.isfinite(np.take_along_axis(d, nearest_ones, axis=1)), axis=1)
    return a


def points(n=40, size=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, size)).astype(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("block, most_dimensions", [(2**22, 10), (300, 10), (2**22, 1), (300, 1), (1, 1)])
def test_points(metric, include_self, block, most_dimensions, monkeypatch):
    monkeypatch.setattr(neighbours, "BLOCK", block)
    monkeypatch.setattr(neighbours, "MOST_DIMENSIONS", most_dimensions)
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


def lattice(*sizes):
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes)).astype(np.float32)


def test_lattices_and_many_equal_points():
    """Trees find equally far points in no order, and more of them than candidates."""
    corners = lattice(*[2] * 8)  # 256 corners of a cube; 1, 8, 28, 56, 70, ... at equal distances
    for x, ks in ((lattice(7, 6, 5), (1, 7, 20, 33)), (corners, (3, 50, 120)), (np.zeros((300, 2)), (2, 299))):
        for k in ks:
            np.testing.assert_array_equal(graph.knn_graph(x, k).todense(), want(x, k, False))
            np.testing.assert_array_equal(graph.knn_graph(x, k, loop=True).todense(), want(x, k, True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("batch", [None, np.sort(np.arange(60) % 7 % 4), np.arange(60) * 17 % 11 - 3])
def test_batches_and_radii(batch, loop, traced):
    x = np.concatenate([points(40), lattice(4, 5, 1)]) + np.float32(100)
    x[5:9] = x[30]
    run = jax.jit if traced else lambda function: function
    for k in (9, 59)[traced:]:
        A = run(lambda x, b, k=k: graph.knn_graph(x, k, b, loop))(x, batch)
        np.testing.assert_array_equal(dense(A), want(x, k, loop, batch=batch))
    for r, most in ((1, 3), (2.5, 8), (1, 32), (100, None), (0, 32), (1, None))[: 2 if traced else 6]:
        k = 60 if most is None else most
        limit = k if traced else most
        A = run(lambda x, b, r, limit=limit: graph.radius_graph(x, r, b, loop, limit))(x, batch, r)
        assert A.is_dynamic == traced
        np.testing.assert_array_equal(dense(A), want(x, k, loop, batch=batch, radius=r))


def test_scales():
    """Squares of the coordinates overflow, or vanish, in float64."""
    with jax.enable_x64():
        for scale in (1e-200, 1e200):
            x = points().astype(np.float64) * scale
            np.testing.assert_array_equal(graph.knn_graph(x, 3).todense(), want(x / scale, 3, False))
            np.testing.assert_array_equal(graph.radius_graph(x, scale).todense(), want(x / scale, 32, False, radius=1))


def test_no_points():
    for n in (0, 1):
        x = np.zeros((n, 3), np.float32)
        for most in (None, 4):
            assert graph.radius_graph(x, 1.0, max_num_neighbors=most).nse == 0
            assert graph.radius_graph(x, 1.0, loop=True, max_num_neighbors=most).nse == n
        assert graph.knn_graph(x, 3, np.zeros(n, int)).shape == (n, n)


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
    found = np.asarray(jax.jit(lambda x: graph.knn_graph(x, 3) @ jnp.ones(40))(x))
    assert np.isnan(found[7])
    np.testing.assert_array_equal(np.delete(found, 7), 3)
    found = np.asarray(jax.jit(lambda x: graph.radius_graph(x, 1.0) @ jnp.ones(40))(x))
    assert np.isnan(found[7])
    np.testing.assert_array_equal(
        np.delete(found, 7), np.delete(want(np.where(x == x, x, 99), 32, False, radius=1), 7, 0).sum(1)
    )
