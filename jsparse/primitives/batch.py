"""Batching of an einsum: the batch axis becomes one more index variable of its `Spec`, for every semiring and mask.

With one exception, no array is copied to move its batch axis. A dense array keeps the batch axis where it is. Values on
a pattern have the batch axis before or after the axis of positions. The exception: if the pattern itself is batched,
the batch axis has to come before the positions, and values with the batch axis elsewhere are transposed. The result has
the batch axis in the same place as the largest batched factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from math import prod
from string import ascii_letters
from typing import Any, cast

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.compiler.schedule.search.legality import has_legal_order
from jsparse.notation import IndexVar
from jsparse.primitives.spec import ArrayAccess, Operands, PatternAccess, Spec


def batch_einsum(
    bind: Callable[..., Any], operands: Operands, axes: Sequence[int | None], *, spec: Spec
) -> tuple[Any, int]:
    """Compute the results of all members of a batch as one array. Return the array and its batch axis.

    `bind` binds the primitive to operands and a spec.
    """
    batch = batch_spec(operands, axes, spec)
    if batch is None:
        return one_by_one(partial(bind, spec=spec.without_schedule), operands, axes), 0
    grown, name, moved = batch
    out = bind(*_compat.same_varying(moved), spec=grown)
    if name in grown.result.before:
        return out, grown.result.before.index(name)
    return out.reshape(*spec.shape(spec.result), dict(grown.sizes)[name]), out.ndim


def batch_spec(operands: Operands, axes: Sequence[int | None], spec: Spec) -> tuple[Spec, IndexVar, Operands] | None:
    """Add the batch axis to a spec. Return the new spec, the name of the batch index variable, and the operands.

    The result is None if loops could walk some patterns only by transposed indices, which batches cannot use.
    """
    spec = spec.without_schedule
    used = {v for v, _ in spec.sizes}
    name = next(v for v in chain(ascii_letters, (f"batch{n}" for n in count())) if v not in used)
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    (factors, index), (factor_axes, index_axes) = spec.split(operands), spec.split(axes)
    walks: list[PatternAccess] = []
    moved_index: list[Any] = []
    for walk, arrays, array_axes in zip(spec.walks, index, index_axes, strict=True):
        is_batched = any(axis is not None for axis in array_axes)
        walks.append(replace(walk, lead=(name, *walk.lead)) if is_batched else walk)
        if is_batched:
            _, arrays = move_batch_in_front(arrays, array_axes)
        moved_index += arrays
    if not has_legal_order([walk.indices for walk in walks], [walk.scheduler_pattern for walk in walks]):
        return None
    grown = replace(spec, walks=tuple(walks), sizes=(*spec.sizes, (name, size)))
    moved, terms = [], []
    for factor, axis, term in zip(factors, factor_axes, spec.factors, strict=True):
        x, of_batch = (factor, term) if axis is None else _with_batch(factor, axis, term, name, grown)
        moved.append(x)
        terms.append(of_batch)
    result = _like_a_factor(spec.result, name, replace(grown, factors=tuple(terms)))
    return replace(grown, factors=tuple(terms), result=result), name, (*moved, *moved_index)


def _with_batch(x: Any, axis: int, term: ArrayAccess, name: IndexVar, grown: Spec) -> tuple[Any, ArrayAccess]:
    """Add the batch index variable to a term. Return the batched array in the layout of the new term, and that term."""
    if axis <= len(term.before):
        return x, replace(term, before=(*term.before[:axis], name, *term.before[axis:]))
    if name in _lead(term, grown):
        return jnp.moveaxis(x, axis, 0), replace(term, before=(name, *term.before))
    flat = x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    return flat, replace(term, behind=(*term.behind, name))


def _lead(term: ArrayAccess, spec: Spec) -> tuple[IndexVar, ...]:
    return () if term.on is None else spec.walks[term.on].lead


def _like_a_factor(result: ArrayAccess, name: IndexVar, grown: Spec) -> ArrayAccess:
    """Return the result's term with the batch index variable, placed as in the largest batched factor.

    The batch variable comes first if it comes first in that factor, else after the variables that precede it there. If
    patterns are batched, it stays before the positions, so that each member that overflows can be set to NaN alone.
    """
    having = [term for term in grown.factors if name in term.before or name in term.behind]
    if not having or name in _lead(result, grown):
        return replace(result, before=(name, *result.before))
    largest = max(having, key=lambda term: prod(grown.shape(term)))
    order = grown.access("", largest).variables()
    preceding, following = order[: order.index(name)], order[order.index(name) + 1 :]
    if result.on is not None and not any(name in walk.lead for walk in grown.walks):
        levels = grown.walks[result.on].indices
        if {*levels, *result.behind}.intersection(preceding) and not set(result.behind).intersection(following):
            return replace(result, behind=(*result.behind, name))
    behind = [n + 1 for n, v in enumerate(result.before) if v in preceding]
    ahead = [n for n, v in enumerate(result.before) if v in following]
    at = 0 if not preceding else max(behind) if behind else min(ahead, default=len(result.before))
    return replace(result, before=(*result.before[:at], name, *result.before[at:]))


def one_by_one(compute: Callable[..., jax.Array], operands: Operands, axes: Sequence[int | None]) -> jax.Array:
    """Compute the result one batch member at a time."""
    stacked = [jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True) if axis is not None]

    def one(members: Sequence[Any]) -> jax.Array:
        batched = iter(members)
        taken = [x if axis is None else next(batched) for x, axis in zip(operands, axes, strict=True)]
        return compute(*_compat.same_varying(taken))

    return cast(jax.Array, jax.lax.map(one, stacked))


def move_batch_in_front(operands: Operands, axes: Sequence[int | None]) -> tuple[int, list[Any]]:
    """Return the size of a batch, and the operands with the batch axis in front. Operands without it are repeated."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    return size, [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]


def map_leading_axes(compute: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Map a function over the first `count` axes of its operands."""
    for _ in range(count):
        compute = jax.vmap(compute)
    return compute
