"""Runs a problem by its definition, on numpy arrays. Slow and obvious: the tests' reference for loop nests.

Every index variable of a statement becomes an axis of one big array of values. What is not stored or out of range is
left out of it, so that it contributes nothing even against NaN. The rest is added to the target, element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from interpreters.levels import entries_of
from interpreters.scalars import NUMPY, as_stored, evaluate
from numpy.typing import NDArray

from jsparse.compiler.problem import Dense, Positions, Problem, StorageType
from jsparse.compiler.scalar import Number, Scalar
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["interpret_listing", "interpret_problem"]

Array = NDArray[Any]


def interpret_problem(problem: Problem, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]) -> None:
    """Write the meaning of `problem` to the arrays of its targets.

    Memory is that of the whole iteration space of a statement. Sums are taken in 64 bits, conditions in the target's
    dtype.

    Args:
        arrays: tensor name → values, one axis per storage axis (dense blocks inside a pattern included). Temporaries
            may be left out.
        patterns: for each pattern its index arrays, level by level, pointers before coordinates.
    """
    known = dict(arrays)
    for number, statement in enumerate(problem.statements):
        alone = problem.alone(number)
        own = [patterns[n] for n in statement.patterns]
        name = statement.target.tensor
        if name in problem.temporaries:
            space = _Space(alone, known, own)
            known[name] = np.zeros(space.shape_of(statement.target), problem.type_of[name].dtype)
        if problem.adds(statement):  # an array that shares the memory of the first term's target
            shape = _Space(alone, known, own).shape_of(statement.target)
            known[name] = known[problem.type_of[name].view_of].reshape(shape)
            before = known[name].copy()
        _interpret_statement(alone, known, own)
        if problem.adds(statement):
            known[name][...] = NUMPY[statement.add](before, known[name])


def _interpret_statement(problem: Problem, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]) -> None:
    space, statement = _Space(problem, arrays, patterns), problem.statement
    target, monoid = arrays[statement.target.tensor], problem.monoid
    wide = _widened(np.dtype(problem.accumulator))
    assert statement.value is not None
    value, stored = space.value(statement.value, wide)
    if monoid.is_selective:  # among what each value would be, if it were stored
        value = as_stored(value, target.dtype).astype(wide)
    defined = stored & space.counts(wide)
    where, stored = space.locate(statement.target)
    kept = np.broadcast_to(defined & stored, space.shape)
    total = np.full(target.shape, monoid.zero, wide)
    if total.size:
        indices = tuple(np.broadcast_to(axis, space.shape)[kept] for axis in where)
        values = np.broadcast_to(value, space.shape)[kept]
        if indices:
            NUMPY[monoid.add].at(total, indices, values)
        else:
            total[...] = NUMPY[monoid.add].reduce(values, initial=total[()])
    target[...] = as_stored(total, target.dtype)


def _widened(dtype: np.dtype) -> Any:
    """In which sums are taken: floats of any width in one, all else in the other."""
    return np.uint64 if dtype == np.uint64 else np.int64 if dtype.kind in "iub" else np.float64


def interpret_listing(
    problem: Problem, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]
) -> dict[tuple[int, ...], float]:
    """Of an ordered assembly, the coordinates of the target that some term reaches, in order, with their values.

    Without values these are how many combinations of entries reach them.
    """
    dtype = np.dtype(problem.type_of[problem.target.tensor].dtype if problem.wants_values else np.int64)
    wide = np.dtype(_widened(dtype))
    found: dict[tuple[int, ...], Any] = {}
    for number, term in enumerate(problem.terms):
        space = _Space(problem.alone(number), arrays, [patterns[n] for n in term.patterns])
        value, stored = space.value(Number(1) if term.value is None else term.value, wide)
        if problem.monoid.is_selective:
            value = as_stored(value, dtype).astype(wide)
        kept = np.broadcast_to(stored & space.counts(wide), space.shape)
        everywhere = [np.broadcast_to(space.coordinate(str(v)), space.shape) for v in term.target.indices]
        columns = (axis[kept].tolist() for axis in everywhere)
        # Scalars of numpy, as two Python integers above 2**63 have no sum there.
        values = np.broadcast_to(value, space.shape)[kept].astype(wide)
        for *coordinates, one in zip(*columns, values, strict=True):
            known = found.get(tuple(coordinates))
            found[tuple(coordinates)] = one if known is None else NUMPY[problem.monoid.add](known, one)
    return {key: as_stored(np.array(found[key], wide), dtype).item() for key in sorted(found)}


@dataclass(frozen=True)
class _Space:
    problem: Problem
    arrays: Mapping[str, Array]
    patterns: Sequence[Sequence[Array]]

    @cached_property
    def variables(self) -> tuple[IndexVar, ...]:
        return tuple(v for v, _ in self.problem.sizes if v not in self.problem.derivations)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.size(v) for v in self.variables)

    def size(self, var: IndexVar) -> int:
        """As the problem states it, or as an array has it."""
        known = self.problem.size[var]
        if known is not None:
            return known
        tensor, axis = self.problem.size_source(var)
        return self.arrays[tensor].shape[axis]

    def counts(self, dtype: np.dtype) -> Array:
        """Where products count: where all patterns store an entry, and the mask holds, on values of that dtype."""
        defined: Array = np.ones((), np.bool_)
        for slots in self.slots:  # what no pattern stores is never visited
            defined = defined & (slots >= 0)
        for derived in self.problem.derived:
            defined = defined & (self.coordinate(derived.var) < self.size(derived.var))
        if self.problem.statement.condition is None:
            return defined
        holds, stored = self.value(self.problem.statement.condition, dtype)
        return defined & stored & holds

    def value(self, value: Scalar, dtype: Any) -> tuple[Array, Array]:
        """The value at every point, and where all that it reads is in range."""
        defined: Array = np.ones((), np.bool_)

        def read(access: Access) -> Array:
            nonlocal defined
            where, stored = self.locate(access)
            defined = defined & stored
            return self.read(access, where).astype(dtype)

        with np.errstate(all="ignore"):  # values at points that do not count
            return np.asarray(evaluate(value, read, np.dtype(dtype))), defined

    def coordinate(self, var: IndexVar) -> Array:
        """The variable's value at every point of the space."""
        derived = self.problem.derivations.get(var)
        if derived is not None:
            return sum((stride * self.coordinate(part) for stride, part in derived.parts), np.zeros((), np.int64))
        axis = self.variables.index(var)
        return np.arange(self.size(var)).reshape([-1 if n == axis else 1 for n in range(len(self.variables))])

    def locate(self, access: Access) -> tuple[tuple[Array, ...], Array]:
        """Where `access` points along each storage axis, and whether it is in range; 0 where it is not."""
        type_ = self.problem.type_of[access.tensor]
        defined = np.ones((), np.bool_)
        where = []
        for axis, size in zip(type_.axes, self.arrays[access.tensor].shape, strict=True):
            if isinstance(axis, Dense):
                index, known = self.index(access.indices[axis.dim])
            else:
                index, known = self.slots[axis.pattern], np.ones((), np.bool_)
            inside = known & (index >= 0) & (index < size)
            where.append(np.where(inside, index, 0))
            defined = defined & inside
        return tuple(where), defined

    def index(self, index: IndexVar | Access) -> tuple[Array, Array]:
        """The value of an index at every point, and whether it has one."""
        if not isinstance(index, Access):
            return self.coordinate(index), np.ones((), np.bool_)
        where, defined = self.locate(index)
        return self.read(index, where), defined

    def read(self, access: Access, where: tuple[Array, ...]) -> Array:
        """The elements at these indices; 0 if the array is empty."""
        array = self.arrays[access.tensor]
        return array[where] if array.size else np.zeros((), array.dtype)

    @cached_property
    def slots(self) -> tuple[Array, ...]:
        """For each pattern what `slots_of` says."""
        return tuple(self.slots_of(n) for n in range(len(self.patterns)))

    def slots_of(self, pattern: int) -> Array:
        """The position in a pattern of the coordinates at every point, -1 where they are not stored."""
        levels = self.problem.level_variables[pattern]
        batch = self.problem.batch_variables[pattern]
        sizes = tuple(self.size(v) for v in levels)
        table = np.full((*(self.size(v) for v in batch), *sizes), -1, np.int64)
        for member in np.ndindex(table.shape[: len(batch)]):
            arrays = [array[member] for array in self.patterns[pattern]]
            for coordinates, position in _entries(self.problem.patterns[pattern], arrays, sizes):
                table[(*member, *coordinates)] = position
        inside = [np.minimum(self.coordinate(v), self.size(v) - 1) for v in (*batch, *levels)]
        return np.asarray(table[tuple(inside)]) if table.size else np.full((), -1)

    def shape_of(self, access: Access) -> tuple[int, ...]:
        """The shape of the array of a tensor, which has as many positions as the entries of its pattern need."""
        axes = self.problem.type_of[access.tensor].axes
        positions = {a: int(self.slots[a.pattern].max(initial=-1)) + 1 for a in axes if isinstance(a, Positions)}
        return tuple(positions[a] if isinstance(a, Positions) else self.size(str(access.indices[a.dim])) for a in axes)


def _entries(type_: StorageType, arrays: Sequence[Array], sizes: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """The coordinates and the position of each entry, level by level; those out of range are padding."""
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for depth, (level, size) in enumerate(zip(type_.levels, sizes, strict=True)):
        own = type_.arrays_of(depth, arrays)
        found = [
            ((*above, coordinate), p)
            for above, parent in found
            for coordinate, p in entries_of(level.kind, own, parent, parent + 1, size, type_.capacity(depth))
            if 0 <= coordinate < size
        ]
    return found
