"""`masked_einsum`: a product of arrays, summed over the combinations at which other factors multiply to a given value.

    R = Σ [X₁ ⊗ … ⊗ Xₙ == T]  Y₁ · … · Yₘ

With T = min or max of X₁ ⊗ … ⊗ Xₙ over the summed index variables, the mask selects the combinations that attain T, and
m = 0 counts them. The primitive is `einsum` with a condition around the innermost product (`semiring.EqualityMask`). X
and T are only compared, so R is piecewise constant in them. R is linear in each Y, so

    JVP        dR = Σₘ Σ [X₁ ⊗ … ⊗ Xₙ == T]  Y₁ · … · dYₘ · …
    transpose  Ȳₘ = Σ [X₁ ⊗ … ⊗ Xₙ == T]  R̄ · ∏ₗ≠ₘ Yₗ,  summed over the indices that Yₘ lacks

The transpose exchanges the terms of Yₘ and of the result under the same mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jsparse import _compat
from jsparse.primitives.batch import batched
from jsparse.primitives.multilinear import tangent, transposed
from jsparse.primitives.spec import Spec

__all__ = ["masked_einsum_p"]


def _abstract(*operands: Any, spec: Spec) -> Any:
    spec.check_operands(operands)
    return _compat.output_aval(spec.shape(spec.result), spec.dtype_of(operands), operands)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec) -> Any:
    assert spec.mask is not None
    out = masked_einsum_p.bind(*_compat.same_varying(primals), spec=spec)
    return out, tangent(masked_einsum_p, primals, tangents, out, spec, first=spec.mask.operands)


masked_einsum_p = _compat.make_primitive("jsparse_masked_einsum", _abstract)
_compat.register_jvp(masked_einsum_p, _jvp)
_compat.register_transpose(masked_einsum_p, partial(transposed, masked_einsum_p))
_compat.register_batching(masked_einsum_p, partial(batched, masked_einsum_p))
