"""Batches of what a spec computes: the batch axis is one more index, whatever is added up and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.compiler.schedule.walks import can_walk
from jsparse.primitives.spec import Spec

__all__ = ["batched"]


def batched(primitive: _compat.Primitive, operands: Sequence[Any], axes: Sequence[int | None], *, spec: Spec) -> Any:
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
        is_led = any(axis is not None for axis in places)
        walks.append(replace(walk, lead=(name, *walk.lead)) if is_led else walk)
        moved += [_led(x, axis, size) for x, axis in zip(arrays, places, strict=True)] if is_led else arrays
    if not can_walk([walk.indices for walk in walks], [walk.stored for walk in walks]):
        return _one_by_one(primitive, operands, axes, spec), 0
    result = replace(spec.result, before=(name, *spec.result.before))
    grown = replace(spec, factors=tuple(terms), result=result, walks=tuple(walks), sizes=(*spec.sizes, (name, size)))
    return primitive.bind(*_compat.same_varying(moved), spec=grown), 0


def _one_by_one(
    primitive: _compat.Primitive, operands: Sequence[Any], axes: Sequence[int | None], spec: Spec
) -> jax.Array:
    """The members of a batch whose patterns need their transposed indices to be walked together, which a batch of
    patterns is not walked by."""
    stacked = [jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True) if axis is not None]

    def one(members: Sequence[Any]) -> jax.Array:
        left = iter(members)
        taken = [x if axis is None else next(left) for x, axis in zip(operands, axes, strict=True)]
        result: jax.Array = primitive.bind(*_compat.same_varying(taken), spec=spec)
        return result

    found: jax.Array = jax.lax.map(one, stacked)
    return found


def _led(index: Any, axis: int | None, size: int) -> Any:
    """An index array with the batch axis in front."""
    return jnp.broadcast_to(index, (size, *index.shape)) if axis is None else jnp.moveaxis(index, axis, 0)
