"""Blocked sums: loops cut into runs, and the runs' sums added to a total.

A total is a float64 accumulator to which the sums of runs are added (see `loops.blocked_sums`). Most segments are
shorter than a run. So the total is only written if a run ends before the last iteration of the loops. If there is one
run, its sum stays in the accumulator of the run, and the total costs one comparison.

The totals of vectors are in stack memory, because the accumulators need the registers, and a total is read and written
only once per run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from jsparse.compiler.dtypes import BOOL, Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, const, mul, zero
from jsparse.compiler.kernel.algebra import cast as as_dtype
from jsparse.compiler.loops.blocked_sums import TOTAL
from jsparse.compiler.loops.domain import LevelIteration, Range, Runs, Tiles
from jsparse.compiler.loops.nest import MAX_CHUNKS, Assign, Forall, Where, Workspace
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import NO, YES, Lowerer, Partials
from jsparse.compiler.lower.scope import Run, Scope, addition_flag_name
from jsparse.compiler.problem import Problem

PIECE = 8  # lanes of a total that are added at a time
WRITTEN_OUT = 32  # lanes of a total whose pieces are written out, so that LLVM can keep them in registers


def total_where(where: Where, scope: Scope, lowerer: Lowerer) -> ir.Stmt:
    """Lower the runs that are added to a total, and the consumer, which reads the total from the runs' accumulator."""
    runs, workspace = where.producer, where.workspace
    assert isinstance(runs, Forall)
    assert isinstance(workspace, Workspace)
    run_sum, producer = _of_run(runs)
    lanes = 0 if workspace.var is None else scope.lanes or workspace.lanes
    accumulator = scope.fresh(run_sum.name, Type(run_sum.dtype, lanes))
    mark: list[ir.Stmt] = []
    if workspace.checked:
        flag = scope.fresh("added", BOOL)
        mark.append(ir.Declare(flag, NO))
        for name in (workspace.name, run_sum.name):
            scope = scope.with_register(addition_flag_name(name), flag)
    total, outside = _Total(scope, accumulator), scope.with_register(workspace.name, accumulator)
    if runs.parallel is not None:
        loops = _in_chunks(runs, total, scope, lowerer)
    elif _begins_run(producer, scope.storage.problem):
        run = Run(cast(Runs, runs.domain).size, total.add_accumulator)
        inside = scope.with_register(run_sum.name, accumulator).with_run(runs.var, run)
        loops = block(total.declare(), lowerer.stmt(producer, inside))
    else:
        start, several, inside = _continue_runs(runs, total, scope)
        loops = block(start, lowerer.stmt(producer, inside), ir.If(several, total.add_accumulator(NO, YES), rare=True))
    return block(*mark, loops, lowerer.stmt(where.consumer, outside))


def add_runs(runs: Forall, scope: Scope, lowerer: Lowerer) -> ir.Stmt:
    """Lower the runs of one segment, and add their sums to a scalar total. Other segments add to the same total."""
    run_sum, producer = _of_run(runs)
    assert isinstance(runs.body, Where)
    assert isinstance(runs.body.consumer, Assign)
    name = runs.body.consumer.target.tensor
    total, accumulator = scope.registers[name], scope.fresh(run_sum.name, Type(run_sum.dtype))
    if run_sum.checked:
        flag = scope.registers[addition_flag_name(name)]
        scope = scope.with_register(addition_flag_name(run_sum.name), flag)
    more, size = scope.fresh("left"), cast(Runs, runs.domain).size
    add_sum = ir.Set(total, ir.Binary("+", total, as_dtype(accumulator, total.type.dtype)))
    empty = zero(accumulator.type)
    run = Run(size, lambda first, last: block(add_sum, ir.Set(accumulator, empty)), more)
    loops = lowerer.stmt(producer, scope.with_register(run_sum.name, accumulator).with_run(runs.var, run))
    return block(ir.Declare(accumulator, empty), ir.Declare(more, const(size)), loops, add_sum)


def _of_run(runs: Forall) -> tuple[Workspace, LoopStmt]:
    """The workspace of a run's sum, and the loops that produce it."""
    body = runs.body
    assert isinstance(body, Where)
    assert isinstance(body.workspace, Workspace)
    return body.workspace, body.producer


def _begins_run(stmt: LoopStmt, problem: Problem) -> bool:
    """Whether the cut loop is executed at most once, over a range of positions or coordinates: it then begins a run."""
    if not isinstance(stmt, Forall):
        return False
    domain = stmt.domain
    if not isinstance(domain, LevelIteration):
        return stmt.run and isinstance(domain, Range | Tiles) and not stmt.unroll
    pattern = problem.patterns[domain.pattern]
    if stmt.run:
        return not stmt.unroll and not pattern.repeats(domain.level)
    return (domain.bound or pattern.is_single(domain.level)) and _begins_run(stmt.body, problem)


def _continue_runs(runs: Forall, total: _Total, scope: Scope) -> tuple[ir.Stmt, ir.Var, Scope]:
    """Let runs continue from one execution of the cut loop to the next.

    Returns the declarations before the loops, the register that tells whether a run has ended already, and the scope of
    the loops.
    """
    size, more, several = cast(Runs, runs.domain).size, scope.fresh("left"), scope.fresh("several", BOOL)

    def ends(first: ir.Expr, last: ir.Expr) -> ir.Stmt:  # the cut loop knows neither
        return block(total.add_accumulator(_no(several), NO), ir.Set(several, YES))

    inside = scope.with_register(_of_run(runs)[0].name, total.accumulator).with_run(runs.var, Run(size, ends, more))
    return block(total.declare(), ir.Declare(more, const(size)), ir.Declare(several, NO)), several, inside


def _in_chunks(runs: Forall, total: _Total, scope: Scope, lowerer: Lowerer) -> ir.Stmt:
    """Divide runs over threads. Each chunk has its own total, and the totals are added in the order of the chunks."""
    run_sum, producer = _of_run(runs)
    assert isinstance(producer, Forall)
    private = _Total(scope, scope.fresh(run_sum.name, total.accumulator.type))
    start, several, inside = _continue_runs(runs, private, scope)
    copies = ir.Buffer(scope.fresh("copies").name, Type(TOTAL), -1, True)  # the totals of all chunks

    def chunk(number: ir.Expr, loops: ir.Stmt) -> ir.Stmt:
        last = private.add_accumulator(_no(several), NO)
        return block(start, loops, last, private.store_copy(copies, number))

    divided = Partials(chunk, lambda chunks: total.add_copies(copies, chunks))
    loops = lowerer.forall(replace(producer, parallel=runs.parallel), inside, divided)
    return block(total.declare(), ir.LocalArray(copies, MAX_CHUNKS * total.width), loops)


def _no(flag: ir.Expr) -> ir.Expr:
    return ir.Compare("==", flag, NO)


class _Total:
    """The total to which an accumulator is added when a run ends: a register, or stack memory for lanes."""

    def __init__(self, scope: Scope, accumulator: ir.Var) -> None:
        self.scope, self.accumulator = scope, accumulator
        self.lanes = accumulator.type.lanes
        self.piece = min(PIECE, 1 << max(self.lanes - 1, 0).bit_length())
        self.width = -(-self.lanes // self.piece) * self.piece if self.lanes else 1
        self.register = scope.fresh("total", Type(TOTAL))
        self.wide = ir.Buffer(scope.fresh("totals").name, Type(TOTAL), -1, True)
        self.narrow = ir.Buffer(scope.fresh("sums").name, accumulator.type.scalar, -1, True)

    def declare(self) -> ir.Stmt:
        """Declare the total and an empty accumulator. The first run clears a total in lanes."""
        start = ir.Declare(self.accumulator, zero(self.accumulator.type))
        if not self.lanes:
            return block(start, ir.Declare(self.register, zero(self.register.type)))
        return block(start, ir.LocalArray(self.wide, self.width), ir.LocalArray(self.narrow, self.width))

    def add_accumulator(self, first: ir.Expr, last: ir.Expr) -> ir.Stmt:
        """Add the accumulator to the total. If `first` holds, a total in lanes is cleared before. Then set the
        accumulator to the total if `last` holds, else to zero."""
        acc, dtype = self.accumulator, self.accumulator.type.dtype

        def reset(total: ir.Expr) -> ir.Stmt:
            if isinstance(last, ir.Const):
                return ir.Set(acc, total if last.value else zero(acc.type))
            return ir.Set(acc, ir.Select(last, total, zero(acc.type)))

        if not self.lanes:
            add_sum = ir.Set(self.register, ir.Binary("+", self.register, as_dtype(acc, TOTAL)))
            return block(add_sum, reset(as_dtype(self.register, dtype)))
        part = self.scope.fresh("sum", Type(TOTAL, self.piece))

        def step(n: ir.Expr) -> ir.Stmt:
            narrow, wide = (ir.Load(buffer, n, self.piece) for buffer in (self.narrow, self.wide))
            return block(
                ir.Bind(part, ir.Binary("+", wide, as_dtype(narrow, TOTAL))),
                ir.Store(self.wide, n, part),
                ir.Store(self.narrow, n, as_dtype(part, dtype)),
            )

        clear: ir.Stmt = ir.Store(self.wide, const(0), zero(Type(TOTAL, self.width)))
        if not isinstance(first, ir.Const):
            clear = ir.If(first, clear)
        elif not first.value:
            clear = block()
        spill = ir.Store(self.narrow, const(0), acc)
        return block(clear, spill, self.each(step), reset(ir.Load(self.narrow, const(0), self.lanes)))

    def each(self, step: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
        """Run `step` for each group of `piece` neighbouring lanes."""
        if self.width <= WRITTEN_OUT:
            return block(*(step(const(n)) for n in range(0, self.width, self.piece)))
        n = self.scope.fresh("n")
        return ir.For(n, const(0), const(self.width), step(n), self.piece)

    def store_copy(self, copies: ir.Buffer, chunk: ir.Expr) -> ir.Stmt:
        """Store the total at the place of a chunk in the buffer `copies`."""
        first = mul(chunk, const(self.width))
        if not self.lanes:
            return ir.Store(copies, first, self.register)
        return self.each(lambda n: ir.Store(copies, add(first, n), ir.Load(self.wide, n, self.piece)))

    def add_copies(self, copies: ir.Buffer, chunks: ir.Expr) -> ir.Stmt:
        """Set the accumulator to the sum of the chunks' totals, added in the order of the chunks."""
        lanes = self.piece if self.lanes else 0

        def step(n: ir.Expr) -> ir.Stmt:
            chunk, part = self.scope.fresh("chunk"), self.scope.fresh("sum", Type(TOTAL, lanes))
            copy = ir.Load(copies, add(mul(chunk, const(self.width)), n), lanes)
            every = ir.For(chunk, const(0), chunks, ir.Set(part, ir.Binary("+", part, copy)))
            narrow = as_dtype(part, self.accumulator.type.dtype)
            end = ir.Store(self.narrow, n, narrow) if self.lanes else ir.Set(self.accumulator, narrow)
            return block(ir.Declare(part, zero(part.type)), every, end)

        if not self.lanes:
            return step(const(0))
        return block(self.each(step), ir.Set(self.accumulator, ir.Load(self.narrow, const(0), self.lanes)))
