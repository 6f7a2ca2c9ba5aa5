"""Functions that make primitives, run primitives outside of any transformation, and register their rules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.core import (
    Primitive,
    set_current_trace,
)
from jax._src.util import weakref_cache_key_types
from jax.ad_checkpoint import checkpoint_name
from jax.interpreters import ad, batching, partial_eval

from jsparse._compat.context import is_divided
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize

RUNS = 3  # calls outside jit before a program is compiled: most parameters with new patterns are not met again
EAGER_PROGRAMS = 256  # the maximum number of compiled programs of each primitive that are kept for calls outside jit

DIVISION = "jsparse.primitives.division.explicit"
"""The module that knows how operations on a mesh are divided. Few programs need it."""

LOWERINGS = "jsparse.primitives.lowerings"
"""The module of all lowerings. It imports the compiler, so its import waits until a primitive is first applied."""

LATER = {"jax._src.checkify": "jsparse.primitives.checks", "jax.experimental.jet": "jsparse.primitives.taylor"}
"""Modules of JAX whose import takes long, and our modules that make our primitives known to them."""

Zero = ad.Zero

is_undefined = ad.is_undefined_primal


class _Primitive(Primitive):
    """A primitive that checkify and jet know at the first call after they were imported."""

    def bind(self, *operands: Any, **params: Any) -> Any:
        for name in tuple(LATER):
            if name in sys.modules:
                import_module(LATER.pop(name)).register()
        return super().bind(*operands, **params)


def make_primitive(
    name: str,
    abstract_eval: Callable[..., Any],
    multiple_results: bool = False,
    empty: Callable[..., Sequence[float]] | None = None,
) -> Primitive:
    """Make a primitive. Outside of any transformation, each call runs as a separate compiled program.

    Args:
        empty: maps the parameters to the value that each result has where nothing is reduced to an element, such as
            -inf for a maximum. `jax.debug_infs` finds no fault with that value. It is a step on the way to a result,
            and JAX searches each step that it runs outside of a program.
    """

    def abstract_value(*operands: Any, **params: object) -> object:
        import_module(LOWERINGS)
        results = abstract_eval(*operands, **params)
        if not any(map(is_divided, operands)):
            return results
        whole = results if multiple_results else [results]
        divided = import_module(DIVISION).with_shardings(primitive, operands, whole, params)
        return divided if multiple_results else divided[0]

    primitive = _Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_abstract_eval(abstract_value)
    run = _compile_primitive(primitive)
    primitive.def_impl(run if empty is None else _search_infinities(primitive, run, empty))
    return primitive


def _search_infinities(
    primitive: Primitive, run: Callable[..., Any], empty: Callable[..., Sequence[float]]
) -> Callable[..., Any]:
    """Make a function that runs a primitive, and under `jax.debug_infs` allows no infinity but the one in `empty`."""

    def run_and_check(*operands: Any, **params: Any) -> Any:
        if not finds_infinities():
            return run(*operands, **params)
        with allow_infinities():
            out = run(*operands, **params)
            for x, value in zip(out if primitive.multiple_results else [out], empty(**params), strict=True):
                if jnp.issubdtype(x.dtype, jnp.inexact) and bool((jnp.isinf(x) & (x != value)).any()):
                    raise FloatingPointError(f"invalid value (inf) encountered in {primitive.name}")
        return out

    return run_and_check


def finds_infinities() -> bool:
    """Whether JAX raises FloatingPointError for an infinite result of an operation: `jax.debug_infs` is on."""
    return bool(jax.config.jax_debug_infs)  # type: ignore[attr-defined]


def allow_infinities() -> AbstractContextManager[None]:
    """Allow infinite results of operations inside a block, even under `jax.debug_infs`."""
    return jax.debug_infs(False) if finds_infinities() else nullcontext()


_once: dict[Primitive, Callable[..., Any]] = {}


def run_once(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Register `function` for the first calls of a primitive outside of transformations, for each set of parameters.

    The first `RUNS` calls run `function`, so that no program is compiled for them. If `function` returns None, and for
    all later calls, a compiled program of the primitive runs.
    """
    _once[primitive] = function


def run_directly(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Register `function` for all calls of a primitive outside of transformations.

    If `function` returns None, a compiled program of the primitive runs instead.
    """
    compiled = primitive.impl

    def run(*operands: Any, **params: Any) -> Any:
        result = function(*operands, **params)
        return compiled(*operands, **params) if result is None else result

    primitive.def_impl(run)


def cache_weakly(*types: type) -> None:
    """Make JAX's cache of abstract values (2,048 calls) hold weak references to parameters of these classes."""
    weakref_cache_key_types.update(types)


@dataclass(slots=True)
class _EagerProgram:
    """The program of a primitive for one set of parameters. It is compiled when it first runs.

    Attributes:
        program: the compiled function.
        calls: how often a function that `run_once` has registered was called instead.
    """

    program: Callable[..., Any]
    calls: int = 0


def _compile_primitive(primitive: Primitive) -> Callable[..., Any]:
    """Make a function that applies a primitive as a separate compiled program."""

    @memoize(maxsize=EAGER_PROGRAMS)
    def compile_with(**params: Any) -> _EagerProgram:
        import_module(LOWERINGS)

        def apply(*operands: Any) -> Any:
            return primitive.bind(*operands, **params)

        apply.__name__ = apply.__qualname__ = primitive.name
        # jax.debug_nans runs a jitted function step by step after a NaN. This attribute tells jit that the function is
        # one primitive, which has no steps.
        apply._apply_primitive = True  # type: ignore[attr-defined]
        return _EagerProgram(jax.jit(apply))

    def run(*operands: Any, **params: Any) -> Any:
        needed = compile_with(**params)
        if needed.calls < RUNS and primitive in _once:
            needed.calls += 1
            primitive.abstract_eval(*map(jax.typeof, operands), **params)  # it checks the operands
            result = _once[primitive](*operands, **params)
            if result is not None:
                return result
        program = needed.program
        if not jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return program(*operands)
        with jax.disable_jit(False):  # without jit the program would apply the primitive again, without end
            return program(*operands)

    return run


def apply_compiled(primitive: Primitive) -> Callable[[], None]:
    """Make a JAX primitive run as a compiled program outside of jit. Returns a function that restores the primitive."""
    before = primitive.impl
    primitive.def_impl(_compile_primitive(primitive))
    return lambda: setattr(primitive, "impl", before)


def with_checkpoint_name(x: jax.Array, name: str) -> jax.Array:
    """Attach a checkpoint name, as `jax.ad_checkpoint.checkpoint_name` does, and allow transposition.

    JAX has no transpose rule for names. Linear functions, such as the derivative of a primitive, need this rule.
    The rule that is added here gives the cotangent no name.
    """
    _transpose_names()
    return checkpoint_name(x, name)


@cache
def _name_primitive() -> Primitive:
    (equation,) = jax.make_jaxpr(lambda x: checkpoint_name(x, "x"))(0.0).eqns
    return equation.primitive


@cache
def _transpose_names() -> None:
    ad.primitive_transposes.setdefault(_name_primitive(), lambda cotangent, x, **_: [cotangent])


def register_jvp(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Register `rule(primals, tangents, **params) -> (result, tangent)`. Tangents may be `Zero`."""
    ad.primitive_jvps[primitive] = rule


def register_transpose(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Register `rule(cotangent, *operands, **params) -> cotangents`, with None for known operands."""

    def place_cotangents(cotangent: Any, *operands: Any, **params: Any) -> list[Any]:
        cotangents = rule(cotangent, *operands, **params)
        return [_reshard_like(x, operand) for x, operand in zip(cotangents, operands, strict=True)]

    ad.primitive_transposes[primitive] = place_cotangents


def _reshard_like(cotangent: Any, operand: Any) -> Any:
    """Give a cotangent the sharding of its operand. On a mesh with explicit axes, the sharding is part of the type."""
    if cotangent is None or type(cotangent) is Zero or not is_undefined(operand):
        return cotangent
    sharding, wanted = jax.typeof(cotangent).sharding, operand.aval.sharding
    same = sharding == wanted or sharding.mesh.empty or wanted.mesh.empty
    return cotangent if same else jax.sharding.reshard(cotangent, wanted)


def register_split(primitive: Primitive, is_split: Callable[..., bool], function: Callable[..., Any]) -> None:
    """Let partial evaluation trace `function` instead of the primitive when `is_split(known, **params)` is true.

    `known` has a bool for each operand. JAX then computes the equations of `function` whose inputs are known, and
    leaves the other equations in the residual program.
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
    """Add tangents of `primal`. The sum of no tangents is a symbolic zero."""
    if not tangents:
        return ad.Zero(jax.typeof(primal).to_tangent_aval())
    total = tangents[0]
    for tangent in tangents[1:]:
        total = ad.add_jaxvals(total, tangent)
    return total


def register_search_for_nan(primitive: Primitive) -> None:
    """Let `checkify.float_checks` report NaN in the results of a primitive."""
    checkify = import_module("jax._src.checkify")

    def rule(error: Any, enabled: Any, *operands: Any, **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*operands, **params)
        results = out if primitive.multiple_results else [out]
        searched = [x for x in results if jnp.issubdtype(x.dtype, jnp.inexact)]
        if searched:
            error = checkify.check_nans(primitive, error, enabled, searched if primitive.multiple_results else out)
        return error, out

    checkify.error_checks[primitive] = rule


def register_checked_as(primitive: Primitive, compute: Callable[..., Any]) -> None:
    """Let checkify take `compute(*operands, **params)`, which consists of other primitives, in place of a primitive."""
    checkify = import_module("jax._src.checkify")

    def rule(error: Any, enabled: Any, *operands: Any, **params: Any) -> tuple[Any, Any]:
        closed = jax.make_jaxpr(partial(compute, **params))(*operands)
        error, results = checkify.checkify_jaxpr(closed, enabled, error, *operands)
        return error, results if primitive.multiple_results else results[0]

    checkify.error_checks[primitive] = rule


def register_taylor(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Register `rule(primals, series, **params) -> (result, series)` for `jax.experimental.jet`.

    A series has the Taylor coefficients from the first order on.
    """
    jet = import_module("jax.experimental.jet")
    jet.jet_rules[primitive] = rule
    if _name_primitive() not in jet.jet_rules:  # our results have checkpoint names
        jet.deflinear(_name_primitive())


def register_taylor_as(primitive: Primitive, compute: Callable[..., Any]) -> None:
    """Let jet differentiate `compute(*operands, **params)` in place of a primitive."""
    jet = import_module("jax.experimental.jet")

    def rule(primals: Any, series: Any, **params: Any) -> Any:
        composed = object()
        jet.def_comp(composed, partial(compute, **params))
        return jet.jet_rules.pop(composed)(primals, series)

    jet.jet_rules[primitive] = rule
