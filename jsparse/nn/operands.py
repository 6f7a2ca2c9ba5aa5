"""Checks of the arguments of graph layers, and the arithmetic of these layers.

Messages from neighbours have the dtype of the layer. If this dtype is a narrow float, sums and later operations are in
float32, and the result is rounded once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jsparse.base.arrays import Array, host_array, is_integer, jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.convert.dynamic_creation import index_numbers
from jsparse.errors import DTypeError, ShapeError, describe_type, shorten
from jsparse.formats import Pattern
from jsparse.graph.graphs import Graph, is_pattern
from jsparse.ops.einsum import contract
from jsparse.ops.relocation.operands import as_tensor
from jsparse.planning.dtypes import common_dtype, convert_dtype, wide_dtype
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import with_sound_leaves
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike

Features: TypeAlias = "TensorLike | tuple[TensorLike, TensorLike] | list[TensorLike]"
"""An array or a sparse matrix (nodes, features), or a pair of them for sources and targets."""


def operands(
    graph: PatternLike | Array, x: Features, layer: str, *, square: bool = False, sparse: bool = False
) -> tuple[Graph, Any, Any]:
    """Return the graph, its sources' features (sources, in), and its targets' features (targets, target_in).

    Raises DTypeError for a dense graph, and for sparse features unless `sparse`. Raises ShapeError if the graph and
    the features have different numbers of nodes. If `square` is set, or if x is one array for sources and targets, a
    graph that is not square raises ShapeError, too.
    """
    source, target = sides(x, layer, sparse=sparse)
    tensor = sparse_graph(graph, source, layer)
    square = square or source is target
    if len(tensor.shape) not in (2, 3) or (square and tensor.shape[0] != tensor.shape[1]):
        expected = "a square matrix, a row and a column for each node," if square else "a matrix (targets, sources)"
        raise ShapeError(f"Expected {expected} as the graph of {layer}, but got shape {shorten(tensor.shape)}.")
    for name, array, size in (("sources", source, tensor.shape[1]), ("targets", target, tensor.shape[0])):
        if array.ndim != 2 or array.shape[0] != size:
            raise ShapeError(
                f"Expected features ({size}, in) of the {name} in {layer}, for a graph {shorten(tensor.shape)}, but "
                f"got {shorten(array.shape)}. Rows of a graph are targets, and columns are sources."
            )
    return tensor, source, target


def sparse_graph(graph: Any, x: SparseTensor | jax.Array, layer: str) -> Graph:
    """Return the graph as a tensor or a pattern. Raises DTypeError if it is dense, or swapped with x."""
    if isinstance(x, SparseTensor) and isinstance(graph, jax.Array | np.ndarray):
        raise DTypeError(
            f"Expected a sparse graph as the first argument of {layer}(graph, x), but got an array of shape "
            f"{shorten(graph.shape)}, and sparse features {shorten(x.shape)}. Exchange them, or convert the graph with "
            "jsparse.asarray."
        )
    return graph if is_pattern(graph) else as_tensor(graph, f"nn.{layer}")


def sides(x: Features, layer: str, *, sparse: bool = False) -> tuple[Any, Any]:
    """Return the features of sources and the features of targets, as floats.

    Raises ShapeError for a tuple whose length is not 2, and DTypeError for a sparse tensor unless `sparse`.
    """
    if not isinstance(x, tuple | list):
        array = _features(x, layer, sparse)
        return array, array
    if len(x) != 2:
        raise ShapeError(f"Expected an array, or a pair (x_source, x_target), in {layer}, but got {len(x)} of them.")
    return _features(x[0], layer, sparse), _features(x[1], layer, sparse)


def sparse_or_dense(
    x: TensorLike, layer: str, expected: str, hint: str = "", dtype: DTypeLike | None = None
) -> SparseTensor | jax.Array:
    """Convert an operand of a product with a kernel to a SparseTensor or an array. If `dtype` is None, the dtype stays.

    SciPy and JAX sparse arrays become SparseTensors. Raises DTypeError unless `x` is an array of numbers.
    """
    operand = as_sparse_operand(x, f"jsparse.nn.{layer}")
    is_sparse = isinstance(operand, SparseTensor)
    operand = as_tensor(operand, f"nn.{layer}") if is_sparse else dense_array(x, layer, expected, hint)
    return operand if dtype is None else operand.astype(dtype)


def dense_array(x: Any, layer: str, expected: str, hint: str = "") -> jax.Array:
    """Convert an operand to an array.

    Raises DTypeError for a sparse tensor, and for any other operand that is not an array of numbers. The message
    contains `expected`, and for a sparse tensor also `hint`.
    """
    if isinstance(x, SparseTensor) or is_pattern(x):
        raise DTypeError(
            f"Expected {expected} of {layer} as an array, but got {describe_type(x)} of shape {shorten(x.shape)}."
            f"{hint} For sparse values, pass x.todense()."
        )
    return jax_array(x, f"{expected} of {layer} as an array of numbers")


def id_array(x: TensorLike, layer: str, expected: str, size: int) -> jax.Array:
    """Convert ids of rows, nodes or graphs to an array. Ids outside [0, size) stay outside.

    Raises DTypeError as `dense_array` does. The layer has to check that the ids are integers.
    """
    on_host = not (isinstance(x, jax.Array | SparseTensor) or is_pattern(x))
    ids: Any = host_array(x, f"{expected} of {layer}") if on_host else dense_array(x, layer, expected)
    return jnp.asarray(index_numbers(ids, size) if is_integer(ids.dtype) else ids)


def _features(x: TensorLike, layer: str, sparse: bool) -> SparseTensor | jax.Array:
    take = sparse_or_dense if sparse else dense_array
    return floating(take(x, layer, "features (nodes, in)", f" The graph is the first argument, {layer}(graph, x)."))


def pattern_of_graph(graph: Graph) -> Pattern | DynamicPattern:
    """Return the pattern of a graph, without the weights."""
    return graph if is_pattern(graph) else graph.pattern  # type: ignore[return-value, union-attr]


def floating(x: SparseTensor | jax.Array) -> Any:
    """Convert features of integers and bools to JAX's default float. Floats and complex numbers are kept."""
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.result_type(float))


def check_bias(bias: ArrayLike | None, shape: tuple[int, ...], layer: str, name: str = "bias") -> jax.Array | None:
    """Convert the bias to an array, or keep None. Raises ShapeError for another shape."""
    if bias is None:
        return None
    array = dense_array(bias, layer, f"a {name} {shape}")
    if array.shape != shape:
        raise ShapeError(f"Expected a {name} {shape} in {layer}, but got {shorten(array.shape)}.")
    return array


def plus_bias(x: jax.Array, bias: ArrayLike | None, layer: str, name: str = "bias") -> jax.Array:
    """Return x + bias, where a bias of narrow floats is converted to float32. A bias of None adds nothing.

    Raises ShapeError if a bias does not have the shape of x without axis 0.
    """
    array = check_bias(bias, x.shape[1:], layer, name)
    return x if array is None else x + wide(array)  # so the bias' cotangent, the sum of all rows, is not rounded either


def check_same_features(source: jax.Array, target: jax.Array, layer: str) -> None:
    """Raise ShapeError unless sources and targets have the same number of features."""
    if source.shape[1] != target.shape[1]:
        raise ShapeError(
            f"Expected sources and targets with the same number of features in {layer}, but got "
            f"{shorten(source.shape)} and {shorten(target.shape)}."
        )


def own_part(target: SparseTensor | jax.Array, root: TensorLike, out: int, layer: str) -> jax.Array:
    """Compute x R for the features x of the targets and R = `root`. Raises ShapeError unless R is (target_in, out)."""
    kernel = check_kernel(root, target.shape[1], 2, layer, "root")
    if kernel.shape[1] != out:
        raise ShapeError(f"Expected a root {(target.shape[1], out)} in {layer}, but got {shorten(kernel.shape)}.")
    return product(target, kernel)


def as_kernel(kernel: TensorLike | None, layer: str, expected: str) -> SparseTensor | jax.Array:
    """Convert a kernel to an array, or to a SparseTensor, which keeps its blocks. Raises DTypeError otherwise."""
    operand = as_sparse_operand(kernel, f"jsparse.nn.{layer}", composed=True)
    if isinstance(operand, SparseTensor):
        return with_sound_leaves(operand, lambda: f"{expected} of {layer}")
    return dense_array(operand, layer, expected)


def check_kernel(
    kernel: TensorLike, inputs: int, ndim: int, layer: str, name: str = "kernel"
) -> SparseTensor | jax.Array:
    """Convert a kernel by `as_kernel`. Raises ShapeError unless its rank is `ndim` and axis 0 has the size `inputs`."""
    operand = as_kernel(kernel, layer, f"a {name} (in, ...)")
    if operand.ndim != ndim or operand.shape[0] != inputs:
        expected = {2: f"({inputs}, out)", 3: f"({inputs}, heads, dim)"}[ndim]
        raise ShapeError(f"Expected a {name} {expected} in {layer}, but got {shorten(operand.shape)}.")
    return operand


def at_edges(
    text: str, *arrays: jax.Array, like: Pattern | DynamicPattern, dtype: DTypeLike | None = None
) -> SparseTensor:
    """Compute an einsum of arrays over targets i and sources j, such as "ih,jh->ijh", only at the edges of a graph.

    `like` is the graph's pattern, extended by the other axes of the result. If the pattern keeps repeated edges, each
    repeated edge gets the element at its target and source.
    """
    inputs, output = text.split("->")
    if len(output) < like.ndim:
        arrays = *arrays, jnp.ones(like.shape[2], arrays[0].dtype)
        text = f"{inputs},k->ijk{output[2:]}"
    values = contract(text, *arrays, out_format=like, preferred_element_type=dtype)
    assert isinstance(values, SparseTensor)
    return values


def dense_sums(text: str, *arguments: PatternLike | jax.Array, **options: Any) -> jax.Array:
    """Compute an einsum with a dense result, of operands as `contract` takes them."""
    sums = contract(text, *arguments, out_format="dense", **options)
    assert not isinstance(sums, SparseTensor)
    return sums


def wide_sums(text: str, *arguments: PatternLike | jax.Array, **options: Any) -> jax.Array:
    """Compute an einsum with a dense result, in float32 where `dense_sums` would return a narrow float."""
    dtypes = [x.dtype for x in arguments if isinstance(x, (SparseTensor, jax.Array))]
    dtype = wide_dtype(common_dtype(*dtypes)) if dtypes else None  # patterns alone are counted
    return dense_sums(text, *arguments, preferred_element_type=dtype, **options)


def wide(x: Any) -> Any:
    """Convert an array or a tensor of narrow floats to float32. Other dtypes are kept."""
    return convert_dtype(x, wide_dtype(x.dtype))


def product(x: SparseTensor | jax.Array, kernel: SparseTensor | jax.Array) -> jax.Array:
    """Compute x W, each dense or sparse, in float32 if the dtype of the product is a narrow float."""
    if isinstance(x, SparseTensor) or isinstance(kernel, SparseTensor):
        return wide_sums("ij,jk->ik", x, kernel)
    dtype = common_dtype(x.dtype, kernel.dtype)
    operands = convert_dtype(x, dtype), convert_dtype(kernel, dtype)
    return jnp.matmul(*operands, preferred_element_type=wide_dtype(dtype))


def round_to_operands(x: jax.Array, *operands: PatternLike | TensorLike | None) -> jax.Array:
    """Convert a layer's result to the dtype to which its operands promote. None and patterns are ignored."""
    valued = [x for x in operands if x is not None and not is_pattern(x)]
    dtypes = [x.dtype if hasattr(x, "dtype") else jnp.asarray(x).dtype for x in valued]
    dtype = common_dtype(*dtypes)
    return x if x.dtype == dtype and not x.weak_type else x.astype(dtype)
