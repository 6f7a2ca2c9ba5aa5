"""JVP and transpose of a spec that is linear in each factor: the same primitive with one factor replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jsparse import _compat
from jsparse.errors import LinearityError
from jsparse.primitives.spec import Spec

__all__ = ["pattern_is_unknown", "tangent", "transposed"]


def tangent(
    primitive: _compat.Primitive, primals: Sequence[Any], tangents: Sequence[Any], out: Any, spec: Spec, first: int = 0
) -> Any:
    """The tangent dR = Σₙ X₁ · … · dXₙ · … over the factors from number `first` on; a symbolic zero if all dXₙ are."""
    parts = [
        primitive.bind(*_compat.same_varying((*primals[:n], change, *primals[n + 1 :])), spec=spec)
        for n, change in enumerate(spec.split(tangents)[0])
        if n >= first and type(change) is not _compat.Zero
    ]
    return _compat.add_tangents(parts, out)


def transposed(primitive: _compat.Primitive, cotangent: Any, *operands: Any, spec: Spec) -> Any:
    """The cotangent X̄ₙ of the one unknown factor, in its dtype: the terms of that factor and of the result exchanged.

    Raises LinearityError if more than one factor is unknown, or the product is not linear in it.
    """
    factors, index = operands[: len(spec.factors)], operands[len(spec.factors) :]
    unknown = _unknown(factors, index, spec)
    out: list[Any] = [None] * len(operands)
    if type(cotangent) is _compat.Zero:
        out[unknown] = _compat.Zero(factors[unknown].aval)
        return out
    known = [factor for n, factor in enumerate(factors) if n != unknown]
    own = factors[unknown].aval.dtype
    if own == jax.dtypes.float0:  # the factor is an integer array, and JAX keeps no dtype for its cotangent
        own = cotangent.dtype
    exchanged = spec.exchanged(unknown).with_dtype(own, [x.dtype for x in (*known, cotangent)])
    out[unknown] = primitive.bind(*_compat.same_varying((*known, cotangent, *index)), spec=exchanged)
    return out


def _unknown(factors: Sequence[Any], index: Sequence[Any], spec: Spec) -> int:
    """The number of the one factor in which a product is transposed."""
    if any(map(_compat.is_undefined, index)):
        raise pattern_is_unknown()
    if not spec.semiring.is_linear:
        raise LinearityError(
            f"Expected a linear function to transpose, but it computes an einsum by {spec.semiring}. Transpose its "
            f"derivative, by jax.vjp."
        )
    unknown = [n for n, factor in enumerate(factors) if _compat.is_undefined(factor)]
    compared = 0 if spec.mask is None else spec.mask.operands
    if len(unknown) > 1 or unknown[0] < compared:
        raise LinearityError(
            f"Expected a linear function to transpose, but it multiplies {len(unknown)} factors that depend on its "
            f"arguments. Transpose its derivative, by jax.vjp."
        )
    return unknown[0]


def pattern_is_unknown() -> LinearityError:
    """The error for a transposition in which index arrays depend on the function's arguments."""
    return LinearityError(
        "Expected a linear function to transpose, but where a sparse tensor stores its entries depends on the "
        "function's arguments. Make the tensor before, or take the derivative, by jax.vjp."
    )
