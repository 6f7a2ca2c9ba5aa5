"""The flat buffers of a problem, and addresses in them.

Formats and sizes determine the element type and the extents of each buffer. With s stored entries (s0 and s1 in the two
levels of dcsr), and b members of a batch:

    csr (m, n)          pointers [m + 1], coordinates [s], values [s]
    csr, batched values values [b, s]
    dcsr                pointers [2], coordinates [s0], pointers [s0 + 1], coordinates [s1], values [s1]
    blocks (a, b)       values [a*b*s]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce
from math import prod

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel.algebra import add, const, mul
from jsparse.compiler.kernel.nodes import Buffer, Expr, Extent
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.output_kind import Compute, Coordinates, Count, Write
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.signature import BufferType, Length
from jsparse.formats.levels import array_length
from jsparse.notation.assignment import Access, IndexVar


@dataclass(frozen=True)
class Storage:
    """The buffers of a problem: values of each operand, index arrays of each pattern, values of each result.

    Attributes:
        copies: target → the borrowed memory to which loops add in place of the target.
    """

    problem: Problem
    copies: Mapping[str, Buffer] = field(default_factory=dict)

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers in the order of the kernel's slots."""
        output, names = self.problem.output, [(t.name, t.dtype, False) for t in self.problem.operands]
        for n, pattern in enumerate(self.problem.patterns):
            for depth, level in enumerate(pattern.levels):
                names += [(f"P{n}_{depth}_{role}", pattern.index_dtype, False) for role in level.kind.arrays]
        if isinstance(output, Write) and output.coordinates is Coordinates.NONE:
            names.append(("starts", "int32", False))
        elif isinstance(output, Write):
            names.append(("starts", "int64", True))
            names += [("ends", "int64", True)] if self.problem.builds_levels else []
            names += [("columns", self.problem.column_dtype, True)] if output.values else []
        names += [(t.name, t.dtype, True) for t in self.problem.results]
        return tuple(Buffer(name, Type(dtype), slot, written) for slot, (name, dtype, written) in enumerate(names))

    @cached_property
    def by_name(self) -> dict[str, Buffer]:
        """Name → the buffer that loops read and write. The buffers of temporaries and of copies are borrowed memory."""
        buffers = {buffer.name: buffer for buffer in self.buffers}
        types = self.problem.type_of
        buffers |= {name: Buffer(name, Type(types[name].dtype), -1, True) for name in self.problem.temporaries}
        buffers |= {t.name: buffers[t.view_of] for t in self.problem.tensors if t.view_of}
        return buffers | dict(self.copies)

    def with_copies(self, copies: Mapping[str, Buffer]) -> Storage:
        """Return the storage in which loops add to these copies of targets."""
        return replace(self, copies={**self.copies, **copies})

    @property
    def columns(self) -> Buffer:
        """The buffer of assembled coordinates: [dimension, entry], or [level, item] if levels are built."""
        return self.by_name.get("columns", self.target)

    @property
    def target(self) -> Buffer:
        """The buffer of the target of an assembly."""
        return self.by_name[self.problem.target.tensor]

    def index_array(self, pattern: int, level: int, role: str) -> Buffer:
        """Return a level's index array in the given role, such as "coordinates"."""
        return self.by_name[f"P{pattern}_{level}_{role}"]

    def size(self, var: IndexVar) -> Expr:
        """Return the size of an index variable. If it is unknown at compile time, it is read from a buffer's shape."""
        size = self.problem.size[var]
        if size is not None:
            return const(size)
        tensor, axis = self.problem.size_source(var)
        return self.extent(tensor, axis)

    def extent(self, tensor: str, axis: int) -> Expr:
        """Return the run-time size of an axis of a tensor's buffer. The tensor must not be a temporary."""
        return Extent(next(buffer for buffer in self.buffers if buffer.name == tensor), axis)

    def positions_extent(self, access: Access, number: int) -> Expr:
        """The number of positions of the storage axis `number`, times the extents of the dense axes after it."""
        if access.tensor not in self.problem.temporaries:
            return self.extent(access.tensor, number)
        first, *after = self.problem.type_of[access.tensor].axes[number:]
        assert isinstance(first, Positions)
        behind = range(number + 1, number + 1 + len(after))
        return reduce(mul, (self.dense_extent(access, n) for n in behind), self.position_count(first.pattern))

    def position_count(self, pattern: int) -> Expr:
        """The number of positions of a pattern's last level. For a dynamic pattern, this is the level's capacity."""
        type_ = self.problem.patterns[pattern]
        count: Expr = const(1)
        for depth, (level, var) in enumerate(zip(type_.levels, self.problem.level_variables[pattern], strict=True)):
            if level.kind.is_full:
                count = mul(count, self.size(var))
            elif not level.kind.counts_positions:
                count = const(type_.capacities[depth])
            else:
                count = Extent(self.index_array(pattern, depth, "coordinates"), type_.batch_axes)
        return count

    def dense_extent(self, access: Access, number: int) -> Expr:
        """The extent of the dense storage axis `number` of the access's tensor."""
        axis = self.problem.type_of[access.tensor].axes[number]
        assert isinstance(axis, Dense)
        index = access.indices[axis.dim]
        if isinstance(index, Access) or self.problem.size[index] is None:
            return self.extent(access.tensor, number)
        return self.size(index)

    def stride(self, access: Access, number: int) -> Expr:
        """The stride, in elements, of the storage axis `number`.

        A buffer has one axis for each dense axis before the positions, and one axis for the positions together with all
        dense axes after them. So a stride across the positions is read from the buffer's shape.
        """
        axes = self.problem.type_of[access.tensor].axes
        stride: Expr = const(1)
        for n in range(number + 1, len(axes)):
            if isinstance(axes[n], Positions):
                return mul(stride, self.positions_extent(access, n))
            stride = mul(stride, self.dense_extent(access, n))
        return stride

    def address(self, access: Access, coordinates: Sequence[Expr]) -> Expr:
        """Return the address of the element that has the given coordinates on the storage axes."""
        address: Expr = const(0)
        for number, coordinate in enumerate(coordinates):
            address = add(address, mul(coordinate, self.stride(access, number)))
        return address

    def size_of(self, access: Access) -> Expr:
        """How many elements the tensor of `access` has."""
        return self.stride(access, -1)

    def outer_size(self, access: Access, number: int) -> Expr:
        """The product of the extents of the dense axes before the storage axis `number`."""
        one: Expr = const(1)
        return reduce(mul, (self.dense_extent(access, n) for n in range(number)), one)


def kernel_buffers(problem: Problem) -> tuple[Buffer, ...]:
    """The buffers of a problem's kernel in order: operands' values, patterns' index arrays, the results' values."""
    return Storage(problem).buffers


Shape = tuple[Length, ...]


def buffer_types(problem: Problem) -> tuple[BufferType, ...]:
    """The types of `kernel_buffers`, in the same order."""
    shapes, moved = _Shapes(problem).by_name(), _tensors_of_copy(problem)

    def element(name: str, dtype: str) -> str | int:
        return np.dtype(dtype).itemsize if name in moved else dtype

    buffers = Storage(problem).buffers
    return tuple(BufferType(element(b.name, b.type.dtype), shapes[b.name]) for b in buffers)


def _tensors_of_copy(problem: Problem) -> tuple[str, ...]:
    """The tensors of a problem that only copies elements, or () for other problems. Their buffers may have any dtype of
    the same item size as the dtype of the tensor."""
    statement = problem.statements[0]
    if problem.patterns or problem.is_assembly or len(problem.statements) != 1:
        return ()
    if not isinstance(statement.value, Access) or not statement.value.indirections() or statement.condition is not None:
        return ()
    return statement.target.tensor, statement.value.tensor


class _Shapes:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.positions: dict[int, Length] = {}  # number of positions of each pattern's last level

    def by_name(self) -> dict[str, Shape]:
        shapes = {name: shape for n in range(len(self.problem.patterns)) for name, shape in self.index_arrays(n)}
        accesses = {access.tensor: access for one in self.problem.accesses for access in (one, *one.indirections())}
        shapes |= {tensor.name: self.tensor(tensor, accesses[tensor.name]) for tensor in self.problem.operands}
        for target in self.problem.results:
            shapes |= self.result(target, accesses[target.name])
        return shapes

    def result(self, target: TensorType, access: Access) -> dict[str, Shape]:
        """Return name → shape for the buffer of a target. In an assembly, include its other buffers, too."""
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
        """Yield the name and the shape of each index array of a pattern."""
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
        """The shape of a tensor's buffer: one extent for each dense axis before the positions, then one extent for the
        positions and all later axes."""
        shape: list[Length] = []
        for number, axis in enumerate(tensor.axes):
            if isinstance(axis, Positions):
                later = (a for a in tensor.axes[number + 1 :] if isinstance(a, Dense))
                sizes = [self.problem.size[str(access.indices[a.dim])] for a in later]
                numbers = [size for size in sizes if size is not None]
                slots = self.positions[axis.pattern]
                unknown = len(numbers) < len(sizes)
                return (*shape, Length(0, f"{tensor.name} behind") if unknown else slots.times(prod(numbers)))
            index = access.indices[axis.dim]
            shape.append(Length(0, f"{tensor.name} {number}") if isinstance(index, Access) else self.size(index))
        return tuple(shape)

    def size(self, var: IndexVar) -> Length:
        """The size of an index variable, or a symbol for it."""
        number = self.problem.size[var]
        return Length(0, var) if number is None else Length(number)
