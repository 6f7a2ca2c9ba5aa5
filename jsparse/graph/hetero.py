"""Batches of heterogeneous graphs, which are dictionaries with a graph for each relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import jax

from jsparse.errors import ShapeError, shorten
from jsparse.graph.batching import Nodes, as_list, diagonal
from jsparse.graph.graphs import Graph, Relation, as_graph, check_relation
from jsparse.primitives.host import on_device


class HeteroBatch(NamedTuple):
    """Several heterogeneous graphs joined to one; a pytree of dictionaries.

        >>> writes = ("author", "writes", "paper")
        >>> graphs = [{writes: jsparse.random(jax.random.key(n), (3, 2), density=0.5)} for n in range(2)]
        >>> found = jsparse.graph.hetero_batch(graphs, nodes={"paper": 8, "author": 5})
        >>> found.graph[writes].shape, found.graph_of["paper"].shape, found.size
        ((8, 5), (8,), 2)

    Attributes:
        graph: the block diagonal graph of each relation, dynamic.
        graph_of: for each type of nodes, (nodes,) int32, the index of each node's graph, `size` in padding.
        starts: for each type of nodes, (size + 1,) int32, the first node of each graph, and the end of the last one.
    """

    graph: dict[Relation, Graph]
    graph_of: dict[str, jax.Array]
    starts: dict[str, jax.Array]

    @property
    def size(self) -> int:
        """The number of graphs, including the empty ones that fill up the batch."""
        return int(next(iter(self.starts.values())).shape[-1]) - 1


def hetero_batch(
    graphs: Iterable[Mapping[Relation, Graph]],
    *,
    nodes: Mapping[str, int] | None = None,
    nse: Mapping[Relation, int] | None = None,
    size: int | None = None,
) -> HeteroBatch:
    """Make one heterogeneous graph from several, with a block diagonal graph for each relation, as `batch` does.

        >>> likes = ("user", "likes", "item")
        >>> graphs = [{likes: jsparse.eye(2, 3)}, {likes: jsparse.eye(4, 1)}]
        >>> found = jsparse.graph.hetero_batch(graphs, nodes={"user": 8}, nse={likes: 10}, size=3)
        >>> found.graph[likes].shape, found.starts["user"]
        ((6, 8), Array([0, 3, 4, 4], dtype=int32))

    Args:
        graphs: dictionaries with equal keys, the relations (type of sources, name, type of targets). Each has a graph
            (targets, sources), a tensor or a pattern.
        nodes: the capacity in nodes of each type, by default the number of all nodes.
        nse: the capacity in edges of each relation, by default the capacity of all graphs together.
        size: the capacity in graphs, by default the number of graphs. The remaining graphs of the batch are empty.

    Returns a `HeteroBatch`, differentiable in the weights.

    Raises ShapeError if there are no graphs, if their relations differ or disagree about the number of nodes of a type,
    and if nodes or graphs exceed their capacity; PatternError if edges exceed their capacity; DTypeError for dense
    arrays.
    """
    listed = as_list(graphs, "hetero_batch")
    if not all(isinstance(one, Mapping) and one.keys() == listed[0].keys() and one for one in listed):
        raise ShapeError(
            "Expected dictionaries with the same relations for jsparse.graph.hetero_batch, and a graph for each "
            "relation, but got "
            f"{shorten([list(one) if isinstance(one, Mapping) else type(one).__name__ for one in listed])}. If a graph "
            "has no edges of a relation, pass jsparse.zeros((targets, sources)) for it."
        )
    relations = [check_relation(one, "jsparse.graph.hetero_batch") for one in listed[0]]
    tensors_of = {name: [as_graph(one[name], "hetero_batch", square=False) for one in listed] for name in relations}
    counts: dict[str, list[int]] = {}
    for relation, tensors in tensors_of.items():
        for axis, type_ in ((1, relation[0]), (0, relation[2])):
            sizes = [tensor.shape[axis] for tensor in tensors]
            if counts.setdefault(type_, sizes) != sizes:
                raise ShapeError(
                    "Expected the relations of each graph of jsparse.graph.hetero_batch to have the same number of "
                    f"nodes {type_!r}, but got {shorten(counts[type_])} and, in {relation}, {shorten(sizes)}."
                )
    sets = {
        type_: Nodes.of(sizes, None if nodes is None else nodes.get(type_), size, "hetero_batch")
        for type_, sizes in counts.items()
    }
    blocks = {
        relation: diagonal(
            [one[relation] for one in listed],
            tensors,
            sets[relation[2]],
            sets[relation[0]],
            None if nse is None else nse.get(relation),
            "hetero_batch",
        )
        for relation, tensors in tensors_of.items()
    }
    graph_of = dict(zip(sets, on_device([of_type.graph_of for of_type in sets.values()]), strict=True))
    starts = dict(zip(sets, on_device([of_type.starts for of_type in sets.values()]), strict=True))
    return HeteroBatch(blocks, graph_of, starts)
