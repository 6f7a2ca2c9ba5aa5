"""Problems on padded patterns: kernels must skip the padding after the entries in use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from programs.host import HostRun, positions_axis
from programs.schedules import without_content

from jsparse.compiler.problem import Problem, StorageType
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, SINGLETON

__all__ = ["in_use", "with_gaps", "with_int64", "with_padding"]


def with_int64(problem: Problem, rng: np.random.Generator) -> Problem:
    """The problem with int64 index arrays for one pattern or more."""
    wide = _some(len(problem.patterns), rng)
    patterns = tuple(replace(p, index_dtype="int64") if n in wide else p for n, p in enumerate(problem.patterns))
    return replace(problem, patterns=patterns)


def with_padding(run: HostRun, rng: np.random.Generator) -> HostRun:
    """The run with one pattern or more padded: there are unused positions after each level, and entries out of range in
    its last segment. Positions in use keep their numbers.
    """
    chosen = _some(len(run.patterns), rng)
    patterns, positions, types = list(run.patterns), {}, list(run.problem.patterns)
    for n in chosen:
        sizes = [run.problem.size[var] for var in run.problem.level_variables[n]]
        patterns[n], capacities = _padded(types[n], sizes, run.patterns[n], rng)
        positions[n] = capacities[-1]
        counted = all(level.kind.counts_positions for level in types[n].levels)
        types[n] = replace(types[n], dynamic=True, constant_indices=(), capacities=() if counted else tuple(capacities))
    grown = {}
    for tensor in run.problem.tensors[1:]:
        axis, values = positions_axis(tensor), run.arrays[tensor.name]
        if axis is not None and tensor.positions.pattern in positions:
            more = positions[tensor.positions.pattern] - values.shape[axis]
            shape = (*values.shape[:axis], more, *values.shape[axis + 1 :])
            values = np.concatenate([values, rng.integers(1, 9, shape).astype(values.dtype)], axis=axis)
        grown[tensor.name] = values
    target, shape = run.problem.tensors[0], list(run.shape)
    if target.positions is not None and target.positions.pattern in positions:
        shape[positions_axis(target)] = positions[target.positions.pattern]
    problem = replace(run.problem, patterns=tuple(types))
    schedule = without_content(run.schedule) if chosen else run.schedule
    patterns = tuple(map(tuple, patterns))
    return replace(run, problem=problem, schedule=schedule, arrays=grown, patterns=patterns, shape=tuple(shape))


def with_gaps(run: HostRun, rng: np.random.Generator) -> tuple[HostRun, HostRun]:
    """Two runs without some entries of patterns that have one singleton entry below each coordinate of dense levels.

    In the first run the entries are removed; its result is the expected one. In the second run their coordinates are
    out of range, as in traced tables.
    """
    valued = {t.positions.pattern for t in run.problem.tensors if t.positions is not None}
    full = [n for n, type_ in enumerate(run.problem.patterns) if n not in valued and _is_full(type_)]
    exact, padded = list(run.patterns), list(run.patterns)
    types, stored = list(run.problem.patterns), list(run.problem.patterns)
    for n in sorted(full[at] for at in _some(len(full), rng)):
        (coordinates,), size = run.patterns[n], run.problem.size[run.problem.level_variables[n][-1]]
        out = rng.random(len(coordinates)) < 0.3
        padded[n] = (np.where(out, rng.choice([-1, -7, size, size + 5], len(out)), coordinates),)
        exact[n] = (np.append(0, np.cumsum(~out)), coordinates[~out])
        types[n] = replace(types[n], dynamic=True, constant_indices=())
        *above, last = types[n].levels
        compressed = (*above, replace(last, kind=COMPRESSED))
        stored[n] = replace(types[n], dynamic=False, levels=compressed)
    exact_problem = replace(run.problem, patterns=tuple(stored))
    problem = replace(run.problem, patterns=tuple(types))
    schedule = without_content(run.schedule)
    return (
        replace(run, problem=exact_problem, schedule=schedule, patterns=tuple(exact)),
        replace(run, problem=problem, schedule=schedule, patterns=tuple(padded)),
    )


def _is_full(type_: StorageType) -> bool:
    """Whether there is one entry below every coordinate of dense levels."""
    *above, last = [level.kind for level in type_.levels]
    return last is SINGLETON and all(kind is DENSE for kind in above)


def in_use(run: HostRun, result: np.ndarray) -> np.ndarray:
    """The result of a padded run in the shape of `run`, from which it was made. Checks that the padding has the value
    of an empty sum."""
    axis = positions_axis(run.problem.tensors[0])
    if axis is None:
        return result
    used, unused = np.split(result, [run.shape[axis]], axis=axis)
    assert (unused == run.problem.monoid.zero).all()
    return used


def _some(count: int, rng: np.random.Generator) -> set[int]:
    """Some numbers below `count`, at least one; none if there is none."""
    chosen = {n for n in range(count) if rng.random() < 0.5}
    return chosen or set(rng.integers(count, size=1).tolist() if count else [])


def _padded(
    type_: StorageType, sizes: list[int], pattern: tuple[np.ndarray, ...], rng: np.random.Generator
) -> tuple[list[np.ndarray], list[int]]:
    """The padded index arrays, and the capacity of each level."""
    rest, arrays, parents, capacities = list(pattern), [], 1, []
    for level, size in zip(type_.levels, sizes, strict=True):
        if level.kind is DENSE:
            parents *= size
            capacities.append(parents)
            continue
        spare = int(rng.integers(0, 4))
        if level.kind is RANGE:  # unused parents have empty runs that start anywhere
            pointers, starts = rest.pop(0), rest.pop(0)
            unused = parents - len(starts)
            arrays += [np.append(pointers, [pointers[-1]] * unused), np.append(starts, rng.integers(-9, 9, unused))]
            parents = int(pointers[-1]) + spare
            capacities.append(parents)
            continue
        if level.kind is COMPRESSED:
            pointers = np.array(rest.pop(0))
            if len(pointers) > 1 and rng.random() < 0.5:
                pointers[-1] += spare
            arrays.append(np.append(pointers, [pointers[-1]] * (parents + 1 - len(pointers))))
            parents = len(rest[0]) + spare
        coordinates = rest.pop(0)
        # Coordinates in use are sorted, so those out of range are the largest. Unused coordinates may be anything.
        garbage = np.sort(rng.choice([size, size + 5], parents - len(coordinates)))
        if level.kind is COMPRESSED and arrays[-1][-1] == len(coordinates):
            garbage = rng.choice([-1, 0, size, size + 5], len(garbage))
        arrays.append(np.append(coordinates, garbage))
        capacities.append(parents)
    return arrays, capacities
