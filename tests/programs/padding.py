"""The same problem on padded patterns: room behind the entries in use, which kernels must pass over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from programs.host import HostRun, place_of

from jsparse.compiler.problem import PatternType, Problem
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, SINGLETON

__all__ = ["in_use", "with_gaps", "with_int64", "with_room"]


def with_int64(problem: Problem, rng: np.random.Generator) -> Problem:
    """The problem with wide index arrays of one pattern or more."""
    wide = _some(len(problem.patterns), rng)
    patterns = tuple(replace(p, index_dtype="int64") if n in wide else p for n, p in enumerate(problem.patterns))
    return replace(problem, patterns=patterns)


def with_room(run: HostRun, rng: np.random.Generator) -> HostRun:
    """The same, one pattern or more padded: unused room behind each level, and entries out of range in its last
    segment. Positions that are in use keep their numbers.
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
        place, values = place_of(tensor), run.arrays[tensor.name]
        if place is not None and tensor.positions.pattern in positions:
            more = positions[tensor.positions.pattern] - values.shape[place]
            shape = (*values.shape[:place], more, *values.shape[place + 1 :])
            values = np.concatenate([values, rng.integers(1, 9, shape).astype(values.dtype)], axis=place)
        grown[tensor.name] = values
    target, shape = run.problem.tensors[0], list(run.shape)
    if target.positions is not None and target.positions.pattern in positions:
        shape[place_of(target)] = positions[target.positions.pattern]
    problem = replace(run.problem, patterns=tuple(types))
    return replace(run, problem=problem, arrays=grown, patterns=tuple(map(tuple, patterns)), shape=tuple(shape))


def with_gaps(run: HostRun, rng: np.random.Generator) -> tuple[HostRun, HostRun]:
    """The problem without some entries of patterns that have one in every place: first simply without them, which says
    what is to come out; then with coordinates out of range instead, as in tables that are only known at run time.
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
    return (
        replace(run, problem=exact_problem, patterns=tuple(exact)),
        replace(run, problem=problem, patterns=tuple(padded)),
    )


def _is_full(type_: PatternType) -> bool:
    """Whether there is one entry below every coordinate of dense levels."""
    *above, last = [level.kind for level in type_.levels]
    return last is SINGLETON and all(kind is DENSE for kind in above)


def in_use(run: HostRun, result: np.ndarray) -> np.ndarray:
    """The result of a padded run in the shape of `run`, which it was made from; the rest must be what
    nothing adds up to."""
    place = place_of(run.problem.tensors[0])
    if place is None:
        return result
    used, unused = np.split(result, [run.shape[place]], axis=place)
    assert (unused == run.problem.monoid.zero).all()
    return used


def _some(count: int, rng: np.random.Generator) -> set[int]:
    """Some numbers below `count`, at least one; none if there is none."""
    chosen = {n for n in range(count) if rng.random() < 0.5}
    return chosen or set(rng.integers(count, size=1).tolist() if count else [])


def _padded(
    type_: PatternType, sizes: list[int], pattern: tuple[np.ndarray, ...], rng: np.random.Generator
) -> tuple[list[np.ndarray], list[int]]:
    """Index arrays with room, and the capacity of each level."""
    rest, arrays, parents, capacities = list(pattern), [], 1, []
    for level, size in zip(type_.levels, sizes, strict=True):
        if level.kind is DENSE:
            parents *= size
            capacities.append(parents)
            continue
        room = int(rng.integers(0, 4))
        if level.kind is RANGE:  # parents out of use have empty runs that start anywhere
            pointers, starts = rest.pop(0), rest.pop(0)
            unused = parents - len(starts)
            arrays += [np.append(pointers, [pointers[-1]] * unused), np.append(starts, rng.integers(-9, 9, unused))]
            parents = int(pointers[-1]) + room
            capacities.append(parents)
            continue
        if level.kind is COMPRESSED:
            pointers = np.array(rest.pop(0))
            if len(pointers) > 1 and rng.random() < 0.5:
                pointers[-1] += room
            arrays.append(np.append(pointers, [pointers[-1]] * (parents + 1 - len(pointers))))
            parents = len(rest[0]) + room
        coordinates = rest.pop(0)
        # In use, coordinates are sorted, so that those too large stand at the end; out of use they are anything.
        garbage = np.sort(rng.choice([size, size + 5], parents - len(coordinates)))
        if level.kind is COMPRESSED and arrays[-1][-1] == len(coordinates):
            garbage = rng.choice([-1, 0, size, size + 5], len(garbage))
        arrays.append(np.append(coordinates, garbage))
        capacities.append(parents)
    return arrays, capacities
