"""`einsum` as XLA operations: a `Spec` becomes a stream of rows, and a sum over them.

    Spec ──stream_of──> a Stream for each pattern ──known_rows, visit──> one Stream ──Sum──> the result

The compiler of kernels takes no part. If index arrays have batch axes, `jax.vmap` maps the computation over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.notation import IndexVar
from jsparse.primitives.execute import find_overflow, poison_result
from jsparse.primitives.padding import nan_where
from jsparse.primitives.portable.join import Sorted, join_known, visit
from jsparse.primitives.portable.stream import Stream, slots_of, stream_of
from jsparse.primitives.portable.summed import Machine, StreamSum, reduce_axes, sum_of, unflatten_slots
from jsparse.primitives.spec import Spec

Index = Sequence[Sequence[Any]]  # the index arrays of each pattern
Kernel = Callable[[Spec, Sequence[Any], Index], jax.Array | None]


def compute_einsum(*operands: Any, spec: Spec, machine: Machine, kernel: Kernel | None = None) -> jax.Array:
    """Compute the einsum of a spec by XLA operations. The result is NaN where a pattern overflowed.

    Args:
        kernel: a function `kernel(spec, factors, index)` that computes some einsums, and returns None for the others.
    """
    factors, index = spec.split(operands)
    cut = [arrays[: walk.array_counts[0]] if arrays else () for walk, arrays in zip(spec.walks, index, strict=True)]
    invalid = find_overflow(spec, spec.dtype_of(factors), index)
    out = None if kernel is None else kernel(spec.without_schedule, factors, cut)
    if out is None and not any(walk.lead for walk in spec.walks):
        return _single(spec.without_schedule, factors, cut, machine, invalid)
    if out is None:
        out = _compute_batch(spec.without_schedule, factors, cut, machine)
    return poison_result(out if invalid is None else nan_where(invalid, out), spec, index)


def _compute_batch(spec: Spec, factors: Sequence[Any], index: Index, machine: Machine) -> jax.Array:
    """Compute the einsum for patterns whose index arrays may have leading batch axes."""
    lead = next((v for walk in spec.walks for v in walk.lead), None)
    if lead is None:
        return _single(spec, factors, index, machine)
    inner, axes = _without(spec, lead)
    dtype, is_summed = spec.dtype_of(factors), lead not in spec.result.before
    if is_summed and not spec.semiring.is_selective:  # the sum over members is rounded, not each member
        inner = inner.with_dtype(np.dtype(arithmetic_dtype(dtype.name)), [x.dtype for x in factors])
    walked = [walk.lead.index(lead) if lead in walk.lead else None for walk in spec.walks]
    arrays = [unflatten_slots(x, term, spec) for x, term in zip(factors, spec.factors, strict=True)]

    def member(arrays: Sequence[Any], index: Index) -> jax.Array:
        shaped = [x.reshape(inner.shape(term)) for x, term in zip(arrays, inner.factors, strict=True)]
        return _compute_batch(inner, shaped, index, machine)

    index_axes = [[axis] * len(of_walk) for axis, of_walk in zip(walked, index, strict=True)]
    out = jax.vmap(member, in_axes=(axes, index_axes))(arrays, [list(of_walk) for of_walk in index])
    if not is_summed:
        return jnp.moveaxis(out, 0, spec.result.before.index(lead))
    return reduce_axes(out, (0,), spec.semiring.add, machine).astype(dtype)


def _without(spec: Spec, lead: IndexVar) -> tuple[Spec, list[int | None]]:
    """Return the spec without the batch variable `lead`, and the batch axis of each factor, None if it has none."""

    def others(variables: tuple[IndexVar, ...]) -> tuple[IndexVar, ...]:
        return tuple(v for v in variables if v != lead)

    terms = (*spec.factors, spec.result)
    *factors, result = (replace(x, before=others(x.before), behind=others(x.behind)) for x in terms)
    walks = tuple(replace(walk, lead=others(walk.lead), derived=()) for walk in spec.walks)
    sizes = tuple((v, size) for v, size in spec.sizes if v != lead)
    inner = replace(spec, factors=tuple(factors), result=result, walks=walks, sizes=sizes)
    labels = [(*term.before, *([] if term.on is None else [term.on]), *term.behind) for term in spec.factors]
    return inner, [of.index(lead) if lead in of else None for of in labels]


def _single(
    spec: Spec, factors: Sequence[Any], index: Index, machine: Machine, invalid: Array | None = None
) -> jax.Array:
    """Compute the einsum for patterns without batch axes. The result is NaN if `invalid`, which may be traced."""
    sizes = dict(spec.sizes)
    if not spec.walks:
        return _dense(spec, factors, machine)
    slots = [slots_of(walk.pattern, arrays) for walk, arrays in zip(spec.walks, index, strict=True)]
    streams = [stream_of(walk, n, of_walk) for n, (walk, of_walk) in enumerate(zip(spec.walks, slots, strict=True))]
    rows, later = join_known(spec.walks, streams, index, sizes)
    in_order = not any(step.multiplies for step in later) and _is_in_order(rows, spec)
    # Other index variables neither index an array nor select entries of the remaining patterns.
    named = {v for term in (*spec.factors, spec.result) for v in (*term.before, *term.behind)}
    kept = frozenset(named.union(*(step.variables for step in later)))
    may_be_long = not in_order and _may_be_long(rows, later, spec, machine.longest)
    total = sum_of(spec, factors, machine, in_order, may_be_long)
    zero = total.start()
    if invalid is not None and spec.result.on is None and spec.semiring.add == "+":
        zero, invalid = nan_where(invalid, zero), None  # a sum with NaN is NaN: no pass over the result
    sizes_of_arrays = (zero.size, rows.rows, *(step.entries.rows for step in later), *map(np.size, factors))
    if 0 in sizes_of_arrays:
        out = zero
    else:
        rows = rows.with_variables(kept)

        def add_to(total: StreamSum) -> jax.Array:
            return total.sum_from(zero, lambda zero: visit(zero, rows, later, total.add, total.rows_at_once()))

        if total.is_long and total.pays_to_count and not later and not rows.is_known and total.target.indexed:
            # The lengths of sums are data, and long sums take up to twice as long, in two levels several times.
            short = replace(total, may_be_long=False)
            out = jax.lax.cond(total.longest(rows) > machine.longest, lambda: add_to(total), lambda: add_to(short))
        else:
            out = add_to(total)
    on = spec.result.on
    result = total.result(out, None if on is None else slots[on].used)
    return result if invalid is None else nan_where(invalid, result)


def _is_in_order(rows: Stream, spec: Spec) -> bool:
    """Return whether each row q is slot q of the result's pattern, or row q of a dense result.

    All other axes of the result have to be dense."""
    on, sparse = spec.result.on, {v for walk in spec.walks for v in walk.indices}
    others = [v for v in (*spec.result.before, *spec.result.behind) if v in sparse]
    if on is not None:
        return not others and on in rows.positions and rows.positions[on] is None
    walk, (first, *below) = spec.walks[0], spec.walks[0].pattern.format.levels
    # The pattern's only entry with coordinate q in its first dimension is entry q.
    is_relation = first.kind.is_full and all(level.kind.is_branchless for level in below)
    is_single = is_relation and walk.indices.count(walk.indices[0]) == 1 and others == [walk.indices[0]]
    return len(spec.walks) == 1 and rows.positions[0] is None and is_single


def _may_be_long(rows: Stream, later: Sequence[Sorted], spec: Spec, longest: int) -> bool:
    """Whether more than `longest` rows of the join of `rows` and `later` may be added to one element of the result."""
    target = {*spec.result.before, *spec.result.behind}
    if spec.result.on is not None:
        target |= set(spec.walks[spec.result.on].indices)
    summed = {v for walk in spec.walks for v in walk.indices} - target
    if prod(size for v, size in spec.sizes if v in summed) <= longest or (not later and rows.rows <= longest):
        return False
    if later or not rows.is_known:
        return True
    keys = [np.asarray(rows.coordinates[v]) for v in sorted(target.intersection(rows.coordinates))]
    if not keys:
        return False
    return int(np.unique(np.stack(keys), axis=1, return_counts=True)[1].max()) > longest


def _dense(spec: Spec, factors: Sequence[Any], machine: Machine) -> jax.Array:
    """Compute a product of dense arrays: at once if it is linear, else for one coordinate of a variable at a time."""
    sizes = dict(spec.sizes)
    rows = Stream(1, {}, {})
    if spec.result.before and (spec.mask is not None or not spec.semiring.is_linear):
        v = max(spec.result.before, key=sizes.__getitem__)
        rows = Stream(sizes[v], {v: np.arange(sizes[v], dtype=np.int32)}, {})
    total = sum_of(spec, factors, machine, rows=frozenset(rows.coordinates))
    zero = total.start()
    out = zero if 0 in (zero.size, *map(np.size, factors)) else total.add(zero, rows)
    return total.result(out, None)
