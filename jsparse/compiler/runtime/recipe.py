"""Recipes: kernels as text. A compiled program contains the recipe, from which any process can rebuild the kernel.

A recipe is JSON of a problem and a schedule. Reading it makes only these two values, and the kernel follows from them.
It contains nothing of the host, so all processes of a job write the same recipe.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from jsparse.compiler.output import read_output, write_output
from jsparse.compiler.problem import Addend, Axis, Dense, PatternType, Positions, Problem, TensorType
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.semiring import EqualityMask, Semiring
from jsparse.errors import JsparseError
from jsparse.formats.level import Level, LevelKind
from jsparse.notation.assignment import Access, Assignment, Index

__all__ = ["VERSION", "digest", "read_recipe", "write_recipe"]

VERSION = 7


def write_recipe(problem: Problem, schedule: Schedule) -> str:
    """The recipe of the kernel that runs `problem` by `schedule`."""
    assignment = problem.assignment
    value = {
        "version": VERSION,
        "target": _write_access(assignment.target),
        "factors": [_write_access(factor) for factor in assignment.factors],
        "tensors": [[t.name, t.dtype, [_write_axis(axis) for axis in t.axes]] for t in problem.tensors],
        "patterns": [_write_pattern(pattern) for pattern in problem.patterns],
        "walks": problem.walks,
        "sizes": problem.sizes,
        "output": write_output(problem.output),
        "columns": problem.column_dtype,
        "terms": [[t.coefficient, [_write_access(f) for f in t.factors], t.patterns] for t in problem.terms],
        "semiring": [problem.semiring.add, problem.semiring.multiply],
        "mask": None if problem.mask is None else [problem.mask.multiply, problem.mask.count],
        "schedule": asdict(schedule),
    }
    return json.dumps(value, separators=(",", ":"))


def read_recipe(text: str) -> tuple[Problem, Schedule]:
    """Read the problem and the schedule of a recipe. Raises JsparseError for other text, or another version."""
    try:
        value = json.loads(text)
        if value["version"] != VERSION:
            raise JsparseError(
                f"Expected a kernel recipe of version {VERSION}, but got version {value['version']}. Compile the "
                f"program again with this version of jsparse."
            )
        assignment = Assignment(_read_access(value["target"]), tuple(_read_access(f) for f in value["factors"]))
        tensors = tuple(TensorType(n, d, tuple(_read_axis(axis) for axis in axes)) for n, d, axes in value["tensors"])
        patterns = tuple(_read_pattern(pattern) for pattern in value["patterns"])
        walks = tuple(tuple(map(str, walk)) for walk in value["walks"])
        sizes = tuple((str(var), None if size is None else int(size)) for var, size in value["sizes"])
        schedule = value["schedule"]
        schedule |= {name: tuple(schedule[name]) for name in ("order", "summed")}
        schedule |= {"short": tuple((int(pattern), int(level)) for pattern, level in schedule["short"])}
        schedule |= {"merge_leaders": tuple((str(var), int(pattern)) for var, pattern in schedule["merge_leaders"])}
        output = read_output(value["output"])
        terms = tuple(_read_addend(term) for term in value["terms"])
        schedule |= {"own": tuple(map(tuple, schedule["own"]))}
        columns = str(value["columns"])
        add, multiply = value["semiring"]
        semiring, mask = Semiring(add, multiply), _read_mask(value["mask"], len(assignment.factors))
        problem = Problem(assignment, tensors, patterns, sizes, walks, output, terms, columns, semiring, mask)
        return problem, Schedule(**schedule)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of a kernel, but got {text[:80]!r}…: {error}") from error


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


def _read_addend(value: Any) -> Addend:
    coefficient, factors, patterns = value
    if not isinstance(coefficient, int | float):
        raise JsparseError(f"Expected a number as coefficient, but got {coefficient!r}.")
    return Addend(coefficient, tuple(_read_access(f) for f in factors), tuple(map(int, patterns)))


def _read_mask(value: Any, factors: int) -> EqualityMask | None:
    if value is None:
        return None
    multiply, count = value
    mask = EqualityMask(multiply, int(count))
    if mask.operands > factors:
        raise JsparseError(f"Expected {mask.operands} factors for a mask, but got {factors}.")
    return mask


def _write_axis(axis: Axis) -> Any:
    return axis.dim if isinstance(axis, Dense) else [axis.pattern, *axis.dims]


def _read_axis(value: Any) -> Axis:
    return Dense(int(value)) if isinstance(value, int) else Positions(int(value[0]), tuple(map(int, value[1:])))


def _write_pattern(pattern: PatternType) -> list[Any]:
    levels = [[level.kind.value, level.unique] for level in pattern.levels]
    return [levels, pattern.index_dtype, pattern.padded, pattern.lead, pattern.content]


def _read_pattern(value: Any) -> PatternType:
    levels, dtype, padded, lead, content = value
    read = (Level(LevelKind(kind), n, bool(unique)) for n, (kind, unique) in enumerate(levels))
    arrays = tuple(tuple(map(int, array)) for array in content)
    return PatternType(tuple(read), str(dtype), bool(padded), int(lead), arrays)
