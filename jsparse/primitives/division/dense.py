"""The sharding rules of JAX's operations on dense arrays that chains may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax

from jsparse import _compat
from jsparse._compat import Primitive
from jsparse.primitives.chain.equations import VIEWS, match_axes, pair_axes
from jsparse.primitives.division.rule import Division, Labels, Params, ShardingRule
from jsparse.primitives.elementwise_function import ELEMENTWISE
from jsparse.primitives.spec import Operands

DenseRule: TypeAlias = Callable[[Primitive, Operands, Operands, Params], ShardingRule]
"""As `Rule`, with the primitive in front."""


def labels_of_reshape(shape: Sequence[int], other: Sequence[int]) -> tuple[Labels, Labels]:
    """Labels of the axes of an array, and of the axes that the same elements have in another shape.

    Axes that are split or merged are divided by their outermost part, so that each device has the same elements.
    """
    axes, other_axes = ([n for n, size in enumerate(own) if size != 1] for own in (shape, other))
    is_empty = 0 in (*shape, *other)
    groups = () if is_empty else pair_axes([shape[n] for n in axes], [other[n] for n in other_axes])
    label = {other_axes[after[0]]: axes[before[0]] for before, after in groups}  # axis of `other` → axis of `shape`
    kept = {*label.values()}
    return tuple(n if n in kept else None for n in range(len(shape))), tuple(map(label.get, range(len(other))))


def sharding_of_reshaped(x: jax.core.ShapedArray, shape: tuple[int, ...]) -> jax.sharding.NamedSharding:
    """The sharding of an array of type `x` in another shape, where it can stay as it is; other axes become whole."""
    labels, others = labels_of_reshape(x.shape, shape)
    mesh, names = x.sharding.mesh, _compat.mesh_axes(x.sharding.spec, x.ndim)
    division = Division(dict(zip(labels, names, strict=True)), dict(mesh.shape))
    even = (label if size % division.count(label) == 0 else None for label, size in zip(others, shape, strict=True))
    return jax.sharding.NamedSharding(mesh, division.spec(tuple(even)))


def _elementwise(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    if len(results) > 1:  # a barrier, whose results are its operands
        every: tuple[Labels, ...] = tuple(tuple((n, axis) for axis in range(x.ndim)) for n, x in enumerate(operands))
        return _rule_of_labels(primitive, every, every, params)
    (out,) = results

    def of(x: jax.core.ShapedArray) -> Labels:  # axes of size 1, and operands without axes, are repeated
        return tuple(n if size == out.shape[n] else None for n, size in enumerate(x.shape))

    return _rule_of_labels(primitive, tuple(map(of, operands)), (tuple(range(out.ndim)),), params)


def _rule_of_labels(
    primitive: Primitive, operands: tuple[Labels, ...], results: tuple[Labels, ...], params: Params
) -> ShardingRule:
    """The rule of an operation whose parameters say nothing of the sizes of arrays."""
    return ShardingRule(operands, results, lambda shards, _: _bind(primitive, shards, params))


def _bind(primitive: Primitive, shards: Operands, params: Params) -> Operands:
    results = primitive.bind(*shards, **params)
    return results if primitive.multiple_results else [results]


def _broadcast(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    (x, *_), (out,) = operands, results
    at = params["broadcast_dimensions"]
    labels: Labels = tuple(range(out.ndim))
    of_operand = tuple(n if x.shape[axis] == out.shape[n] else None for axis, n in enumerate(at))

    def local(shards: Operands, division: Division) -> Operands:
        return _bind(primitive, shards, {**params, "shape": division.shape(out.shape, labels)})

    return ShardingRule((of_operand, *((None,) * y.ndim for y in operands[1:])), (labels,), local)


def _reshape(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    (x, *others), (out,) = operands, results
    of_operand, of_result = labels_of_reshape(x.shape, out.shape)

    def local(shards: Operands, division: Division) -> Operands:
        return [shards[0].reshape(division.shape(out.shape, of_result))]

    return ShardingRule((of_operand, *((None,) * y.ndim for y in others)), (of_result,), local)


def _transpose(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    labels = tuple(range(operands[0].ndim))
    return _rule_of_labels(primitive, (labels,), (tuple(labels[n] for n in params["permutation"]),), params)


def _reduction(add: str, primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    labels, axes = tuple(range(operands[0].ndim)), params["axes"]

    def local(shards: Operands, division: Division) -> Operands:
        return [division.reduce_parts(x, axes, add) for x in _bind(primitive, shards, params)]

    return ShardingRule((labels,), (tuple(n for n in labels if n not in axes),), local)


def _dot(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    x, y = operands
    of_x: list[Any] = [("left", n) for n in range(x.ndim)]
    of_y: list[Any] = [("right", n) for n in range(y.ndim)]
    result, summed = match_axes(of_x, of_y, params)

    def local(shards: Operands, division: Division) -> Operands:
        return [division.reduce_parts(out, summed, "+") for out in _bind(primitive, shards, params)]

    return ShardingRule((tuple(of_x), tuple(of_y)), (result,), local)


DENSE_RULES: Mapping[str, DenseRule] = {
    **dict.fromkeys((*ELEMENTWISE, *VIEWS, "add_any"), _elementwise),
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "dot_general": _dot,
    "reduce_sum": partial(_reduction, "+"),
    "reduce_max": partial(_reduction, "max"),
    "reduce_min": partial(_reduction, "min"),
}
"""The rules by the name of a primitive."""
