"""Rules of loops and branches: JAX's own, on pytrees of sparse values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from jsparse.errors import NotYetSupportedError
from jsparse.formats import Pattern
from jsparse.sparsification.deferred import dense
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, check_background, whole
from jsparse.sparsification.trees import Opened, settled
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@sparse_rule("scan")
def scan(equation: Equation, *inputs: Value) -> list[Value]:
    """Run the body in `jax.lax.scan`. Carries keep their pattern; what is scanned over is dense."""
    params = equation.params
    first, end = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, begin, xs = inputs[:first], settled(inputs[first:end]), inputs[end:]
    for x in xs:
        if isinstance(x, SparseValue):
            raise equation.unsupported(
                "scans over the rows of a SparseTensor", "Loop over A[i] in Python, or pass A.todense()."
            )

    def body(carry: Sequence[Value], items: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        found = settled(equation.interpret(params["jaxpr"], [*consts, *carry, *items]))
        out, collected = found[: len(carry)], found[len(carry) :]
        return _same_carry(equation, carry, out), [_collectable(equation, x) for x in collected]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, collected = jax.lax.scan(body, _strong(begin), [dense(x) for x in xs], **options)
    return [*last, *(_stacked(x, params["length"]) for x in collected)]


def _collectable(equation: Equation, x: Value) -> Value:
    """A result of each step, whose pattern has to be the same in all steps."""
    if not isinstance(x, SparseValue):
        return x
    if x.tensor.is_dynamic:
        raise equation.unsupported(
            "collects SparseTensors whose patterns may differ between the steps",
            "Use static patterns, or return them as carries, or sums of them.",
        )
    return whole(x)


def _stacked(x: Value, length: int) -> Value:
    """The value of results of `length` steps along a new first dimension, which is a dense level at the end."""
    if not isinstance(x, SparseValue):
        return x
    pattern, ndim = x.tensor.pattern, x.ndim
    assert isinstance(pattern, Pattern)
    stacked = pattern.extended((length,)).transposed((ndim, *range(ndim)))
    tensor = SparseTensor._unchecked(x.tensor.values.T.reshape(-1), stacked)
    return SparseValue(tensor, (length, *x.shape), tuple(range(ndim + 1)), x.background)


@sparse_rule("while")
def loop(equation: Equation, *inputs: Value) -> list[Value]:
    """Run the loop in `jax.lax.while_loop`. Carries keep their pattern."""
    params = equation.params
    first, end = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_condition, of_body, begin = inputs[:first], inputs[first:end], settled(inputs[end:])

    def condition(carry: Sequence[Value]) -> jax.Array:
        (found,) = equation.interpret(params["cond_jaxpr"], [*of_condition, *carry])
        return dense(found)

    def body(carry: Sequence[Value]) -> list[Value]:
        return _same_carry(equation, carry, settled(equation.interpret(params["body_jaxpr"], [*of_body, *carry])))

    found: list[Any] = jax.lax.while_loop(condition, body, _strong(begin))
    return found


@sparse_rule("cond")
def branches(equation: Equation, which: jax.Array, *inputs: Value) -> list[Value]:
    """Run one branch in `jax.lax.switch`. All of them give tensors on the same patterns."""
    opened = Opened.of(inputs)

    def branch(closed: ClosedJaxpr) -> Callable[..., list[Value]]:
        return lambda *leaves: settled(equation.interpret(closed, opened.closed(leaves)))

    functions = [branch(closed) for closed in equation.params["branches"]]
    results = [jax.eval_shape(function, *opened.leaves) for function in functions]
    for other in results[1:]:
        for n, (x, y) in enumerate(zip(results[0], other, strict=True)):
            if _structure(x) != _structure(y):
                raise _different(equation, f"result {n} of all branches", _shown(x), _shown(y))
    found: list[Any] = jax.lax.switch(dense(which), functions, *opened.leaves)
    return found


def _same_carry(equation: Equation, before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
    """The carries after a step. Raises NotYetSupportedError unless they keep their structure."""
    for n, (x, y) in enumerate(zip(before, after, strict=True)):
        if isinstance(y, SparseValue):
            check_background(y, equation)
        if _structure(x) != _structure(y):
            raise _different(equation, f"carry {n} before and after a step", _shown(x), _shown(y))
    return list(after)


def _structure(x: Value) -> Any:
    return jax.tree.structure(x)


def _different(equation: Equation, what: str, one: str, other: str) -> NotYetSupportedError:
    return equation.unsupported(
        f"needs {what} to be stored alike, but got {one} and {other}",
        "Give it the same pattern in both places (A * 0 + B has that of both), or pass A.todense().",
    )


def _shown(x: Value) -> str:
    if not isinstance(x, SparseValue):
        return "an array"
    tensor: SparseTensor = x.tensor
    kind = "dynamic " if tensor.is_dynamic else ""
    return f"a {kind}SparseTensor in {tensor.format.name} with nse={tensor.nse:,}"


def _strong(values: Sequence[Value]) -> list[Value]:
    return [x if isinstance(x, SparseValue) else jnp.asarray(x) for x in values]
