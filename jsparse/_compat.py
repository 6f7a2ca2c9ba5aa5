"""Wrappers of JAX's names that are not public. No other module uses such names.

What `jax.extend` has comes from where JAX defines it: that package also imports all of Pallas.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax._src.config import eager_constant_folding
from jax._src.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    Var,
    eval_jaxpr,
    get_opaque_trace_state,
    jaxprs_in_params,
    set_current_trace,
    trace_state_clean,
)
from jax._src.interpreters import pxla
from jax._src.interpreters.mlir import _lowerings, _platform_specific_lowerings
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import func
from jax._src.lib.mlir.dialects import hlo as stablehlo  # type: ignore[attr-defined]
from jax._src.util import weakref_cache_key_types
from jax._src.xla_bridge import backends_are_initialized
from jax.ad_checkpoint import checkpoint_name
from jax.interpreters import ad, batching, mlir, partial_eval

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.base.memo import remembered
from jsparse.errors import JsparseError

__all__ = [
    "Context",
    "Literal",
    "Primitive",
    "Zero",
    "add_tangents",
    "apply_compiled",
    "cache_weakly",
    "closed",
    "equation_results",
    "evaluated",
    "function_of_jax_numpy",
    "handed_over",
    "ir",
    "is_eager",
    "is_for_export",
    "is_undefined",
    "jaxprs_in",
    "keep_alive",
    "literal",
    "live_jaxpr",
    "make_context",
    "make_primitive",
    "mesh_of_trace",
    "named_operation",
    "output_aval",
    "platforms_of",
    "register_batching",
    "register_dtype_for_export",
    "register_jvp",
    "register_lowering",
    "register_split",
    "register_transpose",
    "replace_cpu_lowering",
    "run_directly",
    "run_once",
    "same_varying",
    "scan_counts",
    "shared_constants",
    "stablehlo",
    "trace_state",
    "traceback_frames",
    "with_checkpoint_name",
    "without_constants",
    "without_dead_equations",
]

Zero = ad.Zero
is_undefined = ad.is_undefined_primal


EAGER_PROGRAMS = 256  # the most compiled programs of each primitive that are kept for calls outside jit


LOWERINGS = "jsparse.primitives.lowerings"
"""The module of all lowerings. It imports the compiler, so it is imported when a primitive is first applied."""


def make_primitive(name: str, abstract_eval: Callable[..., Any], multiple_results: bool = False) -> Primitive:
    """Make a primitive. Outside of any transformation it runs as a compiled program of its own."""

    def abstract_value(*operands: object, **params: object) -> object:
        import_module(LOWERINGS)
        return abstract_eval(*operands, **params)

    primitive = Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_abstract_eval(abstract_value)
    primitive.def_impl(_compiled(primitive))
    return primitive


_once: dict[Primitive, Callable[..., Any]] = {}


def run_once(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Outside of any transformation, call `function` the first time that a program is needed, and do not compile it.

    If `function` returns None, the program is compiled and runs. Later calls use the program.
    """
    _once[primitive] = function


def run_directly(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Outside of any transformation, call `function` instead of a program. If it returns None, the program runs."""
    compiled = primitive.impl

    def run(*operands: Any, **params: Any) -> Any:
        found = function(*operands, **params)
        return compiled(*operands, **params) if found is None else found

    primitive.def_impl(run)


def cache_weakly(*types: type) -> None:
    """Make JAX's cache of abstract values (2,048 calls) refer weakly to parameters of these classes."""
    weakref_cache_key_types.update(types)


@dataclass(slots=True)
class _EagerProgram:
    """A program that is compiled when it is called, and whether it was needed before."""

    program: Callable[..., Any]
    again: bool = False


def _compiled(primitive: Primitive) -> Callable[..., Any]:
    """A function that applies a primitive as a compiled program of its own."""

    @remembered(maxsize=EAGER_PROGRAMS)
    def compiled(**params: Any) -> _EagerProgram:
        import_module(LOWERINGS)

        def applied(*operands: Any) -> Any:
            return primitive.bind(*operands, **params)

        applied.__name__ = applied.__qualname__ = primitive.name
        # jax.debug_nans runs a jitted function step by step after a NaN. This attribute tells jit that the function is
        # one primitive, which has no steps.
        applied._apply_primitive = True  # type: ignore[attr-defined]
        return _EagerProgram(jax.jit(applied))

    def run(*operands: Any, **params: Any) -> Any:
        needed = compiled(**params)
        if not needed.again and primitive in _once:
            needed.again = True
            primitive.abstract_eval(*map(jax.typeof, operands), **params)  # it checks the operands
            found = _once[primitive](*operands, **params)
            if found is not None:
                return found
        program = needed.program
        if not jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return program(*operands)
        with jax.disable_jit(False):  # without jit the program would apply the primitive again, without end
            return program(*operands)

    return run


def with_checkpoint_name(x: jax.Array, name: str) -> jax.Array:
    """Attach a checkpoint name, as `jax.ad_checkpoint.checkpoint_name` does, with a transpose rule.

    JAX has no such rule. In a linear function, such as the derivative of a primitive, the cotangent gets no name.
    """
    _transpose_names()
    return checkpoint_name(x, name)


@cache
def _transpose_names() -> None:
    (equation,) = jax.make_jaxpr(lambda x: checkpoint_name(x, "x"))(0.0).eqns
    ad.primitive_transposes.setdefault(equation.primitive, lambda cotangent, x, **_: [cotangent])


def output_aval(
    shape: Sequence[int], dtype: np.dtype, operands: Sequence[jax.core.ShapedArray]
) -> jax.core.ShapedArray:
    """The abstract value of a result: replicated over the operands' mesh, and varying over their manual axes.

    Without operands it is the abstract value of a constant.

    Raises ShapeError if the result is too large for memory.
    """
    check_bytes(
        shape,
        dtype,
        "a result, a derivative, or a batch of them",
        "Ask for a sparse result (out_format=), sum over more indices, or map over fewer at a time (jax.lax.map).",
    )
    if not operands:
        return jax.core.ShapedArray(tuple(shape), dtype)
    first = operands[0]
    replicated = first.sharding.update(spec=jax.sharding.PartitionSpec(*[None] * len(shape)))
    return first.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=replicated)


def _varying(x: jax.Array) -> frozenset[str]:
    aval = jax.typeof(x)
    kind = getattr(aval, "manual_axis_type", None)
    return frozenset(getattr(aval, "vma", ()) if kind is None else kind.varying)  # `vma` up to JAX 0.9


def _made_to_vary(x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(x, axes, to="varying")
    return vars(jax.lax)["pvary"](x, axes)  # JAX 0.8.0 and 0.8.1


def same_varying(operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Make all operands vary over the same manual axes, as the type check of `shard_map` requires."""
    every_axis = frozenset().union(*map(_varying, operands))
    if not every_axis:
        return tuple(operands)

    def varied(x: jax.Array) -> jax.Array:
        missing = tuple(sorted(every_axis - _varying(x)))
        return _made_to_vary(x, missing) if missing else x

    return tuple(map(varied, operands))


def function_of_jax_numpy() -> str | None:
    """The name of the jax.numpy function that is checking its operands, in the frame that called the caller.

    The result is "" if the name is not known, and None if no such function is.
    """
    frame: FrameType | None = sys._getframe(2)
    found = None
    while frame is not None and frame.f_globals.get("__name__") == "jax._src.numpy.util":
        name = frame.f_locals.get("fun_name")
        found = name if isinstance(name, str) else found or ""
        frame = frame.f_back
    return found


def evaluated(closed: ClosedJaxpr, args: Sequence[Array]) -> list[jax.Array]:
    """The results of a closed jaxpr."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def without_constants(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The closed jaxpr with its constants as further, last arguments."""
    if not closed.consts:
        return closed
    count = len(closed.in_avals)

    def function(*args: Any) -> Any:
        return eval_jaxpr(closed.jaxpr, args[count:], *args[:count])

    return jax.make_jaxpr(function)(*closed.in_avals, *(jax.typeof(x) for x in closed.consts))


def jaxprs_in(params: dict[str, Any]) -> Iterable[Jaxpr]:
    """The jaxprs among the parameters of an equation."""
    return jaxprs_in_params(params)


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """The numbers of constants and of carries among the operands of a scan. Its other operands follow these."""
    if "num_consts" in params:  # up to JAX 0.10
        return params["num_consts"], params["num_carry"]
    constants, carries, _ = params["ft_in"].unpack()
    return len(tuple(constants)), len(tuple(carries))


def live_jaxpr(closed: ClosedJaxpr) -> Jaxpr:
    """The jaxpr of a closed jaxpr, without equations that no result depends on. XLA does not run them either."""
    live, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return live


def without_dead_equations(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The closed jaxpr without equations that no result depends on."""
    live, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return closed.replace(jaxpr=live)


def sub_jaxpr(
    jaxpr: Jaxpr, equations: Sequence[JaxprEqn], invars: Sequence[Var], outvars: Sequence[Var | Literal]
) -> ClosedJaxpr:
    """The closed jaxpr of some equations of a jaxpr, without those that no result depends on."""
    whole = jaxpr.replace(constvars=[], invars=list(invars), outvars=list(outvars), eqns=list(equations))
    live, _ = partial_eval.dce_jaxpr(whole, [True] * len(whole.outvars), instantiate=True)
    return ClosedJaxpr(live, ())


def used_arguments(closed: ClosedJaxpr) -> list[bool]:
    """For each argument of a closed jaxpr, whether a result depends on it."""
    _, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return list(used)


def equation_results(jaxpr: Jaxpr, equation: JaxprEqn, operands: Sequence[Array]) -> list[jax.Array]:
    """The results of one equation of a jaxpr for these operands. Functions with custom derivatives keep them."""
    given = {v: x for v, x in zip(equation.invars, operands, strict=True) if not isinstance(v, Literal)}
    alone = jaxpr.replace(constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation])
    return eval_jaxpr(alone, (), *given.values())


def closed(jaxpr: Any) -> ClosedJaxpr:
    """A closed jaxpr as it is; a jaxpr, which has to be without constants, as a closed jaxpr."""
    return jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())


def literal(v: Any) -> np.generic | np.ndarray:
    """The number of a literal, as a numpy scalar or array of its dtype."""
    return np.asarray(v.val, v.aval.dtype)[()]


def trace_state() -> Any:
    """The trace that operations belong to now, to be compared with the trace at another time."""
    return get_opaque_trace_state(convention="flax")


def is_eager() -> bool:
    """Whether operations on known arrays are computed now, rather than traced."""
    return trace_state_clean() or eager_constant_folding.value


def handed_over(arrays: Sequence[np.ndarray], sharding: jax.sharding.Sharding | None) -> list[jax.Array]:
    """`jax.device_put` of arrays that nothing else refers to, so that jax may share their memory.

    Args:
        sharding: the place that the results are committed to; None for the default device.

    On the default device this takes a tenth of the time of `jax.device_put`.
    """
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    if sharding is not None or default is not None or not mesh_of_trace().empty:
        return [jax.device_put(x, sharding, may_alias=True) for x in arrays]
    device = jax.local_devices()[0]
    place = jax.sharding.SingleDeviceSharding(device)
    with jax.transfer_guard_host_to_device("allow"):  # no operand comes from another memory
        return [
            pxla.batched_device_put(jax.core.ShapedArray(x.shape, x.dtype), place, [x], [device], committed=False)
            for x in arrays
        ]


def mesh_of_trace() -> jax.sharding.AbstractMesh:
    """The mesh that operations are on at the moment, by `shard_map` or by the types of operands. A jaxpr that is traced
    now refers to this mesh, so that it cannot be evaluated on another one."""
    return jax.sharding.get_abstract_mesh()


def traceback_frames(equation: JaxprEqn) -> list[tuple[str, int, str]]:
    """File, line and function of each call that led to an equation while it was traced, the innermost first."""
    traceback = equation.source_info.traceback
    return [(x.file_name, x.line_num, x.function_name) for x in traceback.frames] if traceback else []


def register_jvp(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Register `rule(primals, tangents, **params) -> (result, tangent)`. Tangents may be `Zero`."""
    ad.primitive_jvps[primitive] = rule


def register_transpose(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Register `rule(cotangent, *operands, **params) -> cotangents`, with None for known operands."""

    def placed(cotangent: Any, *operands: Any, **params: Any) -> list[Any]:
        found = rule(cotangent, *operands, **params)
        return [_placed_as(x, operand) for x, operand in zip(found, operands, strict=True)]

    ad.primitive_transposes[primitive] = placed


def _placed_as(cotangent: Any, operand: Any) -> Any:
    """The cotangent with the sharding of its operand, which is part of the type on a mesh of explicit axes."""
    if cotangent is None or type(cotangent) is Zero or not is_undefined(operand):
        return cotangent
    own, wanted = jax.typeof(cotangent).sharding, operand.aval.sharding
    same = own == wanted or own.mesh.empty or wanted.mesh.empty
    return cotangent if same else jax.sharding.reshard(cotangent, wanted)


def register_split(primitive: Primitive, is_split: Callable[..., bool], function: Callable[..., Any]) -> None:
    """Let partial evaluation trace `function` instead of the primitive when `is_split(known, **params)` is true.

    `known` has a bool for each operand. JAX then computes the equations of `function` whose inputs are known, and
    leaves the others in the residual program.
    """

    def rule(trace: Any, *tracers: Any, **params: Any) -> Any:
        if not is_split([tracer.is_known() for tracer in tracers], **params):
            return trace.default_process_primitive(primitive, tracers, params)
        with set_current_trace(trace):
            return function(*tracers, **params)

    partial_eval.custom_partial_eval_rules[primitive] = rule


def register_batching(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Register `rule(operands, axes, **params) -> (result, axis)`. The axis of an unbatched operand is None."""
    batching.primitive_batchers[primitive] = rule


def add_tangents(tangents: Sequence[Any], primal: Any) -> Any:
    """The sum of tangents. Without tangents it is a symbolic zero for `primal`."""
    if not tangents:
        return ad.Zero(jax.typeof(primal).to_tangent_aval())
    total = tangents[0]
    for tangent in tangents[1:]:
        total = ad.add_jaxvals(total, tangent)
    return total


def register_lowering(
    primitive: Primitive, rule: Callable[..., Any], platform: str | None, in_place: bool = False
) -> None:
    """Register the lowering `rule(ctx, *operands, **params)`, which makes MLIR operations.

    With None as its platform, the rule serves the platforms that have no rule of their own. A rule that is called
    `in_place` is called for each equation, and sees the operations that make its operands. Any other rule is called
    once for all equations that are alike.
    """
    mlir.register_lowering(primitive, rule, platform=platform, cacheable=not in_place)


def platforms_of(ctx: mlir.LoweringRuleContext) -> tuple[str, ...]:
    """The platforms that a rule lowers for."""
    return tuple(ctx.platforms or ctx.module_context.platforms)


def lower_as(function: Callable[..., Any], multiple_results: bool = False) -> Callable[..., Any]:
    """The lowering rule that traces `function` in place of the primitive."""
    rule: Callable[..., Any] = mlir.lower_fun(function, multiple_results=multiple_results)
    return rule


def keep_alive(ctx: mlir.LoweringRuleContext, kept: object) -> None:
    """Keep an object alive for as long as the executable that is being lowered.

    Exported programs keep nothing alive, because JAX does not serialize programs that do.
    """
    if not is_for_export(ctx):
        ctx.module_context.add_keepalive(kept)


def named_operation(name: str) -> AbstractContextManager[object]:
    """Inside the block, operations get that name after the names of the scopes around them.

    XLA makes the name of an instruction of it, with a letter `_` for each one that names cannot have, and profilers
    show that. It keeps the whole text as the operation's `op_name`, where `/` separates scopes.
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
    """Let `jax.export` write and read arrays of a dtype of keys. Nothing happens without flatbuffers."""
    try:
        from jax._src.export import serialization  # noqa: PLC0415
    except ImportError:
        return
    serialization._dtype_to_dtype_kind[dtype] = _KIND
    serialization._dtype_kind_to_dtype[_KIND] = dtype


_KIND = 120  # JAX counts its dtypes from 0, and files have a signed byte


def shared_constants(ctx: mlir.LoweringRuleContext, name: str, arrays: Sequence[np.ndarray]) -> list[ir.Value]:
    """Arrays as constants of the program that is being lowered. It contains them once, in a function of that name."""
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
    """Replace the CPU lowering rule of JAX's own primitive by `make(rule)`. Returns a function that undoes it."""
    own = _platform_specific_lowerings["cpu"]
    before = own.get(primitive)
    register_lowering(primitive, make((before or _lowerings[primitive]).rule), "cpu")

    def undo() -> None:
        if before is None:
            del own[primitive]
        else:
            own[primitive] = before

    return undo


def apply_compiled(primitive: Primitive) -> Callable[[], None]:
    """Make JAX's own primitive run as a compiled program outside of jit. Returns a function that undoes it."""
    before = primitive.impl
    primitive.def_impl(_compiled(primitive))
    return lambda: setattr(primitive, "impl", before)


T = TypeVar("T")


class Context(Generic[T]):
    """A setting that is part of the key of jitted functions: each value has traces of its own.

    Values are hashable and compared by equality.
    """

    def __init__(self, default: T) -> None:
        self._config = jax.make_user_context(default)

    @property
    def value(self) -> T:
        """The value of this thread's innermost `with` block, or the global value outside of all blocks."""
        value: T = self._config.value
        return value

    def __call__(self, value: T) -> AbstractContextManager[None]:
        """Set the value for this thread inside a block: `with context(value): ...`."""
        manager: AbstractContextManager[None] = self._config(value)
        return manager

    def set_global(self, value: T) -> None:
        """Set the global value, for all threads. Open `with` blocks keep their own value."""
        # Up to JAX 0.10.0 only the wrapped object has the method.
        config = self._config if hasattr(self._config, "set_global") else self._config._obj
        config.set_global(value)


def make_context(default: T) -> Context[T]:
    """Make a setting. Functions that were jitted before are traced again.

    No other thread may call JAX during this call, so settings are made on import.
    """
    return Context(default)


def _mark_fork() -> None:
    """In a process that was forked after JAX started, make every lowering of a program fail.

    XLA verifies, compiles and loads programs by its threads. A forked process has none of them, so it would wait
    forever.
    """
    if backends_are_initialized():
        jax.monitoring.register_scalar_listener(_refuse_program)


def _refuse_program(event: str, value: float, **kwargs: Any) -> None:
    if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
        raise JsparseError(
            "Expected a process that was started by spawn or forkserver, but this one was forked after JAX had "
            "started, so it lacks the threads by which XLA compiles programs. Fork before the first operation, or use "
            "multiprocessing.get_context('spawn')."
        )


os.register_at_fork(after_in_child=_mark_fork)
