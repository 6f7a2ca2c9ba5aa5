"""The CPU lowering of a chain: one kernel call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import memoize_weakly
from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.runtime.kernel_call import KernelCall, call_of, stage
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.search.cheapest import plan
from jsparse.compiler.schedule.search.shared_loops import find_shared_loops, is_sum
from jsparse.compiler.schedule.search.statements import wide_accumulation_schedules, with_lanes_innermost
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.translate import Chain, Result, translate_jaxpr
from jsparse.primitives.kernel import call_kernels
from jsparse.primitives.padding import nan_where, overflow
from jsparse.primitives.storage_order import index_arrays, name_arrays, static_patterns, transpose_to
from jsparse.settings import config


@memoize_weakly
def plan_chain(chain: Chain) -> tuple[Problem, tuple[Schedule, ...]]:
    """Return the problem with tensors in the layouts that the kernel uses, and the schedule of each statement."""
    problem = with_moved_operands(with_lanes_innermost(chain.problem, chain.stored))
    return wide_accumulation_schedules(problem, chain.stored)


@memoize_weakly
def _call(chain: Chain, backend: str) -> KernelCall:
    with stage("schedule"):
        problem, schedules = plan_chain(chain)
    return call_of(problem, schedules, name_arrays(chain.walks, chain.stored), backend)


def execute_chain(*operands: Any, closed: Any) -> list[Any]:
    """Run a closed jaxpr as one kernel. Raises ChainError if it is not a chain."""
    chain = translate_jaxpr(closed)
    if isinstance(chain, ChainError):
        raise chain
    problem = plan_chain(chain)[0]
    pairs = zip(chain.operands, problem.operands, strict=True)
    factors = [_arrange_operand(operands[x.number], x.shape, _order(t, len(x.shape))) for x, t in pairs]
    index: list[Any] = []
    for walk, order, numbers in zip(chain.walks, chain.stored, chain.index, strict=True):
        arrays, _ = index_arrays(walk, order, [operands[n] for n in numbers])
        index += arrays
    orders = [_order(t, len(shape)) for t, shape in zip(problem.results, chain.buffers, strict=True)]
    shapes = [tuple(shape[n] for n in order) for shape, order in zip(chain.buffers, orders, strict=True)]
    types = [(shape, np.dtype(t.dtype)) for shape, t in zip(shapes, problem.results, strict=True)]
    call = _call(chain, config.generator)
    overflows = (
        overflow(walk.pattern, [operands[n] for n in numbers])
        for walk, numbers in zip(chain.walks, chain.index, strict=True)
    )
    flags = {number: jnp.any(flag) for number, flag in enumerate(overflows) if flag is not None}
    origins = [frozenset(flags) & sources for sources in _origins(chain.problem)]
    alike = all(sources == frozenset(flags) for sources in origins)
    invalid = _any(flags, flags) if alike and flags else None
    out = call_kernels(call, (*factors, *index), types, static_patterns(chain.walks), invalid)
    if not alike:
        out = [nan_where(_any(flags, sources), x) if sources else x for x, sources in zip(out, origins, strict=True)]
    out = [transpose_to(x, tuple(map(order.index, range(x.ndim)))) for x, order in zip(out, orders, strict=True)]
    dtypes = (np.dtype(t.dtype) for t in chain.problem.results)
    out = [x.reshape(shape).astype(d) for x, shape, d in zip(out, chain.shapes, dtypes, strict=True)]
    return [_arrange_result(result, out, operands) for result in chain.results]


def _arrange_operand(x: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """The operand in the shape and order in which the kernel reads it.

    Axes of size 1 change no address, so they stay where possible. XLA may update the operand in place, as it does with
    the cache of a decoder. If axes were removed, XLA would fuse the update with the reshape, and write a second array.
    """
    if order == tuple(range(len(shape))) and 1 not in shape and tuple(size for size in x.shape if size != 1) == shape:
        return x
    return transpose_to(x.reshape(shape), order)


def _order(type_: TensorType, ndim: int) -> tuple[int, ...]:
    """The axes of a tensor in storage order. Values on a pattern keep their axes in order."""
    return type_.dense_dims if type_.positions is None else tuple(range(ndim))


def _origins(problem: Problem) -> list[frozenset[int]]:
    """Return the patterns from which each result is computed, directly or through other statements."""
    origins: dict[str, frozenset[int]] = {}
    for statement in problem.statements:
        of_reads = (origins.get(access.tensor, frozenset()) for access in statement.reads)
        origins[statement.target.tensor] = frozenset(statement.patterns).union(*of_reads)
    return [origins[t.name] for t in problem.results]


def _any(flags: dict[int, Any], chosen: Iterable[int]) -> Any:
    return reduce(or_, (flags[n] for n in sorted(chosen)))


def _arrange_result(result: Result, computed: list[Any], operands: Any) -> Any:
    """Return a result of the chain: a kernel's result, or an argument, transposed and repeated along missing axes."""
    kept = [axis for axes in result.axes for axis in axes]
    sizes = [size if axes else 1 for axes, size in zip(result.axes, result.shape, strict=True)]
    if result.number is None:
        size_of = {axes[0]: size for axes, size in zip(result.axes, sizes, strict=True) if axes}
        x = operands[result.argument].reshape([size_of[axis] for axis in sorted(size_of)])
    else:
        x = computed[result.number]
    return jnp.broadcast_to(jnp.transpose(x, kept).reshape(sizes), result.shape)


def with_moved_operands(problem: Problem) -> Problem:
    """Give each dense operand that only one dense product reads the layout that this product prefers.

    Return the problem. A moved operand has the same axes as the given operand, in a different order.
    """
    shared = find_shared_loops(problem)
    readers = Counter(name for s in problem.statements for name in {access.tensor for access in s.reads})
    movable = {t.name for t in problem.operands if t.positions is None and readers[t.name] == 1}
    moved: dict[str, TensorType] = {}
    for number, statement in enumerate(problem.statements):
        summed = {v for access in statement.reads for v in access.variables()} - set(statement.target.variables())
        is_product = bool(summed) and len(statement.reads) > 1
        if statement.patterns or not is_product or any(is_sum(problem, number, var) for var in shared):
            continue
        stored = plan(problem.alone(number), (), outer=shared).problem
        changed = {t.name: t for t in stored.tensors if t.axes != problem.type_of[t.name].axes}
        if movable.issuperset(changed):
            moved |= changed
    return replace(problem, tensors=tuple(moved.get(t.name, t) for t in problem.tensors)) if moved else problem
