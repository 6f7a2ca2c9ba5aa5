"""Batches of graphs: one graph with a block for each graph, of a size that does not depend on the graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jsparse.base.limits import parse_nse
from jsparse.errors import DTypeError, PatternError, ShapeError, describe_type, short_repr
from jsparse.formats import Format, Pattern
from jsparse.graph.graphs import Graph, as_graph, is_pattern, like
from jsparse.ops.indexing.gathered import split
from jsparse.ops.indexing.getitem import getitem
from jsparse.ops.relocation.coordinate_map import Offset
from jsparse.ops.relocation.operands import as_integer
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.ops.shaping.joining import capacity_of_join
from jsparse.primitives.host import on_device
from jsparse.tensor.sparse_tensor import SparseTensor

T = TypeVar("T")


class GraphBatch(NamedTuple):
    """Several graphs joined to one block diagonal graph; a pytree.

        >>> graphs = [jsparse.eye(2), jsparse.eye(3)]
        >>> found = jsparse.graph.batch(graphs, nodes=8, nse=10)
        >>> pooled = jax.ops.segment_sum(jnp.ones((8, 4)), found.graph_of, num_segments=found.size)

    Attributes:
        graph: the block diagonal graph, dynamic. Nodes after the nodes of the last graph are padding, without edges.
        graph_of: (nodes,) int32, the index of each node's graph, and `size` in padding, which segment sums omit.
        starts: (size + 1,) int32, the first node of each graph, and the end of the last one.
    """

    graph: Any
    graph_of: jax.Array
    starts: jax.Array

    @property
    def size(self) -> int:
        """The number of graphs, including the empty ones that fill up the batch."""
        return int(self.starts.shape[-1]) - 1


def batch(
    graphs: Iterable[Graph], *, nodes: int | None = None, nse: int | None = None, size: int | None = None
) -> GraphBatch:
    """Make one block diagonal graph of several graphs. Its capacities let one program serve all batches.

        >>> molecules = [jsparse.eye(3), jsparse.eye(5), jsparse.eye(2)]
        >>> jsparse.graph.batch(molecules, nodes=16, nse=64, size=4).graph.shape
        (16, 16)

    Join the features of nodes in the same order, by `jnp.concatenate(features)`, and pad them with zeros to
    (nodes, ...).

    Args:
        graphs: square graphs, tensors or patterns. Static graphs outside jit are batched fastest.
        nodes: the capacity in nodes, by default the number of all nodes.
        nse: the capacity in edges, by default the capacity of all graphs together.
        size: the capacity in graphs, by default the number of graphs. The remaining graphs of the batch are empty.

    Returns a `GraphBatch`. The weights have the dtype to which the graphs' weights promote. If all graphs are patterns,
    the graph of the batch is a pattern. The batch is differentiable in the weights.

    Raises ShapeError if there are no graphs, if a graph is not square, and if nodes or graphs exceed their capacity;
    PatternError if edges exceed their capacity (inside jit, the weights of dynamic graphs become NaN instead);
    DTypeError for dense arrays.
    """
    operands = as_list(graphs, "batch")
    tensors = [as_graph(graph, "batch") for graph in operands]
    of_nodes = Nodes.of([graph.shape[0] for graph in tensors], nodes, size, "batch")
    graph = diagonal(operands, tensors, of_nodes, of_nodes, nse, "batch")
    return GraphBatch(graph, *on_device([of_nodes.graph_of, of_nodes.starts]))


def unbatch(batch: GraphBatch) -> list[Graph]:
    """Return the graphs of a batch, static, in csr and without padding. They are patterns if the batch has no weights.

        >>> found = jsparse.graph.batch([jsparse.eye(2), jsparse.eye(3)], nodes=8)
        >>> [graph.shape for graph in jsparse.graph.unbatch(found)]
        [(2, 2), (3, 3)]

    Empty graphs that fill up the batch are in the list, with shape (0, 0). The dtype of the weights stays the same.

    Raises PatternError inside jit, where the sizes of the graphs are not known, and if edges exceeded the capacity.
    """
    if not isinstance(batch, GraphBatch):
        raise DTypeError(f"Expected a GraphBatch for jsparse.graph.unbatch, but got {short_repr(batch)}.")
    if isinstance(batch.starts, jax.core.Tracer):
        raise PatternError(
            "Expected a batch whose sizes are known for jsparse.graph.unbatch, but they are traced. Call it outside "
            "jit, or keep the batch: graph_of says to which graph each node belongs."
        )
    whole = as_graph(batch.graph, "unbatch").static().asformat("csr")
    starts = np.maximum.accumulate(np.asarray(batch.starts).clip(0, whole.shape[0]))
    return [like(batch.graph, graph) for graph in _subgraphs(whole, starts)]


def _subgraphs(whole: SparseTensor, starts: np.ndarray) -> list[SparseTensor]:
    """Split a static csr graph into the subgraphs from each start to the next. Drop the edges between subgraphs."""
    pointers, sources = whole.pattern.arrays
    sizes, bounds = np.diff(starts), pointers[starts]
    counts = np.diff(bounds)
    columns = sources[bounds[0] : bounds[-1]] - np.repeat(starts[:-1].astype(sources.dtype), counts)
    if (columns < 0).any() or (columns >= np.repeat(sizes, counts)).any():
        return [getitem(whole, (slice(start, end),) * 2) for start, end in pairwise(starts.tolist())]
    patterns = []
    nodes, edges = pairwise(starts.tolist()), pairwise((bounds - bounds[0]).tolist())
    for (start, end), (first, last) in zip(nodes, edges, strict=True):
        arrays = pointers[start : end + 1] - pointers[start], columns[first:last].copy()
        patterns.append(Pattern._of_valid((end - start, end - start), whole.format, arrays))
    return list(map(SparseTensor._wrap, split(whole.values, bounds.tolist()), patterns))


class Nodes(NamedTuple):
    """The nodes of a batch: their number with padding, each node's graph, and the start of each graph."""

    capacity: int
    graph_of: np.ndarray
    starts: np.ndarray
    graphs: int

    @staticmethod
    def of(counts: list[int], nodes: int | None, size: int | None, what: str) -> Nodes:
        """Make the `Nodes` of a batch from the number of nodes of each graph.

        Raises ShapeError if there are more nodes or graphs than the capacity.
        """
        capacity = _capacity(nodes, sum(counts), "nodes", what)
        places = _capacity(size, len(counts), "size", what)
        ends = np.array([0, *accumulate(counts)], np.int32)
        graph_of = np.full(capacity, places, np.int32)
        graph_of[: ends[-1]] = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        starts = np.append(ends, np.full(places - len(counts), ends[-1], np.int32))
        return Nodes(capacity, graph_of, starts, len(counts))


def diagonal(
    graphs: Sequence[Graph], tensors: list[SparseTensor], targets: Nodes, sources: Nodes, nse: int | None, what: str
) -> Graph:
    """Make the block diagonal graph, which is dynamic. It is a pattern if all graphs are patterns."""
    edges = parse_nse(nse, f"jsparse.graph.{what}")
    shape, format = (targets.capacity, sources.capacity), Format.of("csr", 2)
    starts = zip(*(nodes.starts[: nodes.graphs].tolist() for nodes in (targets, sources)), strict=True)
    maps = tuple(map(Offset, starts))
    whole = relocate(tensors, Relocation(maps, shape, format, (), capacity_of_join(tensors, shape, format)))
    joined = whole.dynamic(whole.nse if edges is None else edges)
    return joined.pattern if all(map(is_pattern, graphs)) else joined


def as_list(graphs: Iterable[T], what: str) -> list[T]:
    """Return the graphs as a list. Raises ShapeError if there are none, or for a single graph instead of a list."""
    single = is_pattern(graphs) or hasattr(graphs, "shape") or isinstance(graphs, Mapping)
    listed = [] if single or not isinstance(graphs, Iterable) else list(graphs)
    if not listed:
        raise ShapeError(
            f"Expected a sequence of at least one graph for jsparse.graph.{what}, but got "
            f"{describe_type(graphs)}{'' if single else ' without graphs'}. Pass a list."
        )
    return listed


def _capacity(size: int | None, least: int, name: str, what: str) -> int:
    """Return a capacity, by default `least`. Raises ShapeError if the given capacity is smaller than `least`."""
    if size is None:
        return least
    capacity = as_integer(size, f"{name}= of jsparse.graph.{what}")
    if capacity < least:
        of = "nodes" if name == "nodes" else "graphs"
        raise ShapeError(
            f"Expected {name}= of jsparse.graph.{what} to be at least {least:,}, the number of all {of}, but got "
            f"{capacity:,}. Pass a larger number, or make smaller batches."
        )
    return capacity
