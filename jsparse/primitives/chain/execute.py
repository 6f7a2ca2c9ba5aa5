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
from jsparse.compiler.statement import Statement
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
    """Run a closed jaxpr as one kernel. Raises ChainError if it is no chain."""
    chain = translate_jaxpr(closed)
    if isinstance(chain, ChainError):
        raise chain
    problem = plan_chain(chain)[0]
    pairs = zip(chain.operands, problem.operands, strict=True)
    given = [_arrange_operand(operands[x.number], x.shape, _order(t, len(x.shape))) for x, t in pairs]
    index: list[Any] = []
    for walk, order, numbers in zip(chain.walks, chain.stored, chain.index, strict=True):
        arrays, _ = index_arrays(walk, order, [operands[n] for n in numbers])
        index += arrays
    orders = [_order(t, len(shape)) for t, shape in zip(problem.results, chain.buffers, strict=True)]
    shapes = [
        (tuple(shape[n] for n in order), np.dtype(t.dtype))
        for shape, order, t in zip(chain.buffers, orders, problem.results, strict=True)
    ]
    call = _call(chain, config.generator)
    flags = _find_overflows(chain, operands)
    origins = [frozenset(flags) & own for own in _origins(chain.problem)]
    alike = all(own == frozenset(flags) for own in origins)
    invalid = _any(flags, flags) if alike and flags else None
    found = call_kernels(call, (*given, *index), shapes, static_patterns(chain.walks), invalid)
    if not alike:
        found = [nan_where(_any(flags, own), x) if own else x for x, own in zip(found, origins, strict=True)]
    found = [transpose_to(x, tuple(map(order.index, range(x.ndim)))) for x, order in zip(found, orders, strict=True)]
    dtypes = (np.dtype(t.dtype) for t in chain.problem.results)
    found = [x.reshape(shape).astype(d) for x, shape, d in zip(found, chain.shapes, dtypes, strict=True)]
    return [_arrange_result(result, found, operands) for result in chain.results]


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


def _find_overflows(chain: Chain, operands: Any) -> dict[int, Any]:
    """Return whether each dynamic pattern that may overflow has overflowed, by the index of the pattern."""
    flags = {}
    for number, (walk, arrays) in enumerate(zip(chain.walks, chain.index, strict=True)):
        flag = overflow(walk.pattern, [operands[n] for n in arrays])
        if flag is not None:
            flags[number] = jnp.any(flag)
    return flags


def _origins(problem: Problem) -> list[frozenset[int]]:
    """Return the patterns from which each result is computed, directly or through other statements."""
    found: dict[str, frozenset[int]] = {}
    for statement in problem.statements:
        own = (found.get(access.tensor, frozenset()) for access in statement.reads)
        found[statement.target.tensor] = frozenset(statement.patterns).union(*own)
    return [found[t.name] for t in problem.results]


def _any(flags: dict[int, Any], chosen: Iterable[int]) -> Any:
    return reduce(or_, (flags[n] for n in sorted(chosen)))


def _arrange_result(result: Result, found: list[Any], operands: Any) -> Any:
    """Return a result of the chain: a kernel's result, or an argument, transposed and repeated along missing axes."""
    kept = [axis for axes in result.axes for axis in axes]
    sizes = [size if axes else 1 for axes, size in zip(result.axes, result.shape, strict=True)]
    if result.number is None:
        given = {axes[0]: size for axes, size in zip(result.axes, sizes, strict=True) if axes}
        x = operands[result.argument].reshape([given[axis] for axis in sorted(given)])
    else:
        x = found[result.number]
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
        if statement.patterns or not _is_product(statement) or any(is_sum(problem, number, var) for var in shared):
            continue
        stored = plan(problem.alone(number), (), outer=shared).problem
        changed = {t.name: t for t in stored.tensors if t.axes != problem.type_of[t.name].axes}
        if movable.issuperset(changed):
            moved |= changed
    return replace(problem, tensors=tuple(moved.get(t.name, t) for t in problem.tensors)) if moved else problem


def _is_product(statement: Statement) -> bool:
    """Whether a statement sums over products of several tensors."""
    summed = {v for access in statement.reads for v in access.variables()} - set(statement.target.variables())
    return bool(summed) and len(statement.reads) > 1
