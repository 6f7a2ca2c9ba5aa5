"""Samples of neighbours: what they are made of, how likely they are, and a network that they train."""

from collections import Counter
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import adjacency, dense
from programs.amount import sample

import jsparse
from jsparse import graph
from jsparse.graph import graphs

KEY = jax.random.key(0)
sampled = jax.jit(graph.sample_neighbors, static_argnums=3)


def check(found, a, seeds, fanout):
    """A sample has the weights of the graph at its own nodes, and as many entries as there can be."""
    count, nodes = len(seeds), len(a)
    fanout = min(fanout, max(nodes, 1))
    assert found.nodes.shape == (count + min(count * fanout, nodes),)
    assert found.graph.shape == (count, *found.nodes.shape)
    assert (found.graph.nse, found.graph.format.name) == (count * fanout, "csr")
    found.graph.validate()
    own = np.asarray(found.nodes)
    inside = (np.asarray(seeds) >= 0) & (np.asarray(seeds) < nodes)
    np.testing.assert_array_equal(own[:count], np.where(inside, seeds, nodes))
    others = own[count:][own[count:] < nodes]
    assert len(set(others)) == len(others)
    assert not set(others) & set(own[:count])
    small = np.asarray(found.graph.static().todense())
    for row, seed, is_inside in zip(small, seeds, inside, strict=True):
        neighbours = own[np.flatnonzero(row)]
        assert len(set(neighbours)) == len(neighbours) == (min(fanout, np.count_nonzero(a[seed])) if is_inside else 0)
        np.testing.assert_array_equal(row[np.flatnonzero(row)], a[seed, neighbours] if is_inside else [])
    assert set(others) <= set(own[np.flatnonzero(small.any(axis=0))])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fanout, dynamic", [(1, True), (3, False), (3, True), (20, False)])
def test_samples(fanout, dynamic):
    a = adjacency(nodes=12, density=0.6)
    A = jsparse.asarray(a).dynamic(150) if dynamic else jsparse.asarray(a)
    every = [[2, 5, 5, 11, 5, 4], [0], [12, 4, -1, 99, 2], np.arange(12), []]
    for n, seeds in enumerate(sample(every, 0, 2)):
        for key, run in zip(jax.random.split(jax.random.key(n)), (graph.sample_neighbors, sampled), strict=True):
            check(run(key, A, np.array(seeds, np.int32), fanout), a, seeds, fanout)


def test_sampled_nodes_follow_the_seeds():
    A = graph.from_edges([1, 2, 3], [0, 0, 1], nodes=5)
    found = graph.sample_neighbors(KEY, A, [0, 1], 4)
    np.testing.assert_array_equal(found.nodes, [0, 1, 2, 3, 5, 5, 5])
    np.testing.assert_array_equal(dense(found.graph), [[0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0]])


def test_every_set_is_equally_likely():
    """χ² of the 20 sets of three of six neighbours; it exceeds 43.8 with probability 0.001."""
    A = graph.from_edges(np.arange(1, 7), np.zeros(6, int), nodes=7)
    keys = jax.random.split(KEY, 4000)
    found = jax.jit(jax.vmap(lambda key: graph.sample_neighbors(key, A, jnp.array([0]), 3).nodes))(keys)
    counts = Counter(tuple(sorted(row)) for row in np.asarray(found)[:, 1:].tolist())
    assert set(counts) == set(combinations(range(1, 7), 3))
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 43.8


def test_rows_are_independent():
    """Two rows with the same neighbours draw equal sets of two of four as often as chance has it: 1 in 6."""
    A = graph.from_edges(np.tile(np.arange(2, 6), 2), np.repeat([0, 1], 4), nodes=6)

    def equal(key):
        values = graph.sample_neighbors(key, A, jnp.array([0, 1]), 2).graph.todense()
        return (values[0] == values[1]).all()

    share = float(jax.jit(jax.vmap(equal))(jax.random.split(KEY, 3000)).mean())
    assert abs(share - 1 / 6) < 0.03


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_of_each_generator(impl):
    A = jsparse.asarray(adjacency(nodes=12, density=0.6)).dynamic()
    first, second = jax.random.split(jax.random.key(3, impl=impl))
    found = [sampled(key, A, np.arange(3), 3).graph.todense() for key in (first, first, second)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_a_key_of_numbers_is_the_same_key():
    A = jsparse.asarray(adjacency(nodes=12, density=0.6)).dynamic()
    old, new = (graph.sample_neighbors(key, A, [3, 4], 2) for key in (jax.random.PRNGKey(5), jax.random.key(5)))
    np.testing.assert_array_equal(old.nodes, new.nodes)
    with pytest.raises((TypeError, ValueError), match="single key"):
        graph.sample_neighbors(jax.random.split(KEY), A, [3, 4], 2)


@pytest.mark.parametrize("backend", ["xla", "interpret"])
def test_samples_do_not_depend_on_the_backend(backend):
    A = jsparse.asarray(adjacency(nodes=12, density=0.6)).dynamic(150)
    seeds = np.array([2, 5, 5, 12, 0], np.int32)
    want = sampled(KEY, A, seeds, 3)
    with jsparse.config(backend=backend):
        found = sampled(KEY, A, seeds, 3)
    np.testing.assert_array_equal(found.nodes, want.nodes)
    np.testing.assert_array_equal(dense(found.graph), dense(want.graph))


def test_gradients():
    a = adjacency(nodes=12, density=0.6)
    for A in (jsparse.asarray(a), jsparse.asarray(a).dynamic(150)):
        seeds = jnp.array([3, 1, 1])
        found = jsparse.grad(lambda A, seeds=seeds: (sampled(KEY, A, seeds, 2).graph.values ** 2).sum())(A)
        want, sample = np.zeros_like(a), sampled(KEY, A, seeds, 2)
        rows, columns, values = *sample.graph.static().coords, sample.graph.static().values
        np.add.at(want, (np.asarray(seeds)[rows], np.asarray(sample.nodes)[columns]), 2 * np.asarray(values))
        np.testing.assert_allclose(dense(found), want, rtol=1e-6)


def test_patterns_and_formats():
    a = adjacency(nodes=12, density=0.6)
    A = jsparse.asarray(a)
    want = graph.sample_neighbors(KEY, A, [3, 4], 3)
    bare = graph.sample_neighbors(KEY, A.pattern, [3, 4], 3)
    assert bare.graph.to_static() == want.graph.pattern.to_static()
    for format in ("csc", "coo"):
        other = graph.sample_neighbors(KEY, A.asformat(format), [3, 4], 3)
        np.testing.assert_array_equal(dense(other.graph), dense(want.graph))


def test_mean_of_two_layers():
    """With room for all neighbours a network of two layers gives what the whole graph gives."""
    a = adjacency(nodes=12, density=0.3)
    A = jsparse.asarray(a).dynamic()
    x = jnp.asarray(np.random.default_rng(0).normal(size=(12, 4)), jnp.float32)

    def layer(graph_, xs):
        source, target = xs
        return jnp.tanh(graph.normalize(graph_, "row") @ source + 2 * target)

    @jax.jit
    def predicted(key, A, seeds):
        outer = graph.sample_neighbors(key, A, seeds, 12)
        inner = graph.sample_neighbors(key, A, outer.nodes, 12)
        h = x.at[inner.nodes].get(mode="fill", fill_value=0)
        h = layer(inner.graph, (h, h[: len(outer.nodes)]))
        return layer(outer.graph, (h, h[: len(seeds)]))

    whole = layer(A, (layer(A, (x, x)),) * 2)
    seeds = jnp.array([4, 0, 7])
    np.testing.assert_allclose(predicted(KEY, A, seeds), whole[seeds], rtol=1e-5, atol=1e-6)


def test_overflow_is_kept():
    A = jsparse.asarray(adjacency(nodes=12, density=0.6)).dynamic()

    def found(A):
        small = jsparse.SparseTensor.from_coords(A.coords, A.values, A.shape, "csr", nse=3)
        return graph.sample_neighbors(KEY, small, jnp.array([0, 3]), 2).graph

    assert bool(jax.jit(found)(A).overflowed)
    assert np.isnan(jax.jit(found)(A).values).all()


def test_large_static_graphs_in_programs(monkeypatch):
    A = jsparse.asarray(adjacency())
    monkeypatch.setattr(graphs, "MOST_CONSTANT", A.nse - 1)
    check(graph.sample_neighbors(KEY, A, [1], 2), adjacency(), [1], 2)
    check(sampled(KEY, A.dynamic(), np.array([1]), 2), adjacency(), [1], 2)


def test_graphs_without_entries():
    check(graph.sample_neighbors(KEY, jsparse.zeros((4, 4)), [1, 3], 2), np.zeros((4, 4)), [1, 3], 2)
    check(graph.sample_neighbors(KEY, jsparse.zeros((0, 0)), [1, 3], 2), np.zeros((0, 0)), [1, 3], 2)
