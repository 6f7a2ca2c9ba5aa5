"""Repeated edges made one, beside numpy's reductions of the edges of each pair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import dense

import jsparse
from jsparse import graph

REDUCTIONS = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max, "mul": np.prod}
RNG = np.random.default_rng(0)
SOURCE, TARGET = RNG.integers(0, 5, 40), RNG.integers(0, 4, 40)
SHAPE = (6, 7)
WEIGHTS = (RNG.integers(1, 9, 40) * RNG.choice([-1, 1], 40) / 4).astype(np.float32)
FEATURES = RNG.integers(-4, 5, (40, 2, 3)).astype(np.float32)


def want(values, reduce):
    """The reduced numbers of each pair, in the order of targets and sources."""
    pairs = sorted(set(zip(TARGET.tolist(), SOURCE.tolist(), strict=True)))
    each = (values[(target == TARGET) & (source == SOURCE)] for target, source in pairs)
    return np.array(pairs), np.stack([REDUCTIONS[reduce](x.astype(np.float64), axis=0) for x in each])


def kept(kind="static", weights=WEIGHTS):
    def made(source, target):
        return graph.from_edges(source, target, weights, shape=SHAPE, duplicates="keep")

    A = jax.jit(made)(SOURCE, TARGET) if kind == "traced" else made(SOURCE, TARGET)
    return A.dynamic(50) if kind == "dynamic" else A


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["static", "dynamic", "traced"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_weights_and_features(reduce, kind):
    A = kept(kind)
    features = jnp.asarray(FEATURES).at[A.coords[2]].get(mode="fill", fill_value=np.nan)
    run = graph.coalesce if kind == "static" else jax.jit(graph.coalesce, static_argnums=2)
    matrix, found = run(A, features, reduce)
    pairs, weights = want(WEIGHTS, reduce)
    assert (matrix.shape, matrix.format.name, matrix.is_dynamic) == (SHAPE, "csr", kind != "static")
    assert (matrix.nse, found.shape) == (len(pairs), (len(pairs), 2, 3)) if kind == "static" else (A.nse, (A.nse, 2, 3))
    matrix.validate()
    coords, values = matrix.to_coords()
    np.testing.assert_array_equal(np.transpose(coords), pairs)
    np.testing.assert_allclose(values, weights, rtol=1e-6)
    np.testing.assert_allclose(found[: len(pairs)], want(FEATURES, reduce)[1], rtol=1e-6)
    assert not np.asarray(found[len(pairs) :]).any()
    np.testing.assert_array_equal(dense(run(A, None, reduce)), dense(matrix))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_from_edges(reduce):
    pairs, weights = want(WEIGHTS, reduce)
    whole = np.zeros(SHAPE)
    whole[tuple(pairs.T)] = weights
    index = np.stack([SOURCE, TARGET])
    for format, nse in ((None, None), ("csc", None), (None, 30)):
        A = graph.from_edge_index(index, WEIGHTS, shape=SHAPE, duplicates=reduce, format=format, nse=nse)
        assert (A.format.name, A.is_dynamic, A.nse) == (format or "csr", nse is not None, nse or len(pairs))
        np.testing.assert_allclose(dense(A), whole, rtol=1e-6)
    traced = jax.jit(lambda index: graph.from_edge_index(index, WEIGHTS, shape=SHAPE, duplicates=reduce, nse=25))(index)
    np.testing.assert_allclose(dense(traced), whole, rtol=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients(reduce, kind):
    """Beside differences of the dense matrix, which the reductions are smooth in where no two edges are equal."""
    weights = np.linspace(0.5, 2, 40, dtype=np.float32)[RNG.permutation(40)]
    A = kept(kind, weights)
    g = np.arange(42, dtype=np.float32).reshape(SHAPE)
    order = np.asarray(A.coords[2])[:40]

    def loss(values):
        return (graph.coalesce(A.with_values(values), None, reduce).todense() * g).sum()

    slopes = np.asarray(jax.jit(jax.grad(loss))(A.values))[:40]
    expected = np.zeros(40)
    for n in range(40):
        up, down = (np.where(np.arange(40) == n, weights + h, weights).astype(np.float64) for h in (1e-3, -1e-3))
        pairs, high = want(up, reduce)
        low = want(down, reduce)[1]
        expected[n] = ((high - low) * g[tuple(pairs.T)]).sum() / 2e-3
    np.testing.assert_allclose(slopes, expected[order], rtol=1e-3, atol=1e-3)


def test_dtypes():
    many = np.full(3000, 1.01)
    for dtype in (jnp.bfloat16, np.float16):
        A = graph.from_edges(
            np.zeros(3000, int), np.ones(3000, int), jnp.asarray(many, dtype), nodes=2, duplicates="keep"
        )
        exact = np.float64(jnp.asarray(1.01, dtype))
        for reduce, number in (("sum", 3000 * exact), ("mean", exact))[dtype == np.float16 :]:
            matrix, found = graph.coalesce(A, A.values[:, None], reduce)
            assert matrix.dtype == found.dtype == dtype
            assert matrix.values[0] == found[0, 0] == jnp.asarray(number, dtype)
    for dtype in (np.int8, np.int32):
        A = graph.from_edges([0, 0], [1, 1], np.array([3, 4], dtype), nodes=2, duplicates="keep")
        found = {reduce: graph.coalesce(A, reduce=reduce) for reduce in REDUCTIONS}
        assert {reduce: one.values[0] for reduce, one in found.items()} == {
            "sum": 7,
            "mean": 3.5,
            "min": 3,
            "max": 4,
            "mul": 12,
        }
        assert {one.dtype for reduce, one in found.items() if reduce != "mean"} == {np.dtype(dtype)}
    complex_ = graph.from_edges([0, 0], [1, 1], np.array([1j, 2], np.complex64), nodes=2, duplicates="mul")
    assert complex_.values[0] == 2j


def test_no_edges_no_features_and_matrices():
    A = graph.from_edges([], [], nodes=3, duplicates="keep")
    matrix, found = graph.coalesce(A, jnp.zeros((0, 4)))
    assert (matrix.shape, matrix.nse, found.shape) == ((3, 3), 0, (0, 4))
    assert graph.coalesce(kept(), jnp.zeros((40, 0)))[1].shape == (len(want(WEIGHTS, "sum")[0]), 0)
    S = jsparse.eye(3)
    features = jnp.arange(3.0)
    matrix, found = graph.coalesce(S, features, "mean")
    np.testing.assert_array_equal(matrix.todense(), np.eye(3))
    np.testing.assert_array_equal(found, features)
