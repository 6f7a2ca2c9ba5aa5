"""Functions of sparse values with custom derivatives (`jax.custom_jvp`, `jax.custom_vjp`).

The derivative is traced for dense arrays, like the function, and interpreted during differentiation. It is taken with
respect to the stored entries, and to a background that is an array. A background that is a number is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, whole
from jsparse.sparsification.trees import Opened, compute_deferred, conforming, parts, tangent_tree, with_parts


@sparse_rule("custom_jvp_call")
def with_push(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function and, when it is differentiated, its custom forward derivative."""
    opened, active, function = _open_inputs(equation, inputs)

    @jax.custom_jvp
    def call(*leaves: jax.Array) -> list[Value]:
        return function(leaves)

    def push(primals: Sequence[jax.Array], changes: Sequence[jax.Array]) -> Any:
        values, moves = opened.rebuild(primals), opened.rebuild(changes)
        tangents = [with_parts(values[n], parts(moves[n])) for n in active]
        results = iter(equation.interpret(_push(equation, active), [*values, *tangents]))
        out = call(*primals)
        return out, [tangent_tree(x, conforming(next(results), x) if _has_derivative(x) else None) for x in out]

    call.defjvp(push)
    return call(*opened.leaves)


@sparse_rule("custom_vjp_call", "custom_vjp_call_jaxpr")
def with_pull(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function and, when it is differentiated, its custom reverse derivative."""
    opened, active, function = _open_inputs(equation, inputs)

    @jax.custom_vjp
    def call(*leaves: Any) -> list[Any]:
        return function(leaves)

    def forward(*leaves: jax.Array) -> Any:
        out = function(leaves)
        for x in (*opened.rebuild(leaves), *out):
            if isinstance(x, SparseValue) and x.background.array is not None:  # whose elements' cotangents are summed
                raise equation.not_supported(
                    "has a custom reverse derivative, but is applied to a tensor whose unstored elements vary",
                    "Pass it jnp.where(A != 0, f(A), 0), or use custom_jvp.",
                )
        return out, (leaves, out)

    def pull(kept: Any, changes: Sequence[jax.Array]) -> Any:
        leaves, out = kept
        values = opened.rebuild(leaves)
        pairs = [(x, change) for x, change in zip(out, changes, strict=True) if _has_derivative(x)]
        cotangents = [with_parts(x, parts(change)) for x, change in pairs]
        pulled = equation.interpret(_pull(equation, active), [*values, *cotangents])
        old = [part for n in active for part in parts(values[n])]
        new = [part for n, x in zip(active, pulled, strict=True) for part in conforming(x, values[n])]
        return tuple(next((y for x, y in zip(old, new, strict=True) if x is leaf), None) for leaf in leaves)

    call.defvjp(forward, pull)
    return call(*opened.leaves)


def _open_inputs(
    equation: Equation, inputs: Sequence[Any]
) -> tuple[Opened, list[int], Callable[[Sequence[Any]], list[Any]]]:
    """Return the inputs as an `Opened`, the indices of inputs that have derivatives, and the function of the leaves."""
    values = [_simple(x) for x in inputs]
    opened = Opened.of(values)
    active = [n for n, x in enumerate(values) if n not in opened.known and _has_derivative(x)]

    def function(leaves: Sequence[jax.Array]) -> list[Value]:
        results = compute_deferred(equation.interpret(equation.callee, opened.rebuild(leaves)))
        return [_simple(x) for x in results]

    return opened, active, function


def _simple(x: Any) -> Any:
    """Convert a value to a form for derivatives: without repeated dimensions, and without `Background.products`."""
    return replace(whole(x), background=x.background.without_products()) if isinstance(x, SparseValue) else x


def _has_derivative(x: Value) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def _push(equation: Equation, active: Sequence[int]) -> Any:
    """Trace the jaxpr (operands, tangents of the operands `active`) ↦ tangents of the inexact results."""

    def push(operands: Sequence[jax.Array], changes: Sequence[jax.Array]) -> list[jax.Array]:
        primals = [operands[n] for n in active]
        out, tangents = jax.jvp(_of_active(equation, operands, active), primals, list(changes))
        return [change for x, change in zip(out, tangents, strict=True) if _has_derivative(x)]

    avals = _structs(equation.in_avals)
    return jax.make_jaxpr(push)(avals, [avals[n] for n in active])


def _pull(equation: Equation, active: Sequence[int]) -> Any:
    """Trace the jaxpr (operands, cotangents of the inexact results) ↦ cotangents of the operands `active`."""

    def pull(operands: Sequence[jax.Array], changes: Sequence[jax.Array]) -> Any:
        out, pulled = jax.vjp(_of_active(equation, operands, active), *(operands[n] for n in active))
        inexact = iter(changes)
        return pulled([next(inexact) if _has_derivative(x) else np.zeros(x.shape, jax.dtypes.float0) for x in out])

    avals = _structs(equation.in_avals)
    return jax.make_jaxpr(pull)(avals, [x for x in _structs(equation.out_avals) if _has_derivative(x)])


def _of_active(equation: Equation, operands: Sequence[jax.Array], active: Sequence[int]) -> Callable[..., list[Any]]:
    def function(*chosen: jax.Array) -> list[jax.Array]:
        values = list(operands)
        for n, x in zip(active, chosen, strict=True):
            values[n] = x
        return equation.results(values)

    return function


def _structs(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
