"""Graph convolutions as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError
from jsparse.graph.graphs import one_of
from jsparse.nn.convolutions import basis_kernel, edge_conv, gcn_conv, gin_conv, rgcn_conv, sage_conv
from jsparse.nn.convolutions.edge import EDGE_REDUCTIONS
from jsparse.nn.convolutions.sage import SAGE_REDUCTIONS
from jsparse.nn.definitions.parameters import Arrays, Parameter, bias_of, check_sizes, chosen, pair
from jsparse.nn.operands import check_kernel, sparse_graph
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["GCN", "GIN", "RGCN", "SAGE", "Edge"]


@dataclass(frozen=True, slots=True)
class GCN:
    """`gcn_conv`."""

    inputs: int | tuple[int, int]
    out: int
    use_bias: bool = True
    self_loops: bool = True
    normalize: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.inputs, tuple):
            raise ShapeError(
                "Expected one array of features, of sources that are the targets, in GCNConv, but got a pair."
            )
        check_sizes("GCNConv", in_features=self.inputs, out_features=self.out)

    def parameters(self) -> dict[str, Parameter]:
        return chosen(kernel=Parameter((pair(self.inputs)[0], self.out)), bias=bias_of(self.out, self.use_bias))

    def apply(self, p: Arrays, graph: Any, x: Any) -> jax.Array:
        return gcn_conv(graph, x, p["kernel"], p.get("bias"), self_loops=self.self_loops, normalize=self.normalize)


@dataclass(frozen=True, slots=True)
class SAGE:
    """`sage_conv`."""

    inputs: int | tuple[int, int]
    out: int
    reduction: str = "mean"
    pooled: int | None = None
    use_root: bool = True
    use_bias: bool = True
    normalize: bool = False

    def __post_init__(self) -> None:
        check_sizes(
            "SAGEConv",
            pairs=["in_features"],
            optional=["pool_features"],
            in_features=self.inputs,
            out_features=self.out,
            pool_features=self.pooled,
        )
        one_of(self.reduction, SAGE_REDUCTIONS, "the reduction of SAGEConv")

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.inputs)
        pooled = source if self.pooled is None else self.pooled
        is_pool = self.reduction == "pool"
        return chosen(
            pool_kernel=Parameter((source, pooled)) if is_pool else None,
            pool_bias=bias_of(pooled, is_pool),
            kernel=Parameter((pooled if is_pool else source, self.out)),
            root=Parameter((target, self.out)) if self.use_root else None,
            bias=bias_of(self.out, self.use_bias),
        )

    def apply(self, p: Arrays, graph: Any, x: Any) -> jax.Array:
        pool = (p["pool_kernel"], p["pool_bias"]) if self.reduction == "pool" else None
        rest: dict[str, Any] = {"reduction": self.reduction, "pool": pool, "normalize": self.normalize}
        return sage_conv(graph, x, p["kernel"], p.get("root"), p.get("bias"), **rest)


@dataclass(frozen=True, slots=True)
class GIN:
    """`gin_conv` with two linear layers, and relu between them; both of one width where one is given."""

    inputs: int | tuple[int, int]
    hidden: int | None
    out: int | None = None
    eps: float = 0.0
    train_eps: bool = False

    def __post_init__(self) -> None:
        hidden, out = _widths(self.hidden, self.out)
        check_sizes("GINConv", pairs=["in_features"], in_features=self.inputs, out_features=out, hidden_features=hidden)

    def parameters(self) -> dict[str, Parameter]:
        hidden, out = _widths(self.hidden, self.out)
        return chosen(
            up=Parameter((pair(self.inputs)[0], hidden)),
            up_bias=bias_of(hidden, True),
            down=Parameter((hidden, out)),
            down_bias=bias_of(out, True),
            eps=Parameter((), float(self.eps)) if self.train_eps else None,
        )

    def apply(self, p: Arrays, graph: Any, x: Any) -> jax.Array:
        eps, sides = p.get("eps", self.eps), x if isinstance(x, tuple) else (x,)
        if not any(isinstance(one, SparseTensor) for one in sides):
            return gin_conv(graph, x, lambda x: _rest(p, _first(p, x, "GINConv")), eps)
        graph = sparse_graph(graph, sides[0], "GINConv")
        # The sums are linear, so they may follow the first layer, whose results are dense and narrow.
        first = tuple(_first(p, one, "GINConv") for one in sides)
        return gin_conv(graph, first if isinstance(x, tuple) else first[0], lambda x: _rest(p, x), eps)


@dataclass(frozen=True, slots=True)
class Edge:
    """`edge_conv` with two linear layers, and relu between them; both of one width where one is given."""

    inputs: int | tuple[int, int]
    hidden: int | None
    out: int | None = None
    reduction: str = "max"

    def __post_init__(self) -> None:
        hidden, out = _widths(self.hidden, self.out)
        check_sizes(
            "EdgeConv", pairs=["in_features"], in_features=self.inputs, out_features=out, hidden_features=hidden
        )
        one_of(self.reduction, EDGE_REDUCTIONS, "the reduction of EdgeConv")

    def parameters(self) -> dict[str, Parameter]:
        return GIN(2 * pair(self.inputs)[0], self.hidden, self.out).parameters()

    def apply(self, p: Arrays, graph: Any, x: Any) -> jax.Array:
        sides = x if isinstance(x, tuple) else (x, x)
        if not any(isinstance(one, SparseTensor) for one in sides):
            return edge_conv(graph, x, lambda both: _rest(p, _first(p, both, "EdgeConv")), reduction=self.reduction)
        graph = sparse_graph(graph, sides[0], "EdgeConv")
        # [x[i], x[j] - x[i]] [U, V] = x[i] (U - V) + x[j] V, whose products are dense and narrow.
        of_target, of_source = jnp.split(p["up"], 2)
        source, target = (
            _first({"up": kernel}, one, "EdgeConv")
            for kernel, one in zip((of_source, of_target - of_source), sides, strict=True)
        )

        def mlp(both: jax.Array) -> jax.Array:
            own, difference = jnp.split(both, 2, axis=1)
            return _rest(p, 2 * own + difference)

        return edge_conv(graph, (source, target), mlp, reduction=self.reduction)


def _widths(hidden: int | None, out: int | None) -> tuple[Any, Any]:
    """The widths of two linear layers; where one is given, both have it."""
    return out if hidden is None else hidden, hidden if out is None else out


def _first(p: Arrays, x: Any, layer: str) -> jax.Array:
    found: jax.Array = x @ check_kernel(p["up"], x.shape[1], 2, layer, "kernel 'up'")
    return found


def _rest(p: Arrays, x: jax.Array) -> jax.Array:
    found: jax.Array = jax.nn.relu(x + p["up_bias"]) @ p["down"] + p["down_bias"]
    return found


@dataclass(frozen=True, slots=True)
class RGCN:
    """`rgcn_conv` with a kernel for each relation, with bases, or with diagonal blocks."""

    inputs: int | tuple[int, int]
    out: int
    relations: int
    bases: int | None = None
    blocks: int | None = None
    use_root: bool = True
    use_bias: bool = True
    normalize: bool = True

    def __post_init__(self) -> None:
        check_sizes(
            "RGCNConv",
            pairs=["in_features"],
            in_features=self.inputs,
            out_features=self.out,
            num_relations=self.relations,
        )
        check_sizes("RGCNConv", optional=["num_bases", "num_blocks"], num_bases=self.bases, num_blocks=self.blocks)
        source, _ = pair(self.inputs)
        if self.bases is not None and self.blocks is not None:
            raise ShapeError("Expected num_bases or num_blocks in RGCNConv, but got both.")
        if self.blocks is not None and (source % self.blocks or self.out % self.blocks):
            raise ShapeError(
                f"Expected num_blocks to divide in_features and out_features in RGCNConv, but got {self.blocks}, "
                f"{source} and {self.out}."
            )

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.inputs)
        kernel = Parameter((self.relations, source, self.out), batch=1)
        coefficients = None
        if self.bases is not None:
            kernel = Parameter((self.bases, source, self.out), batch=1)
            coefficients = Parameter((self.relations, self.bases), "attention")
        elif self.blocks is not None:
            shape = (self.relations, self.blocks, source // self.blocks, self.out // self.blocks)
            kernel = Parameter(shape, batch=2)
        root = Parameter((target, self.out)) if self.use_root else None
        return chosen(kernel=kernel, coefficients=coefficients, root=root, bias=bias_of(self.out, self.use_bias))

    def apply(self, p: Arrays, graph: Any, x: Any) -> jax.Array:
        kernel = p["kernel"] if self.bases is None else basis_kernel(p["coefficients"], p["kernel"])
        return rgcn_conv(graph, x, kernel, p.get("root"), p.get("bias"), normalize=self.normalize)
