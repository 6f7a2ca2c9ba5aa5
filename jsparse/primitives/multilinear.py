"""Derivatives of what a spec computes where it is linear in factors: the same primitive with one of them changed."""

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
    """dR = Σₙ X₁ · … · dXₙ · … over the factors from number `first` on; symbolic zero if all tangents are."""
    parts = [
        primitive.bind(*_compat.same_varying((*primals[:n], change, *primals[n + 1 :])), spec=spec)
        for n, change in enumerate(spec.split(tangents)[0])
        if n >= first and type(change) is not _compat.Zero
    ]
    return _compat.add_tangents(parts, out)


def transposed(primitive: _compat.Primitive, cotangent: Any, *operands: Any, spec: Spec) -> Any:
    """X̄ₙ of the one factor that is unknown, in its dtype: its term and that of the result change places.

    Raises LinearityError if the product is not linear in what is unknown.
    """
    factors, index = operands[: len(spec.factors)], operands[len(spec.factors) :]
    place = _unknown(factors, index, spec)
    out: list[Any] = [None] * len(operands)
    if type(cotangent) is _compat.Zero:
        out[place] = _compat.Zero(factors[place].aval)
        return out
    known = [factor for n, factor in enumerate(factors) if n != place]
    own = factors[place].aval.dtype
    if own == jax.dtypes.float0:  # integers, of which JAX keeps no more
        own = cotangent.dtype
    exchanged = spec.exchanged(place).with_dtype(own, [x.dtype for x in (*known, cotangent)])
    out[place] = primitive.bind(*_compat.same_varying((*known, cotangent, *index)), spec=exchanged)
    return out


def _unknown(factors: Sequence[Any], index: Sequence[Any], spec: Spec) -> int:
    """The factor in which a product is transposed."""
    if any(map(_compat.is_undefined, index)):
        raise pattern_is_unknown()
    if not spec.semiring.is_linear:
        raise LinearityError(
            f"Expected a linear function to transpose, but it computes an einsum by {spec.semiring}. Transpose its "
            f"derivative, by jax.vjp."
        )
    places = [n for n, factor in enumerate(factors) if _compat.is_undefined(factor)]
    compared = 0 if spec.mask is None else spec.mask.operands
    if len(places) > 1 or places[0] < compared:
        raise LinearityError(
            f"Expected a linear function to transpose, but it multiplies {len(places)} factors that depend on its "
            f"arguments. Transpose its derivative, by jax.vjp."
        )
    return places[0]


def pattern_is_unknown() -> LinearityError:
    """The error where index arrays depend on what a function is transposed in."""
    return LinearityError(
        "Expected a linear function to transpose, but where a sparse tensor stores its entries depends on the "
        "function's arguments. Make the tensor before, or take the derivative, by jax.vjp."
    )
