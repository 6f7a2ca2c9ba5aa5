"""The sharding rules of JAX's operations on dense arrays that chains may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import jax

from jsparse._compat import Primitive
from jsparse.primitives.chain.equations import VIEWS, paired_axes
from jsparse.primitives.division.rule import Arrays, Classes, Division, Labels, Params, ShardingRule
from jsparse.primitives.elementwise_function import ELEMENTWISE

DenseRule: TypeAlias = Callable[[Primitive, Arrays, Arrays, Params], ShardingRule]
"""As `Rule`, with the primitive in front."""


def join_reshaped(classes: Classes, a: Labels, shape: Sequence[int], b: Labels, other: Sequence[int]) -> None:
    """Divide an array of one shape as the same elements in another shape.

    Axes that are split or merged are divided by their outermost part, so that each device has the same elements.
    """
    given, wanted = ([n for n, size in enumerate(own) if size != 1] for own in (shape, other))
    pairs: list[tuple[int, int]] = []
    if 0 not in (*shape, *other):
        groups = paired_axes([shape[n] for n in given], [other[n] for n in wanted])
        pairs = [(given[before[0]], wanted[after[0]]) for before, after in groups]
    left, right = list(a), list(b)
    for n, m in pairs:
        classes.merge(a[n], b[m])
        left[n] = right[m] = None
    for label in (*left, *right):
        classes.merge(label, None)


def sharding_of_reshaped(x: jax.core.ShapedArray, shape: tuple[int, ...]) -> jax.sharding.NamedSharding:
    """The sharding of an array of type `x` in another shape, where it can stay as it is; other axes become whole."""
    classes = Classes()
    given, wanted = (tuple((side, n) for n in range(len(own))) for side, own in ((0, x.shape), (1, shape)))
    join_reshaped(classes, given, x.shape, wanted, shape)
    of = {classes.find(label): entry for label, entry in zip(given, x.sharding.spec, strict=False) if entry is not None}
    sizes = dict(zip(x.sharding.mesh.axis_names, x.sharding.mesh.axis_sizes, strict=True))
    entries = []
    for label, size in zip(wanted, shape, strict=True):
        entry = None if classes.find(label) is None else of.get(classes.find(label))
        names = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
        entries.append(entry if size % prod(sizes[name] for name in names) == 0 else None)
    return jax.sharding.NamedSharding(x.sharding.mesh, jax.sharding.PartitionSpec(*entries))


def _elementwise(primitive: Primitive, operands: Arrays, results: Arrays, params: Params) -> ShardingRule:
    if len(results) > 1:  # a barrier, whose results are its operands
        every: tuple[Labels, ...] = tuple(tuple((n, axis) for axis in range(x.ndim)) for n, x in enumerate(operands))
        return _applied(primitive, every, every, params)
    (out,) = results

    def of(x: jax.core.ShapedArray) -> Labels:  # axes of size 1, and operands without axes, are repeated
        return tuple(n if size == out.shape[n] else None for n, size in enumerate(x.shape))

    return _applied(primitive, tuple(map(of, operands)), (tuple(range(out.ndim)),), params)


def _applied(
    primitive: Primitive, operands: tuple[Labels, ...], results: tuple[Labels, ...], params: Params
) -> ShardingRule:
    """The rule of an operation whose parameters say nothing of the sizes of arrays."""
    return ShardingRule(operands, results, lambda shards, _: _bind(primitive, shards, params))


def _bind(primitive: Primitive, shards: Arrays, params: Params) -> Arrays:
    found = primitive.bind(*shards, **params)
    return found if primitive.multiple_results else [found]


def _broadcast(primitive: Primitive, operands: Arrays, results: Arrays, params: Params) -> ShardingRule:
    (x, *_), (out,) = operands, results
    at = params["broadcast_dimensions"]
    labels: Labels = tuple(range(out.ndim))
    given = tuple(n if x.shape[axis] == out.shape[n] else None for axis, n in enumerate(at))

    def local(shards: Arrays, division: Division) -> Arrays:
        return _bind(primitive, shards, {**params, "shape": division.shape(out.shape, labels)})

    return ShardingRule((given, *((None,) * y.ndim for y in operands[1:])), (labels,), local)


def _reshape(primitive: Primitive, operands: Arrays, results: Arrays, params: Params) -> ShardingRule:
    (x, *_), (out,) = operands, results
    classes = Classes()
    of_operand, of_result = (tuple((side, n) for n in range(y.ndim)) for side, y in ((0, x), (1, out)))
    join_reshaped(classes, of_operand, x.shape, of_result, out.shape)

    def local(shards: Arrays, division: Division) -> Arrays:
        return [shards[0].reshape(division.shape(out.shape, classes.labels(of_result)))]

    others = tuple((None,) * y.ndim for y in operands[1:])
    return ShardingRule((classes.labels(of_operand), *others), (classes.labels(of_result),), local)


def _transpose(primitive: Primitive, operands: Arrays, results: Arrays, params: Params) -> ShardingRule:
    labels = tuple(range(operands[0].ndim))
    return _applied(primitive, (labels,), (tuple(labels[n] for n in params["permutation"]),), params)


def _reduction(add: str, primitive: Primitive, operands: Arrays, results: Arrays, params: Params) -> ShardingRule:
    labels, axes = tuple(range(operands[0].ndim)), params["axes"]

    def local(shards: Arrays, division: Division) -> Arrays:
        return [division.reduced(x, axes, add) for x in _bind(primitive, shards, params)]

    return ShardingRule((labels,), (tuple(n for n in labels if n not in axes),), local)


def _dot(primitive: Primitive, operands: Arrays, results: Arrays, params: Params) -> ShardingRule:
    ((left, right), (left_batch, right_batch)) = params["dimension_numbers"]
    x, y = operands
    of_x: list[Any] = [("left", n) for n in range(x.ndim)]
    of_y: list[Any] = [("right", n) for n in range(y.ndim)]
    for a, b in zip((*left, *left_batch), (*right, *right_batch), strict=True):
        of_y[b] = of_x[a]
    batch, summed = [of_x[n] for n in left_batch], [of_x[n] for n in left]
    rest = [label for label in (*of_x, *of_y) if label not in batch and label not in summed]

    def local(shards: Arrays, division: Division) -> Arrays:
        return [division.reduced(out, summed, "+") for out in _bind(primitive, shards, params)]

    return ShardingRule((tuple(of_x), tuple(of_y)), ((*batch, *rest),), local)


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
