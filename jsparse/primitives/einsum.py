"""`einsum`: a product of arrays and of values on patterns, summed into an array or into values on one pattern.

    R = Σ  X₁ · X₂ · … · Xₙ

Every factor and the result is a *term*: a dense array, or values on a pattern. The product is linear in each factor, so

    JVP        dR = Σₙ X₁ · … · dXₙ · … · Xₙ
    transpose  X̄ₙ = Σ R̄ · ∏ₘ≠ₙ Xₘ,  summed over the indices that Xₙ lacks

Both are computed by einsums of this kind: the JVP replaces one factor, and the transpose exchanges the terms of Xₙ and
of the result. If Xₙ is stored on a pattern, its cotangent is computed on that pattern only (a sampled product): no
dense array of a sparse tensor's shape ever exists. A batch axis is one more index variable. So one primitive is closed
under differentiation, transposition and batching.

The dtypes of factors and result may differ: a cotangent has the dtype of its factor. Nothing is conjugated, by JAX's
convention for cotangents of complex numbers, so the transpose of a product is the same as for real numbers.

Over a semiring other than (+, ·), a product is not linear. Its derivative is

    R = min ⊗ X, max ⊗ X     dR = Σ [⊗X == R] d(⊗X) / Σ [⊗X == R] 1

where d(⊗X) is Σₙ dXₙ if ⊗ is +, and Σₙ dXₙ · ∏ₘ≠ₙ Xₘ if it is ·. The combinations that attain R share the derivative
equally, as in `jnp.max`. If none attains it (an empty reduction, or NaN), the derivative is 0.

The reduction R = Π X multiplies elements of a single factor X. Let Z be the number of zeros that are multiplied, and N
the product of all other elements. The derivative is

    dR = R · Σ dX / X  (over X ≠ 0)  +  N · Σ dX  (over X = 0)  where Z = 1

It is exact for any elements. Higher derivatives are exact unless two or more elements are 0: then they are 0.

The derivative of min and max consists of einsums with a mask, which is a condition on a product
(`semiring.EqualityMask`):

    R = Σ [X₁ ⊗ … ⊗ Xₙ == T]  Y₁ · … · Yₘ

With T = min or max of X₁ ⊗ … ⊗ Xₙ over the summed index variables, the mask selects the combinations that attain T.
Without any Y, R is the number of these combinations. X and T are only compared, so R is piecewise constant in X and T.
R is linear in each Y, with the JVP and the transpose above under the same mask.

Results have a checkpoint name, so that a policy of `jax.checkpoint` can choose to save them and not recompute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask
from jsparse.errors import LinearityError, NotYetSupportedError
from jsparse.formats import Pattern
from jsparse.primitives.batch import batch_einsum
from jsparse.primitives.routine import pattern_is_unknown
from jsparse.primitives.spec import Spec

CHECKPOINT_NAME = "jsparse"
"""The checkpoint name of every einsum's result, for `jax.checkpoint_policies.save_only_these_names` and the like."""


def _abstract(*operands: Any, spec: Spec) -> Any:
    spec.check_operands(operands)
    return _compat.output_aval(spec.shape(spec.result), spec.dtype_of(operands), operands)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec) -> Any:
    out = einsum_p.bind(*_compat.same_varying(primals), spec=spec)
    if not spec.semiring.is_linear:
        return out, semiring_jvp(primals, tangents, out, spec.without_schedule)
    # dR = Σₙ X₁ · … · dXₙ · … over the factors that a mask does not only compare
    parts = [
        einsum_p.bind(*_compat.same_varying((*primals[:n], change, *primals[n + 1 :])), spec=spec.without_schedule)
        for n, change in enumerate(spec.split(tangents)[0])
        if n >= spec.compared and type(change) is not _compat.Zero
    ]
    return out, _compat.add_tangents(parts, out)


def transpose_einsum(cotangent: Any, *operands: Any, spec: Spec) -> Any:
    """Return the cotangent X̄ₙ of the only unknown factor, in the dtype of Xₙ, and None for all other operands.

    The cotangent is the einsum in which the terms of Xₙ and of the result are exchanged.

    Raises LinearityError if more than one factor is unknown, or the product is not linear in Xₙ.
    """
    out: list[Any] = [None] * len(operands)
    if type(cotangent) is _compat.Zero:
        unknown = _unknown(operands, spec)
        out[unknown] = _compat.Zero(operands[unknown].aval)
        return out
    unknown, exchanged, taken = exchange_term(cotangent, operands, spec)
    out[unknown] = einsum_p.bind(*_compat.same_varying(taken), spec=exchanged)
    return out


def exchange_term(cotangent: Any, operands: Sequence[Any], spec: Spec) -> tuple[int, Spec, Sequence[Any]]:
    """Return the number of the only unknown factor Xₙ, and the einsum that computes X̄ₙ, with its operands."""
    factors, index = operands[: len(spec.factors)], operands[len(spec.factors) :]
    unknown = _unknown(operands, spec)
    known = [factor for n, factor in enumerate(factors) if n != unknown]
    dtype = factors[unknown].aval.dtype
    if dtype == jax.dtypes.float0:  # the factor is an integer array, and JAX keeps no dtype for its cotangent
        dtype = cotangent.dtype
    exchanged = spec.transpose_in(unknown).with_dtype(dtype, [x.dtype for x in (*known, cotangent)])
    return unknown, exchanged, (*known, cotangent, *index)


def _unknown(operands: Sequence[Any], spec: Spec) -> int:
    """Return the index of the only unknown factor. Raise LinearityError if that factor has no transpose."""
    if any(map(_compat.is_undefined, operands[len(spec.factors) :])):
        raise pattern_is_unknown()
    if not spec.semiring.is_linear:
        raise LinearityError(
            f"Expected a linear function to transpose, but it computes an einsum over {spec.semiring}. Transpose its "
            "derivative, with jax.vjp."
        )
    unknown = [n for n, x in enumerate(operands) if _compat.is_undefined(x)]
    if len(unknown) > 1 or unknown[0] < spec.compared:
        raise LinearityError(
            f"Expected a linear function to transpose, but it multiplies {len(unknown)} factors that depend on its "
            "arguments. Transpose its derivative, with jax.vjp."
        )
    return unknown[0]


def semiring_jvp(primals: Sequence[Any], tangents: Sequence[Any], out: Any, spec: Spec) -> Any:
    """Return the tangent of `out`, the result of the einsum on `primals`; a symbolic zero if no factor has a tangent.

    Raises NotYetSupportedError for a semiring without a derivative.
    """
    factors, index = primals[: len(spec.factors)], primals[len(spec.factors) :]
    changes = {n: t for n, t in enumerate(tangents[: len(factors)]) if type(t) is not _compat.Zero}
    if not changes:
        return _compat.add_tangents([], out)
    if spec.semiring.is_selective:
        return _selection_jvp(factors, index, changes, out, spec)
    if spec.semiring.add == "*" and len(factors) == 1:
        return _product_jvp(factors[0], index, changes[0], out, spec)
    raise NotYetSupportedError(
        f"The derivative of {spec.text} with the semiring {spec.semiring} is not supported yet. Pass its operands "
        "through jax.lax.stop_gradient, or use another semiring."
    )


def _selection_jvp(factors: Sequence[Any], index: Sequence[Any], changes: dict[int, Any], out: Any, spec: Spec) -> Any:
    mask = EqualityMask(spec.semiring.multiply, len(factors))
    compared = replace(spec, factors=(*spec.factors, spec.result), semiring=PLUS_TIMES, mask=mask)

    def sum_masked(multiplied: Sequence[int], arrays: Sequence[Any]) -> Any:
        masked = replace(compared, factors=(*compared.factors, *(spec.factors[n] for n in multiplied)))
        taken = (*factors, out, *arrays)
        masked = masked.with_dtype(arithmetic_dtype(out.dtype.name), [x.dtype for x in taken])
        return einsum_p.bind(*_compat.same_varying((*taken, *index)), spec=masked)

    parts = []
    for n_changed, change in changes.items():
        others = [n for n in range(len(factors)) if n != n_changed and spec.semiring.multiply == "*"]
        parts.append(sum_masked((n_changed, *others), (change, *(factors[n] for n in others))))
    total = _compat.add_tangents(parts, out)  # in a wide dtype: the sum and the count may overflow a float16
    return (total / jnp.maximum(sum_masked((), ()), 1)).astype(out.dtype)


def _product_jvp(x: Any, index: Sequence[Any], change: Any, out: Any, spec: Spec) -> Any:
    linear = replace(spec, semiring=PLUS_TIMES)

    def sum_values(values: Any) -> Any:
        return einsum_p.bind(*_compat.same_varying((values, *index)), spec=linear)

    is_zero = x == 0
    zeros = sum_values(is_zero.astype(x.dtype))
    others = einsum_p.bind(*_compat.same_varying((jnp.where(is_zero, 1, x), *index)), spec=spec)
    inverse = jnp.where(is_zero, 0, 1 / jnp.where(is_zero, 1, x))
    of_zeros = sum_values(jnp.where(is_zero, change, 0)) * jnp.where(zeros == 1, others, 0)
    return sum_values(change * inverse) * out + of_zeros


def with_checkpoint_name(out: jax.Array) -> jax.Array:
    """Attach the checkpoint name to a traced array. A concrete array is returned unchanged."""
    # No policy applies outside a trace, and attaching a name costs an eager call time.
    if not isinstance(out, jax.core.Tracer):
        return out
    return _compat.with_checkpoint_name(out, CHECKPOINT_NAME)


_compat.cache_weakly(Spec, Pattern)
einsum_p = _compat.make_primitive("jsparse_einsum", _abstract, empty=lambda *, spec: [spec.semiring.zero("float32")])
_compat.register_jvp(einsum_p, _jvp)
_compat.register_transpose(einsum_p, transpose_einsum)
_compat.register_batching(einsum_p, partial(batch_einsum, einsum_p.bind))
