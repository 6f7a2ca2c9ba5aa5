"""How a spec runs on CPU: plan it, bring values and arrays into the plan's storage order, call the kernel, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.bound import array_names
from jsparse.compiler.problem import Dense, TensorType
from jsparse.compiler.runtime import OPERAND, KernelCall, call_of
from jsparse.compiler.schedule import Plan, plan
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.timing import stage
from jsparse.formats import Pattern, Relayout
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.regather import gather_slots, regather
from jsparse.primitives.spec import Spec, Term, Walked, problem_of

__all__ = ["Movement", "execute", "make_plan"]


@lru_cache(maxsize=256)
def make_plan(spec: Spec, dtypes: tuple[str, ...]) -> tuple[Plan, KernelCall]:
    """The plan for `spec` and its call; `dtypes` are those of the result and of the factors."""
    with stage("schedule"):
        chosen = plan(problem_of(spec, dtypes), tuple(walk.stored for walk in spec.walks))
    bound: list[str] = []
    for used, walk in zip(chosen.patterns, spec.walks, strict=True):
        if isinstance(used, Pattern) and isinstance(walk.pattern, Pattern):
            bound += array_names(used, walk.pattern)
        else:
            bound += [OPERAND] * len(used.format.arrays)
    return chosen, call_of(chosen.problem, chosen.schedule, tuple(bound))


def execute(*operands: Any, spec: Spec) -> jax.Array:
    """Values to their pattern's order of storage, dense arrays to theirs, the kernel, and back."""
    factors, index = spec.split(operands)
    chosen, call = make_plan(spec, tuple(np.dtype(x.dtype).name for x in (factors[0], *factors)))
    inner = dict(spec.sizes)
    moves = [
        Movement(walk, used, arrays) for walk, used, arrays in zip(spec.walks, chosen.patterns, index, strict=True)
    ]

    def moved(x: Any, term: Term, back: bool) -> Any:
        return moves[term.on or 0].apply(x, len(term.before), prod(inner[v] for v in term.behind), back)

    result, *tensors = chosen.problem.tensors
    stored = [
        _transposed(x, _order(tensor)) if term.on is None else moved(x, term, back=False)
        for x, term, tensor in zip(factors, spec.factors, tensors, strict=True)
    ]
    shape = spec.shape(spec.result)
    held = tuple(walk.pattern for walk in spec.walks if isinstance(walk.pattern, Pattern))
    order = _order(result) if spec.result.on is None else tuple(range(len(shape)))
    arrays = (*stored, *(array for move in moves for array in move.arrays))
    out = call_kernel(call, arrays, tuple(shape[n] for n in order), factors[0].dtype, held)
    return _transposed(out, _inverse(order)) if spec.result.on is None else moved(out, spec.result, back=True)


class Movement:
    """How values move between the order in which tensors store them and the one in which the loops walk them.

    Attributes:
        arrays: the index arrays of a dynamic pattern that the loops walk.
    """

    def __init__(self, walk: Walked, used: Stored, index: Sequence[Any]) -> None:
        self.arrays: Sequence[Any] = ()
        self.relayout: Relayout | None = None
        self.places: Sequence[Any] = ()  # gather and scatter of a dynamic transposed index
        if isinstance(used, Pattern):
            assert isinstance(walk.pattern, Pattern)
            relayout = walk.pattern.relayout_to(used.format)
            self.relayout = None if relayout.is_identity else relayout
            return
        own, *others = _divided(index, walk.array_counts)
        self.arrays = own
        for type_, arrays in zip(walk.derived, others, strict=True):
            if type_ == used.type and type_ != walk.pattern:
                *self.arrays, gather, scatter = arrays
                self.places = (gather, scatter)

    def apply(self, x: Any, axis: int, inner: int, back: bool) -> Any:
        """Values with the positions at `axis`, `inner` elements a slot, moved (or moved back)."""
        if self.relayout is None and not self.places:
            return x
        blocks = x.reshape(*x.shape[:axis], -1 if inner else 0, inner)
        if self.relayout is not None:
            out = regather(blocks, self.relayout, back, axis)
        else:
            out = gather_slots(blocks, self.places[back], axis)
        return out.reshape(*x.shape[:axis], -1)


def _divided(arrays: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    parts = []
    for count in counts:
        parts.append(arrays[:count])
        arrays = arrays[count:]
    return parts


def _transposed(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == tuple(range(x.ndim)) else jnp.transpose(x, order)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(n) for n in range(len(order)))


def _order(tensor: TensorType) -> tuple[int, ...]:
    return tuple(axis.dim for axis in tensor.axes if isinstance(axis, Dense))
