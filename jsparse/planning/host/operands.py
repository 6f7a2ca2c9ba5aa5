"""The operands of a host program's kernels: patterns in the storage orders that the kernels walk, and other arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.schedule import Plan
from jsparse.formats import Format, Pattern, PatternType, Relayout
from jsparse.formats.relayout import relayout_to
from jsparse.planning.term import Term
from jsparse.primitives.permute_values import permute_values
from jsparse.primitives.spec import PatternAccess, Spec
from jsparse.primitives.storage_order import transpose_to

Sources: TypeAlias = dict[Pattern | PatternType, int]
"""The number of the operand on whose core each walked pattern lies."""


class Unfit(Exception):  # noqa: N818  no error: such a plan has no host program
    """Raised for a part of a plan that host programs do not run."""


@dataclass(frozen=True, slots=True)
class HostWalk:
    """A pattern that a kernel walks: the core of operand number `source`, stored in `format`."""

    source: int
    format: Format

    def relayout(self, cores: Mapping[int, Pattern]) -> Relayout:
        """How the slots of the core move to the pattern that the kernel walks."""
        return relayout_to(cores[self.source], self.format)


def index_arrays(walks: Sequence[HostWalk], cores: Mapping[int, Pattern]) -> list[np.ndarray]:
    """The index arrays of all walked patterns."""
    return [array for walk in walks for array in walk.relayout(cores).target.arrays]


@dataclass(frozen=True, slots=True)
class HostFactor:
    """A factor of a product: operand number `value`, as an array of `dtype`.

    Attributes:
        walk: the number of the walk whose slots the array's axis `axis` runs over; None for a dense array.
        inner: the number of elements in a slot.
        order: the storage order of a dense array's dimensions.
    """

    value: int
    dtype: np.dtype
    walk: int | None
    axis: int
    inner: int
    order: tuple[int, ...]

    def array(self, operands: Sequence[np.ndarray], moves: Sequence[Relayout]) -> np.ndarray:
        """The array that the kernel reads."""
        x = operands[self.value]
        x = x if x.dtype == self.dtype else x.astype(self.dtype)
        if self.walk is not None:
            return move_values(x, moves[self.walk], self.axis, self.inner)
        return cast(np.ndarray, transpose_to(x, self.order))


def move_values(x: np.ndarray, move: Relayout, axis: int, inner: int, back: bool = False) -> np.ndarray:
    """Move values to the slots that a kernel walks, or back."""
    if move.is_identity:
        return x
    slots = (move.target if back else move.source).nse
    moved = permute_values(x.reshape(*x.shape[:axis], slots, inner), move, back, axis)
    return np.asarray(moved).reshape(*x.shape[:axis], -1)


def take_walks(plan: Plan, walks: Sequence[PatternAccess], sources: Sources) -> tuple[HostWalk, ...]:
    """Take the patterns that a kernel walks. Raises Unfit."""
    if plan.blocks is not None or any(p.capacities or p.constant_indices for p in plan.problem.patterns):
        raise Unfit
    if any(w.pattern not in sources for w in walks):
        raise Unfit
    return tuple(HostWalk(sources[w.pattern], used.format) for w, used in zip(walks, plan.patterns, strict=True))


def take_factors(term: Term, spec: Spec, orders: Sequence[tuple[int, ...]]) -> tuple[HostFactor, ...]:
    """Take the factors of a term, with the storage orders of its dense ones. Raises Unfit."""
    if any(text is not None for text in term.prereductions):
        raise Unfit  # jnp.einsum computes them
    numbers = [n for n, x in enumerate(term.operands) if not x.is_bare]
    factors = []
    for n, of, order in zip(numbers, spec.factors, orders, strict=True):
        dtype, stored = term.operand_dtypes[n], term.operands[n].stored
        if dtype is None or (stored is not None and stored.pattern.format.is_dense):
            raise Unfit
        factors.append(HostFactor(term.values[n], dtype, of.on, len(of.before), spec.slot_size(of), order))
    return tuple(factors)
