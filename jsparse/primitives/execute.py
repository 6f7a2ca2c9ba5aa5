"""The CPU lowering of einsums and of entries.

Operands are moved to the plan's storage order, the plan's kernel is called, and the result is moved back.

Some products need no loops over rows. In a sum of all entries, or a product of values on one pattern, no factor is read
by coordinates. If every level above the last one is full, as in csr, a single compressed level has the same entries at
the same positions. So one loop over that level walks all entries of a dynamic pattern, and saves the loops over rows,
which may be short. Coordinates out of range are still skipped.

Kernels compute with real numbers only. So a complex product is a sum of products of real and imaginary parts:

    (a + ib) · (c + id) · x  =  (a·c·x - b·d·x) + i (a·d·x + b·c·x)

A real factor has one part. The cotangent of a real factor is real, so only the real part of the sum is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import chain, product
from operator import add, or_
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.memo import memoize
from jsparse.compiler.backends import DEFAULT
from jsparse.compiler.dtypes import accumulator, arithmetic_dtype, is_complex, part
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.kernel_call import KernelCall, call_of, stage
from jsparse.compiler.schedule import Plan, Schedule, build_loops, plan
from jsparse.compiler.schedule.search.statements import sum_of, wide_accumulation_plan
from jsparse.errors import ScheduleError
from jsparse.formats import Format, Pattern, PatternType
from jsparse.primitives.assembly import assemble_with, assembly_order, plan_assembly, single_plan_assembly
from jsparse.primitives.batch import map_leading_axes
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.padding import nan_where, overflow
from jsparse.primitives.spec import Operands, PatternAccess, Spec, problem_of
from jsparse.primitives.storage_order import name_arrays, static_patterns, transpose_to, value_permutations
from jsparse.primitives.sums import Sum, in_own_shapes
from jsparse.primitives.tuned import look_up_schedule
from jsparse.settings import config

SEGMENT = Format.plain("(i) -> (i : compressed(nonunique))", 1)
Index: TypeAlias = Sequence[Operands]
"""For each pattern that is walked, its index arrays; none if it is static."""

SIGNS = (1, 1, -1, -1)  # iⁿ = SIGNS[n] for even n, SIGNS[n]·i for odd n


def plan_kernel(spec: Spec, dtypes: tuple[str, ...]) -> tuple[Plan, KernelCall]:
    """Return the plan for `spec` under the settings of this thread, and its kernel call. See `make_plan`."""
    return make_plan(spec, dtypes, config.generator, look_up_schedule(spec, dtypes))


@memoize(maxsize=256)
def make_plan(
    spec: Spec, dtypes: tuple[str, ...], backend: str = DEFAULT, tuned: Schedule | None = None
) -> tuple[Plan, KernelCall]:
    """Return the plan for `spec`, and its kernel call.

    Args:
        dtypes: the dtypes of the result and of the factors.
        tuned: a schedule that was found for patterns like these. It is not used if it is illegal for these.
    """
    with stage("schedule"):
        problem = problem_of(spec, dtypes)
        chosen = _plan_tuned(wide_accumulation_plan, problem, spec, tuned)
    names = name_arrays(spec.walks, chosen.patterns, chosen.blocks)
    return chosen, call_of(chosen.problem, (chosen.schedule,), names, backend)


def _plan_tuned(planner: Callable[..., Plan], problem: Problem, spec: Spec, tuned: Schedule | None) -> Plan:
    """Plan a problem with the schedule `tuned`, or without it if it is illegal."""
    if tuned is not None:
        with suppress(ScheduleError):
            chosen = planner(problem, spec.scheduler_patterns, schedule=tuned)
            build_loops(chosen.problem, chosen.schedule)  # its steps may be illegal for these patterns
            return chosen
    return planner(problem, spec.scheduler_patterns, schedule=spec.schedule)


def execute(*operands: Any, spec: Spec) -> jax.Array:
    """Compute a spec: permute values and transpose dense arrays, call the kernel, then undo both for the result."""
    spec, operands = _flatten_operands(spec, operands)
    factors, index = spec.split(operands)
    dtype = spec.dtype_of(factors)
    if is_complex(dtype) or any(is_complex(x.dtype) for x in factors):
        tail = operands[len(factors) :]
        return complex_as_real(factors, dtype, lambda x, real: execute(*x, *tail, spec=replace(spec, dtype=real.name)))
    chosen, call = plan_kernel(spec, (dtype.name, *(np.dtype(x.dtype).name for x in factors)))
    return _call(call, [(spec, factors, index)], [chosen], dtype)


def _call(
    call: KernelCall, einsums: Sequence[tuple[Spec, Operands, Index]], plans: Sequence[Plan], dtype: np.dtype
) -> jax.Array:
    """Call the kernel of an einsum, or of a sum of einsums, and return the result in the shape of the last one.

    Operands are brought to the storage orders of the plans, and the result is brought back.
    """
    stored, arrays, keepalive, flags = list[Any](), list[Any](), list[Pattern](), list[Any]()
    for (spec, factors, index), chosen in zip(einsums, plans, strict=True):
        moves = value_permutations(spec.walks, chosen.patterns, index)
        for x, term, tensor in zip(factors, spec.factors, chosen.problem.tensors[1:], strict=True):
            if term.on is None:
                stored.append(transpose_to(x, tensor.dense_dims))
            else:
                stored.append(moves[term.on].apply(x, len(term.before), spec.slot_size(term), back=False))
        arrays += [array for move in moves for array in move.arrays]
        keepalive += static_patterns(spec.walks)
        flag = find_overflow(spec, dtype, index)
        flags += [] if flag is None else [flag]
    (spec, *_), target = einsums[0], plans[0].problem.tensors[0]
    term, shape, invalid = spec.result, spec.shape(spec.result), reduce(or_, flags) if flags else None
    order = target.dense_dims if term.on is None else tuple(range(len(shape)))
    stored_shape = tuple(shape[n] for n in order)
    out = call_kernel(call, (*stored, *arrays), stored_shape, target.dtype, tuple(keepalive), invalid).astype(dtype)
    if term.on is None:
        out = transpose_to(out, tuple(order.index(n) for n in range(len(order))))
    else:
        out = moves[term.on].apply(out, len(term.before), spec.slot_size(term), back=True)
    for spec, _, index in einsums:
        out = poison_result(out.reshape(spec.shape(spec.result)), spec, index)
    return out


SumPlan: TypeAlias = tuple[tuple[Plan, ...], Problem, tuple[Schedule, ...], KernelCall]
"""The plan of each term of a sum, the problem and the schedules of all of them, and its kernel call."""


def plan_sum(specs: tuple[Spec, ...], factors: tuple[tuple[str, ...], ...], dtype: str) -> SumPlan | None:
    """Return the plan of a sum under the settings of this thread.

    Terms are added up in memory, where nothing may be rounded: the target has the dtype of arithmetic.

    Args:
        factors, dtype: the dtypes of the factors of each term, and of the sum.

    Returns None if the terms need a kernel each, because they are complex, or store their results in different orders.
    """
    if any(map(is_complex, (dtype, *chain.from_iterable(factors)))):
        return None
    wide = accumulator(dtype, *chain.from_iterable(factors))
    dtypes = tuple((wide, *of_term) for of_term in factors)
    return _make_sum_plan(specs, dtypes, config.generator, tuple(map(look_up_schedule, specs, dtypes)))


@memoize(maxsize=256)
def _make_sum_plan(
    specs: tuple[Spec, ...], dtypes: tuple[tuple[str, ...], ...], backend: str, tuned: tuple[Schedule | None, ...]
) -> SumPlan | None:
    with stage("schedule"):
        problems = map(problem_of, specs, dtypes)
        plans = tuple(_plan_tuned(plan, *each) for each in zip(problems, specs, tuned, strict=True))
        whole = sum_of(plans)
    if whole is None:
        return None
    names = [name_arrays(spec.walks, chosen.patterns, chosen.blocks) for spec, chosen in zip(specs, plans, strict=True)]
    return plans, *whole, call_of(*whole, tuple(chain.from_iterable(names)), backend)


def execute_sum(*operands: Array, work: Sum) -> jax.Array:
    """Add up einsums: by one kernel, whose statements add to one target, or by one for each term."""
    flat = [_flatten_operands(spec, in_own_shapes(spec, of_term)) for spec, of_term in work.terms(operands)]
    einsums = [(spec, *spec.split(of_term)) for spec, of_term in flat]
    dtypes = tuple(tuple(np.dtype(x.dtype).name for x in factors) for _, factors, _ in einsums)
    sum_plan = plan_sum(tuple(spec for spec, _ in flat), dtypes, work.dtype)
    if sum_plan is None:
        wide = arithmetic_dtype(work.dtype)
        terms = (execute(*of_term, spec=replace(spec, dtype=wide)).reshape(work.shape) for spec, of_term in flat)
        return reduce(add, terms).astype(work.dtype)
    plans, _, _, call = sum_plan
    return _call(call, einsums, plans, np.dtype(work.dtype)).reshape(work.shape)


def flatten_spec(spec: Spec) -> Spec:
    """Return the spec that walks all entries as one segment; `spec` itself if the einsum or format forbids it."""
    if len(spec.walks) != 1 or spec.schedule is not None or config.bounds == "check":  # for the pattern as is
        return spec
    (walk,) = spec.walks
    pattern = walk.pattern
    if not isinstance(pattern, PatternType) or walk.lead or len(set(walk.indices)) < len(walk.indices):
        return spec
    *above, last = pattern.format.levels
    if not above or not all(level.kind.is_full for level in above) or last.kind.arrays != ("pointers", "coordinates"):
        return spec
    named = {v for term in (*spec.factors, spec.result) for v in (*term.before, *term.behind)}
    segment = PatternType((pattern.shape[last.dim],), SEGMENT, pattern.nse)
    if not named.isdisjoint(walk.indices) or segment.index_dtype != pattern.index_dtype:
        return spec
    kept = tuple((v, size) for v, size in spec.sizes if v not in walk.indices[:-1])
    return replace(spec, walks=(PatternAccess(walk.indices[-1:], segment),), sizes=kept)


def _flatten_operands(spec: Spec, operands: Operands) -> tuple[Spec, tuple[Any, ...]]:
    """Return the flattened spec and its operands. The new pointers are [0, number of entries]."""
    flat = flatten_spec(spec)
    if flat is spec:
        return spec, tuple(operands)
    factors, ((pointers, coordinates, *_),) = spec.split(operands)
    ends = jnp.stack([jnp.zeros((), pointers.dtype), pointers[-1]])
    return flat, (*factors, ends, coordinates)


def real_products(factors: Sequence[np.dtype], dtype: np.dtype) -> tuple[np.dtype, list[np.dtype], int]:
    """Return the dtype of the real products that add up to a complex product, their factors' dtypes, and their count.

    Args:
        factors, dtype: the dtypes of the factors and of the product.
    """
    parts = [part(factor.name) for factor in factors]
    count: int = 2 ** sum(map(is_complex, factors))
    real = np.dtype(accumulator(*parts, part(dtype.name)))
    return real, list(map(np.dtype, parts)), count if is_complex(dtype) else max(count // 2, 1)


def complex_as_real(factors: Operands, dtype: np.dtype, compute: Callable[[list[Any], np.dtype], Any]) -> jax.Array:
    """Multiply `factors` in `dtype`. `compute(factors, dtype)` multiplies real factors in a real dtype."""
    real, _, _ = real_products([np.dtype(x.dtype) for x in factors], dtype)
    parts_of_factors = [(x.real, x.imag) if is_complex(x.dtype) else (x,) for x in factors]
    sums: list[Any] = [None, None]
    for chosen in product(*(range(len(parts)) for parts in parts_of_factors)):
        power = sum(chosen) % 4
        if power % 2 and not is_complex(dtype):
            continue
        out = compute([parts[n] for parts, n in zip(parts_of_factors, chosen, strict=True)], real)
        total = sums[power % 2]
        if total is None:
            sums[power % 2] = out if SIGNS[power] > 0 else -out
        else:
            sums[power % 2] = total + out if SIGNS[power] > 0 else total - out
    if not is_complex(dtype):
        return sums[0].astype(dtype)
    parts = [jnp.zeros_like(sums[0]) if x is None else x for x in sums]
    return jax.lax.complex(*(x.astype(part(dtype.name)) for x in parts))


def find_overflow(spec: Spec, dtype: np.dtype, index: Index) -> Any:
    """Whether a pattern that is not batched has overflowed: a bool array of shape ().

    The result is None if no such pattern can overflow, or if `dtype` has no NaN.

    A pattern that overflowed lacks some of its entries, so every result on it would be wrong. The result is NaN
    instead. The pattern's index arrays contain the flag (the true count). Every product of a derivative walks the same
    pattern, so gradients are NaN, too. `index` holds the operands of each walk.
    """
    flags = _flags(spec, dtype, index, batches=False)
    return reduce(or_, (flag for _, flag in flags)) if flags else None


def poison_result(out: Any, spec: Spec, index: Index) -> Any:
    """Set a result to NaN for each batch member whose pattern overflowed; everywhere if the members are summed."""
    before = spec.result.before
    for lead, flag in _flags(spec, out.dtype, index, batches=True):
        summed = tuple(n for n, v in enumerate(lead) if v not in before)
        kept = [v for v in lead if v in before]
        ordered = jnp.transpose(jnp.any(flag, summed), [kept.index(v) for v in before if v in kept])
        shape = [size if v in kept else 1 for v, size in zip(before, out.shape, strict=False)]
        shape += [1] * (out.ndim - len(shape))
        out = nan_where(ordered.reshape(shape), out)
    return out


def _flags(spec: Spec, dtype: np.dtype, index: Index, batches: bool) -> list[tuple[tuple[str, ...], Any]]:
    """Return the leading index variables and the overflow flags of each dynamic pattern that may overflow.

    `batches` selects the batched patterns if true, else the unbatched patterns.
    """
    if not jnp.issubdtype(dtype, jnp.inexact):
        return []
    flags = []
    for walk, arrays in zip(spec.walks, index, strict=True):
        if bool(walk.lead) is batches and (flag := overflow(walk.pattern, arrays)) is not None:
            flags.append((walk.lead, flag))
    return flags


def execute_entries(*operands: Any, work: Entries) -> list[Any]:
    """Permute values to the storage orders in which their patterns are walked, then call the kernel once."""
    if not work.specs:
        return _assemble_entries(operands, work)
    dtypes = work.dtypes(operands)
    chosen = entries_plan(work, dtypes)
    factors, index = work.split(operands)
    moves = value_permutations(work.reached.walks, chosen.patterns, index)
    moved = []
    for arrays, spec, patterns in zip(factors, work.specs, work.reached.terms, strict=True):
        for x, of in zip(arrays, spec.factors, strict=True):
            move = None if of.on is None else moves[patterns[of.on]]
            moved.append(x if move is None else move.apply(x, 0, spec.slot_size(of), back=False))
    if isinstance(work.result, Pattern):
        walks, dtype = work.reached.walks, np.dtype(dtypes[0])
        call = call_of(chosen.problem, (chosen.schedule,), name_arrays(walks, chosen.patterns), config.generator)
        return [call_kernel(call, moved, (work.result.nse,), dtype, (*static_patterns(walks), work.result))]
    assembly = single_plan_assembly(work.reached, chosen)
    return list(assemble_with(work.reached, assembly, index, work.result, moved, np.dtype(dtypes[0])))


def _assemble_entries(operands: Operands, work: Entries) -> list[Any]:
    """Assemble a pattern without values: loops list coordinates, which are then sorted unless already in order."""
    reached, result = work.reached, work.result
    assert isinstance(result, PatternType)

    def assemble(*operands: Any) -> tuple[Any, ...]:
        assembly = plan_assembly(reached, assembly_order(reached, result))
        return assemble_with(reached, assembly, work.split(operands)[1], result)

    return list(map_leading_axes(assemble, len(work.lead))(*operands))
