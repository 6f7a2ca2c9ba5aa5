"""Random pairs of nodes without an edge, for link prediction."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, ShapeError, short_repr, shorten
from jsparse.formats import Format
from jsparse.graph.absent import PairBlocks, absent, absent_pairs
from jsparse.graph.batching import GraphBatch
from jsparse.graph.graphs import Graph, as_graph, index_arrays
from jsparse.graph.loops import add_self_loops, symmetrize
from jsparse.ops.indexing.at_coords import coords
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

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
        key: a `jax.random` key.
        A: the graph, of shape (nodes, nodes), or (targets, sources) if it is bipartite. `A[i, j]` is the edge j → i.
            Inside jit pass a dynamic graph as an argument, as for `sample_neighbors`.
        num_neg_samples: the number of pairs, or as a float, the number of pairs for each stored entry; by default one
            pair for each stored entry.
        bipartite: whether sources and targets are two sets of nodes, so that a pair of equal indices is not a
            self-loop; by default True if the graph is not square. If False, self-loops are never drawn.
        force_undirected: draw half as many pairs that have no edge in either direction, and return both directions of
            each: first all pairs in one direction, then all in the other.

    Returns integers (2, num_neg_samples), row 0 the sources, row 1 the targets, as `from_edge_index` takes them. If
    there are fewer pairs without an edge, all are found. For a static graph outside jit, the result is then shorter;
    otherwise it is filled up with the numbers of sources and of targets, which are out of range.

    Raises ShapeError for invalid numbers and if the graph is not a matrix, PatternError for a large static graph inside
    jit, DTypeError for dense arrays.
    """
    graph = as_graph(A, "negative_sampling", square=False)
    targets, sources = graph.shape
    two_sets = targets != sources if bipartite is None else bool(bipartite)
    if targets != sources and (not two_sets or force_undirected):
        raise ShapeError(
            f"Expected a square matrix as the graph of jsparse.graph.negative_sampling with bipartite={bipartite} and "
            f"force_undirected={force_undirected}, but got shape {shorten(graph.shape)}. A bipartite graph has neither "
            "self-loops nor edges in the other direction."
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
        key: a `jax.random` key.
        batch: the batch, as `jsparse.graph.batch` makes it.
        num_neg_samples: the number of pairs for each graph, or as a float, the number of pairs for each stored entry;
            by default one pair for each stored entry.
        force_undirected: draw half as many pairs that have no edge in either direction, and return both directions of
            each: first all pairs in one direction, then all in the other.

    Returns integers (2, samples), row 0 the sources, row 1 the targets, graph by graph. There are `batch.size *
    num_neg_samples` pairs, or for a float, the float times the batch's capacity in entries. If a graph has too few
    pairs without an edge, and in padding, both elements are the number of all nodes, which is out of range.

    Raises ShapeError for an invalid number, DTypeError if `batch` is not a batch.
    """
    if not isinstance(batch, GraphBatch):
        raise DTypeError(
            f"Expected a GraphBatch for jsparse.graph.batched_negative_sampling, but got {short_repr(batch)}. Make one "
            "with jsparse.graph.batch, or call negative_sampling for a single graph."
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
        key: a `jax.random` key.
        A: the graph, of shape (nodes, nodes), or (targets, sources) if it is bipartite. `A[j, i]` is the edge i → j.
            Inside jit pass a dynamic graph as an argument, as for `sample_neighbors`.
        contains_neg_self_loops: whether k may be i; with False the graph has to be square.

    Returns i, j and k, integers of shape (nse,), in the order of stored entries. All nodes to which i has no edge are
    equally likely. If i has edges to all nodes, and in padding, k is the number of targets, which is out of range.

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
