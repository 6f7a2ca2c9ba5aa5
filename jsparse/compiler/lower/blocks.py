"""Blocked sums: loops cut into runs, and the runs' sums added to a total.

A total is a float64 accumulator to which the sums of runs are added. Most segments are shorter than a run. So the total
is only written if a run ends before the last iteration of the loops. If there is one run, its sum stays in the
accumulator of the run, and the total costs one comparison.

The totals of vectors are in stack memory, because the accumulators need the registers, and a total is read and written
only once per run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from jsparse.compiler.dtypes import BOOL, Type
from jsparse.compiler.kernel.algebra import add, block, const, mul, zero
from jsparse.compiler.kernel.algebra import cast as as_dtype
from jsparse.compiler.kernel.nodes import (
    Binary,
    Buffer,
    Compare,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    LocalArray,
    Select,
    Set,
    Stmt,
    Store,
    Var,
)
from jsparse.compiler.loops.blocked_sums import TOTAL
from jsparse.compiler.loops.domain import LevelIteration, Range, Runs, Tiles
from jsparse.compiler.loops.nest import MAX_CHUNKS, Assign, Forall, Where, Workspace
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.assembly import Lowering
from jsparse.compiler.lower.chunks import NO, YES, Partials
from jsparse.compiler.lower.scope import Run, Scope, addition_flag_name
from jsparse.compiler.problem import Problem

PIECE = 8  # lanes of a total that are added at a time
WRITTEN_OUT = 32  # lanes of a total whose pieces are written out, so that LLVM can keep them in registers


def total_where(where: Where, scope: Scope, lowerer: Lowering) -> Stmt:
    """Lower the runs that are added to a total, and the consumer, which reads the total from the runs' accumulator."""
    runs, workspace = where.producer, where.workspace
    assert isinstance(runs, Forall)
    assert isinstance(workspace, Workspace)
    block_sum, producer = _of_run(runs)
    lanes = 0 if workspace.var is None else scope.lanes or workspace.lanes
    accumulator = scope.fresh(block_sum.name, Type(block_sum.dtype, lanes))
    mark: list[Stmt] = []
    if workspace.checked:
        flag = scope.fresh("added", BOOL)
        mark.append(Declare(flag, NO))
        scope = scope.with_register(addition_flag_name(workspace.name), flag).with_register(
            addition_flag_name(block_sum.name), flag
        )
    total, outside = _Total(scope, accumulator), scope.with_register(workspace.name, accumulator)
    if runs.parallel is not None:
        summed = _chunks(runs, total, scope, lowerer)
    elif _begins(producer, scope.storage.problem):
        size = cast(Runs, runs.domain).size
        inside = scope.with_register(block_sum.name, accumulator).with_run(runs.var, Run(size, total.add_accumulator))
        summed = block(total.declare(), lowerer.stmt(producer, inside))
    else:
        going = _Going(runs, total, scope)
        end = If(going.several, total.add_accumulator(NO, YES), rare=True)
        summed = block(going.start(), lowerer.stmt(producer, going.scope), end)
    return block(*mark, summed, lowerer.stmt(where.consumer, outside))


def add_runs(runs: Forall, scope: Scope, lowerer: Lowering) -> Stmt:
    """Lower the runs of one segment, and add their sums to a scalar total. Other segments add to the same total."""
    block_sum, producer = _of_run(runs)
    assert isinstance(runs.body, Where)
    assert isinstance(runs.body.consumer, Assign)
    name = runs.body.consumer.target.tensor
    total, accumulator = scope.registers[name], scope.fresh(block_sum.name, Type(block_sum.dtype))
    if block_sum.checked:
        scope = scope.with_register(addition_flag_name(block_sum.name), scope.registers[addition_flag_name(name)])
    left, size = scope.fresh("left"), cast(Runs, runs.domain).size
    joined = Set(total, Binary("+", total, as_dtype(accumulator, total.type.dtype)))
    empty = zero(accumulator.type)

    def ends(first: Expr, last: Expr) -> Stmt:
        return block(joined, Set(accumulator, empty))

    inside = scope.with_register(block_sum.name, accumulator).with_run(runs.var, Run(size, ends, left))
    start = block(Declare(accumulator, empty), Declare(left, const(size)))
    return block(start, lowerer.stmt(producer, inside), joined)


class _Going:
    """The state of runs that continue from one execution of the cut loop to the next.

    Attributes:
        several: the register that tells whether a run has ended already.
        scope: the scope of the loops.
    """

    def __init__(self, runs: Forall, total: _Total, scope: Scope) -> None:
        self.total, self.size = total, cast(Runs, runs.domain).size
        self.left, self.several = scope.fresh("left"), scope.fresh("several", BOOL)
        inside = scope.with_register(_of_run(runs)[0].name, total.accumulator)
        self.scope = inside.with_run(runs.var, Run(self.size, self.ends, self.left))

    def start(self) -> Stmt:
        """Return the declarations that precede the loops."""
        return block(self.total.declare(), Declare(self.left, const(self.size)), Declare(self.several, NO))

    def ends(self, first: Expr, last: Expr) -> Stmt:
        """Return the code at the end of a run that is full: add its sum to the total. Both arguments are ignored."""
        return block(self.total.add_accumulator(_no(self.several), NO), Set(self.several, YES))


def _chunks(runs: Forall, total: _Total, scope: Scope, lowerer: Lowering) -> Stmt:
    """Divide runs over threads. Each chunk has its own total, and the totals are added in the order of the chunks."""
    block_sum, producer = _of_run(runs)
    assert isinstance(producer, Forall)
    own = _Total(scope, scope.fresh(block_sum.name, total.accumulator.type))
    going = _Going(runs, own, scope)
    copies = total.copies()

    def chunk(number: Expr, loops: Stmt) -> Stmt:
        rest = own.add_accumulator(_no(going.several), NO)
        return block(going.start(), loops, rest, total.store_copy(copies, number, own))

    divided = Partials(chunk, lambda chunks: total.add_copies(copies, chunks))
    loops = lowerer.forall(replace(producer, parallel=runs.parallel), going.scope, divided)
    return block(total.declare(), total.copies_made(copies), loops)


def _of_run(runs: Forall) -> tuple[Workspace, LoopStmt]:
    """The workspace of a run's sum, and the loops that produce it."""
    body = runs.body
    assert isinstance(body, Where)
    assert isinstance(body.workspace, Workspace)
    return body.workspace, body.producer


def _begins(stmt: LoopStmt, problem: Problem) -> bool:
    """Whether the cut loop is executed at most once, over a range of positions or coordinates: it then begins a run."""
    if not isinstance(stmt, Forall):
        return False
    domain = stmt.domain
    if stmt.run:
        if isinstance(domain, LevelIteration):
            pattern = problem.patterns[domain.pattern]
            return not stmt.unroll and not pattern.repeats(domain.level)
        return isinstance(domain, Range | Tiles) and not stmt.unroll
    once = isinstance(domain, LevelIteration) and (
        domain.bound or problem.patterns[domain.pattern].is_single(domain.level)
    )
    return once and _begins(stmt.body, problem)


def _no(flag: Expr) -> Expr:
    return Compare("==", flag, NO)


class _Total:
    """The total to which an accumulator is added when a run ends: a register, or stack memory for lanes."""

    def __init__(self, scope: Scope, accumulator: Var) -> None:
        self.scope, self.accumulator = scope, accumulator
        self.lanes = accumulator.type.lanes
        self.piece = min(PIECE, 1 << max(self.lanes - 1, 0).bit_length())
        self.width = -(-self.lanes // self.piece) * self.piece if self.lanes else 1
        self.register = scope.fresh("total", Type(TOTAL))
        self.wide = Buffer(scope.fresh("totals").name, Type(TOTAL), -1, True)
        self.narrow = Buffer(scope.fresh("sums").name, accumulator.type.scalar, -1, True)

    def declare(self) -> Stmt:
        """Declare the total and an empty accumulator. The first run clears a total in lanes."""
        start = Declare(self.accumulator, zero(self.accumulator.type))
        if not self.lanes:
            return block(start, Declare(self.register, zero(self.register.type)))
        return block(start, LocalArray(self.wide, self.width), LocalArray(self.narrow, self.width))

    def add_accumulator(self, first: Expr, last: Expr) -> Stmt:
        """Add the accumulator to the total. If `first` holds, a total in lanes is cleared before. Then set the
        accumulator to the total if `last` holds, else to zero."""
        acc, dtype = self.accumulator, self.accumulator.type.dtype
        if not self.lanes:
            whole = Set(self.register, Binary("+", self.register, as_dtype(acc, TOTAL)))
            return block(whole, Set(acc, _fold_select(last, as_dtype(self.register, dtype), zero(acc.type))))
        part = self.scope.fresh("sum", Type(TOTAL, self.piece))

        def step(n: Expr) -> Stmt:
            narrow, wide = (Load(buffer, n, self.piece) for buffer in (self.narrow, self.wide))
            return block(
                Let(part, Binary("+", wide, as_dtype(narrow, TOTAL))),
                Store(self.wide, n, part),
                Store(self.narrow, n, as_dtype(part, dtype)),
            )

        back = Set(acc, _fold_select(last, Load(self.narrow, const(0), self.lanes), zero(acc.type)))
        cleared = Store(self.wide, const(0), zero(Type(TOTAL, self.width)))
        start = If(first, cleared) if not isinstance(first, Const) else cleared if first.value else block()
        return block(start, Store(self.narrow, const(0), acc), self.each(step), back)

    def each(self, step: Callable[[Expr], Stmt]) -> Stmt:
        """Run `step` for each group of `piece` neighbouring lanes."""
        if self.width <= WRITTEN_OUT:
            return block(*(step(const(n)) for n in range(0, self.width, self.piece)))
        n = self.scope.fresh("n")
        return For(n, const(0), const(self.width), step(n), self.piece)

    def copies(self) -> Buffer:
        """The buffer for the totals of all chunks."""
        return Buffer(self.scope.fresh("copies").name, Type(TOTAL), -1, True)

    def store_copy(self, copies: Buffer, chunk: Expr, own: _Total) -> Stmt:
        """Store the total of a chunk, `own`, at the place of the chunk in the buffer `copies`."""
        first = mul(chunk, const(self.width))
        if not self.lanes:
            return Store(copies, first, own.register)
        return self.each(lambda n: Store(copies, add(first, n), Load(own.wide, n, self.piece)))

    def add_copies(self, copies: Buffer, chunks: Expr) -> Stmt:
        """Set the accumulator to the sum of the chunks' totals, added in the order of the chunks."""
        lanes = self.piece if self.lanes else 0

        def step(n: Expr) -> Stmt:
            chunk, part = self.scope.fresh("chunk"), self.scope.fresh("sum", Type(TOTAL, lanes))
            copy = Load(copies, add(mul(chunk, const(self.width)), n), lanes)
            every = For(chunk, const(0), chunks, Set(part, Binary("+", part, copy)))
            narrow = as_dtype(part, self.accumulator.type.dtype)
            end = Store(self.narrow, n, narrow) if self.lanes else Set(self.accumulator, narrow)
            return block(Declare(part, zero(part.type)), every, end)

        if not self.lanes:
            return step(const(0))
        return block(self.each(step), Set(self.accumulator, Load(self.narrow, const(0), self.lanes)))

    def copies_made(self, copies: Buffer) -> Stmt:
        """Allocate the buffer `copies` for the totals of all chunks."""
        return LocalArray(copies, MAX_CHUNKS * self.width)


def _fold_select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return Select(condition, then, otherwise)
