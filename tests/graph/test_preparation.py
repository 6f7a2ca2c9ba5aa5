"""Self-loops, degrees, symmetric graphs and normalisation, beside dense formulas of numpy and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import adjacency, dense, variants

import jsparse
from jsparse import graph

KINDS = ["static", "dynamic", "coo", "csc"]


def in_and_outside(f, A):
    """What a function gives outside and inside jit."""
    return f(A), jax.jit(f)(A)


def normalized(a, kind):
    """The definition, dense. Nodes without degree have the factor 0."""
    sums = a.sum(axis=0 if kind == "column" else 1)
    safe = jnp.where(sums == 0, 1, sums)
    if kind == "symmetric":
        root = jnp.where(sums == 0, 0, safe**-0.5)
        return root[:, None] * a * root
    inverse = jnp.where(sums == 0, 0, 1 / safe)
    return inverse[:, None] * a if kind == "row" else a * inverse


@pytest.mark.parametrize("kind", KINDS)
def test_self_loops(kind):
    a = adjacency()
    A = variants(a)[kind]
    weights = np.arange(9, dtype=np.float32)
    for weight in (1, 0.25, weights):
        for found in in_and_outside(lambda A, weight=weight: graph.add_self_loops(A, weight), A):
            assert (found.dtype, found.is_dynamic) == (np.float32, A.is_dynamic)
            np.testing.assert_allclose(dense(found), a + np.eye(9) * weight, rtol=1e-6)
    for found in in_and_outside(graph.remove_self_loops, A):
        np.testing.assert_array_equal(dense(found), a * (1 - np.eye(9)))
        assert (found.format, int(found.nnz)) == (A.format, np.count_nonzero(a * (1 - np.eye(9))))
        assert found.is_dynamic == A.is_dynamic
        assert found.nse == (A.nse if A.is_dynamic else found.nnz)


def test_self_loops_of_patterns():
    a = adjacency()
    for A in (jsparse.asarray(a), jsparse.asarray(a).dynamic(40)):
        np.testing.assert_array_equal(dense(graph.add_self_loops(A.pattern, 2)), (a != 0) + 2 * np.eye(9))
        found = graph.remove_self_loops(A.pattern)
        assert type(found) is type(A.pattern)
        np.testing.assert_array_equal(dense(found.to_static() if A.is_dynamic else found), (a != 0) * (1 - np.eye(9)))


def test_dtypes_of_self_loops():
    A = jsparse.asarray(adjacency())
    assert graph.add_self_loops(A.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert graph.add_self_loops(A.astype(jnp.int32)).dtype == np.int32
    assert graph.add_self_loops(A.astype(jnp.int32), 0.5).dtype == np.float32
    assert graph.add_self_loops(A.pattern).dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_degree(kind, axis):
    a = adjacency()
    A = variants(a)[kind]
    for found in in_and_outside(lambda A: graph.degree(A, axis), A):
        np.testing.assert_allclose(found, a.sum(axis), rtol=1e-6)
    for found in in_and_outside(lambda A: graph.degree(A.pattern, axis), A):
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, (a != 0).sum(axis))
    b = adjacency(columns=4)
    np.testing.assert_allclose(graph.degree(jsparse.asarray(b), axis), b.sum(axis), rtol=1e-6)


def greater_of_existing(a):
    """The greater weight of both directions where both exist, and the weight of the existing one elsewhere."""
    missing = np.where(a != 0, a, np.finfo(a.dtype).min if a.dtype.kind == "f" else np.iinfo(a.dtype).min)
    return np.where((a != 0) | (a.T != 0), np.maximum(missing, missing.T), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_symmetrize(kind):
    a = adjacency() - np.float32(2.7) * (adjacency(1) != 0)
    assert ((a < 0) & (a.T == 0)).any()
    assert ((a < 0) & (a.T < 0)).any()
    A = variants(a)[kind]
    wants = {"maximum": greater_of_existing(a), "mean": (a + a.T) / 2, "sum": a + a.T}
    for name, want in wants.items():
        for found in in_and_outside(lambda A, name=name: graph.symmetrize(A, name), A):
            np.testing.assert_allclose(dense(found), want, rtol=1e-6)
            assert found.is_dynamic == A.is_dynamic
            assert int(found.nnz) == np.count_nonzero((a != 0) | (a.T != 0))


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "bfloat16", "complex64"])
def test_the_only_weight_of_two_directions_is_kept(dtype):
    """A graph with the edges -1 and -100 in one direction, -2 and -3 in both, and a self-loop of -4."""
    a = np.array([[-4, -1, 0], [0, 0, -2], [-100, -3, 0]])
    want = [[-4, -1, -100], [-1, 0, -2], [-100, -2, 0]]
    for A in variants(a.astype(np.int8)).values():
        for found in in_and_outside(graph.symmetrize, A.astype(dtype)):
            assert found.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(dense(found), want)


def test_symmetric_weights_that_are_stored_zeros_infinite_or_nan():
    """What exists counts, whatever its weight: a stored zero is greater than -1, a missing edge is not."""
    coords = [[0, 1, 0, 0, 2, 1], [1, 0, 2, 3, 1, 3]]
    A = jsparse.SparseTensor.from_coords(coords, np.float32([0, -1, -np.inf, np.nan, -5, 0]), (4, 4))
    for found in in_and_outside(graph.symmetrize, A):
        want = [[0, 0, -np.inf, np.nan], [0, 0, -5, 0], [-np.inf, -5, 0, 0], [np.nan, 0, 0, 0]]
        np.testing.assert_array_equal(dense(found), want)
        assert found.nse == 10
    flags = jsparse.graph.symmetrize(A.map(jnp.isnan))
    assert flags.dtype == bool
    np.testing.assert_array_equal(dense(flags), np.isnan(want))


def test_means_of_both_directions_do_not_overflow():
    for dtype, weight in (("int8", 100), ("uint8", 200), ("float16", 60000)):
        A = jsparse.asarray(np.array([[0, weight], [weight, 0]], dtype))
        np.testing.assert_array_equal(dense(graph.symmetrize(A, "mean")), [[0, weight], [weight, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_symmetrize(kind):
    """A one-way edge has the gradient of both elements that it becomes, the lesser of two weights has none."""
    a = np.float32([[0, -1, 3], [0, -2, -5], [-4, -6, 0]])
    A, g = variants(a)[kind], jnp.arange(1.0, 10).reshape(3, 3)
    want = [[0, 2 + 4, 3 + 7], [0, 5, 6 + 8], [0, 0, 0]]
    for f in (jsparse.grad, lambda loss: jax.jit(jsparse.grad(loss))):
        found = f(lambda A: (graph.symmetrize(A).todense() * g).sum())(A)
        np.testing.assert_array_equal(dense(found), want)


def test_symmetrize_patterns():
    a = adjacency()
    for A in (jsparse.asarray(a), jsparse.asarray(a).dynamic(40)):
        for kind in ("maximum", "sum"):
            found = graph.symmetrize(A.pattern, kind)
            assert type(found) is type(A.pattern)
            static = found.to_static() if A.is_dynamic else found
            np.testing.assert_array_equal(dense(static), (a != 0) | (a.T != 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ["symmetric", "row", "column"])
def test_normalize(kind, of):
    a = adjacency()
    A = variants(a)[kind]
    for found in in_and_outside(lambda A: graph.normalize(A, of), A):
        np.testing.assert_allclose(dense(found), normalized(a, of), rtol=1e-6)
        assert (found.format, found.nse, found.dtype) == (A.format, A.nse, A.dtype)
    for found in in_and_outside(lambda A: graph.normalize(A.pattern, of), A):
        np.testing.assert_allclose(dense(found), normalized(np.float32(a != 0), of), rtol=1e-6)


@pytest.mark.parametrize("of", ["symmetric", "row", "column"])
def test_gradients_of_normalize_are_finite(of):
    """At nodes without edges, and with stored zeros, they are no NaN."""
    for A in variants(adjacency()).values():
        zeros = A.with_values(jnp.zeros(A.nse))
        gradient = jax.jit(jsparse.grad(lambda A: jnp.tanh(graph.normalize(A, of) @ jnp.ones(9)).sum()))
        for given in (A, zeros):
            assert np.isfinite(np.asarray(gradient(given).values)).all()
        np.testing.assert_array_equal(dense(graph.normalize(zeros, of)), np.zeros((9, 9)))


def test_dtypes_of_normalize():
    a = np.ones((300, 300))
    A = jsparse.asarray(a, dtype=jnp.bfloat16)
    found = graph.normalize(A, "row")
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(found.values, np.float32), 1 / 300, rtol=4e-3)
    assert graph.normalize(A.astype(jnp.int8), "row").dtype == np.float32  # whose sum would not fit int8
    np.testing.assert_allclose(graph.normalize(A.astype(jnp.int8), "row").values, 1 / 300, rtol=1e-6)
    assert graph.normalize(A.astype(bool)).dtype == np.float32
