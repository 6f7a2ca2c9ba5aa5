"""Graphs from lists of edges, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jsparse.base.arrays import Array, host_array, is_integer
from jsparse.convert.coordinate_creation import from_coords
from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Format
from jsparse.graph.coalescing import REDUCE, merge_edges
from jsparse.graph.graphs import Graph, as_graph, known_or_traced, one_of
from jsparse.ops.indexing.at_coords import coords
from jsparse.primitives.host import is_on_host, is_rare, on_device
from jsparse.tensor.sparse_tensor import SparseTensor

KEPT = "(i, j, k) -> (i : dense, j : compressed(nonunique), k : singleton)"  # csr, with the number of each edge


class Edges(NamedTuple):
    """The edges of a graph: `source` and `target`, integers of shape (edges,), and `weights`, numbers of that shape.

    >>> jsparse.graph.to_edges(jsparse.eye(3)).weights.shape
    (3,)
    """

    source: Any
    target: Any
    weights: Any


def from_edges(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    nodes: int | None = None,
    shape: Sequence[int] | None = None,
    format: Format | str | None = None,
    nse: int | None = None,
    duplicates: str = "sum",
) -> SparseTensor:
    """Make a graph from edges: `A[target[e], source[e]]` is the weight of edge e.

        >>> A = jsparse.graph.from_edges([0, 0, 1], [1, 2, 2], [0.5, 1.0, 2.0], nodes=3)
        >>> A.todense()
        Array([[0. , 0. , 0. ],
               [0.5, 0. , 0. ],
               [1. , 2. , 0. ]], dtype=float32)

    Weights of repeated edges are added, so that three edges of weight one are one entry of weight 3. If edges
    have features, keep repeated edges separate: the graph then has a third index, the edge's position in the list.

        >>> A = jsparse.graph.from_edges([0, 0], [1, 1], nodes=3, duplicates="keep")
        >>> A.shape, A.nse
        ((3, 3, 2), 2)
        >>> features = jnp.array([[1.0], [5.0]])[A.coords[2]]  # in the order of stored entries, as layers take them

    Args:
        source, target: the nodes at the start and at the end of each edge, integers of shape (edges,).
        weights: numbers of shape (edges,), or one number for all edges; by default 1.0. The graph is differentiable in
            them.
        nodes: the number of nodes, for a graph of shape (nodes, nodes).
        shape: in place of `nodes`, the numbers of targets and of sources of a bipartite graph.
        format: the format of the graph; by default csr, in which several entries may have the same source if repeated
            edges are kept.
        nse: the capacity in edges, which makes the pattern dynamic. Traced edges make it dynamic, too, with room for
            all edges. Edges of a dynamic pattern whose nodes are out of range are padding.
        duplicates: "sum", "mean", "min", "max" or "mul" to reduce the weights of repeated edges to one weight, "keep"
            for a graph (targets, sources, edges) in which `A[target[e], source[e], e]` is the weight of edge e. Graph
            layers take such a graph, `A.sum(2)` adds up its repeated edges, and `coalesce` reduces their features, too.

    Returns a tensor of the dtype of the weights, or of JAX's float for means of integers. Raises ShapeError if the
    shapes of the arguments do not fit, for both or neither of `nodes` and `shape`, and for other `duplicates`;
    PatternError if nodes are out of range or not integers, and for more edges than `nse`; FormatError for an unsuitable
    format.
    """
    if (nodes is None) == (shape is None):
        raise ShapeError(
            "Expected one of nodes= and shape=(targets, sources) in jsparse.graph.from_edges, because edges do not "
            f"show isolated nodes, but got nodes={shorten(nodes)} and shape={shorten(shape)}."
        )
    sizes: Any = (nodes, nodes) if shape is None else shape
    if np.ndim(sizes) != 1 or len(sizes) != 2:
        raise ShapeError(
            f"Expected shape= of jsparse.graph.from_edges to be (targets, sources), but got {shorten(shape)}."
        )
    ends = [_nodes(nodes, name) for nodes, name in ((source, "source"), (target, "target"))]
    if ends[0].shape != ends[1].shape:
        raise ShapeError(
            f"Expected source and target of jsparse.graph.from_edges to have one length, but got {ends[0].shape} and "
            f"{ends[1].shape}."
        )
    weights = 1.0 if weights is None else weights
    if np.ndim(weights) and np.shape(weights) != ends[0].shape:
        raise ShapeError(
            f"Expected weights of shape {ends[0].shape} in jsparse.graph.from_edges, one for each edge, but got "
            f"{shorten(np.shape(weights))}. Keep features of edges in a separate array."
        )
    xnp = np if all(isinstance(end, np.ndarray) for end in ends) else jnp
    if one_of(duplicates, (*REDUCE, "keep"), "duplicates= of jsparse.graph") == "sum":
        return from_coords(xnp.stack(ends[::-1]), weights, sizes, format or "csr", nse=nse)
    count, dtype = len(ends[0]), ends[0].dtype
    least = np.min_scalar_type(count if dtype.kind == "u" else ~count)
    numbers, kept = xnp.arange(count, dtype=np.promote_types(dtype, least)), duplicates == "keep"
    layout, capacity = (format or KEPT, nse) if kept else (KEPT, None if nse is None else count)
    graph = from_coords(xnp.stack([*ends[::-1], numbers]), weights, (*sizes, max(count, 1)), layout, nse=capacity)
    return graph if kept else merge_edges(graph, duplicates, format=format or "csr", nse=nse)[0]


def from_edge_index(
    edge_index: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    nodes: int | None = None,
    shape: Sequence[int] | None = None,
    format: Format | str | None = None,
    nse: int | None = None,
    duplicates: str = "sum",
) -> SparseTensor:
    """Make a graph from PyTorch Geometric's `edge_index`, of shape (2, edges): row 0 the sources, row 1 the targets.

        >>> jsparse.graph.from_edge_index(np.array([[0, 0, 1], [1, 2, 2]]), nodes=3).nse
        3

    The other arguments and the result are as in `from_edges`. If nodes have features `x`, the number of nodes is
    `len(x)`. If repeated edges differ in `edge_attr`, pass `duplicates="keep"` to keep them apart.

    Raises ShapeError if `edge_index` has another shape, and the errors of `from_edges`.
    """
    wanted = "edge_index of jsparse.graph to be an array of integers"
    ends = edge_index if isinstance(edge_index, jax.Array) else host_array(edge_index, wanted)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise ShapeError(
            f"Expected edge_index of jsparse.graph.from_edge_index to have shape (2, edges), sources in row 0 and "
            f"targets in row 1, but got {ends.shape}."
        )
    options: dict[str, Any] = {"shape": shape, "format": format, "nse": nse, "duplicates": duplicates}
    return from_edges(ends[0], ends[1], weights, nodes=nodes, **options)


def to_edges(A: Graph) -> Edges:
    """Return the edges of a graph, in storage order.

        >>> source, target, weights = jsparse.graph.to_edges(A)
        >>> edge_index = np.stack([source, target])  # as in PyTorch Geometric

    Args:
        A: the graph, of any format; (targets, sources) if it is bipartite.

    Returns `Edges` with an element for each stored entry. The nodes are numpy arrays if the pattern is static. In the
    padding of a dynamic pattern, nodes are out of range (the numbers of sources and of targets), and weights are 0.

    Raises DTypeError for a dense array, and ShapeError if the graph is not a matrix.
    """
    graph = as_graph(A, "to_edges", square=False)
    ends: Any = coords(graph)
    if isinstance(ends, jax.Array) and is_on_host(ends) and is_rare(ends.shape, 2e-5):
        ends = on_device(list(np.asarray(ends)))  # its rows, in memory that nothing else refers to
    target, source = ends
    return Edges(source, target, graph.values)


def _nodes(nodes: npt.ArrayLike, name: str) -> Array:
    expected = f"{name} of jsparse.graph.from_edges to be an array of integers"
    array = known_or_traced(nodes, expected)
    if array.ndim != 1:
        raise ShapeError(f"Expected {name} of jsparse.graph.from_edges to have shape (edges,), but got {array.shape}.")
    if not is_integer(array.dtype):
        raise PatternError(f"Expected {expected}, but got dtype {array.dtype}. Convert it.")
    return array
