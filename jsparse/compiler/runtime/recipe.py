"""Recipes: kernels as text. A compiled program contains the recipe, from which any process can rebuild the kernel.

A recipe is JSON of a problem and its schedules. Reading a recipe creates only these values, which determine the kernel.
A recipe contains nothing about the host, so all processes of a job write the same recipe.

The claims of a recipe are checked before a kernel is generated from it. Problems that the planner makes are correct by
construction. But a recipe comes with a program, from a file or a cache, and anybody can edit it. The code generator
relies on the checks: they guarantee that every computed address lies in the buffers, whose types and extents follow
from the problem (`lower.storage.buffer_types`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable
from itertools import takewhile
from math import prod
from typing import Any, get_args

import numpy as np

from jsparse.base.memo import memoize
from jsparse.compiler.backends import BACKENDS, DEFAULT
from jsparse.compiler.dtypes import DTYPES, is_complex
from jsparse.compiler.lower.storage import kernel_buffers
from jsparse.compiler.output_kind import Compute, Coordinates, Count, read_output, write_output
from jsparse.compiler.problem import Axis, Dense, Positions, Problem, StorageType, TensorType
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.semiring import Add
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.errors import JsparseError, short_repr
from jsparse.formats import Format
from jsparse.formats.levels import KINDS, Level
from jsparse.formats.validate import LARGEST_SIZE
from jsparse.notation.assignment import Access, Index

VERSION = 11


def write_recipe(problem: Problem, schedules: tuple[Schedule, ...], backend: str = DEFAULT) -> str:
    """Write the recipe of a backend's kernel that runs `problem` with these schedules (see `schedule.build_loops`)."""
    axes_of_tensors = [
        [axis.dim if isinstance(axis, Dense) else [axis.pattern, *axis.dims] for axis in tensor.axes]
        for tensor in problem.tensors
    ]
    value = {
        **({} if backend == DEFAULT else {"backend": backend}),
        "version": VERSION,
        "statements": [_write_statement(statement) for statement in problem.statements],
        "tensors": [[t.name, t.dtype, axes] for t, axes in zip(problem.tensors, axes_of_tensors, strict=True)],
        **({"views": views} if (views := {t.name: t.view_of for t in problem.tensors if t.view_of}) else {}),
        "patterns": [_write_pattern(pattern) for pattern in problem.patterns],
        "walks": problem.walks,
        "sizes": problem.sizes,
        "output": write_output(problem.output),
        "ordered": problem.ordered,
        "columns": problem.column_dtype,
        "derived": [[d.var, d.parts] for d in problem.derived],
        "temporaries": problem.temporaries,
        "schedules": [[str(step) for step in schedule.steps] for schedule in schedules],
    }
    return json.dumps(value, separators=(",", ":"))


def is_routine(recipe: str) -> bool:
    """Whether a recipe calls a routine of the extension (`routine.py`) instead of a generated kernel."""
    return recipe.startswith('["routine"')


def is_assembly(recipe: str) -> bool:
    """Whether a recipe calls several kernels, which assemble a pattern (`assembly_call.py`)."""
    return recipe.startswith('["lists"')


def read_recipe(text: str) -> tuple[Problem, tuple[Schedule, ...]]:
    """Read the problem and the schedules of a recipe.

    Raises JsparseError if the text is not a recipe of this version, or if parts of the problem do not fit each other.
    """
    return _read(text)[:2]


def backend_of(text: str) -> str:
    """The name of the backend that a recipe asks for. Raises JsparseError if there is no backend of that name."""
    return _read(text)[2]


@memoize(maxsize=256)  # a first call asks three times, and reads once
def _read(text: str) -> tuple[Problem, tuple[Schedule, ...], str]:
    try:
        value = json.loads(text)
        check_version("a kernel recipe", value["version"], VERSION)
        problem = Problem(
            tuple(_read_statement(statement) for statement in value["statements"]),
            tuple(
                TensorType(name, dtype, _read_axes(axes), str(value.get("views", {}).get(name, "")))
                for name, dtype, axes in value["tensors"]
            ),
            tuple(_read_pattern(pattern) for pattern in value["patterns"]),
            tuple((str(var), None if size is None else int(size)) for var, size in value["sizes"]),
            tuple(tuple(map(str, walk)) for walk in value["walks"]),
            read_output(value["output"]),
            bool(value["ordered"]),
            str(value["columns"]),
            tuple(DerivedVar(str(v), tuple((int(n), str(part)) for n, part in parts)) for v, parts in value["derived"]),
            tuple(map(str, value["temporaries"])),
        )
        check_problem(problem)
        schedules = tuple(Schedule.parse("\n".join(map(str, lines))) for lines in value["schedules"])
        backend = value.get("backend", DEFAULT)
        if not isinstance(backend, str) or backend not in BACKENDS:
            backends = " or ".join(BACKENDS)
            raise JsparseError(f"Expected a recipe for the backend {backends}, but got {short_repr(backend)}.")
        return problem, schedules, backend
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of a kernel, but got {text[:80]!r}…: {error}") from error


def check_version(what: str, version: object, wanted: int) -> None:
    """Raise JsparseError for a recipe of another version."""
    if version != wanted:
        raise JsparseError(
            f"Expected {what} of version {wanted}, but got version {version}. Compile the program again with this "
            f"version of jsparse."
        )


def digest(*parts: str) -> str:
    """A digest of the parts: 32 hexadecimal digits."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(f"{len(part)}:{part}".encode())
    return hashed.hexdigest()[:32]


def _write_access(access: Access) -> list[Any]:
    return [access.tensor, [_write_access(i) if isinstance(i, Access) else i for i in access.indices]]


def _read_access(value: Any) -> Access:
    name, indices = value
    read: tuple[Index, ...] = tuple(_read_access(i) if isinstance(i, list) else str(i) for i in indices)
    return Access(str(name), read)


def _write_statement(statement: Statement) -> list[Any]:
    value, condition = (None if x is None else _write_scalar(x) for x in (statement.value, statement.condition))
    return [_write_access(statement.target), value, statement.add, statement.patterns, condition]


def _read_statement(value: Any) -> Statement:
    target, scalar, add, patterns, condition = value
    if add not in get_args(Add):
        raise JsparseError(f"Expected a statement to add with one of {', '.join(get_args(Add))}, but got {add!r}.")
    read = [None if x is None else _read_scalar(x) for x in (scalar, condition)]
    return Statement(_read_access(target), read[0], add, tuple(map(int, patterns)), read[1])


def _write_scalar(value: Scalar) -> list[Any]:
    match value:
        case Access():
            return ["access", *_write_access(value)]
        case Number(value=number):
            return ["number", number if math.isfinite(number) else str(number)]
        case Rounded(value=exact, dtype=dtype):
            return ["rounded", _write_scalar(exact), dtype]
        case Let(name=name, value=named, body=body):
            return ["let", name, _write_scalar(named), _write_scalar(body)]
        case Local(name=name):
            return ["local", name]
        case Apply(operation=operation, arguments=arguments):
            return ["apply", operation, *map(_write_scalar, arguments)]


def _read_scalar(value: Any) -> Scalar:
    match value:
        case ["access", *access]:
            return _read_access(access)
        case ["number", (int() | float()) as number]:
            return Number(number)
        case ["number", ("inf" | "-inf" | "nan") as number]:
            return Number(float(number))
        case ["let", str() as name, named, body]:
            return Let(name, _read_scalar(named), _read_scalar(body))
        case ["local", str() as name]:
            return Local(name)
        case ["rounded", exact, str() as dtype] if dtype in DTYPES:
            return Rounded(_read_scalar(exact), dtype)
        case ["apply", operation, *arguments]:
            return Apply(operation, tuple(map(_read_scalar, arguments)))
    raise JsparseError(f"Expected a scalar expression, but got {short_repr(value)}.")


def _read_axes(axes: Any) -> tuple[Axis, ...]:
    return tuple(Dense(int(x)) if isinstance(x, int) else Positions(int(x[0]), tuple(map(int, x[1:]))) for x in axes)


def _write_pattern(pattern: StorageType) -> list[Any]:
    levels = [[level.kind.name, level.unique] for level in pattern.levels]
    fields = (pattern.dynamic, pattern.batch_axes, pattern.constant_indices, pattern.capacities)
    return [levels, pattern.index_dtype, *fields]


def _read_pattern(value: Any) -> StorageType:
    levels, dtype, dynamic, batch_axes, constant, capacities = value
    read = (Level(KINDS[kind], n, bool(unique)) for n, (kind, unique) in enumerate(levels))
    arrays = tuple(tuple(map(int, array)) for array in constant)
    return StorageType(tuple(read), str(dtype), bool(dynamic), int(batch_axes), arrays, tuple(map(int, capacities)))


INDEX_DTYPES = ("int32", "int64")
POSITIONS = 2**36  # more positions than a pattern in memory has; it stands for a number that is not known


def check_problem(problem: Problem) -> None:
    """Raise ValueError unless all names, pattern indices, sizes and dtypes of a problem are consistent."""
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
    every = list(items)
    return len(set(every)) == len(every)


def _check_sizes(problem: Problem) -> None:
    _expect(_distinct(v for v, _ in problem.sizes), "one size for each index variable")
    _expect(all(size is None or 0 <= size <= LARGEST_SIZE for _, size in problem.sizes), "sizes from 0 to 2**62")
    named = {v for s in problem.statements for v in problem.variables_of(s)}.union(*problem.walks)
    _expect(named <= set(problem.size), f"sizes of the index variables {sorted(named - set(problem.size))}")
    for derived in problem.derived:
        reach = sum(stride * (problem.size[part] or POSITIONS) for stride, part in derived.parts)
        _expect(reach <= LARGEST_SIZE, f"strides of '{derived}' whose sum is an integer of 64 bits")
    _expect(_distinct(d.var for d in problem.derived), "each derived variable once")


def _check_pattern(type_: StorageType) -> None:
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
    _expect(_distinct([*names, *problem.temporaries]), "a different name for each tensor and index array")
    accessed = {inner.tensor for access in problem.accesses for inner in (access, *access.indirections())}
    _expect(accessed == set(problem.type_of), "an access to each tensor, and a tensor for each access")
    for statement in problem.statements:
        numbers = statement.patterns
        _expect(_distinct(numbers) and all(0 <= n < len(problem.patterns) for n in numbers), "numbers of patterns")
        read = (problem.type_of[access.tensor].positions for access in statement.reads)
        on = {axis.pattern for axis in read if axis is not None}
        _expect(on <= set(numbers), f"'{statement}' to walk the patterns on which its tensors are stored")


def _check_tensor(problem: Problem, tensor: TensorType) -> None:
    _expect(tensor.dtype in DTYPES and not is_complex(tensor.dtype), f"a real dtype, but got {tensor.dtype}")
    positions = [axis for axis in tensor.axes if isinstance(axis, Positions)]
    _expect(len(positions) <= 1, f"at most one axis of {tensor.name} over positions")
    for axis in positions:
        exists = 0 <= axis.pattern < len(problem.patterns)
        _expect(exists and len(axis.dims) == len(problem.patterns[axis.pattern].levels), f"a pattern for {tensor}")
    if tensor.name in problem.temporaries:
        _check_temporary(problem, tensor)
    if tensor.view_of:
        counts = set[int | None]()
        for statement in problem.statements:
            if statement.target.tensor in (tensor.name, tensor.view_of):
                # The number of elements is unknown if a size is, or if an index is read from a table.
                sizes = [None if isinstance(v, Access) else problem.size[v] for v in statement.target.indices]
                numbers = [size for size in sizes if size is not None]
                counts.add(prod(numbers) if len(numbers) == len(sizes) else None)
        _expect(
            len(counts) == 1 and None not in counts,
            f"the same number of elements in '{tensor}' as in the tensor that it views",
        )


def _check_temporary(problem: Problem, tensor: TensorType) -> None:
    """Check that the size of a temporary, whose memory is borrowed, is known and at most `LARGEST_SIZE` bytes."""
    access = next(s.target for s in problem.statements if s.target.tensor == tensor.name)
    sizes = [problem.size[str(access.indices[axis.dim])] for axis in tensor.axes if isinstance(axis, Dense)]
    entries = 1
    if tensor.positions is not None:
        number = tensor.positions.pattern
        levels = zip(problem.patterns[number].levels, problem.level_variables[number], strict=True)
        trailing = list(takewhile(lambda pair: pair[0].kind.is_full, reversed(list(levels))))
        sizes += [problem.size[var] for _, var in trailing]
        entries = POSITIONS if len(trailing) < len(problem.patterns[number].levels) else 1
    numbers = [size for size in sizes if size is not None]
    bytes_ = entries * prod(numbers) * np.dtype(tensor.dtype).itemsize
    _expect(len(numbers) == len(sizes) and bytes_ <= LARGEST_SIZE, f"a size for the temporary {tensor}")


def _check_accesses(problem: Problem) -> None:
    targets = {s.target.tensor for s in problem.statements}
    for outer in problem.accesses:
        for access in (outer, *outer.indirections()):
            tensor = problem.type_of[access.tensor]
            dims = [d for axis in tensor.axes for d in ([axis.dim] if isinstance(axis, Dense) else axis.dims)]
            assembled = problem.is_assembly and access.tensor in targets
            expected = [] if assembled else list(range(len(access.indices)))
            _expect(sorted(dims) == expected, f"storage axes of {access} that have each dimension once")
        for index in outer.indirections():
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
    _expect(
        not target.indirections() and _distinct(target.indices), f"an index variable for each dimension of {target}"
    )
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
