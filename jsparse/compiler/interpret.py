"""Runs a problem by its definition, on numpy arrays. Slow and obvious: the tests' reference for loop nests.

Every index variable becomes an axis of one big array of products; what is not stored or out of range is left out of
it, so that it contributes nothing even against NaN; the rest is added to the target, element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jsparse.compiler.levels import functions_of
from jsparse.compiler.problem import Addend, Dense, PatternType, Positions, Problem
from jsparse.compiler.semiring import Multiply, identity
from jsparse.notation.assignment import Access, Assignment, IndexVar

__all__ = ["COMBINE", "as_stored", "interpret_listing", "interpret_problem"]

Array = NDArray[Any]

COMBINE: dict[str, np.ufunc] = {
    "+": np.add,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "|": np.bitwise_or,
    "&": np.bitwise_and,
}


def interpret_problem(problem: Problem, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]) -> None:
    """Write the meaning of `problem` to the target's array.

    Memory is that of the whole iteration space. Sums are taken in 64 bits, masks in the target's dtype.

    Args:
        arrays: tensor name → values, one axis per storage axis (dense blocks inside a pattern included).
        patterns: for each pattern its index arrays, level by level, pointers before coordinates.
    """
    space = _Space(problem, arrays, patterns)
    target, semiring = arrays[problem.assignment.target.tensor], problem.semiring
    wide = _widened(np.dtype(problem.accumulator))
    product, stored = space.product(problem.product, semiring.multiply, wide)
    if semiring.is_selective:  # among what each product would be, if it were stored
        product = as_stored(product, target.dtype).astype(wide)
    defined = stored & space.counts(wide)
    where, stored = space.locate(problem.assignment.target)
    kept = np.broadcast_to(defined & stored, space.shape)
    total = np.full(target.shape, semiring.zero(target.dtype.name), wide)
    if total.size:
        places = tuple(np.broadcast_to(axis, space.shape)[kept] for axis in where)
        values = np.broadcast_to(product, space.shape)[kept]
        if places:
            COMBINE[semiring.add].at(total, places, values)
        else:
            total[...] = COMBINE[semiring.add].reduce(values, initial=total[()])
    target[...] = as_stored(total, target.dtype)


def as_stored(exact: Array, dtype: np.dtype) -> Array:
    """Exact results in the dtype in which they are stored: rounded, wrapped, or whether they are not 0."""
    with np.errstate(over="ignore"):
        return exact.astype(dtype)


def _widened(dtype: np.dtype) -> Any:
    """In which sums are taken: floats of any width in one, all else in the other."""
    return np.int64 if dtype.kind in "iub" else np.float64


def interpret_listing(
    problem: Problem, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]
) -> dict[tuple[int, ...], float]:
    """Of a problem with terms, the coordinates of the target that some term reaches, in order, with their values.

    Without factors these are how many combinations of entries reach them.
    """
    target = problem.assignment.target
    dtype = np.dtype(problem.type_of[target.tensor].dtype if problem.wants_values else np.int64)
    wide = np.dtype(_widened(dtype))
    found: dict[tuple[int, ...], Any] = {}
    for term in problem.terms:
        space = _Space(_alone(problem, term), arrays, [patterns[n] for n in term.patterns])
        product, stored = space.product(space.problem.product, problem.semiring.multiply, wide)
        if term.coefficient != 1:
            product = np.asarray(term.coefficient, wide) * product
        if problem.semiring.is_selective:
            product = as_stored(product, dtype).astype(wide)
        kept = np.broadcast_to(stored & space.counts(wide), space.shape)
        everywhere = [np.broadcast_to(space.coordinate(str(v)), space.shape) for v in target.indices]
        columns = (axis[kept].tolist() for axis in (*everywhere, np.broadcast_to(product, space.shape)))
        for *place, value in zip(*columns, strict=True):
            known = found.get(tuple(place))
            found[tuple(place)] = value if known is None else COMBINE[problem.semiring.add](known, value).item()
    return {place: as_stored(np.array(found[place], wide), dtype).item() for place in sorted(found)}


def _alone(problem: Problem, term: Addend) -> Problem:
    """One term as a problem of its own, whose patterns are numbered as it names them."""
    numbers = {n: place for place, n in enumerate(term.patterns)}
    types = {problem.assignment.target.tensor, *(factor.tensor for factor in term.factors)}
    tensors = tuple(
        replace(
            t, axes=tuple(replace(a, pattern=numbers[a.pattern]) if isinstance(a, Positions) else a for a in t.axes)
        )
        for t in problem.tensors
        if t.name in types
    )
    assignment = Assignment(problem.assignment.target, term.factors)
    own = {*assignment.variables(), *(v for n in term.patterns for v in problem.walks[n])}
    return replace(
        problem,
        assignment=assignment,
        sizes=tuple((v, size) for v, size in problem.sizes if v in own),
        tensors=tensors,
        patterns=tuple(problem.patterns[n] for n in term.patterns),
        walks=tuple(problem.walks[n] for n in term.patterns),
        terms=(),
    )


@dataclass(frozen=True)
class _Space:
    problem: Problem
    arrays: Mapping[str, Array]
    patterns: Sequence[Sequence[Array]]

    @cached_property
    def variables(self) -> tuple[IndexVar, ...]:
        return tuple(v for v, _ in self.problem.sizes)

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
        if self.problem.mask is None:
            return defined
        *factors, total = self.problem.compared
        compared, stored = self.product(factors, self.problem.mask.multiply, dtype)
        expected, there = self.product([total], self.problem.mask.multiply, dtype)
        held = as_stored(compared, self.arrays[total.tensor].dtype).astype(dtype)
        return defined & stored & there & (held == expected)

    def product(self, factors: Sequence[Access], operation: Multiply, dtype: Any) -> tuple[Array, Array]:
        """The product of the factors, as they come, at every point, and where all of them are in range."""
        product, defined = np.full((), identity(operation, np.dtype(dtype).name), dtype), np.ones((), np.bool_)
        for factor in factors:
            where, stored = self.locate(factor)
            product = COMBINE[operation](product, self.read(factor, where).astype(dtype))
            defined = defined & stored
        return product, defined

    def coordinate(self, var: IndexVar) -> Array:
        """The variable's value at every point of the space."""
        place = self.variables.index(var)
        return np.arange(self.size(var)).reshape([-1 if n == place else 1 for n in range(len(self.variables))])

    def locate(self, access: Access) -> tuple[tuple[Array, ...], Array]:
        """Where `access` points along each storage axis, and whether there is such a place; 0 where there is none."""
        type_ = self.problem.type_of[access.tensor]
        defined = np.ones((), np.bool_)
        where = []
        for axis, size in zip(type_.axes, self.arrays[access.tensor].shape, strict=True):
            if isinstance(axis, Dense):
                place, known = self.index(access.indices[axis.dim])
            else:
                place, known = self.slots[axis.pattern], np.ones((), np.bool_)
            inside = known & (place >= 0) & (place < size)
            where.append(np.where(inside, place, 0))
            defined = defined & inside
        return tuple(where), defined

    def index(self, index: IndexVar | Access) -> tuple[Array, Array]:
        """The value of an index at every point, and whether it has one."""
        if not isinstance(index, Access):
            return self.coordinate(index), np.ones((), np.bool_)
        where, defined = self.locate(index)
        return self.read(index, where), defined

    def read(self, access: Access, where: tuple[Array, ...]) -> Array:
        """The elements at these places; none are wanted of an empty array."""
        array = self.arrays[access.tensor]
        return array[where] if array.size else np.zeros((), array.dtype)

    @cached_property
    def slots(self) -> tuple[Array, ...]:
        """For each pattern what `slots_of` says."""
        return tuple(self.slots_of(n) for n in range(len(self.patterns)))

    def slots_of(self, pattern: int) -> Array:
        """The position in a pattern of the coordinates at every point, -1 where they are not stored."""
        levels = self.problem.level_variables[pattern]
        leads = self.problem.lead_variables[pattern]
        sizes = tuple(self.size(v) for v in levels)
        table = np.full((*(self.size(v) for v in leads), *sizes), -1, np.int64)
        for lead in np.ndindex(table.shape[: len(leads)]):
            arrays = [array[lead] for array in self.patterns[pattern]]
            for coordinates, position in _entries(self.problem.patterns[pattern], arrays, sizes):
                table[(*lead, *coordinates)] = position
        return np.asarray(table[tuple(self.coordinate(v) for v in (*leads, *levels))])


def _entries(type_: PatternType, arrays: Sequence[Array], sizes: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """The coordinates and the position of each entry, level by level; those out of range are padding."""
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for depth, (level, size) in enumerate(zip(type_.levels, sizes, strict=True)):
        own, functions = type_.arrays_of(depth, arrays), functions_of(level.kind)
        found = [
            ((*above, coordinate), p)
            for above, parent in found
            for coordinate, p in functions.entries(own, parent, parent + 1, size, type_.capacity(depth))
            if 0 <= coordinate < size
        ]
    return found
