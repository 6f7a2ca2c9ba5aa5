"""Equations of a jaxpr, in the form in which rules receive them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.errors import JsparseError, NotYetSupportedError
from jsparse.sparsification.origin import UNKNOWN, Origin

V = TypeVar("V")
CALLS = ("jit", "pjit", "closed_call", "core_call", "core_closed_call")
CHECKPOINTS = ("checkpoint", "remat", "remat2")
"""The names of the primitives of `jax.checkpoint`, in all releases of JAX."""


@dataclass(frozen=True)
class Equation:
    """One equation, and the interpreter for the jaxprs among its parameters.

    Attributes:
        source: JAX's equation.
        jaxpr: the jaxpr to which the equation belongs.
        evaluate: the interpreter.
        nse: the capacity of products whose pattern is only known at run time; None if it is not given.
        called_from: the origin of the equation that calls `jaxpr`, or of the call of the sparsified function.
    """

    source: Any
    jaxpr: Any
    evaluate: Callable[[Any, Sequence[Any], int | None, Origin], list[Any]]
    nse: int | None = None
    called_from: Origin = UNKNOWN

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.source.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the primitive."""
        return self.source.params

    @property
    def in_avals(self) -> list[jax.core.ShapedArray]:
        """Shape and dtype of each operand."""
        return [v.aval for v in self.source.invars]

    @property
    def out_avals(self) -> list[jax.core.ShapedArray]:
        """Shape and dtype of each result."""
        return [v.aval for v in self.source.outvars]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return tuple(self.out_avals[0].shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the first result."""
        return self.out_avals[0].dtype

    def fill_value(self, dtype: np.dtype) -> jax.Array:
        """Return what this gather reads where an index is out of range, for an array of this dtype."""
        outside = jnp.asarray([1])
        return jnp.zeros(1, dtype).at[outside].get(mode="fill", fill_value=self.params["fill_value"])[0]

    def interpret(self, closed: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
        """Evaluate a closed jaxpr among the parameters, by the rules for sparse values."""
        return self.evaluate(closed, inputs, self.nse, self.origin.calling(self.params.get("name", "")))

    @property
    def callee(self) -> ClosedJaxpr:
        """The closed jaxpr that the equation calls."""
        names = ("jaxpr", "call_jaxpr", "fun_jaxpr")
        return _compat.close_jaxpr(next(self.params[name] for name in names if name in self.params))

    def bind(self, *operands: jax.Array) -> jax.Array:
        """Apply the primitive, which has no functions as parameters, to arrays of any shape that it accepts."""
        return self.source.primitive.bind(*operands, **self.params)

    def results(self, operands: Sequence[Any]) -> list[jax.Array]:
        """Compute the results for arrays of the shapes of `in_avals`."""
        return _compat.equation_results(self.jaxpr, self.source, operands)

    @property
    def origin(self) -> Origin:
        """The line of the user's code, and the library function that this line calls."""
        return Origin.of(self.source, self.called_from)

    def __str__(self) -> str:
        origin = self.origin
        return f"'{self.name}'{replace(origin, function='') if origin.function == self.name else origin}"

    def not_supported(self, why: str, instead: str) -> NotYetSupportedError:
        """The error for an equation that is not supported for sparse tensors."""
        return NotYetSupportedError(f"{self} {why}. {instead}")

    def add_origin(self, error: JsparseError) -> JsparseError:
        """Add the line of the user's code to the error of an operation."""
        return type(error)(f"{error} This is {self}.")


def evaluate_jaxpr(
    closed: ClosedJaxpr, inputs: Sequence[V], step: Callable[[JaxprEqn, Jaxpr, Sequence[V]], list[V]]
) -> list[V]:
    """Evaluate a closed jaxpr on values of any kind, equation by equation.

    Args:
        step: a function of an equation, its jaxpr and its operands that returns the results of the equation.
    """
    jaxpr, known = closed.jaxpr, dict[Any, Any]()

    def read(v: Var | Literal) -> Any:
        return _compat.literal(v) if isinstance(v, _compat.Literal) else known[v]

    known.update(zip(jaxpr.constvars, closed.consts, strict=True))
    known.update(zip(jaxpr.invars, inputs, strict=True))
    uses = {v: n for n, source in enumerate(jaxpr.eqns) for v in source.invars if not isinstance(v, _compat.Literal)}
    last = dict[int, list[Var]]()  # the variables whose last use is in an equation, by its number
    for v in uses.keys() - {v for v in jaxpr.outvars if not isinstance(v, _compat.Literal)}:
        last.setdefault(uses[v], []).append(v)
    for n, source in enumerate(jaxpr.eqns):
        known.update(zip(source.outvars, step(source, jaxpr, [read(v) for v in source.invars]), strict=True))
        for v in last.get(n, ()):  # its memory may be used again
            del known[v]
    return [read(v) for v in jaxpr.outvars]
