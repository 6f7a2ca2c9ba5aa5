"""The flat buffers of a problem, and addresses in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jsparse.compiler.kernel.algebra import add, const, mul
from jsparse.compiler.kernel.nodes import Buffer, Expr, Extent
from jsparse.compiler.kernel.types import Type
from jsparse.compiler.output import Coordinates, Write
from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["Storage"]


@dataclass(frozen=True)
class Storage:
    """The buffers of a problem: values of each factor, index arrays of each pattern, values of the target."""

    problem: Problem
    widened: bool = False  # whether loops work on a copy of the target in float64

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers in the order of the kernel's slots."""
        target, *factors = self.problem.tensors
        names = [(t.name, t.dtype, False) for t in factors]
        names += [(name, dtype, False) for name, dtype in self._index_arrays()]
        names += self._beside_target()
        names.append((target.name, target.dtype, True))
        return tuple(Buffer(name, Type(dtype), slot, written) for slot, (name, dtype, written) in enumerate(names))

    def _beside_target(self) -> list[tuple[str, str, bool]]:
        """Name and dtype of what an assembly reads and writes besides its target, and whether it writes it."""
        output = self.problem.output
        if not isinstance(output, Write):
            return []
        if output.coordinates is Coordinates.NONE:
            return [("starts", "int32", False)]
        found = [("starts", "int64", True)]
        found += [("ends", "int64", True)] if self.problem.builds_levels else []
        return [*found, ("columns", self.problem.column_dtype, True)] if output.values else found

    def _index_arrays(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for n, pattern in enumerate(self.problem.patterns):
            for depth, level in enumerate(pattern.levels):
                found += [(f"P{n}_{depth}_{role}", pattern.index_dtype) for role in level.kind.arrays]
        return found

    @cached_property
    def by_name(self) -> dict[str, Buffer]:
        """Name → buffer."""
        return {**{buffer.name: buffer for buffer in self.buffers}, self.buffers[-1].name: self.target}

    @property
    def columns(self) -> Buffer:
        """The buffer of assembled coordinates: [dimension, entry], or [level, item] if levels are built."""
        return self.by_name.get("columns", self.target)

    @property
    def target(self) -> Buffer:
        """The buffer that loops write: the target's, or its copy in float64."""
        last = self.buffers[-1]
        return Buffer(f"{last.name} in float64", Type("float64"), -1, True) if self.widened else last

    def index_array(self, pattern: int, level: int, role: str) -> Buffer:
        """A level's index array of that role."""
        return self.by_name[f"P{pattern}_{level}_{role}"]

    def size(self, var: IndexVar) -> Expr:
        """The size of an index variable; one not known at compile time is read from a buffer's shape."""
        size = self.problem.size[var]
        if size is not None:
            return const(size)
        tensor, axis = self.problem.size_source(var)
        return self.extent(tensor, axis)

    def extent(self, tensor: str, axis: int) -> Expr:
        """The size at run time of an axis of a tensor's buffer."""
        return Extent(next(buffer for buffer in self.buffers if buffer.name == tensor), axis)

    def dense_extent(self, access: Access, place: int) -> Expr:
        """The extent of the dense storage axis at `place` of the access's tensor."""
        axis = self.problem.type_of[access.tensor].axes[place]
        assert isinstance(axis, Dense)
        index = access.indices[axis.dim]
        if isinstance(index, Access) or self.problem.size[index] is None:
            return self.extent(access.tensor, place)
        return self.size(index)

    def stride(self, access: Access, place: int) -> Expr:
        """The stride, in elements, of the storage axis at `place`.

        A buffer has one axis for each dense axis before the positions, and one for the positions with all dense axes
        after them: so a stride across the positions is read from the buffer's shape.
        """
        axes = self.problem.type_of[access.tensor].axes
        stride: Expr = const(1)
        for n in range(place + 1, len(axes)):
            if isinstance(axes[n], Positions):
                return mul(stride, self.extent(access.tensor, n))
            stride = mul(stride, self.dense_extent(access, n))
        return stride

    def address(self, access: Access, coordinates: Sequence[Expr]) -> Expr:
        """The element at the given coordinate of each storage axis."""
        address: Expr = const(0)
        for place, coordinate in enumerate(coordinates):
            address = add(address, mul(coordinate, self.stride(access, place)))
        return address

    def size_of(self, access: Access) -> Expr:
        """How many elements the tensor of `access` has."""
        axes = self.problem.type_of[access.tensor].axes
        total: Expr = const(1)
        for n, axis in enumerate(axes):
            if isinstance(axis, Positions):
                return mul(total, self.extent(access.tensor, n))
            total = mul(total, self.dense_extent(access, n))
        return total
