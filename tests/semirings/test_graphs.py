"""Shortest paths by min_plus and breadth-first levels by or_and, against scipy.sparse.csgraph."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from scipy.sparse import csgraph

import jsparse

FOLDERS = [folder / "shared" / "data" for folder in Path(__file__).parents]
DATA = next((folder for folder in FOLDERS if folder.is_dir()), None)
SIDE = 120  # the grid has 14,400 vertices


def jagmesh7():
    """The graph of a finite-element mesh, whose edges have small integers as lengths."""
    if DATA is None or not (DATA / "matrices" / "jagmesh7.mtx").exists():
        pytest.skip("no shared data here")
    graph = scipy.sparse.coo_array(scipy.io.mmread(DATA / "matrices" / "jagmesh7.mtx", spmatrix=False))
    edges = np.stack(graph.coords)
    return weighted(edges[:, edges[0] != edges[1]], graph.shape[0])


def grid():
    """A square grid. Each edge has both directions, with different lengths."""
    at = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    pairs = np.concatenate(
        [np.stack([a.ravel(), b.ravel()]) for a, b in ((at[1:], at[:-1]), (at[:, 1:], at[:, :-1]))], 1
    )
    return weighted(np.concatenate([pairs, pairs[::-1]], 1), SIDE * SIDE)


def weighted(edges, count):
    lengths = np.random.default_rng(0).integers(1, 9, edges.shape[1]).astype(np.float32)
    return scipy.sparse.csr_array((lengths, tuple(edges)), shape=(count, count))


GRAPHS = [jagmesh7, grid]


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("make", GRAPHS)
def test_shortest_paths(make, format):
    graph = make()
    A = jsparse.asarray(graph, format=format)

    @jax.jit
    def distances(A, start):
        """Bellman-Ford: iterate until no path gets shorter."""

        def relaxed(state):
            distance, _ = state
            better = jnp.minimum(distance, jsparse.einsum("ij,i->j", A, distance, semiring="min_plus"))
            return better, (better < distance).any()

        first = jnp.full(A.shape[0], jnp.inf).at[start].set(0)
        return jax.lax.while_loop(lambda state: state[1], relaxed, (first, True))[0]

    want = csgraph.dijkstra(graph, indices=[0, 17])
    for start, row in zip((0, 17), want, strict=True):
        np.testing.assert_array_equal(distances(A, start), row.astype(np.float32))


def test_the_gradient_of_a_shortest_path_is_the_path():
    graph = weighted(np.array([[0, 0, 1, 2, 1], [1, 2, 3, 3, 2]]), 4)
    A = jsparse.asarray(graph, format="csr").with_values(jnp.array([1.0, 5, 1, 1, 1]))

    def length(values):
        distance = jnp.full(4, jnp.inf).at[0].set(0)
        for _ in range(4):
            reached = jsparse.einsum("ij,i->j", A.with_values(values), distance, semiring="min_plus")
            distance = jnp.where(reached < distance, reached, distance)
        return distance[3]

    assert length(A.values) == 2
    np.testing.assert_array_equal(
        A.with_values(jax.grad(length)(A.values)).todense(), np.eye(4)[[1, 3, 2, 2]] * [[1], [1], [0], [0]]
    )


@pytest.mark.parametrize("make", GRAPHS)
def test_breadth_first_levels(make):
    graph = make()
    A = jsparse.asarray(graph, format="csr")
    A = A.with_values(jnp.ones(A.nse, jnp.int32))

    @jax.jit
    def levels(A, start):
        def step(state):
            level, front, depth = state
            reached = jsparse.einsum("ij,i->j", A, front, semiring="or_and")
            front = jnp.where(level < 0, reached, 0)
            return jnp.where(front > 0, depth, level), front, depth + 1

        first = jnp.zeros(A.shape[0], jnp.int32).at[start].set(1)
        return jax.lax.while_loop(lambda state: state[1].any(), step, (first - 1, first, 1))[0]

    want = csgraph.dijkstra(graph, indices=3, unweighted=True)
    got = np.asarray(levels(A, 3))
    np.testing.assert_array_equal(np.where(got < 0, np.inf, got), want)


@pytest.mark.parametrize("make", GRAPHS[:1])
def test_paths_of_two_edges(make):
    """A sparse result."""
    graph = make()
    A = jsparse.asarray(graph, format="csr")
    B = jsparse.einsum("ij,jk->ik", A, A, semiring="min_plus")
    coords = np.stack(np.asarray(B.to_coords()[0]))
    full = np.full(graph.shape, np.inf, np.float32)
    full[tuple(np.stack(graph.tocoo().coords))] = graph.tocoo().data
    for i, j, value in zip(*coords[:, ::97], np.asarray(B.values)[::97], strict=True):
        assert value == (full[i] + full[:, j]).min()
    assert B.nse == (graph @ graph).nnz
