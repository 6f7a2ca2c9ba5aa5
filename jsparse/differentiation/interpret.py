"""An interpreter of jaxprs in which some values are tables, with rules for loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from jsparse import _compat
from jsparse.differentiation import lookups
from jsparse.differentiation.table import RowReader, Table, Value
from jsparse.errors import NotYetSupportedError
from jsparse.sparsification.equation import CALLS, CHECKPOINTS, Equation, evaluate_jaxpr
from jsparse.sparsification.origin import UNKNOWN, Origin


def interpret(
    closed: ClosedJaxpr, inputs: Sequence[Value], reader: RowReader, called_from: Origin = UNKNOWN
) -> list[Value]:
    """Evaluate a closed jaxpr on arrays and tables. Returns its results. `reader` answers the lookups in tables.

    `called_from` is the line of the user's code that calls the function of the jaxpr.

    Raises NotYetSupportedError, with the line of the user's function, for an operation that reads a table in another
    way than by looking up rows.
    """

    def evaluate(inner: ClosedJaxpr, values: Sequence[Value], _: int | None, line: Origin) -> list[Value]:
        return interpret(inner, values, reader, line)

    def step(source: JaxprEqn, jaxpr: Jaxpr, values: Sequence[Value]) -> list[Value]:
        equation = Equation(source, jaxpr, evaluate, None, called_from)
        if any(isinstance(x, Table) for x in values):
            results = _RULES.get(equation.name, lookups.whole)(equation, reader, *values)
            return results if isinstance(results, list) else [results]
        if reader.is_first and source.effects and not source.outvars:
            return []  # what it prints is printed by the evaluation
        return [*equation.results(values)]

    return evaluate_jaxpr(closed, inputs, step)


def arrays(values: Sequence[Value], what: str) -> list[jax.Array]:
    """Convert values, which may be literals, to arrays. Raises NotYetSupportedError if `what` returns a table."""
    for x in values:
        if isinstance(x, Table):
            raise NotYetSupportedError(
                f"Expected a function that only looks up rows of a table whose gradient should have rows, but {what} "
                "returns the table. Return the rows that are looked up, or leave the table out of rows=."
            )
    return [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in values]


def _inside(
    equation: Equation, closed: ClosedJaxpr, reader: RowReader, tables: list[int]
) -> Callable[[Sequence[Value]], tuple[list[jax.Array], list[jax.Array]]]:
    """Return a function that evaluates a jaxpr. It returns the results, and the row indices that each lookup reads.

    Each call of the function fills the list `tables` with the index of the table of each lookup.
    """

    def function(inputs: Sequence[Value]) -> tuple[list[jax.Array], list[jax.Array]]:
        inner = reader.inside()
        results = arrays(interpret(closed, inputs, inner, equation.origin.calling("")), str(equation))
        tables[:] = inner.tables
        return results, inner.ids

    return function


def inline_call(equation: Equation, _: RowReader, *inputs: Value) -> list[Value]:
    """Evaluate the equations of a called function, such as a jitted one, in place of the call."""
    return equation.interpret(equation.callee, inputs)


def interpret_checkpoint(equation: Equation, reader: RowReader, *inputs: Value) -> list[Value]:
    """Evaluate a checkpointed function inside a new `jax.checkpoint`, with the policy of the original one."""
    tables: list[int] = []
    function = _inside(equation, equation.callee, reader, tables)

    def of_rows(*rows: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
        pairs = zip(inputs, rows, strict=True)
        return function([replace(x, rows=array) if isinstance(x, Table) else array for x, array in pairs])

    options = {name: equation.params[name] for name in ("prevent_cse", "policy")}
    results, ids = jax.checkpoint(of_rows, **options)(*(x.rows if isinstance(x, Table) else x for x in inputs))
    reader.note(tables, ids)
    return list(results)


def interpret_scan(equation: Equation, reader: RowReader, *inputs: Value) -> list[Value]:
    """Run a loop in `jax.lax.scan`. Each step may look up rows of tables that are the same in all steps."""
    params = equation.params
    constants, carries = _compat.scan_counts(params)
    consts, begin, items = inputs[:constants], inputs[constants:][:carries], inputs[constants + carries :]
    if any(isinstance(x, Table) for x in (*begin, *items)):
        lookups.whole(equation)
    tables: list[int] = []
    function = _inside(equation, params["jaxpr"], reader, tables)

    def body(carry: list[jax.Array], items: list[Any]) -> tuple[list[jax.Array], Any]:
        results, ids = function([*consts, *carry, *items])
        return results[: len(carry)], (results[len(carry) :], ids)

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, (collected, ids) = jax.lax.scan(body, arrays(begin, str(equation)), list(items), **options)
    reader.note(tables, ids)
    return [*last, *collected]


def interpret_branches(equation: Equation, reader: RowReader, which: Value, *inputs: Value) -> list[Value]:
    """Run one branch in `jax.lax.switch`.

    Each lookup in a branch that does not run is recorded as index -1, which is not a row.
    """
    branches = equation.params["branches"]
    tables: list[list[int]] = [[] for _ in branches]
    functions = [_inside(equation, closed, reader, of) for closed, of in zip(branches, tables, strict=True)]
    read = [jax.eval_shape(partial(function, inputs))[1] for function in functions]

    def branch(number: int) -> tuple[list[jax.Array], list[list[jax.Array]]]:
        results, ids = functions[number](inputs)
        none = [[jnp.full(x.shape, -1, x.dtype) for x in of_branch] for of_branch in read]
        return results, [*none[:number], ids, *none[number + 1 :]]

    numbered = [partial(branch, number) for number in range(len(branches))]
    results, ids = jax.lax.switch(jnp.asarray(which), numbered)
    for of_branch, ids_of_branch in zip(tables, ids, strict=True):
        reader.note(of_branch, ids_of_branch)
    return list(results)


_RULES: dict[str, Callable[..., Any]] = {
    **lookups.RULES,
    **dict.fromkeys(CALLS, inline_call),
    **dict.fromkeys(CHECKPOINTS, interpret_checkpoint),
    "scan": interpret_scan,
    "cond": interpret_branches,
}
