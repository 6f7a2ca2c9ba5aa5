"""Layers of heterogeneous graphs. Each relation has a layer, and results are combined for each type of target nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import DTypeError, ShapeError, describe_type, short_repr, shorten
from jsparse.graph.graphs import Graph, Relation, check_relation
from jsparse.nn.layer import Arrays, Layer, Parameter
from jsparse.nn.operands import Features, wide
from jsparse.tensor.sparse_tensor import SparseTensor

Convs: TypeAlias = "Mapping[Relation, Layer] | Sequence[tuple[Relation, Layer]]"
"""A layer for each relation."""

AGGREGATIONS = ("sum", "mean", "min", "max", "cat")


@dataclass(frozen=True, slots=True)
class HeteroConv(Layer):
    """A layer for each relation of a heterogeneous graph. Results of relations that end at one type of nodes are added.

        >>> writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
        >>> convs = {writes: jsparse.nn.SAGEConv((3, 4), 2), cites: jsparse.nn.GCNConv(4, 2)}
        >>> layer = jsparse.nn.HeteroConv(convs)
        >>> shapes, x = {writes: (6, 5), cites: (6, 6)}, {"author": jnp.ones((5, 3)), "paper": jnp.ones((6, 4))}
        >>> graph = {name: jsparse.random(jax.random.key(0), shape, density=0.5) for name, shape in shapes.items()}
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x)["paper"].shape
        (6, 2)

    A call takes dictionaries: the graph (targets, sources) of each relation, and the features of each type of nodes. It
    returns a dictionary of arrays, one for each type of nodes at which a relation ends. A relation without a graph is
    left out, and so is a graph without a layer. Features of edges are given by relation, too.
    The name of a parameter begins with its relation, as in `author__writes__paper__kernel`.

    Args:
        convs: for each relation (type of sources, name, type of targets) a layer of `jsparse.nn`, made with its sizes
            and options. The layer gets one array of features if sources and targets are of one type, otherwise a pair:
            the features of the sources and of the targets. Attention between two types needs `self_loops=False`.
        aggr: how results at one type of nodes are combined: "sum", "mean", "min" or "max"; "cat" to
            concatenate their features in the order of the relations; or None for an array (nodes, relations,
            features).

    Raises ShapeError for relations that are not three names, and for another `aggr`; DTypeError for a layer that is not
    a `jsparse.nn.Layer`.
    """

    convs: Convs
    _: KW_ONLY
    aggr: str | None = "sum"
    inferred = ()

    def __post_init__(self) -> None:
        pairs = self.convs.items() if isinstance(self.convs, Mapping) else self.convs
        object.__setattr__(self, "convs", tuple(map(_check_layer, pairs)))  # a dictionary has no hash
        prefixes = [_prefix(relation) for relation, _ in self._pairs]
        if not prefixes or len(set(prefixes)) < len(prefixes):
            raise ShapeError(
                "Expected at least one relation in HeteroConv, and relations whose names joined by '__' differ, but "
                f"got {shorten(prefixes)}."
            )
        if self.aggr is not None and self.aggr not in AGGREGATIONS:
            raise ShapeError(
                f"Expected the aggr of HeteroConv to be None or one of {', '.join(map(repr, AGGREGATIONS))}, but got "
                f"{short_repr(self.aggr)}."
            )

    @property
    def _pairs(self) -> tuple[tuple[Relation, Layer], ...]:
        return self.convs  # type: ignore[return-value]  # since it is made

    @property
    def dropout_rate(self) -> float:
        """The greatest dropout rate of the layers."""
        return max(getattr(conv, "dropout_rate", 0.0) for _, conv in self._pairs)

    def parameters(self) -> dict[str, Parameter]:
        return {
            _prefix(relation) + name: parameter
            for relation, conv in self._pairs
            for name, parameter in conv.parameters().items()
        }

    def apply(  # type: ignore[override]  # of dictionaries
        self,
        parameters: Arrays,
        graph: Mapping[Relation, Graph],
        x: Mapping[str, Features],
        *,
        edge_features: Mapping[Relation, SparseTensor | ArrayLike] | None = None,
        dropout_key: jax.Array | None = None,
        dtype: DTypeLike | None = None,
    ) -> dict[str, jax.Array]:
        """Compute all layers, and combine their results at each type of nodes.

        Args:
            parameters: arrays by name, as `init` gives them.
            graph: the graph of each relation.
            x: the features (nodes, in) of each type of nodes.
            edge_features: features of the edges of relations, (nse, edge_features).
            dropout_key: a key of random numbers; without it nothing is dropped.
            dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.

        Raises ShapeError and DTypeError for arguments that do not fit, and the errors of the layers.
        """
        for name, one in (("graph", graph), ("x", x), ("edge_features", edge_features)):
            if not isinstance(one, Mapping) and not (name == "edge_features" and one is None):
                raise DTypeError(
                    f"Expected a dictionary by relation or by type of nodes as {name} of HeteroConv, but got "
                    f"{describe_type(one)}."
                )
        present = [(relation, conv) for relation, conv in self._pairs if relation in graph]
        if not present:
            known = [relation for relation, _ in self._pairs]
            raise ShapeError(
                f"Expected graphs of the relations {shorten(known)} in HeteroConv, but got graphs of "
                f"{shorten(list(graph))}."
            )
        keys: Any = [None] * len(present) if dropout_key is None else jax.random.split(dropout_key, len(present))
        arrived: dict[str, list[jax.Array]] = {}
        for (relation, conv), key in zip(present, keys, strict=True):
            source, _, target = relation
            options: dict[str, Any] = {"dropout_key": key} if getattr(conv, "dropout_rate", 0.0) else {}
            if edge_features is not None and relation in edge_features:
                options["edge_features"] = edge_features[relation]
            weights = {name: parameters[_prefix(relation) + name] for name in conv.parameters()}
            ends: Any = _of_type(x, source, relation)
            if source != target:
                ends = ends, _of_type(x, target, relation)
            result = conv.apply(weights, graph[relation], ends, dtype=dtype, **options)
            arrived.setdefault(target, []).append(result)
        return {target: _aggregate(results, self.aggr, target) for target, results in arrived.items()}


def _check_layer(pair: tuple[Relation, Layer]) -> tuple[Relation, Layer]:
    """Return a relation and its layer after checks. Raises ShapeError or DTypeError if either is not valid."""
    relation, conv = check_relation(pair[0], "HeteroConv"), pair[1]
    if not isinstance(conv, Layer):
        raise DTypeError(
            f"Expected a layer of jsparse.nn for the relation {relation} of HeteroConv, such as "
            f"jsparse.nn.GCNConv(4, 2), but got {short_repr(conv)}."
        )
    if relation[0] != relation[2] and getattr(conv, "self_loops", False):
        raise ShapeError(
            f"Expected a layer without self-loops for the relation {relation} of HeteroConv, between two types of "
            f"nodes, but got {short_repr(conv)}. Pass self_loops=False."
        )
    return relation, conv


def _prefix(relation: Relation) -> str:
    return "__".join(relation) + "__"


def _of_type(x: Mapping[str, Features], name: str, relation: Relation) -> Features:
    """Return the features of a type of nodes. Raises ShapeError if `x` has no features of this type."""
    if name not in x:
        raise ShapeError(
            f"Expected features of the nodes {name!r} in HeteroConv, for its relation {relation}, but got features of "
            f"{shorten(list(x))}."
        )
    return x[name]


def _aggregate(results: list[jax.Array], aggr: str | None, target: str) -> jax.Array:
    """Combine the results at one type of nodes. Raises ShapeError if shapes differ and aggr is not "cat"."""
    if aggr == "cat":
        return jnp.concatenate(results, axis=-1)
    if len({one.shape for one in results}) > 1:
        raise ShapeError(
            f"Expected layers that return arrays of the same shape for the nodes {target!r} in HeteroConv, but got "
            f"{shorten([one.shape for one in results])}. Pass aggr='cat', or equal out_features."
        )
    if aggr is None:
        return jnp.stack(results, axis=1)
    if aggr in ("min", "max"):
        return reduce(jnp.minimum if aggr == "min" else jnp.maximum, results)
    total = reduce(jnp.add, map(wide, results))
    return (total / len(results) if aggr == "mean" else total).astype(jnp.result_type(*results))
