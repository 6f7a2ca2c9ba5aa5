"""Random pairs of nodes without an edge, for link prediction.

A search, in random order, for pairs (row, column) that a matrix does not store.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, ShapeError, short_repr, shorten
from jsparse.formats import Format
from jsparse.graph.batching import GraphBatch
from jsparse.graph.graphs import Graph, as_graph, index_arrays
from jsparse.graph.loops import add_self_loops, symmetrize
from jsparse.ops.indexing.at_coords import coords
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

ROUNDS = 12  # of the permutation: with 8 the pairs of a 5 x 3 matrix are not equally likely
MOST = np.uint32(2**32 - 1)
TURNS = 1024  # about the most turns that are needed, even if the graph has nearly all edges

State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The state of a search: each block's next candidate, each block's number of found pairs, and all found pairs."""


class PairBlocks(NamedTuple):
    """Blocks of a matrix, and the number of pairs to draw in each block. Attributes are arrays (blocks,)."""

    first_row: jax.Array
    rows: jax.Array
    first_column: jax.Array
    columns: jax.Array
    wanted: jax.Array


class _Domain(NamedTuple):
    """The pairs (row, column) of blocks, in a random order.

    Attributes are uint32 arrays with one element for each block, or with one element for each candidate pair, which
    describes the block of that pair.

    A Feistel network permutes pairs of an outer and an inner number. It mixes well if the numbers have similar ranges,
    so the longer side of a block is cut into parts: the outer number encodes a coordinate of the shorter side and a
    part, and the inner number is a position in the part.
    """

    rows: jax.Array
    columns: jax.Array
    parts: jax.Array
    inner: jax.Array

    @staticmethod
    def of(blocks: PairBlocks) -> _Domain:
        rows, columns = (size.astype(np.uint32) for size in (blocks.rows, blocks.columns))
        short, long = jnp.minimum(rows, columns), jnp.maximum(jnp.maximum(rows, columns), 1)
        parts = jnp.sqrt(long / jnp.maximum(short, 1).astype(np.float32)).round().astype(np.uint32)
        return _Domain(rows, columns, parts, (long + parts - 1) // parts)

    @property
    def outer(self) -> jax.Array:
        """The number of values that the outer number may have, which is 0 in a block without pairs."""
        return jnp.minimum(self.rows, self.columns) * self.parts

    def pair_at(self, at: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the row and the column at a position in the random order, and whether the block has a pair there."""
        outer = jnp.maximum(self.outer, 1)

        def rounds(n: int, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            first, second = pair
            first = (first + _hash_bits(second + keys[2 * n]) % outer) % outer
            return first, (second + _hash_bits(first + keys[2 * n + 1]) % self.inner) % self.inner

        start = at // self.inner % outer, at % self.inner
        first, second = jax.lax.fori_loop(0, ROUNDS // 2, rounds, start)
        short, long = first // self.parts, first % self.parts * self.inner + second
        wide = self.rows <= self.columns
        exists = (at // self.inner < self.outer) & (long < jnp.maximum(self.rows, self.columns))
        return jnp.where(wide, short, long), jnp.where(wide, long, short), exists


@partial(jax.jit, static_argnames=("count", "triangle"))
def absent_pairs(
    key: jax.Array, pointers: jax.Array, columns: jax.Array, blocks: PairBlocks, *, count: int, triangle: bool
) -> jax.Array:
    """Find pairs that are not stored, as an array (2, count) of rows and columns. Pairs that a block lacks are -1.

    A candidate is a position in a random order of the pairs; some positions have no pair. Each iteration of the loop
    takes the next candidates of each block, a few more than are wanted, and keeps the pairs there. With `triangle`,
    only pairs whose row is greater than their column are found. Then the stored entries have to be symmetric and
    contain the diagonal.
    """
    spare = max(len(columns) // (TURNS * len(blocks.wanted)), 16)
    width = jnp.where(blocks.wanted > 0, blocks.wanted * (1 + triangle) + blocks.wanted // 8 + spare, 0)
    width, candidates = width.astype(np.uint32), count * (1 + triangle) + count // 8 + spare * len(width)
    ends = jnp.cumsum(width.astype(np.int32))
    begins, candidate = ends - width.astype(np.int32), jnp.arange(candidates, dtype=np.int32)
    block = jnp.cumsum(jnp.zeros(candidates, np.int32).at[ends[:-1]].add(1, mode="drop"))
    number = jnp.where(candidate < ends[-1], candidate - begins[block], 0).astype(np.uint32)
    domain = _Domain.of(blocks)
    keys = _hash_bits(jax.random.bits(key, (ROUNDS, 1), np.uint32) + jnp.arange(len(width), dtype=np.uint32))
    offsets = jnp.cumsum(blocks.wanted) - blocks.wanted
    # The pairs of each block that are not stored, or `MOST` for a block of about 2³² pairs.
    is_small = blocks.rows.astype(np.float32) * blocks.columns.astype(np.float32) < 4.29e9
    stored = pointers[blocks.first_row + blocks.rows] - pointers[blocks.first_row]
    size = blocks.rows.astype(np.uint32) * blocks.columns.astype(np.uint32)  # exact modulo 2³²
    free = jnp.where(is_small, size - stored.astype(np.uint32), MOST)
    limit = jnp.minimum(blocks.wanted.astype(np.uint32), free // (1 + triangle))

    def is_left(begin: jax.Array) -> jax.Array:
        """For each block, whether it has candidates at or after position `begin` whose positions fit uint32."""
        return (begin // domain.inner < domain.outer) & (begin <= MOST - width)

    def goes_on(state: State) -> jax.Array:
        begin, counts, _ = state
        return (is_left(begin) & (counts.astype(np.uint32) < limit)).any()

    def turn(state: State) -> State:
        begin, counts, pairs = state
        at, domain_of_candidate = begin[block] + number, jax.tree.map(lambda one: one[block], domain)
        row, rank, is_pair = domain_of_candidate.pair_at(at, keys[:, block])
        is_pair &= (candidate < ends[-1]) & is_left(begin)[block]
        row = row.astype(np.int32) + blocks.first_row[block]
        column, exists = absent(pointers, columns, row, rank, blocks.first_column[block], blocks.columns[block])
        is_pair &= exists
        if triangle:
            is_pair &= row > column
        total = jnp.cumsum(is_pair, dtype=np.int32)
        before = jnp.where(begins > 0, total[begins - 1], 0)
        place = counts[block] + total - 1 - before[block]
        slot = jnp.where(is_pair & (place < blocks.wanted[block]), offsets[block] + place, count)
        pairs = pairs.at[:, slot].set(jnp.stack([row, column]), mode="drop")
        new = jnp.where(width > 0, total[jnp.maximum(ends - 1, 0)] - before, 0)
        return jnp.where(is_left(begin), begin + width, begin), counts + new, pairs

    start = jnp.zeros_like(width), jnp.zeros_like(blocks.wanted), jnp.full((2, count), -1, np.int32)
    return jax.lax.while_loop(goes_on, turn, start)[2]


def _hash_bits(x: jax.Array) -> jax.Array:
    """Hash uint32 numbers by the last step of MurmurHash3."""
    x = (x ^ x >> 16) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> 13) * np.uint32(0xC2B2AE35)
    return x ^ x >> 16


def absent(
    pointers: jax.Array,
    columns: jax.Array,
    row: jax.Array,
    rank: jax.Array,
    first: jax.Array | int,
    size: jax.Array | int,
) -> tuple[jax.Array, jax.Array]:
    """Find, in each row, the column with index `rank` among the columns that are not stored, and whether it exists.

    There are `size` columns from `first` on. If a row stores the columns c[0] < c[1] < ..., then c[p] - p columns
    before c[p] are not stored. Bisection finds how many stored columns precede the result.
    """
    begin, count = pointers[row], pointers[row + 1] - pointers[row]
    rank = rank.astype(columns.dtype)
    if not len(columns):  # JAX gathers nothing from an empty array
        return (first + rank).astype(np.int32), rank < size

    def halve_bounds(bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        before = columns.at[begin + middle].get(mode="fill", fill_value=0) - first - middle
        precedes = (before <= rank) & (low < high)
        return jnp.where(precedes, middle + 1, low), jnp.where(precedes, high, jnp.minimum(middle, high))

    low, _ = jax.lax.while_loop(
        lambda bounds: (bounds[0] < bounds[1]).any(), halve_bounds, (jnp.zeros_like(count), count)
    )
    return (first + rank + low).astype(np.int32), rank < size - count


CSR, CSC = Format.of("csr", 2), Format.of("csc", 2)


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
    with arbitrary finite domains", 2002). It orders pairs (row, n), in which n stands for the n-th column that the row
    does not store. So nothing is drawn twice, dense graphs are sampled as well as sparse ones, and the time grows with
    the number of samples, divided by the share of pairs that have no edge.

    Args:
        key: a key of jax.random.
        A: the graph, of shape (nodes, nodes), or (targets, sources) if it is bipartite. `A[i, j]` is the edge j → i.
            Inside jit pass a dynamic graph as an argument, as for `sample_neighbors`.
        num_neg_samples: the number of pairs, or as a float, the number of pairs for each stored entry; by default one
            pair for each stored entry.
        bipartite: whether sources and targets are two sets of nodes, so that a pair of equal indices is no self-loop;
            by default True if the graph is not square. If False, self-loops are never drawn.
        force_undirected: draw half as many pairs that have no edge in either direction, and give both directions of
            each: first all pairs in one direction, then all in the other.

    Returns integers (2, num_neg_samples), row 0 the sources, row 1 the targets, as `from_edge_index` takes them. If
    there are fewer pairs without an edge, all are found. For a static graph outside jit, the result is then shorter;
    otherwise it is filled up with the numbers of sources and of targets, which are out of range.

    Raises ShapeError for invalid numbers and if the graph is no matrix, PatternError for a large static graph inside
    jit, DTypeError for dense arrays.
    """
    graph = as_graph(A, "negative_sampling", square=False)
    targets, sources = graph.shape
    two_sets = targets != sources if bipartite is None else bool(bipartite)
    if targets != sources and (not two_sets or force_undirected):
        raise ShapeError(
            f"Expected a square matrix as the graph of jsparse.graph.negative_sampling with bipartite={bipartite} and "
            f"force_undirected={force_undirected}, but got shape {shorten(graph.shape)}. A bipartite graph has no "
            "self-loops, and no other direction."
        )
    count = _count(num_neg_samples, graph.nse, "negative_sampling")
    excluded = _pairs_to_exclude(graph, loops=not two_sets, both=force_undirected)
    numbers = [np.array([number], np.int32) for number in (0, targets, 0, sources, count // (1 + force_undirected))]
    blocks = PairBlocks(*map(jnp.asarray, numbers))
    pairs = _draw_pairs(key, excluded, blocks, int(numbers[-1][0]), triangle=force_undirected)
    if not isinstance(graph.pattern, DynamicPattern) and not isinstance(pairs, jax.core.Tracer):
        pairs = jnp.asarray(np.asarray(pairs)[:, np.asarray(pairs[0]) < sources])
    return jnp.concatenate([pairs, pairs[::-1]], axis=1) if force_undirected else pairs


def batched_negative_sampling(
    key: jax.Array, batch: GraphBatch, num_neg_samples: float | None = None, *, force_undirected: bool = False
) -> jax.Array:
    """For each graph of a batch, draw random pairs of its nodes that have no edge.

        >>> found = jsparse.graph.batch([jsparse.eye(3), jsparse.eye(2)], nodes=8)
        >>> jsparse.graph.batched_negative_sampling(key, found, 2).shape
        (2, 4)

    Each graph's pairs are drawn as `negative_sampling` draws them.

    Args:
        key: a key of jax.random.
        batch: the batch, of `jsparse.graph.batch`.
        num_neg_samples: the number of pairs for each graph, or as a float, for each stored entry; by default one for
            each stored entry.
        force_undirected: draw half as many pairs that have no edge in either direction, and give both directions of
            each: first all pairs in one direction, then all in the other.

    Returns integers (2, samples), row 0 the sources, row 1 the targets, graph by graph. There are `batch.size` times
    `num_neg_samples` of them; for a float, the float times the batch's capacity in entries. Where a graph has too few
    pairs without an edge, and in padding, both elements are the number of all nodes, which is out of range.

    Raises ShapeError for an invalid number, DTypeError if `batch` is no batch.
    """
    if not isinstance(batch, GraphBatch):
        raise DTypeError(
            f"Expected a GraphBatch for jsparse.graph.batched_negative_sampling, but got {short_repr(batch)}. Make "
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
    excluded = _pairs_to_exclude(graph, loops=True, both=force_undirected)
    blocks = PairBlocks(starts[:-1], sizes, starts[:-1], sizes, wanted)
    pairs = _draw_pairs(key, excluded, blocks, count // (1 + force_undirected), triangle=force_undirected)
    return jnp.concatenate([pairs, pairs[::-1]], axis=1) if force_undirected else pairs


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

    Returns i, j and k, integers of shape (nse,), in the order of stored entries. All nodes to which i has no edge are
    equally likely. Where i has edges to all nodes, and in padding, k is the number of targets, which is out of range.

    Raises ShapeError for a graph of another shape, PatternError for a large static graph inside jit,
    DTypeError for dense arrays.
    """
    graph = as_graph(A, "structured_negative_sampling", square=not contains_neg_self_loops)
    target, source = map(jnp.asarray, coords(graph))
    excluded = _pairs_to_exclude(graph, loops=not contains_neg_self_loops, both=False)
    pointers, rows = index_arrays(excluded, CSC, "structured_negative_sampling")
    return source, target, _other_ends(key, pointers, rows, source, _has_overflowed(graph), targets=graph.shape[0])


def _count(number: float | None, nse: int, what: str) -> int:
    """Return the number of pairs to draw. Raises ShapeError if `number` is neither None nor a number of at least 0."""
    if number is None:
        return nse
    is_number = isinstance(number, float | int | np.integer) and type(number) is not bool
    if not is_number or not 0 <= number < 2**31:
        raise ShapeError(
            f"Expected num_neg_samples of jsparse.graph.{what} to be a known integer, 0 or more, or a float, the ratio "
            f"to the number of stored entries, but got {short_repr(number)}."
        )
    return int(number * nse) if isinstance(number, float) else int(number)


def _pairs_to_exclude(graph: SparseTensor, *, loops: bool, both: bool) -> SparseTensor:
    """Return a graph that stores an edge for each pair that must not be drawn."""
    whole = symmetrize(graph.pattern) if both else graph.pattern
    return add_self_loops(whole) if loops else as_graph(whole, "negative_sampling", square=False)


def _has_overflowed(graph: SparseTensor) -> jax.Array:
    """Return whether the pattern has overflowed, so that edges without a slot could be drawn as absent pairs."""
    return jnp.asarray(graph.pattern.overflowed)


def _draw_pairs(key: jax.Array, excluded: SparseTensor, blocks: PairBlocks, count: int, triangle: bool) -> jax.Array:
    """Draw pairs that `excluded` does not store, as an array (2, count) of columns and rows, ordered by block."""
    if not count or 0 in excluded.shape:
        return jnp.broadcast_to(jnp.array(excluded.shape[::-1], np.int32)[:, None], (2, count))
    pointers, columns = index_arrays(excluded, CSR, "negative_sampling")
    pairs = absent_pairs(key, pointers, columns, blocks, count=count, triangle=triangle)
    out_of_range = jnp.array(excluded.shape, pairs.dtype)[:, None]
    return jnp.where((pairs < 0) | _has_overflowed(excluded), out_of_range, pairs)[::-1]


@partial(jax.jit, static_argnames="targets")
def _other_ends(
    key: jax.Array, pointers: jax.Array, rows: jax.Array, source: jax.Array, overflowed: jax.Array, *, targets: int
) -> jax.Array:
    """Draw for each source a random target to which it has no edge, or the number of targets if there is none."""
    sources = pointers.shape[0] - 1
    if not sources or not targets:
        return jnp.full(source.shape, targets, source.dtype)
    column = jnp.minimum(source, sources - 1)
    free = targets - (pointers[column + 1] - pointers[column])
    rank = jax.random.randint(key, source.shape, 0, jnp.maximum(free, 1), free.dtype)
    target, exists = absent(pointers, rows, column, rank, 0, targets)
    return jnp.where(exists & (source < sources) & ~overflowed, target, targets).astype(source.dtype)
