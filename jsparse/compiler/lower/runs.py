"""Runs: loops cut after a number of iterations. The loop's body is emitted once."""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.dtypes import BOOL
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, const, less, minimum, sub
from jsparse.compiler.lower.scope import Run, Scope

__all__ = ["NO", "YES", "counted", "in_run", "tiles_in_run"]

NO, YES = ir.Const(0, BOOL), ir.Const(1, BOOL)
NEVER = 2**63 - 1  # a position that no loop reaches


def in_run(
    scope: Scope, run: Run | None, first: ir.Expr, stop: ir.Expr, walk: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """`walk` from `first` to `stop`, cut into runs if `run` is given."""
    if run is None:
        return walk(first, stop)
    if run.left is None:
        if isinstance(first, ir.Const) and isinstance(stop, ir.Const):
            return _known(scope, run, int(first.value), int(stop.value), walk)
        return _from_start(scope, run, first, stop, walk)
    start, end, going = scope.fresh("start"), scope.fresh("end"), scope.fresh("going", BOOL)
    return block(
        ir.Declare(start, first),
        ir.Declare(going, less(first, stop)),
        ir.While(going, _going_on(run, run.left, start, stop, end, going, less(end, stop), walk)),
    )


def _from_start(
    scope: Scope, run: Run, first: ir.Expr, stop: ir.Expr, walk: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """Runs of one segment. A segment with one run costs one comparison, `after < goal`: the first run's goal is the
    segment's end, later runs have a goal that is never reached."""
    start, after, end = scope.fresh("start"), scope.fresh("after"), scope.fresh("end")
    goal, going = scope.fresh("goal"), scope.fresh("going", BOOL)
    ends = block(
        ir.Set(going, less(after, stop)),
        run.ends(ir.Compare("==", start, first), ir.Compare("==", going, NO)),
        ir.Set(start, end),
        ir.Set(goal, const(NEVER)),
    )
    step = block(
        ir.Let(after, add(start, const(run.size))),
        ir.Let(end, minimum(after, stop)),
        walk(start, end),
        ir.Set(going, NO),
        ir.If(less(after, goal), ends, rare=True),
    )
    registers = (ir.Declare(start, first), ir.Declare(goal, stop), ir.Declare(going, less(first, stop)))
    return block(*registers, ir.While(going, step))


def _going_on(
    run: Run,
    left: ir.Var,
    start: ir.Var,
    stop: ir.Expr,
    end: ir.Var,
    going: ir.Var,
    more: ir.Expr,
    walk: Callable[[ir.Expr, ir.Expr], ir.Stmt],
) -> ir.Stmt:
    """The rest of the present run, which continues in the next segment unless it is full."""
    full = block(run.ends(NO, NO), ir.Set(left, const(run.size)), ir.Set(start, end), ir.Set(going, more))
    return block(
        ir.Let(end, minimum(add(start, left), stop)),
        walk(start, end),
        ir.Set(left, sub(left, sub(end, start))),
        ir.Set(going, NO),
        ir.If(ir.Compare("==", left, const(0)), full, rare=True),
    )


def _known(scope: Scope, run: Run, first: int, stop: int, walk: Callable[[ir.Expr, ir.Expr], ir.Stmt]) -> ir.Stmt:
    """Runs of a loop with constant bounds."""
    if stop - first <= run.size:
        return walk(const(first), const(stop))
    start, end = scope.fresh("start"), scope.fresh("end")
    whole = (stop - first) % run.size == 0
    after = add(start, const(run.size))
    ends = run.ends(ir.Compare("==", start, const(first)), ir.Compare("<=", const(stop), end))
    step = block(ir.Let(end, after if whole else minimum(after, const(stop))), walk(start, end), ends)
    return ir.For(start, const(first), const(stop), step, run.size)


def tiles_in_run(
    scope: Scope, run: Run, whole: int, lanes: int, rest: int, tile: Callable[[ir.Expr, int], ir.Stmt]
) -> ir.Stmt:
    """All full tiles in runs; then the narrower last tile, in a run of its own."""
    if run.left is not None:
        start = scope.fresh("tile")
        one = ir.For(start, const(0), const(whole), counted(run, tile(start, lanes)), lanes)
        return block(one, *([counted(run, tile(const(whole), rest))] if rest else []))
    first, n = scope.fresh("start"), scope.fresh("tile")
    step = run.size * lanes
    last = NO if rest else ir.Compare("<=", const(whole), add(first, const(step)))
    inner = ir.For(n, first, minimum(add(first, const(step)), const(whole)), tile(n, lanes), lanes)
    runs = ir.For(first, const(0), const(whole), block(inner, run.ends(ir.Compare("==", first, const(0)), last)), step)
    return block(runs, *([tile(const(whole), rest), run.ends(NO, YES)] if rest else []))


def counted(run: Run | None, turn: ir.Stmt) -> ir.Stmt:
    """One iteration, which is counted, and ends the run if the run is full."""
    if run is None:
        return turn
    assert run.left is not None
    full = block(run.ends(NO, NO), ir.Set(run.left, const(run.size)))
    return block(
        turn, ir.Set(run.left, sub(run.left, const(1))), ir.If(ir.Compare("==", run.left, const(0)), full, rare=True)
    )
