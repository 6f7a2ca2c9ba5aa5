"""The common parts of graph attention layers: self-loops, features of edges, dropout, heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.memo import memoize
from jsparse.convert.creation import of_ones
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.formats import Format, Pattern
from jsparse.graph.graphs import Graph
from jsparse.nn.layer import Arrays, Layer, check_sizes
from jsparse.nn.operands import Features, as_kernel, dense_array, floating, pattern_of_graph, plus_bias, product, wide
from jsparse.ops.attention.dropout import check_rate
from jsparse.ops.elementwise.bounded import add
from jsparse.ops.indexing.at_coords import coords
from jsparse.ops.patterns.bands import window
from jsparse.ops.reductions.softmax import softmax
from jsparse.ops.surgery.prune import prune
from jsparse.ops.surgery.restrict import restrict
from jsparse.primitives.rows import row_sums, rows_at
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

EdgeFeatures: TypeAlias = "SparseTensor | ArrayLike | None"
"""Features of edges, an array (nse, features) or a tensor on the graph's pattern extended by an axis, or None."""


def edges_to_attend(
    graph: Graph, edge_features: EdgeFeatures, self_loops: bool, layer: str
) -> tuple[Pattern | DynamicPattern, SparseTensor | None]:
    """Return the pattern of the edges that attention uses, and the features of these edges as a tensor.

    The tensor has the pattern extended by an axis of features. Every self-loop, added or not, gets the mean of the
    features of the other edges that end at the node. Target i is source i, even if there are more sources than targets,
    as in samples of neighbours.

    Args:
        edge_features: (nse, features) in the order of the graph's stored entries, or a SparseTensor on the graph's
            pattern extended by an axis, or None.

    Raises ShapeError for features of another number of edges, and for self-loops if there are more targets than
    sources.
    """
    pattern = pattern_of_graph(graph)
    if self_loops and pattern.shape[0] > pattern.shape[1]:
        raise ShapeError(
            f"Expected a square graph for the self-loops of {layer}, or one whose sources begin with its targets, such "
            f"as a sample of neighbours, but got shape {shorten(pattern.shape)}. Pass self_loops=False."
        )
    whole = _with_loops(pattern) if self_loops else pattern
    if edge_features is None:
        return whole, None
    if isinstance(edge_features, SparseTensor):
        width = edge_features.shape[-1] if edge_features.ndim == pattern.ndim + 1 else 0
        is_on_graph = width > 0 and edge_features.shape[:-1] == pattern.shape
        if not is_on_graph or edge_features.pattern.digest != pattern.extended([width]).digest:
            raise ShapeError(
                f"Expected edge_features on the graph's pattern, with an added axis of features, in {layer}, but got "
                f"{short_repr(edge_features)}."
            )
        features = edge_features.values.reshape(pattern.nse, width)
    else:
        features = dense_array(edge_features, layer, "edge_features (nse, features)")
    if features.ndim != 2 or features.shape[0] != pattern.nse or not features.shape[1]:
        raise ShapeError(
            f"Expected features of edges ({pattern.nse}, features) in {layer}, in the order of the graph's stored "
            f"entries, but got {shorten(features.shape)}."
        )
    features = floating(features)
    of_edges = SparseTensor(features.reshape(-1), pattern.extended([features.shape[1]]))
    return whole, _with_means(of_edges, features, pattern, whole) if self_loops else of_edges


def _with_loops(pattern: Pattern | DynamicPattern) -> Pattern | DynamicPattern:
    """Return the pattern with exactly one self-loop at each target. Target i is source i."""
    if isinstance(pattern, Pattern):
        return _joint(pattern)
    others = of_ones(pattern)
    if pattern.ndim == 3:
        rows, columns, _ = coords(others)
        others = prune(others, mask=rows != columns)
    return add(others, of_ones(_loops(pattern))).pattern


@memoize(maxsize=64)
def _joint(pattern: Pattern) -> Pattern:
    """Return a static pattern with exactly one self-loop at each target. It is made on the host and cached."""
    others = pattern
    if pattern.ndim == 3:
        rows = pattern.to_coords()
        others, _ = Pattern.from_rows(list(rows[:, rows[0] != rows[1]]), pattern.shape, pattern.format)
    return others | _loops(pattern)


def _loops(pattern: Pattern | DynamicPattern) -> Pattern:
    """Return a pattern with a self-loop at each target.

    If a third dimension of `pattern` keeps repeated edges apart, the self-loops have the coordinate 0 in it.
    """
    targets, sources, *more = pattern.shape
    if not more:
        return window(targets, 0, m=sources)
    nodes = np.arange(targets)
    return Pattern.from_rows([nodes, nodes, np.zeros_like(nodes)], pattern.shape, Format.of("coo", 3))[0]


def _with_means(
    of_edges: SparseTensor, features: jax.Array, pattern: Pattern | DynamicPattern, whole: Pattern | DynamicPattern
) -> SparseTensor:
    """Return the features of all edges and self-loops. A self-loop gets the mean over the target's other edges."""
    nodes, width = pattern.shape[0], features.shape[1]
    rows, columns, *_ = coords(of_ones(pattern))
    target = jnp.where(rows == columns, nodes, rows)  # out of range: neither counted nor added
    sums = row_sums(wide(features), [target], (nodes,))
    number = jax.ops.segment_sum(jnp.ones(len(target), jnp.int32), target, nodes)
    means = sums / jnp.maximum(number, 1).astype(sums.dtype)[:, None]
    spread = restrict(of_edges, whole.extended([width]))
    rows, columns, *_ = coords(of_ones(whole))
    of_loops = rows_at(means, [rows]).astype(features.dtype)  # what it adds up for the derivative is rounded once
    joint = jnp.where((rows == columns)[:, None], of_loops, spread.values.reshape(-1, width))
    return SparseTensor(joint.reshape(-1), whole.extended([width]))


def over_neighbors(scores: Any, factors: jax.Array | None) -> SparseTensor:
    """Compute a softmax over all edges that end at a target, separately for each head, which is the last index.

    The results are multiplied by the factors of dropout (nse, heads), if there are any.
    """
    weights = softmax(scores, tuple(range(1, scores.ndim - 1)))
    if factors is None:
        return weights
    return SparseTensor(weights.values * factors.reshape(-1).astype(weights.dtype), weights.pattern)


def per_head(x: SparseTensor | jax.Array, kernel: SparseTensor | jax.Array) -> jax.Array:
    """Compute x W[h] for each head h: an array (nodes, heads, dim), in float32 for operands of narrow floats.

    All heads are computed by one product of two matrices, because XLA would transpose the operands of any other
    product.
    """
    inputs, heads, dim = kernel.shape
    return product(x, kernel.reshape(inputs, heads * dim)).reshape(x.shape[0], heads, dim)


def join_heads(sums: jax.Array, concat: bool, bias: ArrayLike | None, layer: str) -> jax.Array:
    """Concatenate the heads to (targets, heads · dim), or average them to (targets, dim), and add the bias."""
    targets, heads, dim = sums.shape
    return plus_bias(sums.reshape(targets, heads * dim) if concat else sums.mean(1), bias, layer)


@dataclass(frozen=True, slots=True)
class AttentionLayer(Layer):
    """The base of graph attention layers: the options that all have, and the width of the result."""

    in_features: int | tuple[int, int]
    out_features: int
    _: KW_ONLY
    heads: int = 1
    concat: bool = True
    edge_features: int | None = None
    use_bias: bool = True
    dropout_rate: float = 0.0
    _convolve: ClassVar[Callable[..., jax.Array]]  # of parameters, graph, features, features of edges, and options

    def __post_init__(self) -> None:
        names = ("edge_features", "in_features", "out_features", "heads")
        sizes = {name: getattr(self, name) for name in names}
        check_sizes(type(self).__name__, pairs=["in_features"], optional=["edge_features"], **sizes)
        check_rate(self.dropout_rate, type(self).__name__)

    @property
    def width(self) -> int:
        """The number of features of the result."""
        return self.out_features * (self.heads if self.concat else 1)

    def _apply(
        self,
        p: Arrays,
        graph: Graph,
        x: Features,
        *,
        edge_features: EdgeFeatures = None,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        rate = 0.0 if dropout_key is None else self.dropout_rate
        options = {"concat": self.concat, "dropout_rate": rate, "dropout_key": dropout_key}
        return self._convolve(p, graph, x, edge_features, **options)


def check_edge_kernel(
    features: SparseTensor | None, kernel: TensorLike | None, like: jax.Array, layer: str
) -> SparseTensor | jax.Array | None:
    """Convert the kernel of the features of edges by `as_kernel`. Without features, it is not used: return None.

    Raises ShapeError unless it is (edge_in, heads, dim).
    """
    if features is None:
        return None
    expected = (features.shape[-1], *like.shape[1:])
    operand = as_kernel(kernel, layer, f"an edge kernel {expected}")
    if operand.shape != expected:
        raise ShapeError(f"Expected an edge kernel {expected} in {layer}, but got {shorten(operand.shape)}.")
    return operand


def check_vectors(layer: str, heads: tuple[int, int], **arrays: Any) -> list[jax.Array]:
    """Convert arrays (heads, dim), such as attention vectors, to JAX arrays. Raises ShapeError for other shapes."""
    vectors = [dense_array(x, layer, f"{name} (heads, dim)") for name, x in arrays.items()]
    for name, x in zip(arrays, vectors, strict=True):
        if x.shape != heads:
            raise ShapeError(f"Expected {name} (heads, dim), {heads}, in {layer}, but got {shorten(x.shape)}.")
    return vectors
