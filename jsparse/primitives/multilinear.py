"""Derivatives of what a spec computes where it is linear in factors: the same primitive with one of them changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsparse import _compat
from jsparse.primitives.spec import Spec

__all__ = ["tangent", "transposed"]


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
    """X̄ₙ of the one factor that is unknown, in its dtype: its term and that of the result change places."""
    factors, _ = spec.split(operands)
    (place,) = (n for n, factor in enumerate(factors) if _compat.is_undefined(factor))
    out: list[Any] = [None] * len(operands)
    if type(cotangent) is _compat.Zero:
        out[place] = _compat.Zero(factors[place].aval)
        return out
    known = [factor for n, factor in enumerate(factors) if n != place]
    taken = (*known, cotangent, *operands[len(factors) :])
    own = factors[place].aval.dtype
    exchanged = spec.exchanged(place).with_dtype(own, [x.dtype for x in (*known, cotangent)])
    out[place] = primitive.bind(*_compat.same_varying(taken), spec=exchanged)
    return out
