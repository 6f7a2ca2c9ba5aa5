"""Graphs of other libraries, which are recognized by their attributes: no library is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.typing import DTypeLike

from jsparse.errors import DTypeError, PatternError, ShapeError, short_repr
from jsparse.formats import Format
from jsparse.graph.edges import from_edges
from jsparse.tensor.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from jraph import GraphsTuple
    from networkx import Graph


def from_networkx(
    G: Graph,
    weight: str | None = "weight",
    *,
    dtype: DTypeLike = np.float32,
    format: Format | str | None = None,
    duplicates: str = "sum",
) -> SparseTensor:
    """Make a graph from a NetworkX graph. An edge u → v is `A[v, u]`, and undirected edges have both directions.

        >>> import networkx
        >>> A = jsparse.graph.from_networkx(networkx.karate_club_graph(), weight=None)

    Node i is `list(G)[i]`. The weights of parallel edges of a multigraph are added, unless they are kept.

    Args:
        G: a NetworkX graph of any class.
        weight: the edge attribute that holds the weight. If an edge lacks the attribute, or `weight` is None, the
            weight is 1.
        dtype: the dtype of the weights.
        format, duplicates: as in `from_edges`. If repeated edges are kept, edge n is `list(G.edges)[n]`, and the
            reverse directions of undirected edges follow, in the same order.

    Returns a tensor of shape (nodes, nodes). Raises DTypeError if `G` is not a NetworkX graph or weights are not
    numbers; FormatError for an unsuitable format.
    """
    if not (hasattr(G, "is_directed") and hasattr(G, "is_multigraph") and hasattr(G, "edges")):
        raise DTypeError(
            f"Expected a NetworkX graph for jsparse.graph.from_networkx, but got {short_repr(G)}. Pass lists of nodes "
            "to jsparse.graph.from_edges."
        )
    number = {node: n for n, node in enumerate(G)}
    attribute: Any = weight if weight is not None else _NONE
    edges = list(G.edges(data=attribute, default=1))
    ends = np.array([(number[u], number[v]) for u, v, _ in edges], np.int64).reshape(-1, 2)
    weights = _weights([w for *_, w in edges], dtype)
    if not G.is_directed():
        back = ends[:, 0] != ends[:, 1]  # an undirected self-loop is one entry
        ends, weights = np.concatenate([ends, ends[back, ::-1]]), np.concatenate([weights, weights[back]])
    return from_edges(ends[:, 0], ends[:, 1], weights, nodes=len(number), format=format, duplicates=duplicates)


class _Nothing:
    """The class of `_NONE`, an attribute that no edge has, so that networkx gives every edge the default weight."""


_NONE = _Nothing()


def _weights(numbers: list[float], dtype: DTypeLike) -> np.ndarray:
    try:
        return np.array(numbers, dtype).reshape(len(numbers))
    except (TypeError, ValueError) as error:
        raise DTypeError(
            "Expected a NetworkX graph whose weights are numbers, but they do not make an array of "
            f"{short_repr(dtype)}. Pass weight= the name of another attribute, or weight=None for weights of 1."
        ) from error


def from_jraph(
    graphs: GraphsTuple,
    *,
    nodes: int | None = None,
    format: Format | str | None = None,
    nse: int | None = None,
    duplicates: str = "sum",
) -> SparseTensor:
    """Make a graph from a `jraph.GraphsTuple`, or from any object with `senders`, `receivers` and `n_node`.

        >>> from types import SimpleNamespace
        >>> one = SimpleNamespace(senders=[0, 1], receivers=[1, 2], n_node=[3], nodes=None, edges=None)
        >>> jsparse.graph.from_jraph(one).shape
        (3, 3)

    A tuple of several graphs becomes one block diagonal graph.

    Args:
        graphs: the tuple. Its `edges` are the weights if they are an array with one number for each edge, of shape
            (edges,) or (edges, 1). Otherwise they are features of edges, and all weights are 1.0.
        nodes: the number of nodes, by default the length of the features `graphs.nodes`, or the sum of `n_node`.
        format, nse, duplicates: as in `from_edges`.

    Returns a tensor of shape (nodes, nodes). Raises DTypeError if an attribute is missing, PatternError if neither
    `nodes` nor features are given and `n_node` is traced, and the errors of `from_edges`.
    """
    missing = [name for name in ("senders", "receivers", "n_node") if not hasattr(graphs, name)]
    if missing:
        raise DTypeError(
            f"Expected a jraph.GraphsTuple for jsparse.graph.from_jraph, but {short_repr(graphs)} has no {missing[0]}."
        )
    edges: Any = getattr(graphs, "edges", None)
    count = np.shape(graphs.senders)
    weights = edges.reshape(count) if getattr(edges, "shape", None) in (count, (*count, 1)) else None
    nodes = _node_count(graphs) if nodes is None else nodes
    options: dict[str, Any] = {"nodes": nodes, "format": format, "nse": nse, "duplicates": duplicates}
    return from_edges(graphs.senders, graphs.receivers, weights, **options)


def _node_count(graphs: Any) -> int:
    features = jax.tree.leaves(getattr(graphs, "nodes", None))
    if features and np.ndim(features[0]):
        return int(np.shape(features[0])[0])
    if isinstance(graphs.n_node, jax.core.Tracer):
        raise PatternError(
            "Expected nodes= of jsparse.graph.from_jraph, the number of nodes, because n_node is traced and nodes have "
            "no features. Pass nodes=."
        )
    counts = np.asarray(graphs.n_node)
    if counts.dtype.kind not in "iu":
        raise ShapeError(f"Expected integers in n_node of a jraph.GraphsTuple, but got dtype {counts.dtype}.")
    return int(counts.sum())
