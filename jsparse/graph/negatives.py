"""Random pairs of nodes without an edge, for link prediction."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, ShapeError, represented, shortened
from jsparse.formats import Format
from jsparse.graph.batching import GraphBatch
from jsparse.graph.graphs import Graph, as_graph, index_arrays
from jsparse.graph.loops import add_self_loops, symmetrize
from jsparse.ops.indexing.points import coords
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["batched_negative_sampling", "negative_sampling", "structured_negative_sampling"]

CSR, CSC = Format.of("csr", 2), Format.of("csc", 2)
ROUNDS = 12  # of the permutation: with 8 the pairs of a 5 x 3 matrix are not equally likely
MOST = np.uint32(2**32 - 1)

State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""Of the search for pairs: the next candidate of each block, how many pairs of it are found, and these pairs."""


class _Blocks(NamedTuple):
    """Where pairs are drawn: blocks of a matrix, given by arrays (blocks,), and how many pairs of each are wanted."""

    first_row: jax.Array
    rows: jax.Array
    first_column: jax.Array
    columns: jax.Array
    wanted: jax.Array


def negative_sampling(
    key: jax.Array,
    A: Graph,
    num_neg_samples: float | None = None,
    *,
    bipartite: bool | None = None,
    force_undirected: bool = False,
) -> jax.Array:
    """Draw random pairs of nodes that have no edge, each at most once.

        >>> A = jsparse.graph.from_edges([0, 0, 1, 2], [0, 1, 2, 3], nodes=4)
        >>> source, target = jsparse.graph.negative_sampling(key, A, 3)
        >>> A.at_coords(jnp.stack([target, source]))
        Array([0., 0., 0.], dtype=float32)

    All sets of pairs are equally likely, up to the quality of a pseudo-random permutation (Black and Rogaway, "Ciphers
    with arbitrary finite domains", 2002): it orders the pairs of a row and a number n, which stands for the n-th column
    that the row does not store. So nothing is drawn twice, dense graphs are sampled as well as sparse ones, and the
    time grows with the number of samples alone, but for graphs that have nearly all edges.

    Args:
        key: a key of jax.random.
        A: the graph, of shape (nodes, nodes), or (targets, sources) if it is bipartite. `A[i, j]` is the edge j → i.
            Inside jit pass a dynamic graph as an argument, as for `sample_neighbors`.
        num_neg_samples: how many pairs, or a float for that many per stored entry; by default one for each.
        bipartite: whether sources and targets are two sets of nodes, so that equal numbers are no self-loop; by default
            if there are not as many of both. Otherwise self-loops are never drawn.
        force_undirected: draw half as many pairs that have no edge in either direction, and give both directions of
            each, the other ones behind all of the first ones.

    Returns integers (2, num_neg_samples), sources and below them targets, as `from_edge_index` takes them. If there are
    fewer pairs, all of them are found. The result is then shorter for a static graph outside jit; for others it is
    filled up with the numbers of sources and of targets, which are out of range.

    Raises ShapeError for the numbers and unless the graph is a matrix, PatternError for a large static graph inside
    jit, DTypeError for dense arrays.
    """
    graph = as_graph(A, "negative_sampling", square=False)
    targets, sources = graph.shape
    two_sets = targets != sources if bipartite is None else bool(bipartite)
    if targets != sources and (not two_sets or force_undirected):
        raise ShapeError(
            f"Expected a square matrix as the graph of jsparse.graph.negative_sampling with bipartite={bipartite} and "
            f"force_undirected={force_undirected}, but got shape {shortened(graph.shape)}. A bipartite graph has no "
            "self-loops, and no other direction."
        )
    count = _count(num_neg_samples, graph.nse, "negative_sampling")
    excluded = _excluded(graph, loops=not two_sets, both=force_undirected)
    numbers = [np.array([number], np.int32) for number in (0, targets, 0, sources, count // (1 + force_undirected))]
    found = _drawn(key, excluded, _Blocks(*map(jnp.asarray, numbers)), int(numbers[-1][0]), triangle=force_undirected)
    known = not isinstance(graph.pattern, DynamicPattern) and not isinstance(found, jax.core.Tracer)
    if known:
        found = jnp.asarray(np.asarray(found)[:, np.asarray(found[0]) < sources])
    return _both(found) if force_undirected else found


def batched_negative_sampling(
    key: jax.Array, batch: GraphBatch, num_neg_samples: float | None = None, *, force_undirected: bool = False
) -> jax.Array:
    """Draw random pairs of nodes of one graph that have no edge, for each graph of a batch.

        >>> found = jsparse.graph.batch([jsparse.eye(3), jsparse.eye(2)], nodes=8)
        >>> jsparse.graph.batched_negative_sampling(key, found, 2).shape
        (2, 4)

    They are drawn as `negative_sampling` draws them.

    Args:
        key: a key of jax.random.
        batch: the batch, of `jsparse.graph.batch`.
        num_neg_samples: how many pairs of each graph, or a float for that many per stored entry of the graph; by
            default one for each.
        force_undirected: draw half as many pairs that have no edge in either direction, and give both directions of
            each, the other ones behind all of the first ones.

    Returns integers (2, samples), sources and below them targets, one graph behind the other: `batch.size` times the
    number of pairs, or as many as the batch has capacity for entries, times the float. Where a graph has fewer such
    pairs, and in padding, both have the number of all nodes, which is out of range.

    Raises ShapeError for the number, DTypeError unless `batch` is a batch.
    """
    if not isinstance(batch, GraphBatch):
        raise DTypeError(
            f"Expected a GraphBatch for jsparse.graph.batched_negative_sampling, but got {represented(batch)}. Make "
            "one by jsparse.graph.batch, or call negative_sampling for a single graph."
        )
    graph = as_graph(batch.graph, "batched_negative_sampling")
    count = _count(num_neg_samples, graph.nse, "batched_negative_sampling")
    starts = jnp.asarray(batch.starts)
    sizes = starts[1:] - starts[:-1]
    ratio: object = 1 if num_neg_samples is None else num_neg_samples
    if num_neg_samples is None or isinstance(ratio, float):
        wanted = jnp.diff(index_arrays(graph, CSR, "batched_negative_sampling")[0][starts])
        wanted = (wanted * ratio).astype(wanted.dtype) if isinstance(ratio, float) else wanted
    else:
        wanted, count = jnp.full(batch.size, count, starts.dtype), count * batch.size
    wanted = wanted // (1 + force_undirected)
    excluded = _excluded(graph, loops=True, both=force_undirected)
    blocks = _Blocks(starts[:-1], sizes, starts[:-1], sizes, wanted)
    found = _drawn(key, excluded, blocks, count // (1 + force_undirected), triangle=force_undirected)
    return _both(found) if force_undirected else found


def structured_negative_sampling(
    key: jax.Array, A: Graph, *, contains_neg_self_loops: bool = True
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draw for each edge i → j a random node k such that there is no edge i → k.

        >>> A = jsparse.graph.from_edges([0, 0, 1, 2], [0, 1, 2, 3], nodes=4)
        >>> i, j, k = jsparse.graph.structured_negative_sampling(key, A)
        >>> A.at_coords(jnp.stack([k, i]))
        Array([0., 0., 0., 0.], dtype=float32)

    Args:
        key: a key of jax.random.
        A: the graph, of shape (nodes, nodes), or (targets, sources) if it is bipartite. `A[j, i]` is the edge i → j.
            Inside jit pass a dynamic graph as an argument, as for `sample_neighbors`.
        contains_neg_self_loops: whether k may be i; with False the graph has to be square.

    Returns i, j and k, integers of shape (nse,), in the order of stored entries. All nodes that i has no edge to are
    equally likely. Where i has edges to all of them, and in padding, k is the number of targets, which is out of range.

    Raises ShapeError unless the graph is a matrix of such a shape, PatternError for a large static graph inside jit,
    DTypeError for dense arrays.
    """
    graph = as_graph(A, "structured_negative_sampling", square=not contains_neg_self_loops)
    target, source = map(jnp.asarray, coords(graph))
    excluded = _excluded(graph, loops=not contains_neg_self_loops, both=False)
    pointers, rows = index_arrays(excluded, CSC, "structured_negative_sampling")
    return source, target, _other_ends(key, pointers, rows, source, _overflowed(graph), targets=graph.shape[0])


def _count(given: float | None, nse: int, what: str) -> int:
    """How many pairs are drawn. Raises ShapeError if it is no number, 0 or more."""
    if given is None:
        return nse
    is_number = isinstance(given, float | int | np.integer) and type(given) is not bool
    if not is_number or not 0 <= given < 2**31:
        raise ShapeError(
            f"Expected num_neg_samples of jsparse.graph.{what} to be a known integer, 0 or more, or a float, the ratio "
            f"to the number of stored entries, but got {represented(given)}."
        )
    return int(given * nse) if isinstance(given, float) else int(given)


def _excluded(graph: SparseTensor, *, loops: bool, both: bool) -> SparseTensor:
    """A graph with the pairs that are not to be drawn."""
    whole = symmetrize(graph.pattern) if both else graph.pattern
    return add_self_loops(whole) if loops else as_graph(whole, "negative_sampling", square=False)


def _overflowed(graph: SparseTensor) -> jax.Array:
    """Whether the pattern lacks some of its entries, which then could be drawn."""
    return jnp.asarray(graph.pattern.overflowed if isinstance(graph.pattern, DynamicPattern) else False)


def _both(found: jax.Array) -> jax.Array:
    return jnp.concatenate([found, found[::-1]], axis=1)


def _drawn(key: jax.Array, excluded: SparseTensor, blocks: _Blocks, count: int, triangle: bool) -> jax.Array:
    """(2, count) the columns and rows of pairs that are not stored; those of each block stand together."""
    if not count or 0 in excluded.shape:
        return jnp.broadcast_to(jnp.array(excluded.shape[::-1], np.int32)[:, None], (2, count))
    pointers, columns = index_arrays(excluded, CSR, "negative_sampling")
    found = _pairs(key, pointers, columns, blocks, count=count, triangle=triangle)
    out_of_range = jnp.array(excluded.shape, found.dtype)[:, None]
    return jnp.where((found < 0) | _overflowed(excluded), out_of_range, found)[::-1]


class _Domain(NamedTuple):
    """The pairs (row, column) of blocks, in a random order: uint32 (blocks,), or for candidates of their blocks.

    A Feistel network permutes pairs of numbers. It mixes well if both have about as many values, so the longer side of
    a block is cut in parts: the outer number is a coordinate of the shorter side and a part, the inner one a place in
    the part.
    """

    rows: jax.Array
    columns: jax.Array
    parts: jax.Array
    inner: jax.Array

    @staticmethod
    def of(blocks: _Blocks) -> _Domain:
        rows, columns = (size.astype(np.uint32) for size in (blocks.rows, blocks.columns))
        short, long = jnp.minimum(rows, columns), jnp.maximum(jnp.maximum(rows, columns), 1)
        parts = jnp.sqrt(long / jnp.maximum(short, 1).astype(np.float32)).round().astype(np.uint32)
        return _Domain(rows, columns, parts, (long + parts - 1) // parts)

    @property
    def outer(self) -> jax.Array:
        """How many values the outer number has: none in a block without pairs."""
        return jnp.minimum(self.rows, self.columns) * self.parts

    def permuted(self, at: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The row and column at a place of the order, and whether there are such ones."""
        outer = jnp.maximum(self.outer, 1)

        def rounds(n: int, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            first, second = pair
            first = (first + _mixed(second + keys[2 * n]) % outer) % outer
            return first, (second + _mixed(first + keys[2 * n + 1]) % self.inner) % self.inner

        start = at // self.inner % outer, at % self.inner
        first, second = jax.lax.fori_loop(0, ROUNDS // 2, rounds, start)
        short, long = first // self.parts, first % self.parts * self.inner + second
        wide = self.rows <= self.columns
        exists = (at // self.inner < self.outer) & (long < jnp.maximum(self.rows, self.columns))
        return jnp.where(wide, short, long), jnp.where(wide, long, short), exists


@partial(jax.jit, static_argnames=("count", "triangle"))
def _pairs(
    key: jax.Array, pointers: jax.Array, columns: jax.Array, blocks: _Blocks, *, count: int, triangle: bool
) -> jax.Array:
    """(2, count) the rows and columns of pairs that are not stored, -1 where there are no more.

    Each turn of the loop takes the next candidates of each block, some more than are wanted, in the order of a random
    permutation, and keeps those that are pairs. With `triangle` these have greater rows than columns.
    """
    width = jnp.where(blocks.wanted > 0, blocks.wanted * (1 + triangle) + blocks.wanted // 8 + 16, 0).astype(np.uint32)
    candidates = count * (1 + triangle) + count // 8 + 16 * len(width)
    ends = jnp.cumsum(width.astype(np.int32))
    begins, own = ends - width.astype(np.int32), jnp.arange(candidates, dtype=np.int32)
    block = jnp.minimum(jnp.searchsorted(ends, own, side="right", method="sort"), len(width) - 1)
    number = jnp.where(own < ends[-1], own - begins[block], 0).astype(np.uint32)
    domain = _Domain.of(blocks)
    keys = _mixed(jax.random.bits(key, (ROUNDS, 1), np.uint32) + jnp.arange(len(width), dtype=np.uint32))
    offsets = jnp.cumsum(blocks.wanted) - blocks.wanted

    def is_left(begin: jax.Array) -> jax.Array:
        """Whether there are more candidates, and numbers for them."""
        return (begin // domain.inner < domain.outer) & (begin <= MOST - width)

    def goes_on(state: State) -> jax.Array:
        begin, counts, _ = state
        return (is_left(begin) & (counts < blocks.wanted)).any()

    def turn(state: State) -> State:
        begin, counts, found = state
        at, own_domain = begin[block] + number, jax.tree.map(lambda one: one[block], domain)
        row, rank, is_pair = own_domain.permuted(at, keys[:, block])
        is_pair &= (own < ends[-1]) & is_left(begin)[block]
        row = row.astype(np.int32) + blocks.first_row[block]
        column, exists = _absent(pointers, columns, row, rank, blocks.first_column[block], blocks.columns[block])
        is_pair &= exists
        if triangle:
            is_pair &= row > column
        total = jnp.cumsum(is_pair, dtype=np.int32)
        before = jnp.where(begins > 0, total[begins - 1], 0)
        place = counts[block] + total - 1 - before[block]
        slot = jnp.where(is_pair & (place < blocks.wanted[block]), offsets[block] + place, count)
        found = found.at[:, slot].set(jnp.stack([row, column]), mode="drop")
        new = jnp.where(width > 0, total[jnp.maximum(ends - 1, 0)] - before, 0)
        return jnp.where(is_left(begin), begin + width, begin), counts + new, found

    start = jnp.zeros_like(width), jnp.zeros_like(blocks.wanted), jnp.full((2, count), -1, np.int32)
    found: jax.Array = jax.lax.while_loop(goes_on, turn, start)[2]
    return found


def _mixed(x: jax.Array) -> jax.Array:
    """A random function of uint32: the last step of MurmurHash3."""
    x = (x ^ x >> 16) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> 13) * np.uint32(0xC2B2AE35)
    return x ^ x >> 16


def _absent(
    pointers: jax.Array,
    columns: jax.Array,
    row: jax.Array,
    rank: jax.Array,
    first: jax.Array | int,
    size: jax.Array | int,
) -> tuple[jax.Array, jax.Array]:
    """The columns number `rank` of those that rows do not store, of `size` from the first, and whether they exist.

    Of the stored columns c[0] < c[1] < ..., c[p] - p unstored ones stand before c[p]. Bisection finds how many of the
    stored ones precede.
    """
    begin, count = pointers[row], pointers[row + 1] - pointers[row]
    rank = rank.astype(columns.dtype)

    def halved(bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        before = columns.at[begin + middle].get(mode="fill", fill_value=0) - first - middle
        precedes = (before <= rank) & (low < high)
        return jnp.where(precedes, middle + 1, low), jnp.where(precedes, high, jnp.minimum(middle, high))

    low, _ = jax.lax.while_loop(lambda bounds: (bounds[0] < bounds[1]).any(), halved, (jnp.zeros_like(count), count))
    return (first + rank + low).astype(np.int32), rank < size - count


@partial(jax.jit, static_argnames="targets")
def _other_ends(
    key: jax.Array, pointers: jax.Array, rows: jax.Array, source: jax.Array, overflowed: jax.Array, *, targets: int
) -> jax.Array:
    """A random target for each source that it has no edge to, the number of targets if there is none."""
    sources = pointers.shape[0] - 1
    if not sources or not targets:
        return jnp.full(source.shape, targets, source.dtype)
    own = jnp.minimum(source, sources - 1)
    free = targets - (pointers[own + 1] - pointers[own])
    rank = jax.random.randint(key, source.shape, 0, jnp.maximum(free, 1), free.dtype)
    found, exists = _absent(pointers, rows, own, rank, 0, targets)
    return jnp.where(exists & (source < sources) & ~overflowed, found, targets).astype(source.dtype)
