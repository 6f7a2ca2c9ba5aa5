"""An equation of a jaxpr, as rules see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from jsparse import _compat
from jsparse.errors import JsparseError, NotYetSupportedError
from jsparse.sparsification.origin import UNKNOWN, Origin

__all__ = ["Equation"]


@dataclass(frozen=True)
class Equation:
    """One equation, and the interpreter for the jaxprs in it.

    Attributes:
        source: JAX's equation.
        jaxpr: the jaxpr that it belongs to.
        evaluate: the interpreter.
        nse: the capacity of a product whose pattern is only known at run time, if it is given.
        called_from: the origin of the equation whose jaxpr this one is in, or of the call of the sparsified function.
    """

    source: Any
    jaxpr: Any
    evaluate: Callable[[Any, Sequence[Any], int | None, Origin], list[Any]]
    nse: int | None = None
    called_from: Origin = UNKNOWN

    @property
    def name(self) -> str:
        """The name of the primitive."""
        name: str = self.source.primitive.name
        return name

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the primitive."""
        params: dict[str, Any] = self.source.params
        return params

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

    def interpret(self, closed: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
        """The results of a closed jaxpr among the parameters, by the rules of sparse values."""
        return self.evaluate(closed, inputs, self.nse, self.origin.calling(self.params.get("name", "")))

    def bind(self, *operands: jax.Array) -> jax.Array:
        """Apply the primitive, one without functions as parameters, to arrays of any shape that it accepts."""
        return self.source.primitive.bind(*operands, **self.params)

    def results(self, operands: Sequence[Any]) -> list[jax.Array]:
        """The results for arrays of the shapes of `in_avals`."""
        return _compat.equation_results(self.jaxpr, self.source, operands)

    @property
    def origin(self) -> Origin:
        """The user's line, and the library's function that it calls."""
        return Origin.of(self.source, self.called_from)

    def __str__(self) -> str:
        origin = self.origin
        return f"'{self.name}'{replace(origin, function='') if origin.function == self.name else origin}"

    def unsupported(self, why: str, instead: str) -> NotYetSupportedError:
        """The error for an equation without a meaning for sparse tensors."""
        return NotYetSupportedError(f"{self} {why}. {instead}")

    def located(self, error: JsparseError) -> JsparseError:
        """The error of an operation, with the user's line."""
        return type(error)(f"{error} This is {self}.")
