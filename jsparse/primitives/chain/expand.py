"""Jaxprs in which calls, and operations that consist of other operations, are replaced by their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jsparse import _compat
from jsparse.base.memo import memoize_weakly

CALLS = (*_compat.CALLS, "jsparse_fused")
EVERY = (*CALLS, *_compat.CALLS_WITH_RULES)
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
    arguments = dict.fromkeys(v for v in equation.invars if not isinstance(v, _compat.Literal))
    return expand_all_calls(_compat.sub_jaxpr(jaxpr, [equation], list(arguments), equation.outvars))


@_compat.on_own_mesh
def _retrace(closed: Any, composed: dict[str, Callable[..., Any]], calls: Sequence[str]) -> Any:
    def run(jaxpr: Any, arguments: Sequence[Any]) -> list[Any]:
        def compute(equation: Any, operands: list[Any]) -> Sequence[Any]:
            name = equation.primitive.name
            if name in calls:
                inner = next(_compat.jaxprs_in(equation.params))
                return run(inner.jaxpr, (*inner.consts, *operands))
            if name in composed:
                return [composed[name](*operands, **equation.params)]
            return _compat.equation_results(jaxpr, equation, operands)

        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), arguments, strict=True))
        return run_steps(jaxpr.eqns, compute, values, jaxpr.outvars)

    trace = jax.make_jaxpr(lambda *args: run(closed.jaxpr, (*closed.consts, *args)))
    return trace(*closed.in_avals)  # its constants are those of the functions that were called, too


def run_steps(
    steps: Sequence[Any],
    compute: Callable[[Any, list[Any]], Sequence[Any]],
    values: dict[Any, Any],
    outvars: Sequence[Any],
) -> list[Any]:
    """Compute steps one after the other, and return the values of `outvars`.

    Args:
        steps: equations, or other objects that have `invars` and `outvars`.
        compute: a function of a step and of its operands that returns its results.
        values: the values of the variables that no step computes.
    """

    def value(v: Any) -> Any:
        return _compat.literal(v) if isinstance(v, _compat.Literal) else values[v]

    for step in steps:
        values.update(zip(step.outvars, compute(step, [value(v) for v in step.invars]), strict=True))
    return [value(v) for v in outvars]
