"""The element type and the extents of each buffer of a problem's kernel, as formats and sizes determine them.

csr (m, n)          pointers [m + 1], coordinates [s], values [s]
csr, batched values values [b, s]
dcsr                pointers [2], coordinates [s0], pointers [s0 + 1], coordinates [s1], values [s1]
blocks (a, b)       values [a*b*s]
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.storage import Storage
from jsparse.compiler.output import Compute, Coordinates, Count, Write
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.signature import BufferType, Length
from jsparse.formats.levels import array_length
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["buffer_types"]

Shape = tuple[Length, ...]


def buffer_types(problem: Problem) -> tuple[BufferType, ...]:
    """The types of `kernel_buffers`, in the same order."""
    shapes, moved = _Shapes(problem).by_name(), _moved(problem)

    def element(name: str, dtype: str) -> str | int:
        return np.dtype(dtype).itemsize if name in moved else dtype

    buffers = Storage(problem).buffers
    return tuple(BufferType(element(b.name, b.type.dtype), shapes[b.name]) for b in buffers)


def _moved(problem: Problem) -> tuple[str, ...]:
    """The tensors of a problem that only moves elements: they may have any dtype of the same item size."""
    statement = problem.statements[0]
    if problem.patterns or problem.is_assembly or len(problem.statements) != 1:
        return ()
    if not isinstance(statement.value, Access) or not statement.value.nested() or statement.condition is not None:
        return ()
    return statement.target.tensor, statement.value.tensor


class _Shapes:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.positions: dict[int, Length] = {}  # number of positions of each pattern's last level

    def by_name(self) -> dict[str, Shape]:
        found = {name: shape for n in range(len(self.problem.patterns)) for name, shape in self.index_arrays(n)}
        accesses = {access.tensor: access for one in self.problem.accesses for access in (one, *one.nested())}
        found |= {tensor.name: self.tensor(tensor, accesses[tensor.name]) for tensor in self.problem.operands}
        for target in self.problem.results:
            found |= self.result(target, accesses[target.name])
        return found

    def result(self, target: TensorType, access: Access) -> dict[str, Shape]:
        """Name → shape of a target, and of the buffers beside it where its pattern is assembled."""
        levels, chunks, room = len(access.indices), Length(MAX_CHUNKS), Length(0, "room")
        of_levels = {"starts": (Length(levels), chunks), "ends": (Length(max(levels - 1, 0)), room)}
        match self.problem.output:
            case Compute():
                return {target.name: self.tensor(target, access)}
            case Count():
                return {target.name: (chunks,)}
            case Write(coordinates=Coordinates.NONE):
                return {"starts": (chunks,), target.name: (room,)}
            case Write(coordinates=Coordinates.COLUMNS):
                return {"starts": (chunks,), target.name: (Length(levels), room)}
            case Write(values=False):
                return {**of_levels, target.name: (Length(levels), room)}
            case Write():
                return {**of_levels, "columns": (Length(levels), room), target.name: (room,)}

    def index_arrays(self, number: int) -> Iterator[tuple[str, Shape]]:
        """Name and shape of each index array of a pattern."""
        type_ = self.problem.patterns[number]
        batch = tuple(self.size(var) for var in self.problem.batch_variables[number])
        positions = Length(1)
        for depth, (level, var) in enumerate(zip(type_.levels, self.problem.level_variables[number], strict=True)):
            name, size, parents = f"P{number}_{depth}", self.problem.size[var], positions
            if level.kind.is_full:
                positions = Length(0, name) if size is None else parents.times(size)
            elif not level.kind.counts_positions:
                positions = Length(type_.capacities[depth])
            elif not level.kind.is_branchless:
                positions = Length(0, name)
            for role in level.kind.arrays:
                yield f"{name}_{role}", (*batch, array_length(role, parents, positions))
        self.positions[number] = positions

    def tensor(self, tensor: TensorType, access: Access) -> Shape:
        """One extent for each dense axis before the positions; then one for the positions and all axes after them."""
        shape: list[Length] = []
        for number, axis in enumerate(tensor.axes):
            if isinstance(axis, Positions):
                later = (a for a in tensor.axes[number + 1 :] if isinstance(a, Dense))
                behind = [self.problem.size[str(access.indices[a.dim])] for a in later]
                known = [size for size in behind if size is not None]
                slots = self.positions[axis.pattern]
                unknown = len(known) < len(behind)
                return (*shape, Length(0, f"{tensor.name} behind") if unknown else slots.times(prod(known)))
            index = access.indices[axis.dim]
            shape.append(Length(0, f"{tensor.name} {number}") if isinstance(index, Access) else self.size(index))
        return tuple(shape)

    def size(self, var: IndexVar) -> Length:
        """The size of an index variable, or a symbol for it."""
        known = self.problem.size[var]
        return Length(0, var) if known is None else Length(known)
