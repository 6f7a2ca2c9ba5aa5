"""`einsum`: a product of arrays, some of them values on one pattern, summed into an array or into values on it.

    R = Σ  X₁ · X₂ · … · Xₙ

Every factor and the result is a *term*: a dense array, or values on the pattern. The product is linear in each
factor, so

    JVP        dR = Σₙ X₁ · … · dXₙ · … · Xₙ
    transpose  X̄ₙ = Σ R̄ · ∏ₘ≠ₙ Xₘ,  summed over the indices that Xₙ lacks

which is again an einsum of this kind, with the terms of Xₙ and of the result exchanged. If Xₙ lies on a pattern, its
cotangent is computed on that pattern only (a sampled product): no dense array of a sparse tensor's shape ever exists.
A batch axis is one more index variable. So one primitive is closed under differentiation, transposition and batching.

The dtypes of factors and result may differ: a cotangent has the dtype of its factor. Nothing is conjugated, by JAX's
convention for cotangents of complex numbers, so the transpose of a product is the same as for real numbers.
By a semiring other than (+, ·) a product is not linear; `primitives.semiring_jvp` has its derivative. That is made of
einsums under a condition, which is around the innermost product (`semiring.EqualityMask`):

    R = Σ [X₁ ⊗ … ⊗ Xₙ == T]  Y₁ · … · Yₘ

With T = min or max of X₁ ⊗ … ⊗ Xₙ over the summed index variables, the mask selects the combinations that attain T, and
no Y counts them. X and T are only compared, so R is piecewise constant in them. It is linear in each Y, with the JVP
and the transpose above under the same mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jsparse import _compat
from jsparse.formats import Pattern
from jsparse.primitives.batch import batched
from jsparse.primitives.multilinear import tangent, transposed
from jsparse.primitives.semiring_jvp import semiring_jvp
from jsparse.primitives.spec import Spec

__all__ = ["einsum_p"]


def _abstract(*operands: Any, spec: Spec) -> Any:
    spec.check_operands(operands)
    return _compat.output_aval(spec.shape(spec.result), spec.dtype_of(operands), operands)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec) -> Any:
    out = einsum_p.bind(*_compat.same_varying(primals), spec=spec)
    if not spec.semiring.is_linear:
        return out, semiring_jvp(einsum_p, primals, tangents, out, spec.unscheduled)
    compared = 0 if spec.mask is None else spec.mask.operands
    return out, tangent(einsum_p, primals, tangents, out, spec.unscheduled, first=compared)


_compat.cache_weakly(Spec, Pattern)
einsum_p = _compat.make_primitive("jsparse_einsum", _abstract)
_compat.register_jvp(einsum_p, _jvp)
_compat.register_transpose(einsum_p, partial(transposed, einsum_p))
_compat.register_batching(einsum_p, partial(batched, einsum_p))
