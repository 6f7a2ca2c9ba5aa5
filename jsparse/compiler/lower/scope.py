"""Scopes: the value of each index variable and the position of each pattern, at a point of the loop nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from itertools import count

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import I64, Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, both, cast, const, element, mul
from jsparse.compiler.kernel.nodes import Buffer, Compare, Const, Expr, Load, Stmt, Var
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Workspace
from jsparse.compiler.lower.storage import Storage
from jsparse.compiler.problem import Dense
from jsparse.notation.assignment import Access, IndexVar

WORD = 6  # a word has 2⁶ bits


def word_of(number: ir.Expr) -> ir.Expr:
    """Return the index of the word that holds the bit `number`."""
    if isinstance(number, ir.Const):
        return const(int(number.value) >> WORD)
    return ir.Binary(">>", number, const(WORD))


def set_bit(buffer: ir.Buffer, word: ir.Expr, number: ir.Expr) -> ir.Stmt:
    """Set the bit `number`, which lies in `word`."""
    return ir.Store(buffer, word, ir.Binary("|", ir.Load(buffer, word), mask_of(number)))


def has_bit(buffer: ir.Buffer, word: ir.Expr, number: ir.Expr) -> ir.Expr:
    """Whether the bit `number`, which lies in `word`, is set."""
    return ir.Compare("!=", ir.Binary("&", ir.Load(buffer, word), mask_of(number)), const(0))


def bit_of(buffer: ir.Buffer, number: ir.Expr) -> ir.Expr:
    """Return the bit `number`: 1 if it is set, else 0."""
    shifted = ir.Binary(">>", ir.Load(buffer, word_of(number)), ir.Binary("&", number, const(63)))
    return ir.Binary("&", shifted, const(1))


def mask_of(number: ir.Expr) -> ir.Expr:
    """Return a word in which only the bit `number` is set."""
    return ir.Binary("<<", const(1), ir.Binary("&", number, const(63)))


@dataclass(frozen=True, slots=True)
class WorkspaceBuffers:
    """The borrowed memory of a sparse workspace: values, words with a bit for each value, and, if these words are many,
    further words with a bit for each word."""

    values: Buffer | None
    bits: Buffer
    words: Buffer | None


@dataclass(frozen=True, slots=True)
class Map:
    """The borrowed memory of a segment's map: marks of coordinates, and the positions if lookups read positions.

    Attributes:
        marks: a byte for each coordinate, or a bit in words of 64.
    """

    marks: Buffer
    positions: Buffer | None

    def has(self, coordinate: Expr) -> Expr:
        """Whether a coordinate is in the map."""
        mark = self.mark(coordinate)
        return Compare("!=", mark, Const(0, mark.type))

    def mark(self, coordinate: Expr) -> Expr:
        """Return 1 for a coordinate in the map, else 0. For the size of the dimension, the result is always 0."""
        return Load(self.marks, coordinate) if self.in_bytes else bit_of(self.marks, coordinate)

    @property
    def in_bytes(self) -> bool:
        return self.marks.type != I64


@dataclass(frozen=True, slots=True)
class Array:
    """The memory of an array workspace: element (x₁, …, xₙ) of the kept storage axes is at Σ (xₖ - firstₖ) · strideₖ.

    Attributes:
        axes: for each kept axis, the index, the first coordinate and the stride of the axis.
        length: the number of elements for which the array has room.
        used: the number of elements, from the first one on, that belong to the present iteration.
        clamps: whether addresses have to be clamped to the array, because coordinates may have any value.
    """

    axes: tuple[tuple[int, Expr, Expr], ...]
    length: Expr
    used: Expr
    clamps: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The borrowed memory with the bounds of a level's panels (see `lower.panels`).

    Attributes:
        memory: bounds[n, s], the position at which panel n begins in segment s.
        segments: the number of segments.
    """

    memory: Buffer
    segments: Expr

    def at(self, panel: Expr, segment: Expr) -> Expr:
        """Return the index in `memory` of a panel's bound in a segment."""
        return add(mul(panel, self.segments), segment)

    def load(self, place: Expr) -> Expr:
        """Load the bound at an index in `memory`."""
        return cast(Load(self.memory, place), I64.dtype)


@dataclass(frozen=True, slots=True)
class Panel:
    """The coordinates `start <= v < stop` of a variable. A panel has at most `size` coordinates.

    Attributes:
        bounds: where the panel begins and ends in each segment, if the variable's level is sparse.
        first_bound: the index in `bounds.memory` of the bound at which the panel begins in segment 0.
    """

    size: int
    start: Expr
    stop: Expr
    bounds: Bounds | None
    first_bound: Expr


@dataclass(frozen=True, slots=True)
class CarryIn:
    """The carry-out of a chunk: where it stores its part of a segment that an earlier chunk began.

    `condition` holds if an earlier chunk began the segment at the present coordinate of `var`. The target's elements at
    this coordinate are then stored in `carry_out`, from the index `base` on.
    """

    var: IndexVar
    condition: Expr
    carry_out: Buffer
    base: Expr


@dataclass(frozen=True, slots=True)
class Run:
    """A loop cut into runs of `size` iterations.

    Attributes:
        ends: `ends(first, last)` returns the code at the end of a run. The two conditions tell whether the run is the
            first run, and whether it is the last.
        left: the iterations left in the present run, which continues from one execution of the loop to the next; None
            if the loop is executed once.
    """

    size: int
    ends: Callable[[Expr, Expr], Stmt]
    left: Var | None = None


@dataclass(frozen=True, slots=True)
class BlockedTarget:
    """The borrowed memory of a target's sums that are formed in blocks.

    Attributes:
        target: the name of the target. The present block of each element is added up in the target itself.
        size: the number of terms of a block.
        totals: the sums of the earlier blocks, an element for each of the target's, undefined where there are none.
        counts: a byte for each `grain` elements: the number of terms in the present block of all elements that are
            stored together, and the sign if they have totals.
        grain: a divisor of the numbers of elements that are stored together, and of the first one's address.
    """

    target: str
    size: int
    totals: Buffer
    counts: Buffer
    grain: int


@dataclass(frozen=True)
class Scope:
    """The immutable scope of a statement. Each loop derives the scope of its body from its own scope."""

    storage: Storage
    indices: Mapping[IndexVar, Expr] = field(default_factory=dict)
    positions: Mapping[tuple[int, int], PositionRange] = field(default_factory=dict)
    registers: Mapping[str, Var] = field(default_factory=dict)
    indirect: Mapping[Access, Expr] = field(default_factory=dict)
    produced: Workspace | None = None  # the innermost workspace being produced
    tiled: IndexVar | None = None
    lanes: int = 0
    present: Mapping[int, Expr] = field(default_factory=dict)  # term → whether it is present, if that is uncertain
    readable: frozenset[int] = frozenset()  # terms whose factors can be read even if absent
    workspaces: Mapping[str, WorkspaceBuffers] = field(default_factory=dict)
    position_bounds: Mapping[tuple[int, int], tuple[Expr, Expr]] = field(default_factory=dict)  # of a level's positions
    carry_in: CarryIn | None = None
    blocked: BlockedTarget | None = None  # if the target's sums are formed in blocks in memory
    adding: Callable[[Expr, Expr], Stmt] | None = None  # how a value is added to the target, in memory, at an address
    panels: Mapping[IndexVar, Panel] = field(default_factory=dict)
    bounds: Mapping[IndexVar, Bounds] = field(default_factory=dict)  # of the panels of a sparse level
    packs: Mapping[str, Buffer] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)  # of temporaries, in memory of one iteration
    maps: Mapping[tuple[int, int], Map] = field(default_factory=dict)  # of levels that are looked up
    runs: Mapping[IndexVar, Run] = field(default_factory=dict)  # of loops that are cut
    together: int = 0  # the number of positions that are worked on at a time, in lanes
    counts: Expr | None = None  # which of these positions have a coordinate in range; None if all have
    names: count[int] = field(default_factory=count)

    def fresh(self, base: str, type_: Type = I64) -> Var:
        """A name used nowhere else in the kernel."""
        return Var(f"{base}_{next(self.names)}", type_)

    def with_index(self, var: IndexVar, value: Expr) -> Scope:
        """The scope inside a loop, in an iteration in which `var` is `value`."""
        return replace(self, indices={**self.indices, var: value})

    def with_positions(self, domain: LevelIteration, positions: PositionRange) -> Scope:
        """The scope at an entry of a pattern's level, with the positions of the entry."""
        return replace(self, positions={**self.positions, (domain.pattern, domain.level): positions})

    def with_register(self, name: str, register: Var) -> Scope:
        """The scope in which `name` lies in `register`."""
        return replace(self, registers={**self.registers, name: register})

    def with_workspace_register(self, workspace: Workspace, register: Var) -> Scope:
        """The scope in which a workspace is produced in `register`."""
        return replace(self.with_register(workspace.name, register), produced=workspace)

    def with_present(self, term: int, condition: Expr, readable: bool = False) -> Scope:
        """The scope in which a term is present only if `condition` and the conditions of outer scopes hold. If it is
        `readable`, its factors can be read even if it is absent, unless an outer scope forbids these reads."""
        outer = self.present.get(term)
        present = {**self.present, term: condition if outer is None else both(outer, condition)}
        may_read = readable and (outer is None or term in self.readable)
        return replace(self, present=present, readable=self.readable | {term} if may_read else self.readable - {term})

    def with_position_bounds(self, level: LevelIteration, first: Expr, stop: Expr) -> Scope:
        """The scope in which the chunk has only the positions `first <= p < stop` of a level."""
        return replace(self, position_bounds={**self.position_bounds, (level.pattern, level.level): (first, stop)})

    def with_run(self, var: IndexVar, run: Run) -> Scope:
        """The scope inside a run of the loop over `var`."""
        return replace(self, runs={**self.runs, var: run})

    def with_lanes_of(self, positions: int, counts: Expr | None) -> Scope:
        """The scope in which instructions work on several positions, in lanes. `counts`: which of the positions have a
        coordinate in range; None if all have one."""
        return replace(self, together=positions, counts=counts)

    def dense_address(self, access: Access) -> Expr:
        """Return the address of a dense tensor's element at the present coordinates."""
        axes = self.storage.problem.type_of[access.tensor].axes
        names = [str(access.indices[axis.dim]) for axis in axes if isinstance(axis, Dense)]
        return self.storage.address(access, [self.indices[name] for name in names])

    def load_index(self, buffer: Buffer, index: Expr) -> Expr:
        """Load an element of an index array as a 64-bit integer."""
        return cast(element(buffer, index), I64.dtype)


def addition_flag_name(workspace: str) -> str:
    """The name of the register that becomes true when a value is added to a workspace."""
    return f"{workspace} added"
