"""The derivative of an einsum by a semiring that is not linear.

    R = min ⊗ X, max ⊗ X     dR = Σ [⊗X == R] d(⊗X) / Σ [⊗X == R] 1

where d(⊗X) is Σₙ dXₙ if ⊗ is +, and Σₙ dXₙ · ∏ₘ≠ₙ Xₘ if it is ·. The combinations that attain R share the derivative
equally, as in `jnp.max`. If none attains it (an empty reduction, or NaN), the derivative is 0.

    R = Π X     of one factor: with Z the number of zeros among the entries and N the product of the others

    dR = R · Σ dX / X  (over X ≠ 0)  +  N · Σ dX  (over X = 0)  where Z = 1

The first derivative is exact for any entries. Higher ones are exact unless two or more factors are 0: they are then 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from jsparse import _compat
from jsparse.compiler.dtypes import unrounded
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask
from jsparse.errors import NotYetSupportedError
from jsparse.primitives.spec import Spec

__all__ = ["semiring_jvp"]


def semiring_jvp(
    einsum: _compat.Primitive, primals: Sequence[Any], tangents: Sequence[Any], out: Any, spec: Spec
) -> Any:
    """The tangent of `out`, the result of `einsum` on `primals`; a symbolic zero if all tangents are.

    Raises NotYetSupportedError for a semiring without a derivative.
    """
    factors, index = primals[: len(spec.factors)], primals[len(spec.factors) :]
    changes = {n: t for n, t in enumerate(tangents[: len(factors)]) if type(t) is not _compat.Zero}
    if not changes:
        return _compat.add_tangents([], out)
    if spec.semiring.is_selective:
        return _selection_jvp(einsum, factors, index, changes, out, spec)
    if spec.semiring.add == "*" and len(factors) == 1:
        return _product_jvp(einsum, factors[0], index, changes[0], out, spec)
    raise NotYetSupportedError(
        f"The derivative of {spec.text} by {spec.semiring} is not supported yet. Pass its operands through "
        f"jax.lax.stop_gradient, or use another semiring."
    )


def _selection_jvp(
    einsum: _compat.Primitive,
    factors: Sequence[Any],
    index: Sequence[Any],
    changes: dict[int, Any],
    out: Any,
    spec: Spec,
) -> Any:
    mask = EqualityMask(spec.semiring.multiply, len(factors))
    compared = replace(spec, factors=(*spec.factors, spec.result), semiring=PLUS_TIMES, mask=mask)

    def masked_sum(multiplied: Sequence[int], arrays: Sequence[Any]) -> Any:
        stated = replace(compared, factors=(*compared.factors, *(spec.factors[n] for n in multiplied)))
        taken = (*factors, out, *arrays)
        stated = stated.with_dtype(unrounded(out.dtype.name), [x.dtype for x in taken])
        return einsum.bind(*_compat.same_varying((*taken, *index)), spec=stated)

    parts = []
    for n_changed, change in changes.items():
        others = [n for n in range(len(factors)) if n != n_changed and spec.semiring.multiply == "*"]
        parts.append(masked_sum((n_changed, *others), (change, *(factors[n] for n in others))))
    total = _compat.add_tangents(parts, out)  # in a wide dtype: the sum and the count may overflow a float16
    return (total / jnp.maximum(masked_sum((), ()), 1)).astype(out.dtype)


def _product_jvp(einsum: _compat.Primitive, x: Any, index: Sequence[Any], change: Any, out: Any, spec: Spec) -> Any:
    linear = replace(spec, semiring=PLUS_TIMES)

    def summed(values: Any) -> Any:
        return einsum.bind(*_compat.same_varying((values, *index)), spec=linear)

    is_zero = x == 0
    zeros = summed(is_zero.astype(x.dtype))
    others = einsum.bind(*_compat.same_varying((jnp.where(is_zero, 1, x), *index)), spec=spec)
    inverse = jnp.where(is_zero, 0, 1 / jnp.where(is_zero, 1, x))
    of_zeros = summed(jnp.where(is_zero, change, 0)) * jnp.where(zeros == 1, others, 0)
    return summed(change * inverse) * out + of_zeros
