"""Operations that XLA's partitioner divides among devices with one of our functions, on Auto axes of a mesh.

XLA cannot divide a custom call: it gathers the operands, and each device computes the whole. So a program for several
devices has a call of the partitioner that is registered here under its own name. Shardy reads the call's sharding rule
to decide on the division. Then XLA asks for the program of one device's part, and puts it in place of the call: no
executable has calls of this name.

`jax.experimental.custom_partitioning` does the same, but writes the address of a Python object into the program's text,
which thus differs from process to process. Here the text has a digest of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import isqrt
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

import jax
from jax._src import core, sharding_impls
from jax._src.custom_partitioning_sharding_rule import sdy_sharding_rule_to_mlir, str_to_sdy_sharding_rule
from jax._src.interpreters.mlir import LoweringParameters, lower_jaxpr_to_module, module_to_bytecode
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import hlo as stablehlo  # type: ignore[attr-defined]
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from jsparse._compat.context import mesh_axes

TARGET = "jsparse_partition"

XlaObject: TypeAlias = Any
"""A shape or a sharding of XLA."""

Entries = tuple[tuple[str, ...], ...]
"""For each axis of an array, the names of the mesh axes that divide it."""


class Decide(Protocol):
    """Decides how an operation is divided."""

    def settings(self) -> AbstractContextManager[None]:
        """The context in which programs of parts are made."""

    def __call__(
        self, asked: Sequence[Entries | None], sizes: Mapping[str, int], /
    ) -> tuple[Sequence[PartitionSpec], Callable[..., Any]]:
        """Return how results and operands are divided, and the function of a device's shards.

        Args:
            asked: the divisions of results and operands that the program asks for; None if it does not say.
            sizes: the sizes of mesh axes.
        """


class Work:
    """The computation of a call, and how it is divided. A program keeps its works alive; pickling leaves them out.

    Attributes:
        decide: decides how the operation is divided.
        platforms: the platforms of the program.
        devices: the number of devices.
        kept: what the programs of parts keep alive.
    """

    def __init__(self, decide: Decide, platforms: Sequence[str], devices: int) -> None:
        self.decide, self.platforms, self.devices = decide, tuple(platforms), devices
        self.kept: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Work, (None, (), 1)


_works: WeakValueDictionary[bytes, Work] = WeakValueDictionary()


def lower_partitioned(
    ctx: mlir.LoweringRuleContext,
    operands: Sequence[ir.Value],
    devices: int,
    digest: str,
    rule: str,
    whole: Sequence[str],
    decide: Decide,
) -> Sequence[ir.Value]:
    """Emit a call that XLA divides.

    Args:
        devices: the number of devices.
        digest: a text that is equal for works that have equal results.
        rule: the sharding rule, such as "i j, j k -> i k".
        whole: the names in the rule of axes that are whole on each device.
    """
    key = digest.encode()
    work = _works.get(key)
    if work is None:
        work = _works[key] = Work(decide, ctx.module_context.platforms, devices)
    ctx.module_context.add_keepalive(work)
    operand_types, result_types = ([_ir_type(aval) for aval in avals] for avals in (ctx.avals_in, ctx.avals_out))
    call = stablehlo.CustomCallOp(
        result_types,
        list(operands),
        call_target_name=ir.StringAttr.get(TARGET),
        has_side_effect=ir.BoolAttr.get(False),
        api_version=mlir.i32_attr(2),
        called_computations=ir.ArrayAttr.get([]),
        backend_config=ir.StringAttr.get(digest),
    )
    parsed = str_to_sdy_sharding_rule(rule, need_replication_factors=tuple(whole))
    call.attributes["sdy.sharding_rule"] = sdy_sharding_rule_to_mlir(parsed, operand_types, result_types)
    return call.results


def _ir_type(aval: XlaObject) -> ir.Type:
    return ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))


def _mesh(devices: int) -> AbstractMesh:
    """A mesh of the prime factors of the number of devices: every sharding of XLA is a sharding on it."""
    factors = list[int]()
    while devices > 1:
        factor = next((n for n in range(2, isqrt(devices) + 1) if devices % n == 0), devices)
        factors.append(factor)
        devices //= factor
    return AbstractMesh(tuple(factors), tuple(f"d{n}" for n in range(len(factors))))


def _entries(sharding: XlaObject, rank: int, mesh: AbstractMesh) -> Entries | None:
    """Read an XLA sharding; None if there is none, or none of this kind."""
    if sharding is None:
        return None
    try:
        (spec,) = sharding_impls.parse_flatten_op_sharding(sharding, mesh)
    except (ValueError, NotImplementedError, AssertionError):
        return None
    return mesh_axes(spec, rank)


def _hlo_sharding(spec: PartitionSpec, rank: int, mesh: AbstractMesh) -> XlaObject:
    return NamedSharding(mesh, spec)._to_xla_hlo_sharding(rank)


def _elements(shape: XlaObject, sharding: XlaObject) -> tuple[Sequence[XlaObject], Sequence[XlaObject]]:
    """The shapes and shardings of the results."""
    if not shape.is_tuple():
        return [shape], [sharding]
    shapes = shape.tuple_shapes()
    return shapes, [None] * len(shapes) if sharding is None else sharding.tuple_elements()


def _partition(
    shapes: XlaObject, shardings: XlaObject, shape: XlaObject, sharding: XlaObject, key: bytes
) -> tuple[bytes, XlaObject, XlaObject]:
    """XLA's question: the program of a part, and the shardings of its operands and results."""
    work, (out_shapes, out_shardings) = _works[bytes(key)], _elements(shape, sharding)
    mesh = _mesh(work.devices)
    every = [*out_shapes, *shapes]
    asked = [
        _entries(one, len(x.dimensions()), mesh) for one, x in zip([*out_shardings, *shardings], every, strict=True)
    ]
    specs, compute = work.decide(asked, dict(mesh.shape))
    decided = [_hlo_sharding(spec, len(x.dimensions()), mesh) for spec, x in zip(specs, every, strict=True)]
    results, operands = decided[: len(out_shapes)], decided[len(out_shapes) :]
    tiled = [x.tile(y) for x, y in zip(operands, shapes, strict=True)]
    avals = [core.ShapedArray(x.dimensions(), x.numpy_dtype()) for x in tiled]
    with work.decide.settings(), core.extend_axis_env_nd(mesh.shape.items()):
        closed = jax.make_jaxpr(compute)(*avals)
        lowered = lower_jaxpr_to_module(
            "jsparse_part",
            closed,
            num_const_args=0,
            in_avals=closed.in_avals,
            ordered_effects=[],
            platforms=work.platforms,
            backend=None,
            axis_context=sharding_impls.SPMDAxisContext(mesh, frozenset(mesh.axis_names)),  # type: ignore[arg-type]
            donated_args=[False] * len(avals),
            lowering_parameters=LoweringParameters(hoist_constants_as_args=False),
        )
    work.kept.append(lowered.keepalive)
    packed = xla_client.HloSharding.tuple_sharding(shape, results) if shape.is_tuple() else results[0]
    return module_to_bytecode(lowered.module), operands, packed


def _infer(shapes: XlaObject, shardings: XlaObject, shape: XlaObject, key: bytes) -> XlaObject:
    """Infer the shardings of results from those of operands. XLA asks for them if Shardy is switched off."""
    work, (out_shapes, _) = _works[bytes(key)], _elements(shape, None)
    mesh = _mesh(work.devices)
    asked = [_entries(one, len(x.dimensions()), mesh) for one, x in zip(shardings, shapes, strict=True)]
    specs, _compute = work.decide([*[None] * len(out_shapes), *asked], dict(mesh.shape))
    results = [_hlo_sharding(spec, len(x.dimensions()), mesh) for spec, x in zip(specs, out_shapes, strict=False)]
    return xla_client.HloSharding.tuple_sharding(shape, results) if shape.is_tuple() else results[0]


def _keep_user_sharding(sharding: XlaObject, shape: XlaObject, key: bytes) -> XlaObject:
    return sharding


xla_client.register_custom_call_partitioner(
    TARGET, _keep_user_sharding, _partition, _infer, can_side_effecting_have_replicated_sharding=True
)
