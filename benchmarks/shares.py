"""The share of a program's time that its parts take: each part runs by itself, on the values that it has in the
program."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Literal

__all__ = ["Shares", "shares"]

RUNS = 7


@dataclass(frozen=True, slots=True)
class Shares:
    """Milliseconds of a whole program, of the kernels of this package in it, and of its dense products."""

    whole: float
    sparse: float
    dense: float

    def __str__(self) -> str:
        parts = [self.sparse, self.dense, max(self.whole - self.sparse - self.dense, 0.0)]
        return " / ".join(f"{100 * part / max(sum(parts), 1e-9):.0f}" for part in parts)


def shares(function: Callable[..., Any], operands: Sequence[Any]) -> Shares:
    """The shares of a function that `jax.jit` compiles. What XLA fuses with dense products is not in their time."""
    spent = {"sparse": 0.0, "dense": 0.0}
    closed = jax.make_jaxpr(function)(*operands)
    _run(closed.jaxpr, closed.consts, jax.tree.leaves(operands), spent)
    return Shares(_seconds(jax.jit(function), operands) * 1e3, spent["sparse"] * 1e3, spent["dense"] * 1e3)


def _run(jaxpr: Any, consts: Sequence[Any], operands: Sequence[Any], spent: dict[str, float]) -> list[Any]:
    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *operands), strict=True))
    for equation in jaxpr.eqns:
        given = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
        name, inner = equation.primitive.name, _called(equation)
        if inner is not None:
            found = _run(inner.jaxpr, inner.consts, given, spent)
        else:
            bind = jax.jit(lambda *x, equation=equation: equation.primitive.bind(*x, **equation.params))
            found = bind(*given)
            kind = "sparse" if name.startswith("jsparse_") else "dense" if name == "dot_general" else ""
            if kind:
                spent[kind] += _seconds(bind, given)
            found = list(found) if equation.primitive.multiple_results else [found]
        values.update(zip(equation.outvars, found, strict=True))
    return [v.val if isinstance(v, Literal) else values[v] for v in jaxpr.outvars]


def _called(equation: Any) -> Any:
    """The jaxpr of a call; None for other equations."""
    names = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
    return equation.params[names[equation.primitive.name]] if equation.primitive.name in names else None


def _seconds(function: Callable[..., Any], operands: Sequence[Any]) -> float:
    jax.block_until_ready(function(*operands))
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        jax.block_until_ready(function(*operands))
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
