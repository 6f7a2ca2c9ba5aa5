"""Jaxprs in which calls, and operations that consist of other operations, are replaced by their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jsparse import _compat
from jsparse.base.memo import memoize_weakly

CALLS = ("jit", "pjit", "closed_call", "core_call", "jsparse_fused")
WITH_DERIVATIVES = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint", "remat", "remat2")
EVERY = (*CALLS, *WITH_DERIVATIVES)
COMPOSED: dict[str, Callable[..., Any]] = {}
"""Name of a primitive that consists of other operations → the function that computes it by them.

`primitives/softmax.py` enters its own primitives.
"""


@memoize_weakly
def inline_calls(closed: Any) -> Any:
    """The closed jaxpr with the equations of jitted functions in place of their calls.

    Calls of functions with custom derivatives stay.
    """
    return _retrace(closed, {}, CALLS)


@memoize_weakly
def without_calls(closed: Any) -> Any:
    """The jaxpr without any calls. Custom derivative rules are lost."""
    return _retrace(closed, {}, EVERY)


@memoize_weakly
def expand_all_calls(closed: Any) -> Any:
    """The jaxpr without any calls. Softmax and logsumexp become products and elementwise functions of entries.

    Custom derivative rules are lost, so its derivatives may differ from the derivatives of the original.
    """
    return without_calls(_retrace(closed, COMPOSED, EVERY))


def parts_of(jaxpr: Any, equation: Any) -> Any:
    """Return the expanded jaxpr of an equation that is a call, a softmax or a logsumexp; None for other equations.

    The arguments of that jaxpr are the variables that the equation reads, without repeats.
    """
    if equation.primitive.name not in (*EVERY, *COMPOSED):
        return None
    given = dict.fromkeys(v for v in equation.invars if not isinstance(v, _compat.Literal))
    return expand_all_calls(_compat.sub_jaxpr(jaxpr, [equation], list(given), equation.outvars))


@_compat.on_own_mesh
def _retrace(closed: Any, composed: dict[str, Callable[..., Any]], calls: Sequence[str]) -> Any:
    def function(*args: Any) -> Any:
        return _run(closed.jaxpr, closed.consts, args, composed, calls)

    return _compat.without_constants(jax.make_jaxpr(function)(*closed.in_avals))


def _run(
    jaxpr: Any,
    consts: Sequence[Any],
    args: Sequence[Any],
    composed: dict[str, Callable[..., Any]],
    calls: Sequence[str],
) -> list[Any]:
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def value(v: Any) -> Any:
        return _compat.literal(v) if isinstance(v, _compat.Literal) else env[v]

    for equation in jaxpr.eqns:
        operands, name = [value(v) for v in equation.invars], equation.primitive.name
        if name in calls:
            inner = _compat.close_jaxpr(next(iter(_compat.jaxprs_in(equation.params))))
            found = _run(inner.jaxpr, inner.consts, operands, composed, calls)
        elif name in composed:
            found = [composed[name](*operands, **equation.params)]
        else:
            found = _compat.equation_results(jaxpr, equation, operands)
        env.update(zip(equation.outvars, found, strict=True))
    return [value(v) for v in jaxpr.outvars]
