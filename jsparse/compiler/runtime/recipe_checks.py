"""Checks of the statements in a recipe, before a kernel is made from it.

Problems that the planner makes are right by construction. A recipe comes with a program, from a file or a cache, and
anybody can edit it. The code generator relies on the properties that are checked here. With them every address that it
computes lies in the buffers, whose types and extents follow from the problem (`compiler.lower.buffer_types`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import takewhile
from math import prod

import numpy as np

from jsparse.compiler.dtypes import DTYPES, is_complex
from jsparse.compiler.lower.storage import kernel_buffers
from jsparse.compiler.output import Compute, Coordinates, Count
from jsparse.compiler.problem import Dense, PatternType, Positions, Problem, TensorType
from jsparse.formats import Format

__all__ = ["INDEX_DTYPES", "check_problem"]

INDEX_DTYPES = ("int32", "int64")
LARGEST = 2**62  # the largest size: the sum of two sizes is an integer of 64 bits
POSITIONS = 2**36  # more positions than a pattern in memory has; it stands for a number that is not known


def check_problem(problem: Problem) -> None:
    """Raise ValueError unless all names, numbers, sizes and dtypes of a problem fit each other."""
    _check_sizes(problem)
    for type_ in problem.patterns:
        _check_pattern(type_)
    _check_names(problem)
    for tensor in problem.tensors:
        _check_tensor(problem, tensor)
    _check_accesses(problem)
    _check_output(problem)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"expected {what}")


def _distinct(items: Iterable[Hashable]) -> bool:
    found = list(items)
    return len(set(found)) == len(found)


def _check_sizes(problem: Problem) -> None:
    _expect(_distinct(v for v, _ in problem.sizes), "one size for each index variable")
    _expect(all(size is None or 0 <= size <= LARGEST for _, size in problem.sizes), "sizes from 0 to 2**62")
    named = {v for s in problem.statements for v in problem.variables_of(s)}.union(*problem.walks)
    _expect(named <= set(problem.size), f"sizes of the index variables {sorted(named - set(problem.size))}")
    for derived in problem.derived:
        reach = sum(stride * (problem.size[part] or POSITIONS) for stride, part in derived.parts)
        _expect(reach <= LARGEST, f"strides of '{derived}' whose sum is an integer of 64 bits")
    _expect(_distinct(d.var for d in problem.derived), "each derived variable once")


def _check_pattern(type_: PatternType) -> None:
    Format(type_.levels)  # raises FormatError, a ValueError
    count, arrays = len(type_.levels), sum(len(level.kind.arrays) for level in type_.levels)
    _expect(type_.index_dtype in INDEX_DTYPES, f"index arrays of int32 or int64, but got {type_.index_dtype}")
    _expect(type_.batch_axes >= 0, "a number of batch axes")
    _expect(len(type_.capacities) in (0, count) and min(type_.capacities, default=0) >= 0, "a capacity of each level")
    if type_.constant_indices:
        static = not type_.dynamic and not type_.batch_axes
        _expect(static and len(type_.constant_indices) == arrays, "the index arrays of a static pattern as constants")


def _check_names(problem: Problem) -> None:
    names = [buffer.name for buffer in kernel_buffers(problem)]
    _expect(_distinct([*names, *problem.temporaries]), "a name of its own for each tensor and index array")
    accessed = {inner.tensor for access in problem.accesses for inner in (access, *access.nested())}
    _expect(accessed == set(problem.type_of), "an access to each tensor, and each tensor that is accessed")
    for statement in problem.statements:
        numbers = statement.patterns
        _expect(_distinct(numbers) and all(0 <= n < len(problem.patterns) for n in numbers), "numbers of patterns")
        read = (problem.type_of[access.tensor].positions for access in statement.reads)
        on = {axis.pattern for axis in read if axis is not None}
        _expect(on <= set(numbers), f"'{statement}' to walk the patterns that its tensors lie on")


def _check_tensor(problem: Problem, tensor: TensorType) -> None:
    _expect(tensor.dtype in DTYPES and not is_complex(tensor.dtype), f"a real dtype, but got {tensor.dtype}")
    positions = [axis for axis in tensor.axes if isinstance(axis, Positions)]
    _expect(len(positions) <= 1, f"at most one axis of {tensor.name} over positions")
    for axis in positions:
        known = 0 <= axis.pattern < len(problem.patterns)
        _expect(known and len(axis.dims) == len(problem.patterns[axis.pattern].levels), f"a pattern for {tensor}")
    if tensor.name in problem.temporaries:
        _check_temporary(problem, tensor)


def _check_temporary(problem: Problem, tensor: TensorType) -> None:
    """Check the size of a temporary, for which memory is borrowed: it is known, and its bytes do not exceed 64 bits."""
    access = next(s.target for s in problem.statements if s.target.tensor == tensor.name)
    sizes = [problem.size[str(access.indices[axis.dim])] for axis in tensor.axes if isinstance(axis, Dense)]
    entries = 1
    if tensor.positions is not None:
        number = tensor.positions.pattern
        levels = zip(problem.patterns[number].levels, problem.level_variables[number], strict=True)
        trailing = list(takewhile(lambda pair: pair[0].kind.is_full, reversed(list(levels))))
        sizes += [problem.size[var] for _, var in trailing]
        entries = POSITIONS if len(trailing) < len(problem.patterns[number].levels) else 1
    known = [size for size in sizes if size is not None]
    bytes_ = entries * prod(known) * np.dtype(tensor.dtype).itemsize
    _expect(len(known) == len(sizes) and bytes_ <= LARGEST, f"a size for the temporary {tensor}")


def _check_accesses(problem: Problem) -> None:
    targets = {s.target.tensor for s in problem.statements}
    for outer in problem.accesses:
        for access in (outer, *outer.nested()):
            tensor = problem.type_of[access.tensor]
            dims = [d for axis in tensor.axes for d in ([axis.dim] if isinstance(axis, Dense) else axis.dims)]
            assembled = problem.is_assembly and access.tensor in targets
            wanted = [] if assembled else list(range(len(access.indices)))
            _expect(sorted(dims) == wanted, f"storage axes of {access} that have each dimension once")
        for index in outer.nested():
            tensor = problem.type_of[index.tensor]
            _expect(tensor.positions is None and np.dtype(tensor.dtype).kind in "iu", f"integers in {index}")
            _expect(index.tensor not in targets, f"an operand in {index}")


def _check_output(problem: Problem) -> None:
    output, targets = problem.output, {s.target for s in problem.statements}
    _expect(bool(problem.statements), "a statement")
    if isinstance(output, Compute):
        _expect(not problem.ordered and all(s.value is not None for s in problem.statements), "values to compute")
        return
    _expect(len(targets) == 1 and not problem.temporaries, "one target")
    _expect(problem.ordered or len(problem.statements) == 1, "one statement")
    (target,) = targets
    _expect(not target.nested() and _distinct(target.indices), f"an index variable for each dimension of {target}")
    _expect(problem.column_dtype in INDEX_DTYPES, "coordinates of int32 or int64")
    dtype = problem.type_of[target.tensor].dtype
    if isinstance(output, Count):
        _expect(dtype == "int64", "counts of int64")
    elif output.values:
        listed = output.coordinates is not Coordinates.COLUMNS
        _expect(problem.ordered and listed and all(s.value is not None for s in problem.statements), "values in order")
    else:
        written = (Coordinates.COLUMNS, *([Coordinates.LEVELS] if problem.ordered else []))
        _expect(dtype in INDEX_DTYPES and output.coordinates in written, "coordinates to write")
