"""The interpreter of jaxprs whose values may be sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from jsparse import _compat
from jsparse.errors import JsparseError
from jsparse.sparsification.deferred import dense
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import DEFERRED, SPARSE, unsupported
from jsparse.sparsification.sparse_value import SparseValue, Value

__all__ = ["interpret"]

FOLDED = 1 << 16  # the most elements of an array that is computed while tracing


def interpret(
    closed: ClosedJaxpr, inputs: Sequence[Value], nse: int | None = None, called_from: str = ""
) -> list[Value]:
    """The results of a closed jaxpr for values that are arrays, deferred arrays or sparse values.

    `nse` is the capacity of products whose pattern is only known at run time, `called_from` the line that calls.
    """
    live = _compat.without_dead_equations(closed)
    jaxpr: Any = live.jaxpr
    known: dict[Any, Any] = {}

    def read(v: Var | Literal) -> Any:
        return _compat.literal(v) if isinstance(v, _compat.Literal) else known[v]

    known.update(zip(jaxpr.constvars, live.consts, strict=True))
    known.update(zip(jaxpr.invars, inputs, strict=True))
    last = _last_uses(jaxpr)
    for n, source in enumerate(jaxpr.eqns):
        equation = Equation(source, jaxpr, interpret, nse, called_from)
        known.update(zip(source.outvars, _results(equation, [read(v) for v in source.invars]), strict=True))
        for v in last.get(n, ()):  # its memory may be used again
            del known[v]
    return [read(v) for v in jaxpr.outvars]


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """The variables that each equation is the last one to use, by its number."""
    last = {v: n for n, source in enumerate(jaxpr.eqns) for v in source.invars if not isinstance(v, _compat.Literal)}
    for v in jaxpr.outvars:
        if not isinstance(v, _compat.Literal):
            last.pop(v, None)
    found: dict[int, list[Any]] = {}
    for v, n in last.items():
        found.setdefault(n, []).append(v)
    return found


def _results(equation: Equation, inputs: Sequence[Value]) -> list[Any]:
    is_sparse = any(isinstance(x, SparseValue) for x in inputs)
    rule = SPARSE.get(equation.name, unsupported) if is_sparse else DEFERRED.get(equation.name)
    try:
        found = NotImplemented if rule is None else rule(equation, *inputs)
    except JsparseError as error:
        if equation.line in str(error):
            raise
        raise equation.located(error) from error
    if found is NotImplemented:
        return _of_arrays(equation, [dense(x) for x in inputs])
    return found if isinstance(found, list) else [found]


def _of_arrays(equation: Equation, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Apply JAX's primitive. Small arrays of known integers (indices) are computed at once, so that they stay known."""
    known = not any(isinstance(x, jax.core.Tracer) for x in arrays) and not equation.source.effects
    if known and all(
        getattr(x.dtype, "kind", "") in tuple("iub") and prod(x.shape) <= FOLDED for x in equation.out_avals
    ):
        with jax.ensure_compile_time_eval():
            return equation.results(arrays)
    return equation.results(arrays)
