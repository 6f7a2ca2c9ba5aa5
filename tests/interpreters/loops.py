"""An interpreter of loop nests, one coordinate at a time, on numpy arrays: the tests' reference for lowering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, cast

import numpy as np
from interpreters.levels import entries_of
from interpreters.scalars import NUMPY, as_stored, evaluate
from numpy.typing import NDArray

from jsparse.compiler.loops.domain import (
    Coiteration,
    Derivation,
    Fused,
    Lanes,
    LevelIteration,
    Panels,
    PositionPanels,
    Range,
    Runs,
    Tiles,
    WorkspaceLanes,
    WorkspaceNonzeros,
)
from jsparse.compiler.loops.nest import (
    AppendCoord,
    AppendEdges,
    ArrayWorkspace,
    Assign,
    Clear,
    Forall,
    LoopNest,
    Pack,
    ReserveUpperBound,
    Scatter,
    SparseWorkspace,
    Stmt,
    TermGuard,
    Where,
    Widened,
    Workspace,
)
from jsparse.compiler.loops.nest import Sequence as Sequence_
from jsparse.compiler.problem import Dense, Positions
from jsparse.compiler.scalar import Scalar, accesses_of
from jsparse.compiler.semiring import Monoid
from jsparse.notation.assignment import Access

__all__ = ["count_operations", "interpret_listing", "interpret_loops"]

Array = NDArray[np.generic]
PositionRange = tuple[int, int]  # the positions [lo, hi) at which the present coordinates stand


def interpret_loops(nest: LoopNest, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]) -> None:
    """Execute `nest`; the targets' arrays are written.

    Args:
        arrays: tensor name → values, one axis per storage axis (dense blocks inside a pattern included). Temporaries
            are among them.
        patterns: for each pattern its index arrays, level by level, pointers before coordinates.
    """
    _Machine(nest, dict(arrays), patterns).run(nest.body)


def interpret_listing(
    nest: LoopNest, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]
) -> list[tuple[tuple[int, ...], float | None]]:
    """The coordinates that a nest appends, in its order, each with its value if it has one."""
    machine = _Machine(nest, dict(arrays), patterns)
    machine.run(nest.body)
    return machine.listed


def count_operations(nest: LoopNest, arrays: Mapping[str, Array], patterns: Sequence[Sequence[Array]]) -> int:
    """Execute `nest`, and count iterations, assignments and cleared elements, each lane by itself."""
    machine = _Machine(nest, dict(arrays), patterns)
    machine.run(nest.body)
    return machine.operations


@dataclass
class _Run:
    """Iterations `first <= n < stop` of a loop; `seen` counts those of the present pass so far."""

    first: int
    stop: int
    seen: int = 0


@dataclass
class _Machine:
    nest: LoopNest
    arrays: dict[str, Array]
    patterns: Sequence[Sequence[Array]]
    env: dict[str, int] = field(default_factory=dict)
    tiles: dict[str, tuple[int, int]] = field(default_factory=dict)
    panels: dict[str, range] = field(default_factory=dict)
    position_panels: dict[tuple[int, int], range] = field(default_factory=dict)  # of the entries in a segment
    positions: dict[tuple[int, int], PositionRange] = field(default_factory=dict)
    maps: dict[tuple[int, int], dict[int, PositionRange]] = field(default_factory=dict)  # coordinate → positions
    absent: set[int] = field(default_factory=set)  # patterns without an entry at the present coordinates
    runs: dict[str, _Run] = field(default_factory=dict)
    rows: dict[str, dict[tuple[int, ...], float]] = field(default_factory=dict)
    row_of: dict[str, SparseWorkspace] = field(default_factory=dict)
    listed: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list)
    empty: frozenset[str] = frozenset()  # checked workspaces that nothing was added to yet
    operations: int = 0

    def run(self, stmt: Stmt) -> None:
        match stmt:
            case Forall(domain=LevelIteration(lanes=lanes) as domain) if lanes and added_below(stmt) is not None:
                self.sum_in_lanes(stmt, domain)
            case Forall(var=var, domain=domain, body=body, run=run):
                for _ in self.in_run(var, domain) if run else self.visit(var, domain):
                    self.operations += 1
                    self.run(body)
            case Sequence_(stmts=stmts):
                for inner in stmts:
                    self.run(inner)
            case TermGuard(term=term, body=body):
                if self.absent.isdisjoint(self.nest.problem.terms[term].patterns):
                    self.run(body)
            case Pack(name=name, source=source, body=body):
                self.arrays[name] = self.packed(source)
                self.run(body)
            case Scatter(var=var, domain=domain, body=body):
                self.maps[domain.pattern, domain.level] = self.scattered(var, domain)
                self.run(body)
            case ReserveUpperBound():
                raise NotImplementedError("upper bounds for memory are not part of a result")
            case AppendEdges(body=body):  # edges repeat the coordinates of the entries below
                self.run(body)
            case AppendCoord(target=target, value=value):
                here = tuple(self.env[str(v)] for v in target.indices)
                self.listed.append((here, None if value is None else self.appended(value)))
            case Where(workspace=SparseWorkspace() as row, producer=producer, consumer=consumer):
                self.rows[row.name], self.row_of[row.name] = {}, row
                self.run(producer)
                if row.var is not None or self.rows[row.name]:
                    self.run(consumer)
            case Where(workspace=Workspace() as workspace, producer=producer, consumer=consumer):
                size = () if workspace.var is None else (self.size(workspace.var),)
                self.arrays[workspace.name] = np.full(size, workspace.monoid.zero, workspace.dtype)
                self.empty = self.empty | {workspace.name} if workspace.checked else self.empty - {workspace.name}
                self.run(producer)
                self.run(consumer)
            case Where(workspace=ArrayWorkspace(target=Access(tensor=name)), producer=producer, consumer=consumer):
                self.arrays[name] = np.full_like(self.arrays[name], poison(self.arrays[name].dtype))
                self.run(producer)
                self.run(consumer)
            case Clear(target=target, monoid=monoid):
                self.operations += self.arrays[target.tensor].size
                self.arrays[target.tensor][...] = monoid.zero
            case Widened(target=target, body=body, adds=adds):
                narrow = self.arrays[target.tensor]
                self.operations += narrow.size
                self.arrays[target.tensor] = np.zeros(narrow.shape, np.float64)
                self.run(body)
                stored = as_stored(self.arrays[target.tensor], narrow.dtype)
                narrow[...] = narrow + stored if adds else stored
                self.arrays[target.tensor] = narrow
            case Assign():
                self.operations += 1
                self.assign(stmt)

    def visit(self, var: str, domain: object) -> Iterator[None]:
        match domain:
            case Range(panel=True):
                yield from (self.env.update({var: n}) for n in self.panels[var])
            case Fused(outer=outer, inner=inner):
                for n in range(self.size(outer) * self.size(inner)):
                    self.env[outer], self.env[inner] = divmod(n, self.size(inner))
                    yield
            case PositionPanels(pattern=pattern, level=level, size=size):
                count = sum(1 for _ in self.entries(var, pattern, level, bound=False))
                for start in range(0, count, size):
                    self.position_panels[pattern, level] = range(start, start + size)
                    yield
                self.position_panels.pop((pattern, level), None)
            case Range() | WorkspaceLanes():
                yield from (self.env.update({var: n}) for n in range(self.size(var)))
            case Tiles(lanes=lanes):
                for start in range(0, self.size(var), lanes):
                    self.tiles[var] = (start, min(start + lanes, self.size(var)))
                    yield
            case Panels(size=size):
                for start in range(0, self.size(var), size):
                    self.panels[var] = range(start, min(start + size, self.size(var)))
                    yield
            case Runs(size=size):
                yield from self.passes(var, size)
            case Lanes():
                yield from (self.env.update({var: n}) for n in range(*self.tiles[var]))
            case Coiteration(terms=terms):
                yield from self.merged(var, terms)
            case Derivation(derived=derived):
                here = sum(stride * self.env[part] for stride, part in derived.parts)
                if here < self.size(var):
                    self.env[var] = here
                    yield
            case WorkspaceNonzeros(workspace=workspace):
                for coordinates in sorted(self.rows[workspace]):
                    self.env[var] = coordinates[0]
                    yield
            case LevelIteration(pattern=pattern, level=level, bound=True, scattered=True):
                if self.env[var] in self.maps[pattern, level]:
                    self.positions[pattern, level] = self.maps[pattern, level][self.env[var]]
                    yield
            case LevelIteration(pattern=pattern, level=level, bound=bound, panel=panel):
                entries = self.entries(var, pattern, level, bound)
                if (pattern, level) in self.position_panels:
                    part = self.position_panels[pattern, level]
                    entries = islice(entries, part.start, part.stop)
                yield from (None for _ in entries if not panel or self.env[var] in self.panels[var])

    def passes(self, var: str, size: int) -> Iterator[None]:
        """Yield once for each run of `size` iterations; the loops inside start anew and skip all others."""
        run = self.runs[var] = _Run(0, size)
        yield
        while run.seen > run.stop:
            run = self.runs[var] = _Run(run.stop, run.stop + size)
            yield

    def in_run(self, var: str, domain: object) -> Iterator[None]:
        """The iterations in the present run."""
        run = self.runs[var]
        for _ in self.visit(var, domain):
            run.seen += 1
            if run.first < run.seen <= run.stop:
                yield

    def sum_in_lanes(self, loop: Forall, domain: LevelIteration) -> None:
        """Add to the scalar that the body adds to. Coordinates out of range take a lane, and do not count."""
        added = added_below(loop)
        assert added is not None
        name, type_ = added.target.tensor, self.nest.problem.patterns[domain.pattern]
        found = self.positions_in_run(loop, domain)
        target = self.arrays[name]
        sums = LaneSums(len(found), domain.lanes, added.monoid, target.dtype)
        for number, (coordinate, position) in enumerate(found):
            self.operations += 1
            if type_.dynamic and not 0 <= coordinate < self.size(loop.var):
                continue
            self.env[loop.var], self.positions[domain.pattern, domain.level] = coordinate, (position, position + 1)
            self.arrays[name] = sums.accumulator(number)
            self.run(loop.body)
        self.arrays[name] = target
        target[...] = NUMPY[added.monoid.add](target, sums.total())

    def positions_in_run(self, loop: Forall, domain: LevelIteration) -> list[tuple[int, int]]:
        """(coordinate, position) of each position of a segment, or of the part of it that is in the present run."""
        type_ = self.nest.problem.patterns[domain.pattern]
        lo, hi = self.positions.get((domain.pattern, domain.level - 1), (0, 1))
        arrays, capacity = self.level_arrays(domain.pattern, domain.level), type_.capacity(domain.level)
        kind = type_.levels[domain.level].kind
        found = list(entries_of(kind, arrays, lo, hi, self.size(loop.var), capacity))
        if not loop.run:
            return found
        run = self.runs[loop.var]
        first, stop = (max(n - run.seen, 0) for n in (run.first, run.stop))
        run.seen += len(found)
        return found[first:stop]

    def entries(self, var: str, pattern: int, level: int, bound: bool) -> Iterator[None]:
        """Visit the entries of one level below the present positions, runs of equal coordinates together."""
        type_, size = self.nest.problem.patterns[pattern], self.size(var)
        lo, hi = self.positions.get((pattern, level - 1), (0, 1))
        if type_.levels[level].kind.is_full and bound:
            here = lo * size + self.env[var]
            self.positions[pattern, level] = (here, here + 1)
            yield
            return
        arrays, kind = self.level_arrays(pattern, level), type_.levels[level].kind
        found = entries_of(kind, arrays, lo, hi, size, type_.capacity(level))
        runs = groupby(found, itemgetter(0)) if type_.repeats(level) else ((c, [(c, p)]) for c, p in found)
        for coordinate, run in runs:
            positions = [p for _, p in run]
            in_range = not type_.dynamic or 0 <= coordinate < size
            if coordinate == self.env[var] if bound else in_range:
                self.env[var] = coordinate
                self.positions[pattern, level] = (positions[0], positions[-1] + 1)
                yield

    def scattered(self, var: str, level: LevelIteration) -> dict[int, PositionRange]:
        """Coordinate → positions, of the level's entries below the present position."""
        if level.pattern in self.absent:
            return {}
        found, outside = {}, self.env.get(var)
        for _ in self.entries(var, level.pattern, level.level, bound=False):
            self.operations += 1
            found[self.env[var]] = self.positions[level.pattern, level.level]
        if outside is not None:
            self.env[var] = outside
        return found

    def packed(self, source: Access) -> Array:
        """The part of a tensor that is in the present panel and tile; poison elsewhere. Indexed by the access."""
        whole = self.arrays[source.tensor]
        dims = [cast(Dense, axis).dim for axis in self.nest.problem.type_of[source.tensor].axes]
        whole = whole.transpose([dims.index(n) for n in range(whole.ndim)])
        copy = np.full_like(whole, poison(whole.dtype))
        part = tuple(
            slice(*self.tiles[v]) if v in self.tiles else slice(self.panels[v].start, self.panels[v].stop)
            for v in map(str, source.indices)
        )
        copy[part] = whole[part]
        return copy

    def merged(self, var: str, terms: Sequence[Sequence[LevelIteration]]) -> Iterator[None]:
        """Visit every coordinate at which all levels of some term have an entry; patterns without one are absent."""
        levels = list(dict.fromkeys(level for term in terms for level in term))
        above = self.absent
        found = {level: self.entries_below(var, level) for level in levels}
        for coordinate in range(self.size(var)):
            there = {level: coordinate in found[level] for level in levels}
            if not any(all(there[level] for level in term) for term in terms):
                continue
            self.env[var], self.absent = coordinate, set(above)
            for level in levels:
                if there[level]:
                    self.positions[level.pattern, level.level] = found[level][coordinate]
                else:
                    self.absent.add(level.pattern)
            yield
        self.absent = above

    def entries_below(self, var: str, level: LevelIteration) -> dict[int, PositionRange]:
        """Coordinate → positions, of a level below the present position; empty if the pattern is absent."""
        if level.pattern in self.absent:
            return {}
        found = {}
        for _ in self.entries(var, level.pattern, level.level, bound=False):
            found[self.env[var]] = self.positions[level.pattern, level.level]
        return found

    def row_coordinates(self, access: Access) -> tuple[int, ...]:
        return tuple(self.env[str(v)] for v in access.indices)

    def level_arrays(self, pattern: int, level: int) -> list[Array]:
        """The index arrays of a level, in the batch member that the leading indices choose."""
        chosen = tuple(self.env[v] for v in self.nest.problem.batch_variables[pattern])
        own = self.nest.problem.patterns[pattern].arrays_of(level, self.patterns[pattern])
        return [array[chosen] for array in own]

    def size(self, var: str) -> int:
        size = self.nest.problem.size[var]
        if size is not None:
            return size
        tensor, axis = self.nest.problem.size_source(var)
        return self.arrays[tensor].shape[axis]

    def assign(self, stmt: Assign) -> None:
        monoid, dtype = stmt.monoid, np.dtype(stmt.dtype)
        counts = self.holds(stmt, dtype) and self.empty.isdisjoint(access.tensor for access in stmt.reads)
        value = self.value(stmt.value, dtype) if counts else None
        self.empty -= {stmt.target.tensor} if value is not None else set()
        if stmt.target.tensor in self.rows:
            row, key = self.rows[stmt.target.tensor], self.row_coordinates(stmt.target)
            added = 0 if value is None else value
            added = np.dtype(self.row_of[stmt.target.tensor].dtype or "float32").type(added)
            row[key] = NUMPY[monoid.add](row[key], added) if key in row else added
            return
        target, where = self.arrays[stmt.target.tensor], self.address(stmt.target)
        if where is None:
            return
        addend = dtype.type(monoid.zero) if value is None else value
        if stmt.accumulate:
            old = target[where] if target.dtype == np.float64 else target[where].astype(dtype)
            addend = NUMPY[monoid.add](old, addend)
        target[where] = as_stored(addend, target.dtype)

    def appended(self, value: Access) -> Any:
        """A row's value as the target stores it."""
        problem, row = self.nest.problem, self.rows[value.tensor]
        target = np.dtype(problem.type_of[problem.target.tensor].dtype)
        return as_stored(np.dtype(problem.accumulator).type(row[self.row_coordinates(value)]), target).item()

    def value(self, value: Scalar | None, dtype: np.dtype) -> Any:
        """The value of an expression; None if there is none, or if an indirect index is out of range."""
        if value is None:
            return None
        addresses = {access: self.address(access) for access in accesses_of(value)}
        if None in addresses.values():
            return None
        return evaluate(value, lambda access: self.arrays[access.tensor][addresses[access]].astype(dtype), dtype)

    def holds(self, stmt: Assign, dtype: np.dtype) -> bool:
        """Whether the condition holds, if there is one."""
        return stmt.condition is None or bool(self.value(stmt.condition, dtype))

    def address(self, access: Access) -> tuple[int, ...] | None:
        """Where the access points now; None when an indirect index is out of range."""
        type_ = self.nest.problem.type_of.get(access.tensor)
        if type_ is None:  # a workspace
            return tuple(self.env[str(v)] for v in access.indices)
        where: list[int] = []
        for axis, size in zip(type_.axes, self.arrays[access.tensor].shape, strict=True):
            coordinate = self.coordinate(access, axis)
            if not 0 <= coordinate < size:
                return None
            where.append(coordinate)
        return tuple(where)

    def coordinate(self, access: Access, axis: Dense | Positions) -> int:
        if isinstance(axis, Positions):
            return self.positions[axis.pattern, len(axis.dims) - 1][0]
        index = access.indices[axis.dim]
        if isinstance(index, Access):
            inner = self.address(index)
            return -1 if inner is None else int(self.arrays[index.tensor][inner])
        return self.env[index]


def poison(dtype: np.dtype) -> float:
    """What memory holds that nothing was written to."""
    return float("nan") if np.issubdtype(dtype, np.inexact) else 111


def added_below(loop: Forall) -> Assign | None:
    """The addition in a loop, also below loops over singleton levels; None if the loop does something else."""
    body = loop.body
    while isinstance(body, Forall) and isinstance(body.domain, LevelIteration):
        body = body.body
    return body if isinstance(body, Assign) and body.accumulate else None


class LaneSums:
    """The accumulators of `count` positions: one for each lane, and one for what remains."""

    def __init__(self, count: int, lanes: int, monoid: Monoid, dtype: np.dtype) -> None:
        self.whole, self.add = count // lanes * lanes, NUMPY[monoid.add]
        self.lanes, self.rest = np.full(lanes, monoid.zero, dtype), np.full((), monoid.zero, dtype)

    def accumulator(self, number: int) -> NDArray[np.generic]:
        """The accumulator of the position with that number, an array without axes."""
        lane = number % len(self.lanes)
        return self.lanes[lane : lane + 1].reshape(()) if number < self.whole else self.rest

    def total(self) -> Any:
        """The sum of all accumulators."""
        lanes = self.lanes
        while len(lanes) > 1:
            lanes = self.add(*np.split(lanes, 2))
        return self.add(lanes[0], self.rest[()])
