"""Rules for loops, branches and calls.

Loops and branches run in JAX's control flow, on pytrees of sparse values. The calls are calls of jitted functions,
checkpoints, functions of linear solvers, and functions with custom derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from jsparse import _compat
from jsparse.formats import Pattern
from jsparse.sparsification.deferred import Deferred, dense
from jsparse.sparsification.equation import CALLS, CHECKPOINTS, Equation
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, check_background, whole
from jsparse.sparsification.trees import Opened, compute_deferred
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@sparse_rule("scan")
def scan(equation: Equation, *inputs: Value) -> list[Value]:
    """Run the body in `jax.lax.scan`. Carries keep their pattern; the arrays that are scanned over are dense."""
    params = equation.params
    constants, carries = _compat.scan_counts(params)
    consts, xs = inputs[:constants], inputs[constants + carries :]
    begin = compute_deferred(inputs[constants:][:carries])
    for x in xs:
        if isinstance(x, SparseValue):
            raise equation.not_supported(
                "scans over the rows of a SparseTensor", "Loop over A[i] in Python, or pass A.todense()."
            )

    def body(carry: Sequence[Value], items: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        results = compute_deferred(equation.interpret(params["jaxpr"], [*consts, *carry, *items]))
        out, collected = results[: len(carry)], results[len(carry) :]
        return _same_carry(equation, carry, out), [_collectable(equation, x) for x in collected]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, collected = jax.lax.scan(body, _strong(begin), [dense(x) for x in xs], **options)
    return [*last, *(_stack_steps(x, params["length"]) for x in collected)]


def _collectable(equation: Equation, x: Value) -> Value:
    """Prepare a result that is collected in each step. Its pattern has to be the same in all steps."""
    if not isinstance(x, SparseValue):
        return x
    if x.tensor.is_dynamic:
        raise equation.not_supported(
            "collects SparseTensors whose patterns may differ between the steps",
            "Use static patterns, or return the tensors or their sums as carries.",
        )
    return whole(x)


def _stack_steps(x: Value, length: int) -> Value:
    """Stack the results of `length` steps along a new first dimension, which becomes the last level, a dense one."""
    if not isinstance(x, SparseValue):
        return x
    pattern, ndim = x.tensor.pattern, x.ndim
    assert isinstance(pattern, Pattern)
    stacked = pattern.extended((length,)).transposed((ndim, *range(ndim)))
    tensor = SparseTensor._wrap(x.tensor.values.T.reshape(-1), stacked)
    return SparseValue(tensor, (length, *x.shape), tuple(range(ndim + 1)), x.background)


@sparse_rule("while")
def loop(equation: Equation, *inputs: Value) -> list[Value]:
    """Run the loop in `jax.lax.while_loop`. Carries keep their pattern."""
    params = equation.params
    first, end = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_condition, of_body, begin = inputs[:first], inputs[first:end], compute_deferred(inputs[end:])

    def condition(carry: Sequence[Value]) -> jax.Array:
        (goes_on,) = equation.interpret(params["cond_jaxpr"], [*of_condition, *carry])
        return dense(goes_on)

    def body(carry: Sequence[Value]) -> list[Value]:
        results = compute_deferred(equation.interpret(params["body_jaxpr"], [*of_body, *carry]))
        return _same_carry(equation, carry, results)

    return jax.lax.while_loop(condition, body, _strong(begin))


@sparse_rule("cond")
def branches(equation: Equation, which: jax.Array, *inputs: Value) -> list[Value]:
    """Run one branch in `jax.lax.switch`. All branches have to return tensors on the same patterns."""
    opened = Opened.of(inputs)

    def branch(closed: ClosedJaxpr) -> Callable[..., list[Value]]:
        return lambda *leaves: compute_deferred(equation.interpret(closed, opened.rebuild(leaves)))

    functions = [branch(closed) for closed in equation.params["branches"]]
    results = [jax.eval_shape(function, *opened.leaves) for function in functions]
    for other in results[1:]:
        for n, (x, y) in enumerate(zip(results[0], other, strict=True)):
            _check_alike(equation, x, y, f"result {n} of all branches")
    return jax.lax.switch(dense(which), functions, *opened.leaves)


def _same_carry(equation: Equation, before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
    """Return the carries after a step. Raises NotYetSupportedError if a carry changes its structure."""
    for n, (x, y) in enumerate(zip(before, after, strict=True)):
        if isinstance(y, SparseValue):
            check_background(y, equation)
        _check_alike(equation, x, y, f"carry {n} before and after a step")
    return list(after)


def _check_alike(equation: Equation, x: Value, y: Value, what: str) -> None:
    """Raise NotYetSupportedError if two values differ in structure."""
    one: Any = jax.tree.structure(x)
    if one != jax.tree.structure(y):
        raise equation.not_supported(
            f"needs {what} to be stored in the same way, but got {_describe(x)} and {_describe(y)}",
            "Use the same pattern in both places (A * 0 + B has the entries of both), or pass A.todense().",
        )


def _describe(x: Value) -> str:
    if not isinstance(x, SparseValue):
        return "an array"
    tensor: SparseTensor = x.tensor
    kind = "dynamic " if tensor.is_dynamic else ""
    return f"a {kind}SparseTensor in {tensor.format.name} with nse={tensor.nse:,}"


def _strong(values: Sequence[Value]) -> list[Value]:
    return [x if isinstance(x, SparseValue) else jnp.asarray(x) for x in values]


@sparse_rule(*CALLS)
def inline_call(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the equations of the function that is called."""
    return equation.interpret(equation.callee, inputs)


@deferred_rule(*CALLS)
def inline_call_if_deferred(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the equations of the function that is called if an argument is a deferred array."""
    return inline_call(equation, *inputs) if any(isinstance(x, Deferred) for x in inputs) else NotImplemented


@sparse_rule(*CHECKPOINTS)
def interpret_checkpoint(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the function inside `jax.checkpoint`, with the same policy."""
    opened = Opened.of(inputs)

    def function(*leaves: jax.Array) -> list[Value]:
        return compute_deferred(equation.interpret(equation.callee, opened.rebuild(leaves)))

    options = {name: equation.params[name] for name in ("prevent_cse", "policy")}
    return jax.checkpoint(function, **options)(*opened.leaves)


@sparse_rule("custom_linear_solve")
def interpret_linear_solve(equation: Equation, *inputs: Value) -> list[Value]:
    """Interpret the functions of a linear solver. The derivatives of the solver are solutions of linear systems."""
    jaxprs, right, consts = equation.params["jaxprs"], list(inputs), {}
    for name, length in equation.params["const_lengths"]._asdict().items():
        consts[name], right = right[:length], right[length:]

    def function(name: str) -> Any:
        closed = getattr(jaxprs, name)
        return lambda x: equation.interpret(closed, [*consts[name], *x])

    def solver(name: str) -> Any:
        return (lambda _, b: function(name)(b)) if getattr(jaxprs, name) is not None else None

    right = compute_deferred(right)
    has_aux = len(equation.out_avals) > len(right)
    if has_aux or any(isinstance(x, SparseValue) for x in right):
        raise equation.not_supported(
            "has additional results, or a SparseTensor on the right side", "Pass A.todense() there."
        )
    return jax.lax.custom_linear_solve(function("matvec"), right, solver("solve"), solver("transpose_solve"))
