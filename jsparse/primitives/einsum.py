"""`einsum`: a product of arrays, some of them values on one pattern, summed into an array or into values on it.

    R = Σ  X₁ · X₂ · … · Xₙ

Every factor and the result is a *term*: a dense array, or values on the pattern. The product is linear in each
factor, so

    JVP        dR = Σₙ X₁ · … · dXₙ · … · Xₙ
    transpose  X̄ₙ = Σ R̄ · ∏ₘ≠ₙ Xₘ,  summed over the indices that Xₙ lacks

which is again an einsum of this kind: the term of Xₙ and that of the result change places. If Xₙ was on the pattern,
its cotangent is computed on the pattern only (a sampled product); nothing dense of a sparse tensor's shape ever exists.
A batch axis is one more index. So one primitive is closed under differentiation, transposition and batching.

Factors and the result may differ in dtype: a cotangent has that of its factor. Nothing is conjugated: that is JAX's
convention for cotangents of complex numbers, and the transpose of a product then looks as for real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.compiler.schedule.walks import can_walk
from jsparse.primitives.execute import execute
from jsparse.primitives.spec import Spec

__all__ = ["einsum_p"]


def _abstract(*operands: Any, spec: Spec) -> Any:
    return _compat.output_aval(spec.shape(spec.result), spec.dtype_of(operands), operands)


def _bind(operands: Sequence[Any], spec: Spec) -> jax.Array:
    result: jax.Array = einsum_p.bind(*_compat.same_varying(operands), spec=spec)
    return result


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec) -> Any:
    out = _bind(primals, spec)
    parts = [
        _bind((*primals[:n], tangent, *primals[n + 1 :]), spec)
        for n, tangent in enumerate(spec.split(tangents)[0])
        if type(tangent) is not _compat.Zero
    ]
    return out, _compat.add_tangents(parts, out)


def _transpose(cotangent: Any, *operands: Any, spec: Spec) -> Any:
    factors, _ = spec.split(operands)
    (place,) = (n for n, factor in enumerate(factors) if _compat.is_undefined(factor))
    out: list[Any] = [None] * len(operands)
    if type(cotangent) is _compat.Zero:
        out[place] = _compat.Zero(factors[place].aval)
        return out
    known = [factor for n, factor in enumerate(factors) if n != place]
    arrays = operands[len(factors) :]
    own = factors[place].aval.dtype
    exchanged = spec.exchanged(place).with_dtype(own, [x.dtype for x in (*known, cotangent)])
    out[place] = _bind((*known, cotangent, *arrays), exchanged)
    return out


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, spec: Spec) -> Any:
    """The batch axis becomes an index, the first of the result; arrays keep their layout where they can."""
    used = {v for v, _ in spec.sizes}
    name = next(letter for letter in ascii_letters if letter not in used)
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    moved, terms = [], []
    (factors, index), (factor_axes, index_axes) = spec.split(operands), spec.split(axes)
    for factor, axis, term in zip(factors, factor_axes, spec.factors, strict=True):
        if axis is None:
            moved.append(factor)
            terms.append(term)
            continue
        behind_positions = axis > len(term.before)
        at = 0 if behind_positions else axis
        moved.append(jnp.moveaxis(factor, axis, 0) if behind_positions else factor)
        terms.append(replace(term, before=(*term.before[:at], name, *term.before[at:])))
    walks = []
    for walk, arrays, places in zip(spec.walks, index, index_axes, strict=True):
        batched = any(axis is not None for axis in places)
        walks.append(replace(walk, lead=(name, *walk.lead)) if batched else walk)
        moved += [_led(x, axis, size) for x, axis in zip(arrays, places, strict=True)] if batched else arrays
    if not can_walk([walk.indices for walk in walks], [walk.stored for walk in walks]):
        return _one_by_one(operands, axes, spec), 0
    result = replace(spec.result, before=(name, *spec.result.before))
    sizes = (*spec.sizes, (name, size))
    return _bind(moved, replace(spec, factors=tuple(terms), result=result, walks=tuple(walks), sizes=sizes)), 0


def _one_by_one(operands: Sequence[Any], axes: Sequence[int | None], spec: Spec) -> jax.Array:
    """The members of a batch whose patterns need their transposed indices to be walked together, which a batch of
    patterns is not walked by."""
    batched = [jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True) if axis is not None]

    def one(members: Sequence[Any]) -> jax.Array:
        left = iter(members)
        return _bind([x if axis is None else next(left) for x, axis in zip(operands, axes, strict=True)], spec)

    found: jax.Array = jax.lax.map(one, batched)
    return found


def _led(index: Any, axis: int | None, size: int) -> Any:
    """An index array with the batch axis in front."""
    return jnp.broadcast_to(index, (size, *index.shape)) if axis is None else jnp.moveaxis(index, axis, 0)


einsum_p = _compat.make_primitive("jsparse_einsum", _abstract)
_compat.register_jvp(einsum_p, _jvp)
_compat.register_transpose(einsum_p, _transpose)
_compat.register_batching(einsum_p, _batch)
_compat.register_cpu_lowering(einsum_p, _compat.lower_as(execute))
