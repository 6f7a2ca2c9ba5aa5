"""Lowering rules, and helpers for the programs that lowering rules emit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any

import numpy as np
from jax._src.core import (
    Primitive,
)
from jax._src.interpreters.mlir import _lowerings, _platform_specific_lowerings, lower_per_platform
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import func
from jax._src.lib.mlir.dialects import hlo as stablehlo  # type: ignore[attr-defined]
from jax.interpreters import mlir


def register_lowering(
    primitive: Primitive, rule: Callable[..., Any], platform: str | None, in_place: bool = False
) -> None:
    """Register the lowering `rule(ctx, *operands, **params)`, which makes MLIR operations.

    If `platform` is None, the rule serves every platform that has no rule of its own. If `in_place` is true, the rule
    is called for each equation, and sees the operations that compute the operands. Otherwise one call of the rule
    serves all equal equations.
    """
    mlir.register_lowering(primitive, rule, platform=platform, cacheable=not in_place)


def jaxlib_version() -> tuple[int, ...]:
    """The release of jaxlib as numbers."""
    return tuple(map(int, re.findall(r"\d+", version("jaxlib"))[:3]))


def platforms_of(ctx: mlir.LoweringRuleContext) -> tuple[str, ...]:
    """The platforms for which `ctx` lowers the current equation."""
    return tuple(ctx.platforms or ctx.module_context.platforms)


def devices_of(ctx: mlir.LoweringRuleContext) -> int:
    """The number of devices among which XLA divides an operation; 1 if it does not, as inside of `shard_map`."""
    context = ctx.module_context.axis_context
    return int(getattr(context, "num_devices", 1)) if type(context).__name__ == "ShardingContext" else 1


def lower_by_platform(
    ctx: mlir.LoweringRuleContext,
    primitive: Primitive,
    rules: Mapping[str | None, Callable[..., Any]],
    *operands: Any,
    **params: Any,
) -> Any:
    """Lower a primitive by the rule for each platform of `ctx`. `rules[None]` serves all platforms not in `rules`.

    If several rules apply, they become the branches of one operation.
    """
    by_platform = {platform: rule for platform, rule in rules.items() if platform is not None}
    # A rule that is not cached gets a tuple, which JAX cannot add to a list.
    known: Any = ctx.replace(avals_out=list(ctx.avals_out))
    return lower_per_platform(known, str(primitive), by_platform, rules.get(None), set(), *operands, **params)


def program_of(ctx: mlir.LoweringRuleContext) -> object:
    """An object that identifies the program being lowered, and that lives as long as the program's lowering context."""
    return ctx.module_context.shape_poly_state


def lower_as(function: Callable[..., Any], multiple_results: bool = False) -> Callable[..., Any]:
    """The lowering rule that traces `function` in place of the primitive."""
    return mlir.lower_fun(function, multiple_results=multiple_results)


def keep_alive(ctx: mlir.LoweringRuleContext, kept: object) -> None:
    """Keep an object alive for as long as the executable that is being lowered.

    Exported programs keep nothing alive, because JAX cannot serialize programs that keep objects alive.
    """
    if not is_for_export(ctx):
        ctx.module_context.add_keepalive(kept)


def name_operation(name: str) -> AbstractContextManager[object]:
    """Name the operations that a `with` block emits. Their name consists of the scopes around the block and `name`.

    XLA derives the name of an instruction, which profilers show, from the operation's name. XLA writes `_` for each
    character that instruction names cannot have. XLA keeps the full text as the operation's `op_name`, where `/`
    separates scopes.
    """
    text = name.translate(_NAMES)
    text = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."
    here: Any = ir.Location.current
    if str(getattr(here, "name_str", "")).endswith(":"):  # the primitive's name, around the name of the operation
        here = here.child_loc
    scopes = str(getattr(here, "name_str", "")).rpartition("/")[0]  # older releases do not tell
    return ir.Location.name(f"{scopes}/{text}", here.child_loc) if scopes else ir.Location.name(text)


LONGEST_NAME = 120

_NAMES = str.maketrans({"/": "÷", "@": None, ";": ","})  # MLIR and XLA cut names at these


def is_for_export(ctx: mlir.LoweringRuleContext) -> bool:
    """Whether the program is lowered for export."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def register_dtype_for_export(dtype: Any) -> None:
    """Let `jax.export` write and read arrays of a dtype of random keys. If flatbuffers is missing, do nothing."""
    try:
        from jax._src.export import serialization  # noqa: PLC0415
    except ImportError:
        return
    serialization._dtype_to_dtype_kind[dtype] = _KIND
    serialization._dtype_kind_to_dtype[_KIND] = dtype


_KIND = 120  # JAX counts its dtypes from 0, and files have a signed byte


def emit_shared_constants(ctx: mlir.LoweringRuleContext, name: str, arrays: Sequence[np.ndarray]) -> list[ir.Value]:
    """Return arrays as constants of the program being lowered.

    The program contains the arrays only once, in a function called `name`.
    """
    module = ctx.module_context
    types = [ir.RankedTensorType.get(x.shape, mlir.dtype_to_ir_type(x.dtype)) for x in arrays]
    if name not in module.symbol_table:
        function: Any = func.FuncOp(name, ir.FunctionType.get([], types), ip=module.ip)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        module.symbol_table.insert(function)
        with ir.InsertionPoint(function.add_entry_block()):
            func.return_([stablehlo.constant(ir.DenseElementsAttr.get(x.data)) for x in arrays])
    return list(func.CallOp(types, ir.FlatSymbolRefAttr.get(name), []).results)


def replace_cpu_lowering(
    primitive: Primitive, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[[], None]:
    """Replace the CPU lowering rule of a JAX primitive by `make(rule)`. Returns a function that restores the rule."""
    rules = _platform_specific_lowerings["cpu"]
    before = rules.get(primitive)
    register_lowering(primitive, make((before or _lowerings[primitive]).rule), "cpu")

    def undo() -> None:
        if before is None:
            del rules[primitive]
        else:
            rules[primitive] = before

    return undo
