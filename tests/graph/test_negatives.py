"""Pairs without an edge, beside sets of all pairs: none has an edge, none comes twice, and all are equally likely."""

from collections import Counter
from itertools import combinations

import jax
import numpy as np
import pytest
from graph.made import adjacency

import jsparse
from jsparse import graph

KEY = jax.random.key(0)


def pairs_without_edge(a, bipartite, both=False):
    """All pairs (source, target) that may be drawn."""
    stored = (a != 0) | (a.T != 0) if both else a != 0
    target, source = np.nonzero(~stored if bipartite else ~(stored | np.eye(len(a), dtype=bool)))
    return set(zip(source.tolist(), target.tolist(), strict=True))


def listed(found):
    return list(zip(*np.asarray(found).tolist(), strict=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "columns, density, kind",
    [(None, 0.3, "static"), (None, 1.0, "jit"), (5, 0.5, "csc"), (1, 0.2, "dynamic"), (14, 1.0, "jit")],
)
def test_pairs(columns, density, kind):
    a = adjacency(density=density, columns=columns)
    free = pairs_without_edge(a, columns is not None)
    A = {"csc": jsparse.asarray(a, format="csc"), "static": jsparse.asarray(a).pattern}.get(kind)
    A = jsparse.asarray(a).dynamic(100) if A is None else A
    draw = jax.jit(graph.negative_sampling, static_argnums=2) if kind == "jit" else graph.negative_sampling
    for count in (0, {None: 150, 5: 0.5, 14: None}.get(columns, 7)):
        found = draw(jax.random.key(len(free)), A, count)
        wanted = A.nse if count is None else count if isinstance(count, int) else A.nse // 2
        inside = listed(found)[: len(free)]
        assert len(inside) == len(set(inside)) == min(wanted, len(free))
        assert set(inside) <= free
        if kind in ("jit", "dynamic"):
            assert found.shape == (2, wanted)
            assert listed(found)[len(free) :] == [a.shape[::-1]] * (wanted - len(inside))
        else:
            assert found.shape[1] == len(inside)
    assert found.dtype == np.int32


def test_both_directions():
    a = adjacency(density=0.3)
    free = pairs_without_edge(a, False, both=True)
    for count, A in ((11, jsparse.asarray(a)), (200, jsparse.asarray(a).dynamic(60))):
        found = listed(graph.negative_sampling(KEY, A, count, force_undirected=True))
        half = found[: len(found) // 2]
        assert found[len(half) :] == [pair[::-1] for pair in half]
        inside = set(found) - {(9, 9)}
        assert len(inside) == min(count // 2 * 2, len(free))
        assert inside <= free


def test_square_bipartite_graphs():
    """Equal numbers of a source and a target are a pair as any other."""
    a = np.ones((6, 6), np.float32)
    a[2, 2] = a[4, 4] = 0
    found = graph.negative_sampling(KEY, jsparse.asarray(a), 9, bipartite=True)
    assert set(listed(found)) == {(2, 2), (4, 4)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["directed", "undirected", "bipartite", "row"])
def test_all_sets_are_equally_likely(kind):
    """χ² of the sets of two of n pairs; each bound is exceeded with probability 0.001."""
    a = np.ones((5, 5), np.float32)
    a[[0, 1, 2, 2, 3, 4, 4], [3, 0, 4, 1, 2, 0, 4]] = 0
    options, both = {"directed": ({}, False), "undirected": ({"force_undirected": True}, True)}.get(kind, ({}, False))
    a = np.minimum(a, a.T) if both else a
    a = {"bipartite": a[:4], "row": np.array([[0, 1, 0, 0, 0, 1, 0, 1, 0]], np.float32)}.get(kind, a)
    units = sorted(pairs_without_edge(a, len(a) < len(a.T), both))
    units = sorted({tuple(sorted(pair)) for pair in units}) if both else units
    sets = list(map(frozenset, combinations(units, 2)))
    bound = {15: 36.1, 10: 27.9}[len(sets)]
    A, keys = jsparse.asarray(a).dynamic(), jax.random.split(KEY, 3000)
    found = jax.jit(jax.vmap(lambda key: graph.negative_sampling(key, A, 4 if both else 2, **options)))(keys)
    drawn = Counter(frozenset(tuple(sorted(p)) if both else p for p in listed(one[:, :2])) for one in np.asarray(found))
    assert set(drawn) == set(sets)
    assert sum((drawn[one] - 3000 / len(sets)) ** 2 / (3000 / len(sets)) for one in sets) < bound


def test_few_pairs_of_many():
    """As many candidates as the graph has edges, and far more than are wanted."""
    a = np.ones((400, 400), np.float32)
    a[[3, 399, 17], [399, 0, 16]] = 0
    found = graph.negative_sampling(KEY, jsparse.asarray(a), 20)
    assert set(listed(found)) == {(399, 3), (0, 399), (16, 17)}


def test_large_graphs():
    """More pairs than numbers of 32 bits, and rows longer than the rest."""
    rng = np.random.default_rng(0)
    n = 100_000
    source, target = rng.integers(0, n, (2, 50_000))
    target[:20_000] = 7
    found = np.asarray(graph.negative_sampling(KEY, graph.from_edges(source, target, nodes=n)), np.int64)
    numbers = found[0] * n + found[1]
    assert len(np.unique(numbers)) == found.shape[1]
    assert not np.isin(numbers, source.astype(np.int64) * n + target).any()
    for row in found:
        assert abs(row.mean() / n - 0.5) < 0.01


def test_overflow():
    A = jsparse.asarray(adjacency()).dynamic()

    def found(A):
        small = jsparse.SparseTensor.from_coords(A.coords, A.values, A.shape, "csr", nse=3)
        return graph.negative_sampling(KEY, small, 5), graph.structured_negative_sampling(KEY, small)[2]

    for one in jax.jit(found)(A):
        np.testing.assert_array_equal(one, np.full(one.shape, 9))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count, both", [(40, False), (None, False), (0.5, True), (7, True)])
def test_batches(count, both):
    arrays = [adjacency(0), adjacency(1, nodes=6), np.ones((3, 3), np.float32), adjacency(2, nodes=12, density=0.5)]
    batch = graph.batch(list(map(jsparse.asarray, arrays)), nodes=40, nse=120, size=6)
    draw = jax.jit(lambda key, batch: graph.batched_negative_sampling(key, batch, count, force_undirected=both))
    found = np.asarray(draw(KEY, batch))
    inside = found[:, found[0] < 40]
    assert (found[:, found[0] >= 40] == 40).all()
    start = 0
    for a in arrays:
        end = start + len(a)
        own = listed(inside[:, (inside[0] >= start) & (inside[0] < end)] - start)
        free = pairs_without_edge(a, False, both)
        edges = np.count_nonzero(a)
        wanted = edges if count is None else int(edges * count) if isinstance(count, float) else count
        assert len(own) == len(set(own)) == min(wanted // 2 * 2 if both else wanted, len(free))
        assert set(own) <= free
        start = end
    assert (inside < start).all()
    total = 120 if count is None else 60 if count == 0.5 else 6 * count
    assert found.shape == (2, total // 2 * 2 if both else total)
    if count == 40:
        np.testing.assert_array_equal(found.reshape(2, 6, 40)[:, 4:], 40)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind, loops", [("static", True), ("coo", False), ("jit", False)])
def test_structured(kind, loops):
    a = adjacency(density=0.5)
    a[:, 1] = a[1, 1] = 1  # it has edges to all nodes
    A = jsparse.asarray(a)
    A = {"coo": A.asformat("coo"), "jit": A.dynamic(70)}.get(kind, A)
    run = jax.jit(graph.structured_negative_sampling, static_argnames="contains_neg_self_loops")
    draw = run if kind == "jit" else graph.structured_negative_sampling
    seen = set()
    for key in jax.random.split(KEY, 40):
        i, j, k = map(np.asarray, draw(key, A, contains_neg_self_loops=loops))
        source, target, _ = graph.to_edges(A)
        np.testing.assert_array_equal(i, source)
        np.testing.assert_array_equal(j, target)
        assert ((i == 1) | (i == 9))[k == 9].all()
        assert (k[(i == 1) | (i == 9)] == 9).all()
        seen |= set(zip(i[k < 9].tolist(), k[k < 9].tolist(), strict=True))
    has_edges = a.any(axis=0)
    assert seen == {pair for pair in pairs_without_edge(a, loops) if has_edges[pair[0]]}


def test_structured_bipartite():
    a = adjacency(columns=5)
    i, _, k = map(np.asarray, graph.structured_negative_sampling(KEY, jsparse.asarray(a)))
    assert (a[k, i] == 0).all()
