"""Explicit mesh axes: the types of results say how they are divided, and each device computes its part.

On explicit axes the sharding of an array is part of its type. So the rule of a primitive gives the sharding of its
results, and its lowering is a `shard_map` around what a device computes. An operand that is whole where the operation
is divided is cut, which needs no communication.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import jax

from jsparse import _compat
from jsparse._compat import Primitive, ir
from jsparse.errors import ShardingError
from jsparse.primitives.division.axes import rule_of
from jsparse.primitives.division.rule import Division, Params, ShardingRule
from jsparse.primitives.spec import Operands, Spec
from jsparse.settings import config


def with_shardings(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> Operands:
    """Give the types of results the shardings that follow from those of the operands."""
    rule = rule_of(primitive, operands, results, params)
    division = divide(primitive, rule, operands, params)
    mesh = _compat.mesh_of_types(operands)
    every = [(None,) * x.ndim for x in results] if rule is None else rule.results
    return [
        x.update(sharding=jax.sharding.NamedSharding(mesh, division.spec(labels)))
        for x, labels in zip(results, every, strict=True)
    ]


def divide(primitive: Primitive, rule: ShardingRule | None, operands: Operands, params: Params) -> Division:
    """Return the division that the shardings of operands ask for.

    Raises ShardingError if an axis is divided that has to be whole, or if two operands ask for different divisions.
    """
    sizes = dict(_compat.mesh_of_types(operands).shape)
    axes: dict[Any, tuple[str, ...]] = {}
    for number, x in enumerate(operands):
        labels = (None,) * x.ndim if rule is None else rule.operands[number]
        for axis, (label, names) in enumerate(zip(labels, _compat.mesh_axes(x.sharding.spec, x.ndim), strict=True)):
            if not names:
                continue
            if rule is None or label is None or not rule.is_even(label, prod(sizes[name] for name in names)):
                raise _refusal(primitive, params, number, axis, x, names, is_whole=True)
            others = {name for key, own in axes.items() if rule.clashes(key, label) for name in own}
            if axes.get(label, names) != names or others.intersection(names):
                raise _refusal(primitive, params, number, axis, x, names, is_whole=False)
            axes[label] = names
    return Division(axes, sizes)


def _refusal(
    primitive: Primitive,
    params: Params,
    number: int,
    axis: int,
    x: jax.core.ShapedArray,
    names: Sequence[str],
    is_whole: bool,
) -> ShardingError:
    spec = params.get("spec")
    index, why = "", "this operation cannot divide it"
    where = f"operand {number} of {primitive.name}"
    if isinstance(spec, Spec):
        where = f"operand {number} of {spec.text}"
        term = spec.factors[number] if number < len(spec.factors) else None
        if term is not None and axis < len(term.before):
            index = f" (index {term.before[axis]})"
            walks = [walk for walk in spec.walks if term.before[axis] in walk.indices]
            if walks:
                why = f"entries of {walks[0].pattern.format.name} read it by coordinate"
            elif any(term.before[axis] in other.behind for other in (*spec.factors, spec.result)):
                why = "it is stored with each entry"
        elif term is not None:
            why = "each device holds all stored values"
    over = " and ".join(repr(name) for name in names)
    partition = f"P({', '.join(['None'] * x.ndim)})"
    if not is_whole:
        return ShardingError(
            f"Expected operands of {where.partition(' of ')[2]} that are divided in the same way, but axis {axis} of "
            f"{where}{index} is divided over {over}, and other operands differ. Use jax.sharding.reshard(x, ...) with "
            "one sharding."
        )
    return ShardingError(
        f"Expected axis {axis} of {where}{index} to be whole on each device, because {why}, but it is divided over "
        f"{over}. Use jax.sharding.reshard(x, {partition}), or divide the rows of the sparse tensor with "
        f"jsparse.shard(A, mesh, {names[0]!r})."
    )


def lower_divided(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a lowering rule: operands that are divided over explicit axes are computed device by device."""

    def lower_shards(ctx: Any, *operands: ir.Value, **params: object) -> Sequence[ir.Value]:
        # XLA's operations on whole arrays are traced on one device, too: JAX 0.8 refuses constants together with typed
        # arrays.
        is_traced = config.is_portable and _compat.explicit_axes(_compat.mesh_of_types(ctx.avals_in))
        if not (is_traced or any(map(_compat.is_divided, ctx.avals_in))):
            return rule(ctx, *operands, **params)

        def compute(*arrays: jax.Array) -> Operands | jax.Array:
            results = _map_shards(primitive, arrays, ctx.avals_out, params)
            return results if primitive.multiple_results else results[0]

        return _compat.lower_as(compute, primitive.multiple_results)(ctx, *operands)

    return lower_shards


def _map_shards(primitive: Primitive, arrays: Operands, results: Operands, params: Params) -> Operands:
    types = [jax.typeof(x) for x in arrays]
    rule = rule_of(primitive, types, results, params)
    assert rule is not None  # only calls of kernels have none, and those are made on one device
    division, mesh = divide(primitive, rule, types, params), _compat.mesh_of_types(types)
    specs = [division.spec(labels) for labels in rule.operands]
    with jax.sharding.use_abstract_mesh(mesh):
        cut = [jax.sharding.reshard(x, spec) for x, spec in zip(arrays, specs, strict=True)]
        compute = jax.shard_map(
            lambda *shards: tuple(rule.local(shards, division)),
            mesh=mesh,
            in_specs=tuple(specs),
            out_specs=tuple(division.spec(labels) for labels in rule.results),
            axis_names=_compat.explicit_axes(mesh),  # others are left to XLA
            check_vma=False,
        )
        return cast(Operands, compute(*cut))
