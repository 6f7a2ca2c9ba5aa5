"""Rules of calls: jitted functions, checkpoints, and functions with derivatives of their own."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from jsparse import _compat
from jsparse.sparsification.custom_derivatives import with_pull, with_push
from jsparse.sparsification.deferred import Deferred
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value
from jsparse.sparsification.trees import Opened, settled

__all__: list[str] = []

CALLS = ("jit", "pjit", "closed_call", "core_call", "core_closed_call")


def _called(equation: Equation) -> ClosedJaxpr:
    """The closed jaxpr that an equation calls."""
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr")
    return _compat.closed(next(equation.params[name] for name in names if name in equation.params))


@sparse_rule(*CALLS)
def inlined(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function in place."""
    return equation.interpret(_called(equation), inputs)


@deferred_rule(*CALLS)
def inlined_if_deferred(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret a function of deferred arrays in place."""
    return inlined(equation, *inputs) if any(isinstance(x, Deferred) for x in inputs) else NotImplemented


@sparse_rule("checkpoint", "remat", "remat2")
def checkpointed(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function inside `jax.checkpoint`, with the same policy."""
    opened = Opened.of(inputs)

    def function(*leaves: jax.Array) -> list[Value]:
        return settled(equation.interpret(_called(equation), opened.closed(leaves)))

    options = {name: equation.params[name] for name in ("prevent_cse", "policy")}
    return jax.checkpoint(function, **options)(*opened.leaves)


@sparse_rule("custom_linear_solve")
def solved(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the functions of a linear solver: its derivatives are solutions of linear systems."""
    jaxprs, rest, consts = equation.params["jaxprs"], list(inputs), {}
    for name, length in equation.params["const_lengths"]._asdict().items():
        consts[name], rest = rest[:length], rest[length:]

    def function(name: str) -> Any:
        closed = getattr(jaxprs, name)
        return lambda x: equation.interpret(closed, [*consts[name], *x])

    def solver(name: str) -> Any:
        return (lambda _, b: function(name)(b)) if getattr(jaxprs, name) is not None else None

    right = settled(rest)
    has_aux = len(equation.out_avals) > len(right)
    if has_aux or any(isinstance(x, SparseValue) for x in right):
        raise equation.unsupported(
            "has further results, or a SparseTensor on the right side", "Pass A.todense() there."
        )
    found: Any = jax.lax.custom_linear_solve(function("matvec"), right, solver("solve"), solver("transpose_solve"))
    return found


@sparse_rule("custom_jvp_call")
def with_own_push(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function, and in its forward derivative the function's own."""
    return with_push(equation, _called(equation), inputs)


@sparse_rule("custom_vjp_call", "custom_vjp_call_jaxpr")
def with_own_pull(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function, and in its reverse derivative the function's own."""
    return with_pull(equation, _called(equation), inputs)
