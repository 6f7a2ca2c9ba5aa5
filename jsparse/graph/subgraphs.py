"""Subgraphs of given nodes, or of all nodes within some hops of given nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, is_integer
from jsparse.convert.coordinate_creation import from_coords
from jsparse.convert.dynamic_creation import index_numbers
from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.graph.graphs import Graph, as_graph, known_or_traced, like, one_of
from jsparse.ops.indexing.at_coords import coords
from jsparse.ops.indexing.gathered import gather_values
from jsparse.ops.relocation.operands import as_integer
from jsparse.tensor.sparse_tensor import SparseTensor


class Subgraph(NamedTuple):
    """A part of a graph, a pytree.

        >>> A = jsparse.graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], nodes=5)
        >>> part = jsparse.graph.k_hop_subgraph(3, 1, A, relabel_nodes=True)
        >>> part.nodes, part.mapping, part.graph.shape
        (array([2, 3], dtype=int32), array([1], dtype=int32), (2, 2))

    Attributes:
        nodes: the nodes of the subgraph, integers (count,).
        graph: the edges of the subgraph. Nodes have their indices in the original graph, or if relabelled, their
            positions in `nodes`.
        mapping: the positions in `nodes` of the nodes that were passed as an argument.
        edges: for each stored entry of `graph`, the slot of this entry in the original graph (after conversion to
            csr, if the original graph has blocks). So `features[edges]` are the features of the subgraph's edges.

    The arrays are numpy arrays if all arguments are known. Otherwise `nodes` has room for all nodes and `edges` for all
    entries. Unused elements are the number of all nodes, or of all entries, which is out of range.
    """

    nodes: Array
    graph: Graph
    mapping: Array
    edges: Array


def subgraph(subset: ArrayLike, A: Graph, relabel_nodes: bool = False) -> Subgraph:
    """Keep some nodes, and the edges between them: the subgraph that they induce.

        >>> A = jsparse.graph.from_edges([0, 1, 2, 0], [1, 2, 3, 3], nodes=4)
        >>> nodes, part, _, edges = jsparse.graph.subgraph([3, 0, 1], A, relabel_nodes=True)
        >>> part.todense()
        Array([[0., 1., 0.],
               [0., 0., 0.],
               [0., 1., 0.]], dtype=float32)

    If only the relabelled graph matters, `A[nodes][:, nodes]` is the same graph. For bipartite graphs, use
    `A[targets][:, sources]`.

    Args:
        subset: the nodes, each once, or bools (nodes,). Traced nodes out of range are left out.
        A: the graph, of shape (nodes, nodes), or (nodes, nodes, edges) if repeated edges are kept. `A[i, j]` is the
            edge j → i.
        relabel_nodes: whether the result has the shape (count, count), and node n is `subset[n]`. Otherwise nodes
            keep their indices.

    Returns a `Subgraph`. Its graph has the dtype of A, is differentiable in the weights, and is a pattern if A is. It
    is static if A is static and the nodes are known. Otherwise it is dynamic, with the capacity of A.

    Raises ShapeError if nodes are out of range or repeated, or the graph is not square, PatternError for nodes that are
    not integers, DTypeError for dense arrays.
    """
    graph = _plain(as_graph(A, "subgraph", kept=True))
    nodes = _nodes(subset, graph.shape[0], "subgraph")
    known = not isinstance(nodes, jax.core.Tracer)
    if known and len(np.unique(nodes)) < len(nodes):
        raise ShapeError(
            "Expected the subset of jsparse.graph.subgraph to have each node once. Pass np.unique(subset)."
        )
    run = _compiled_induced if not known or graph.is_dynamic else _induce_subgraph
    part = run(graph, nodes, bool(relabel_nodes))
    return part._replace(graph=like(A, part.graph))


def k_hop_subgraph(
    node_ids: ArrayLike,
    num_hops: int,
    A: Graph,
    relabel_nodes: bool = False,
    *,
    flow: str = "source_to_target",
    directed: bool = False,
) -> Subgraph:
    """Keep the nodes whose messages reach the given nodes within a number of hops, and the edges between kept nodes.

        >>> A = jsparse.graph.from_edges([0, 1, 2, 3, 4, 5], [2, 2, 4, 4, 6, 6], nodes=7)
        >>> nodes, part, mapping, edges = jsparse.graph.k_hop_subgraph(6, 2, A, relabel_nodes=True)
        >>> nodes, mapping, edges
        (array([2, 3, 4, 5, 6], dtype=int32), array([4], dtype=int32), array([2, 3, 4, 5], dtype=int32))

    A network with one layer for each hop has the same results at the given nodes on the subgraph, from `x[nodes]`, as
    on the original graph. The time grows with the number of all edges times the number of hops.

    Args:
        node_ids: the given nodes, an integer or an array of integers. Traced nodes out of range are left out.
        num_hops: the number of hops, 0 or more.
        A: the graph, of shape (nodes, nodes), or (nodes, nodes, edges) if repeated edges are kept. `A[i, j]` is the
            edge j → i.
        relabel_nodes: whether the result has the shape (count, count), and node n is `nodes[n]`. For a dynamic result,
            count is the number of all nodes. Otherwise nodes keep their indices.
        flow: "source_to_target" if a hop leads from a node to the sources of its incoming edges, "target_to_source"
            if it leads to the targets of its outgoing edges.
        directed: whether only the edges that hops follow are kept, rather than all edges between the kept nodes.

    Returns a `Subgraph` with nodes in ascending order. Its graph has the dtype of A, is differentiable in the weights,
    and is a pattern if A is. It is static if A is static and the nodes are known. Otherwise it is dynamic, with the
    capacity of A.

    Raises ShapeError if nodes are out of range, num_hops or flow is invalid, or the graph is not square, PatternError
    for nodes that are not integers, DTypeError for dense arrays.
    """
    graph = _plain(as_graph(A, "k_hop_subgraph", kept=True))
    hops = as_integer(num_hops, "num_hops of jsparse.graph.k_hop_subgraph")
    if hops < 0:
        raise ShapeError(f"Expected num_hops of jsparse.graph.k_hop_subgraph to be 0 or more, but got {hops}.")
    one_of(flow, ("source_to_target", "target_to_source"), "the flow of jsparse.graph.k_hop_subgraph")
    nodes = _nodes(node_ids, graph.shape[0], "k_hop_subgraph")
    run = _compiled_k_hops if isinstance(nodes, jax.core.Tracer) or graph.is_dynamic else _k_hops
    part = run(graph, nodes, hops, bool(relabel_nodes), flow, bool(directed))
    return part._replace(graph=like(A, part.graph))


def _nodes(nodes: ArrayLike, count: int, what: str) -> Array:
    """Convert nodes to an array (n,), in numpy unless traced. Raises ShapeError and PatternError for other values."""
    expected = f"the nodes of jsparse.graph.{what} to be integers of shape (n,), from 0 to {count - 1}"
    traced = isinstance(nodes, jax.core.Tracer)
    array = (jnp if traced else np).atleast_1d(known_or_traced(nodes, expected))
    if array.ndim != 1:
        raise ShapeError(f"Expected {expected}, but got shape {shorten(array.shape)}.")
    if array.dtype == np.bool_ and array.shape == (count,):
        return jnp.nonzero(array, size=count, fill_value=count)[0] if traced else np.flatnonzero(array)
    if not is_integer(array.dtype):
        raise PatternError(f"Expected {expected}, but got dtype {array.dtype} of shape {array.shape}.")
    if traced:
        numbers = jnp.asarray(index_numbers(array, count))
        return jnp.where((numbers >= 0) & (numbers < count), numbers, count)
    if array.size and not 0 <= array.min() <= array.max() < count:
        wrong = array[(array < 0) | (array >= count)][0]
        raise ShapeError(f"Expected {expected}, but got {wrong}.")
    return array.astype(np.int32)


def _induce_subgraph(graph: SparseTensor, nodes: Array, relabel: bool) -> Subgraph:
    """Make the subgraph of some nodes, by numpy if the nodes are a numpy array and the graph is static."""
    count, (target, source, *_) = graph.shape[0], coords(graph)
    xnp: Any = np if isinstance(nodes, np.ndarray) else jnp
    numbers = xnp.arange(len(nodes), dtype=np.int32)
    number = _with_marks(np.int32(-1), count, nodes, numbers)
    is_kept = (_at(number, target, -1) >= 0) & (_at(number, source, -1) >= 0)
    part, edges = _part(graph, is_kept, number if relabel else None, len(nodes))
    return Subgraph(nodes, part, numbers, edges)


def _k_hops(graph: SparseTensor, seeds: Array, hops: int, relabel: bool, flow: str, directed: bool) -> Subgraph:
    """Make the subgraph within some hops, by numpy if the nodes are a numpy array and the graph is static."""
    known, count = isinstance(seeds, np.ndarray), graph.shape[0]
    xnp = np if known else jnp
    target, source, *_ = coords(graph)
    here, there = (target, source) if flow == "source_to_target" else (source, target)
    reached = last = _with_marks(np.False_, count, seeds, True)
    followed = xnp.zeros(graph.nse, bool)
    for _ in range(hops):
        hit = _at(last, here, False)
        last = _with_marks(np.False_, count, there[hit] if known else jnp.where(hit, there, count), True)
        followed, reached = followed | hit, reached | last
    is_kept = followed if directed else _at(reached, here, False) & _at(reached, there, False)
    number = xnp.cumsum(reached, dtype=np.int32) - 1
    nodes = np.flatnonzero(reached) if known else jnp.nonzero(reached, size=count, fill_value=count)[0]
    part, edges = _part(graph, is_kept, number if relabel else None, len(nodes))
    return Subgraph(nodes.astype(np.int32), part, _at(number, seeds, count), edges)


_compiled_induced = jax.jit(_induce_subgraph, static_argnums=2)
_compiled_k_hops = jax.jit(_k_hops, static_argnums=(2, 3, 4, 5))


def _plain(graph: SparseTensor) -> SparseTensor:
    """Return a graph in a format that stores the coordinates of each entry. Graphs with blocks or runs become csr."""
    return graph if all(level.kind.has_coordinates for level in graph.format.levels[1:]) else graph.asformat("csr")


def _at(x: Array, index: Array, fill: int | bool) -> Array:
    """Return x[index]. If x is a JAX array, elements at indices out of range are `fill`."""
    return x[index] if isinstance(x, np.ndarray) else x.at[index].get(mode="fill", fill_value=fill)


def _with_marks(other: np.int32 | np.bool_, count: int, nodes: Array, marks: Array | bool) -> Array:
    """Return an array (count,) with `marks` at the given nodes, and `other` elsewhere."""
    if not isinstance(nodes, np.ndarray):
        return jnp.full(count, other).at[nodes].set(marks, mode="drop")
    marked = np.full(count, other)
    marked[nodes] = marks
    return marked


def _part(graph: SparseTensor, is_kept: Array, number: Array | None, count: int) -> tuple[SparseTensor, Array]:
    """Return a graph of the kept entries, and the slots of these entries in `graph`.

    If `number` is given, node n gets the index `number[n]` in the result, which then has `count` nodes.
    """
    rows = list(coords(graph))
    shape = graph.shape if number is None else (count, count, *graph.shape[2:])
    if isinstance(is_kept, np.ndarray):
        kept = np.flatnonzero(is_kept)
        rows = [row[kept] if number is None or dim == 2 else number[row[kept]] for dim, row in enumerate(rows)]
        order = np.lexsort([rows[level.dim] for level in reversed(graph.format.levels)])
        kept = kept[order].astype(np.int32 if graph.nse < 2**31 else np.int64)
        pattern = from_coords(np.stack(rows)[:, order], np.ones(len(kept), bool), shape, graph.format).pattern
        return SparseTensor(gather_values(graph.values, kept), pattern), kept
    rows = [row if number is None or dim == 2 else _at(number, row, count) for dim, row in enumerate(rows)]
    placed = jnp.stack([jnp.where(is_kept, row, size) for row, size in zip(rows, shape, strict=True)])
    slots = from_coords(placed, jnp.arange(graph.nse, dtype=np.int32), shape, graph.format, nse=graph.nse)
    edges = slots.pattern.in_use(slots.values, other=graph.nse)
    pattern = slots.pattern.propagate_overflow(graph.pattern)
    weights = graph.values.at[edges].get(mode="fill", fill_value=0)
    return SparseTensor._poison_on_overflow(weights, pattern), edges
