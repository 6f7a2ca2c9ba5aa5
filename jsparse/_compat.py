"""The only module that touches names of JAX that are not public."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Generic, TypeVar

import jax
from jax._src.core import set_current_trace
from jax._src.interpreters.mlir import _lowerings, _platform_specific_lowerings
from jax._src.util import weakref_cache_key_types
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from jsparse.base.limits import check_bytes
from jsparse.base.memo import remembered

__all__ = [
    "Context",
    "Primitive",
    "Zero",
    "add_tangents",
    "apply_compiled",
    "cache_weakly",
    "is_for_export",
    "is_undefined",
    "keep_alive",
    "make_context",
    "make_primitive",
    "output_aval",
    "register_batching",
    "register_cpu_lowering",
    "register_jvp",
    "register_split",
    "register_transpose",
    "replace_cpu_lowering",
    "same_varying",
    "with_checkpoint_name",
]

Zero = ad.Zero
is_undefined = ad.is_undefined_primal


EAGER_PROGRAMS = 256  # compiled programs of each primitive kept for calls outside jit


def make_primitive(name: str, abstract_eval: Callable[..., Any], multiple_results: bool = False) -> Primitive:
    """A primitive. Applied outside any transformation it runs as a compiled program of its own."""
    primitive = Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_abstract_eval(abstract_eval)
    primitive.def_impl(_compiled(primitive))
    return primitive


def cache_weakly(*types: type) -> None:
    """Have JAX keep parameters of these classes weakly where it remembers abstract values, of up to 2,048 calls."""
    weakref_cache_key_types.update(types)


def _compiled(primitive: Primitive) -> Callable[..., Any]:
    """What applies a primitive as a compiled program of its own."""

    @remembered(maxsize=EAGER_PROGRAMS)
    def compiled(**params: Any) -> Callable[..., Any]:
        def applied(*operands: Any) -> Any:
            return primitive.bind(*operands, **params)

        applied.__name__ = applied.__qualname__ = primitive.name
        # What jit looks for where jax.debug_nans finds NaN: there is nothing to run step by step, but this once more.
        applied._apply_primitive = True  # type: ignore[attr-defined]
        return jax.jit(applied)

    def run(*operands: Any, **params: Any) -> Any:
        program = compiled(**params)
        if not jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return program(*operands)
        with jax.disable_jit(False):  # or the program, not compiled, would apply the primitive again
            return program(*operands)

    return run


def with_checkpoint_name(x: Any, name: str) -> Any:
    """Attach a checkpoint name, as `jax.ad_checkpoint.checkpoint_name` does, with a transpose rule.

    JAX has no such rule. In a linear function, such as the derivative of a primitive, the cotangent gets no name.
    """
    _transpose_names()
    return checkpoint_name(x, name)


@cache
def _transpose_names() -> None:
    (equation,) = jax.make_jaxpr(lambda x: checkpoint_name(x, "x"))(0.0).eqns
    ad.primitive_transposes.setdefault(equation.primitive, lambda cotangent, x, **_: [cotangent])


def output_aval(shape: Sequence[int], dtype: Any, operands: Sequence[Any]) -> Any:
    """The abstract value of a result: replicated over the operands' mesh, varying over their manual axes. Raises
    ShapeError if no memory holds it."""
    check_bytes(
        shape,
        dtype,
        "a result, a derivative, or a batch of them",
        "Ask for a sparse result (out_format=), sum over more indices, or map over fewer at a time (jax.lax.map).",
    )
    first = operands[0]
    replicated = first.sharding.update(spec=jax.sharding.PartitionSpec(*[None] * len(shape)))
    return first.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=replicated)


def _varying(x: Any) -> frozenset[Any]:
    aval = jax.typeof(x)
    kind = getattr(aval, "manual_axis_type", None)
    return frozenset(getattr(aval, "vma", ()) if kind is None else kind.varying)  # `vma` up to JAX 0.9


def _made_to_vary(x: Any, axes: tuple[Any, ...]) -> Any:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(x, axes, to="varying")
    return vars(jax.lax)["pvary"](x, axes)  # JAX 0.8.0 and 0.8.1


def same_varying(operands: Sequence[Any]) -> tuple[Any, ...]:
    """The operands, made to vary over the same manual axes of `shard_map`, which its check of types asks for."""
    wanted = frozenset().union(*map(_varying, operands))

    def varied(x: Any) -> Any:
        missing = tuple(sorted(wanted - _varying(x)))
        return _made_to_vary(x, missing) if missing else x

    return tuple(map(varied, operands))


def register_jvp(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """`rule(primals, tangents, **params) -> (result, tangent)`; tangents may be `Zero`."""
    ad.primitive_jvps[primitive] = rule


def register_transpose(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """`rule(cotangent, *operands, **params) -> cotangents`, None for operands that are known."""
    ad.primitive_transposes[primitive] = rule


def register_split(primitive: Primitive, is_split: Callable[..., bool], function: Callable[..., Any]) -> None:
    """Let partial evaluation trace `function` instead of the primitive when `is_split(known, **params)` is true.

    `known` holds a bool for each operand. JAX then computes the equations of `function` whose inputs are known, and
    leaves the others in the residual program."""

    def rule(trace: Any, *tracers: Any, **params: Any) -> Any:
        if not is_split([tracer.is_known() for tracer in tracers], **params):
            return trace.default_process_primitive(primitive, tracers, params)
        with set_current_trace(trace):
            return function(*tracers, **params)

    partial_eval.custom_partial_eval_rules[primitive] = rule


def register_batching(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """`rule(operands, axes, **params) -> (result, axis)`; an axis is None where an operand is not batched."""
    batching.primitive_batchers[primitive] = rule


def add_tangents(tangents: Sequence[Any], primal: Any) -> Any:
    """The sum of tangents; a symbolic zero of `primal` if there are none."""
    if not tangents:
        return ad.Zero(jax.typeof(primal).to_tangent_aval())
    total = tangents[0]
    for tangent in tangents[1:]:
        total = ad.add_jaxvals(total, tangent)
    return total


def register_cpu_lowering(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """`rule(ctx, *operands, **params)` in terms of MLIR."""
    mlir.register_lowering(primitive, rule, platform="cpu")


def lower_as(function: Callable[..., Any], multiple_results: bool = False) -> Callable[..., Any]:
    """The lowering rule that traces `function` in place of the primitive."""
    rule: Callable[..., Any] = mlir.lower_fun(function, multiple_results=multiple_results)
    return rule


def keep_alive(ctx: Any, held: object) -> None:
    """Hold an object for as long as the executable that is being lowered lives; not for exported programs, which JAX
    refuses to write down with anything held."""
    if not is_for_export(ctx):
        ctx.module_context.add_keepalive(held)


def is_for_export(ctx: Any) -> bool:
    """Whether what is lowered will be written down."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def replace_cpu_lowering(
    primitive: Primitive, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[[], None]:
    """Register `make(rule)` in place of the rule by which another's primitive is lowered on CPU; what undoes it."""
    own = _platform_specific_lowerings["cpu"]
    before = own.get(primitive)
    register_cpu_lowering(primitive, make((before or _lowerings[primitive]).rule))

    def undo() -> None:
        if before is None:
            del own[primitive]
        else:
            own[primitive] = before

    return undo


def apply_compiled(primitive: Primitive) -> Callable[[], None]:
    """Have another's primitive run as a compiled program outside any transformation; what undoes it."""
    before = primitive.impl
    primitive.def_impl(_compiled(primitive))
    return lambda: setattr(primitive, "impl", before)


T = TypeVar("T")


class Context(Generic[T]):
    """A setting that jitted functions are cached by: another value traces anew, an old one finds its earlier trace.
    Values are hashable and are compared by equality."""

    def __init__(self, default: T) -> None:
        self._config = jax.make_user_context(default)

    @property
    def value(self) -> T:
        """The value of the innermost `with` of this thread, or the global one outside any."""
        value: T = self._config.value
        return value

    def __call__(self, value: T) -> AbstractContextManager[None]:
        """`with context(value): ...` sets the value for this thread inside the block."""
        manager: AbstractContextManager[None] = self._config(value)
        return manager

    def set_global(self, value: T) -> None:
        """Set the value of every thread, for good; a `with` block that is open keeps its own."""
        # Up to JAX 0.10.0 only the object that this one wraps has the method.
        config = self._config if hasattr(self._config, "set_global") else self._config._obj
        config.set_global(value)


def make_context(default: T) -> Context[T]:
    """A new setting. What was jitted before traces once more, and no other thread may call JAX meanwhile: make it
    on import."""
    return Context(default)
