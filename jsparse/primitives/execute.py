"""How a spec runs on CPU: plan it, bring values and arrays into the plan's storage order, call the kernel, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.bound import array_names
from jsparse.compiler.problem import Dense, TensorType
from jsparse.compiler.runtime import KernelCall, call_of
from jsparse.compiler.schedule import Plan, plan
from jsparse.compiler.timing import stage
from jsparse.formats import DynamicType, Pattern
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.regather import gather_slots, regather
from jsparse.primitives.spec import Spec, Term, problem_of, stored_pattern

__all__ = ["execute", "make_plan"]


@lru_cache(maxsize=256)
def make_plan(spec: Spec, dtypes: tuple[str, ...]) -> tuple[Plan, KernelCall]:
    """The plan for `spec` and its call; `dtypes` are those of the result and of the factors."""
    with stage("schedule"):
        chosen = plan(problem_of(spec, dtypes), (stored_pattern(spec),))
    (used,) = chosen.patterns
    bound: tuple[str, ...] = ()
    if isinstance(used, Pattern) and isinstance(spec.pattern, Pattern):
        bound = array_names(used, spec.pattern)
    return chosen, call_of(chosen.problem, chosen.schedule, bound)


def execute(*operands: Any, spec: Spec) -> jax.Array:
    """Values to the pattern's order of storage, dense arrays to theirs, the kernel, and back."""
    factors, index = spec.split(operands)
    chosen, call = make_plan(spec, tuple(np.dtype(x.dtype).name for x in (factors[0], *factors)))
    move = _movement(spec, chosen, index)
    result, *tensors = chosen.problem.tensors
    stored = [
        move(x, term, False) if term.on_pattern else _transposed(x, _order(tensor))
        for x, term, tensor in zip(factors, spec.factors, tensors, strict=True)
    ]
    shape = spec.result.shape(dict(spec.sizes), spec.slots)
    held = (spec.pattern,) if isinstance(spec.pattern, Pattern) else ()
    order = tuple(range(len(shape))) if spec.result.on_pattern else _order(result)
    arrays = (*stored, *_walked_arrays(spec, chosen, index))
    out = call_kernel(call, arrays, tuple(shape[n] for n in order), factors[0].dtype, held)
    return move(out, spec.result, True) if spec.result.on_pattern else _transposed(out, _inverse(order))


def _walked_arrays(spec: Spec, chosen: Plan, index: Sequence[Any]) -> Sequence[Any]:
    """The index arrays of the dynamic pattern that the loops walk."""
    for type_, arrays, _ in _dynamic(spec, index):
        if type_ == chosen.patterns[0].type:  # type: ignore[union-attr]
            return arrays
    return ()


def _dynamic(spec: Spec, index: Sequence[Any]) -> Iterator[tuple[DynamicType, Sequence[Any], Sequence[Any]]]:
    """Of the dynamic pattern and of each of its transposed indices: the type, index arrays, (gather, scatter)."""
    if isinstance(spec.pattern, Pattern):
        return
    own = len(spec.pattern.array_lengths)
    yield spec.pattern, index[:own], ()
    index = index[own:]
    for type_ in spec.derived:
        count = len(type_.array_lengths)
        yield type_, index[:count], index[count : count + 2]
        index = index[count + 2 :]


def _movement(spec: Spec, chosen: Plan, index: Sequence[Any]) -> Callable[[Any, Term, bool], Any]:
    """How values move between the order in which tensors store them and the one in which the loops walk them."""
    (walked,) = chosen.patterns

    def moved(x: Any, term: Term, back: bool, apply: Callable[[Any, int], Any]) -> Any:
        inner = prod(dict(spec.sizes)[v] for v in term.behind)
        axis = len(term.before)
        blocks = x.reshape(*x.shape[:axis], -1 if inner else 0, inner)
        return apply(blocks, axis).reshape(*x.shape[:axis], -1)

    if isinstance(walked, Pattern):
        assert isinstance(spec.pattern, Pattern)
        relayout = spec.pattern.relayout_to(walked.format)
        if relayout.is_identity:
            return lambda x, term, back: x
        return lambda x, term, back: moved(x, term, back, lambda v, axis: regather(v, relayout, back, axis))
    found = [movement for type_, _, movement in _dynamic(spec, index) if type_ == walked.type and len(movement)]
    if not found:
        return lambda x, term, back: x
    return lambda x, term, back: moved(x, term, back, lambda v, axis: gather_slots(v, found[0][back], axis))


def _transposed(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == tuple(range(x.ndim)) else jnp.transpose(x, order)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(n) for n in range(len(order)))


def _order(tensor: TensorType) -> tuple[int, ...]:
    return tuple(axis.dim for axis in tensor.axes if isinstance(axis, Dense))
