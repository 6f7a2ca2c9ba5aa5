"""Operations on the values of one pattern in a program: elementwise functions, softmax and logsumexp.

They are no kernels of their own. XLA computes a map, together with what stands before and behind it if that saves
passes; a softmax is a few einsums on its pattern. So what they move is at least what they are given and give.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from jsparse.formats import Pattern
from jsparse.ops.explanation.kernel import ExplainedKernel
from jsparse.ops.explanation.traffic import Traffic
from jsparse.primitives.elementwise_function import ElementwiseFunction
from jsparse.primitives.softmax import kept_variables, logsumexp_p
from jsparse.primitives.spec import Spec

__all__ = ["bytes_of", "explained_map", "explained_softmax"]


def explained_map(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    """A function of the values on one pattern. A program for one number of slots serves all patterns that have it."""
    function: ElementwiseFunction = equation.params["function"]
    padding = equation.params["padding"]
    arguments = equation.invars if padding is None else equation.invars[:-1]
    out: Any = equation.outvars[0].aval
    slots = f"{int(prod(out.shape)):,} slots of a {'static' if padding is None else 'dynamic'} pattern"
    moves = Traffic(
        operands=(("values", sum(bytes_of(var.aval) for var in arguments)),),
        results=bytes_of(out),
        by_capacity=padding is not None,
        computes=False,
    )
    title = f"map of '{function.name}' over the {slots}"
    yield ExplainedKernel(title, None, moves=moves, function=str(function.jaxpr))


def explained_softmax(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    """The softmax of the stored entries of each row, say, or the logarithm of their sum of exponentials."""
    spec: Spec = equation.params["spec"]
    is_softmax = equation.primitive is not logsumexp_p
    over, pattern = equation.params["over"], spec.walks[0].pattern
    values, *index = (bytes_of(var.aval) for var in equation.invars)
    is_static = isinstance(pattern, Pattern)
    moves = Traffic(
        operands=(("values", values),),
        index=pattern.nbytes() if isinstance(pattern, Pattern) else sum(index),
        results=sum(bytes_of(var.aval) for var in equation.outvars),
        by_capacity=not is_static,
        computes=False,
    )
    access, kept = spec.access("A", spec.factors[0]), kept_variables(spec, over)
    result = str(spec.access("S", spec.factors[0])) if is_softmax else f"L[{', '.join(kept)}]"
    formats = ((str(access), pattern.format.name), (result, pattern.format.name if is_softmax else "dense"))
    name, formula = ("softmax", "exp(x) / Σ exp(x)") if is_softmax else ("logsumexp", "log Σ exp(x)")
    title = f"{name} over {', '.join(over)} of the stored entries of {access}"
    yield ExplainedKernel(title, None, (repr(pattern),), formats, moves=moves, function=formula)


def bytes_of(aval: Any) -> int:
    """The bytes of an array."""
    return int(prod(aval.shape)) * np.dtype(aval.dtype).itemsize
