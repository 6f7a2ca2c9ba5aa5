"""Recipes: kernels as text. A compiled program contains the recipe, from which any process can rebuild the kernel.

A recipe is JSON of a problem and its schedules. Reading it makes only these values, and the kernel follows from them.
It contains nothing of the host, so all processes of a job write the same recipe.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, get_args

from jsparse.base.memo import remembered
from jsparse.compiler.backends import BACKENDS, DEFAULT
from jsparse.compiler.dtypes import DTYPES
from jsparse.compiler.output import read_output, write_output
from jsparse.compiler.problem import Axis, Dense, PatternType, Positions, Problem, TensorType
from jsparse.compiler.runtime.recipe_checks import check_problem
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.semiring import Add
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.errors import JsparseError, represented
from jsparse.formats.levels import KINDS, Level
from jsparse.notation.assignment import Access, Index

__all__ = ["VERSION", "backend_of", "digest", "read_recipe", "write_recipe"]

VERSION = 11


def write_recipe(problem: Problem, schedules: tuple[Schedule, ...], backend: str = DEFAULT) -> str:
    """The recipe of the kernel that runs `problem` by its schedules (see `schedule.build_loops`), by a backend."""
    value = {
        **({} if backend == DEFAULT else {"backend": backend}),
        "version": VERSION,
        "statements": [_write_statement(statement) for statement in problem.statements],
        "tensors": [[t.name, t.dtype, [_write_axis(axis) for axis in t.axes]] for t in problem.tensors],
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


def read_recipe(text: str) -> tuple[Problem, tuple[Schedule, ...]]:
    """Read the problem and the schedules of a recipe.

    Raises JsparseError for other text, another version, and a problem whose parts do not fit each other.
    """
    return _read(text)[:2]


def backend_of(text: str) -> str:
    """The name of the backend that a recipe asks for. Raises JsparseError if there is no backend of that name."""
    return _read(text)[2]


@remembered(maxsize=256)  # a first call asks three times, and reads once
def _read(text: str) -> tuple[Problem, tuple[Schedule, ...], str]:
    try:
        value = json.loads(text)
        if value["version"] != VERSION:
            raise JsparseError(
                f"Expected a kernel recipe of version {VERSION}, but got version {value['version']}. Compile the "
                f"program again with this version of jsparse."
            )
        problem = Problem(
            tuple(_read_statement(statement) for statement in value["statements"]),
            tuple(TensorType(n, d, tuple(_read_axis(axis) for axis in axes)) for n, d, axes in value["tensors"]),
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
        return problem, schedules, _read_backend(value.get("backend", DEFAULT))
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of a kernel, but got {text[:80]!r}…: {error}") from error


def _read_backend(name: Any) -> str:
    if not isinstance(name, str) or name not in BACKENDS:
        raise JsparseError(f"Expected a recipe by the backend {' or '.join(BACKENDS)}, but got {represented(name)}.")
    return name


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
        raise JsparseError(f"Expected a statement to add by one of {', '.join(get_args(Add))}, but got {add!r}.")
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
    raise JsparseError(f"Expected a scalar expression, but got {represented(value)}.")


def _write_axis(axis: Axis) -> Any:
    return axis.dim if isinstance(axis, Dense) else [axis.pattern, *axis.dims]


def _read_axis(value: Any) -> Axis:
    return Dense(int(value)) if isinstance(value, int) else Positions(int(value[0]), tuple(map(int, value[1:])))


def _write_pattern(pattern: PatternType) -> list[Any]:
    levels = [[level.kind.name, level.unique] for level in pattern.levels]
    fields = (pattern.dynamic, pattern.batch_axes, pattern.constant_indices, pattern.capacities)
    return [levels, pattern.index_dtype, *fields]


def _read_pattern(value: Any) -> PatternType:
    levels, dtype, dynamic, batch_axes, constant, capacities = value
    read = (Level(KINDS[kind], n, bool(unique)) for n, (kind, unique) in enumerate(levels))
    arrays = tuple(tuple(map(int, array)) for array in constant)
    return PatternType(tuple(read), str(dtype), bool(dynamic), int(batch_axes), arrays, tuple(map(int, capacities)))
