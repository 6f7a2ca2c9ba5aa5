"""Loop nest → KernelIR: one function for each kind of node."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from jsparse.compiler.dtypes import BOOL, Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, both, cast, const, element, floor_div, less, mul, sub
from jsparse.compiler.loops.domain import (
    Coiteration,
    Derivation,
    Fused,
    HorizontalReduce,
    Lanes,
    LevelIteration,
    Panels,
    PositionPanels,
    Range,
    Runs,
    Tiles,
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
    Sequence,
    SparseWorkspace,
    TermGuard,
    Where,
    Widened,
    Workspace,
    assignments,
)
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.assembly import append, append_edges, listing, reserve
from jsparse.compiler.lower.bins import lower_bins
from jsparse.compiler.lower.blocks import add_runs, total_where
from jsparse.compiler.lower.chunks import Partials, count_iteration, in_chunks, in_run, tiles_in_run, with_partials
from jsparse.compiler.lower.joint_sums import joint_coordinates, joint_sum, joint_sums
from jsparse.compiler.lower.levels import Entry, each_entry
from jsparse.compiler.lower.merge import lower_coiteration
from jsparse.compiler.lower.panels import (
    find_divided_level,
    load_packed,
    pack,
    panel_entries,
    panels,
    position_panels,
    with_panel_bounds,
)
from jsparse.compiler.lower.position_lanes import assignment_in_lanes, position_lanes
from jsparse.compiler.lower.prefetch import prefetches
from jsparse.compiler.lower.row_split import split_loop
from jsparse.compiler.lower.scalars import lower_scalar
from jsparse.compiler.lower.scattered_blocks import add_in_block, in_blocks, stores_alike
from jsparse.compiler.lower.scope import Scope, addition_flag_name
from jsparse.compiler.lower.storage import Storage
from jsparse.compiler.lower.targets import CLEAR_GRAIN, clear_target, with_own_sums
from jsparse.compiler.lower.workspaces import (
    add_if,
    add_to_workspace,
    address_in,
    array_names,
    array_where,
    has_maps,
    is_sparse_workspace,
    lower_scatter,
    nonzeros_loop,
    sparse_where,
    with_hoisted_memory,
)
from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.compiler.scalar import Scalar
from jsparse.notation.assignment import Access, IndexVar


def lower(nest: LoopNest) -> Kernel:
    """The kernel of a loop nest."""
    storage, lowerer = Storage(nest.problem), _Lowerer(nest.problem)
    if nest.problem.is_assembly:
        body = listing(nest, storage, lowerer)
    else:
        body = lowerer.stmt(nest.body, Scope(storage))
    arrays, named = array_names(nest.body), {a.target.tensor for a in assignments(nest.body)}
    if has_maps(nest.body) or arrays:
        body = with_hoisted_memory(body)
    for name in nest.problem.temporaries:
        if name in arrays or name not in named:
            continue
        access = next(s.target for s in nest.problem.statements if s.target.tensor == name)
        body = ir.Borrow(storage.by_name[name], storage.size_of(access), body)
    return Kernel(storage.buffers, body)


class _Lowerer:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def lower_widened(self, stmt: Widened, scope: Scope) -> ir.Stmt:
        """Run the body on a copy of the target in borrowed memory, which is zero at first. Then store the narrowed copy
        in the target, or add it there."""
        if stmt.block and stores_alike(stmt):
            return in_blocks(stmt, scope, self.stmt)
        storage, name = scope.storage, stmt.target.tensor
        size, target = storage.size_of(stmt.target), storage.by_name[name]
        copy = ir.Buffer(scope.fresh(f"{name} in float64").name, Type("float64"), -1, True)
        body = self.stmt(stmt.body, replace(scope, storage=storage.with_copies({name: copy})))

        def store_narrow_copy(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            n = scope.fresh("n")
            return ir.For(n, start, stop, ir.Store(target, n, cast(ir.Load(copy, n), target.type.dtype), stmt.adds))

        return ir.Borrow(copy, size, block(body, in_chunks(scope, size, CLEAR_GRAIN, store_narrow_copy)))

    def stmt(self, stmt: LoopStmt, scope: Scope) -> ir.Stmt:
        match stmt:
            case Assign():
                return self.assign(stmt, scope)
            case Clear():
                return clear_target(stmt, scope)
            case Widened():
                return self.lower_widened(stmt, scope)
            case AppendCoord():
                return append(stmt, scope)
            case Pack(body=body):
                return pack(stmt, scope, lambda inner: self.stmt(body, inner))
            case Scatter(body=body):
                return lower_scatter(stmt, scope, lambda inner: self.stmt(body, inner))
            case ReserveUpperBound():
                return reserve(stmt, scope)
            case AppendEdges(body=body):
                return append_edges(stmt, scope, self.stmt(body, scope))
            case Sequence(stmts=stmts):
                return block(*(self.stmt(inner, scope) for inner in stmts))
            case TermGuard(term=term, body=Assign() as assign) if term in scope.readable and not assign.target.indices:
                bound, value = self.row_value(assign, scope)
                return block(*bound, add_if(scope.present[term], assign, value, scope))
            case TermGuard(term=term, body=body):
                inner = self.stmt(body, scope)
                return ir.If(scope.present[term], inner) if term in scope.present else inner
            case Where():
                return self.where(stmt, scope)
            case Forall():
                return self.loop(stmt, scope)

    def loop(self, stmt: Forall, scope: Scope) -> ir.Stmt:
        """Lower a loop with the code around it, such as the bounds of panels or the partial sums of chunks."""
        match stmt:
            case Forall(domain=Runs()):
                return add_runs(stmt, scope, self)
            case Forall() if (
                divided := find_divided_level(stmt, scope)
            ) is not None and divided.var not in scope.bounds:
                return with_panel_bounds(scope, divided, lambda inner: self.stmt(stmt, inner))
            case Forall(parallel=parallel) if parallel is not None and parallel.mode == "reduced":
                reduced = with_partials if scope.produced is not None else partial(with_own_sums, stmt)
                return reduced(scope, lambda inner, partials: self.forall(stmt, inner, partials))
            case Forall(parallel=parallel) if parallel is not None and parallel.mode == "binned":
                return lower_bins(stmt, scope, self)
            case Forall(domain=LevelIteration() as domain) if (
                stmt.parallel is not None and stmt.parallel.mode == "split"
            ):
                return split_loop(scope, stmt, domain, partial(self.entry, stmt, domain))
            case _:
                return self.forall(stmt, scope, None)

    def where(self, stmt: Where, scope: Scope) -> ir.Stmt:
        """Lower the producer of a workspace, then the consumer."""
        match stmt:
            case Where(workspace=SparseWorkspace() as row):
                return sparse_where(stmt, row, scope, self.stmt)
            case Where(workspace=ArrayWorkspace() as array):
                return array_where(stmt, array, scope, self.stmt)
            case Where(producer=Forall(domain=Runs())):
                return total_where(stmt, scope, self)
            case _:
                return self.register_where(stmt, scope)

    def register_where(self, where: Where, scope: Scope) -> ir.Stmt:
        workspace, lanes = where.workspace, 0
        assert isinstance(workspace, Workspace)
        if workspace.var is not None:
            lanes = scope.lanes or workspace.lanes
        register = scope.fresh(workspace.name, Type(workspace.dtype, lanes))
        flag = scope.fresh("added", BOOL)
        inner = scope.with_register(addition_flag_name(workspace.name), flag) if workspace.checked else scope
        inner = inner.with_workspace_register(workspace, register)
        return block(
            *([ir.Declare(flag, ir.Const(0, BOOL))] if workspace.checked else []),
            ir.Declare(register, ir.Const(workspace.monoid.zero, register.type)),
            self.stmt(where.producer, inner),
            self.stmt(where.consumer, inner),
        )

    def forall(self, loop: Forall, scope: Scope, partials: Partials | None) -> ir.Stmt:
        match loop.domain:
            case Range():
                return self.range(loop, scope, partials)
            case Tiles(lanes=lanes, wide=wide):
                narrow, size = self.tiles(loop, lanes, scope), self.problem.size[loop.var]
                if not wide or size is None or loop.parallel is None:
                    return narrow
                enough = ir.Compare("<=", ir.Threads(), const(size // wide))
                return ir.If(enough, self.tiles(loop, wide, scope), narrow)
            case Panels():
                return panels(loop, loop.domain, scope, lambda inner: self.stmt(loop.body, inner), partials)
            case PositionPanels():
                return position_panels(loop, loop.domain, scope, lambda inner: self.stmt(loop.body, inner))
            case Fused():
                return self.lower_fused_loop(loop, loop.domain, scope, partials)
            case LevelIteration():
                return self.lower_level_loop(loop, loop.domain, scope, partials)
            case Coiteration():
                return lower_coiteration(scope, loop, loop.domain, lambda inner: self.stmt(loop.body, inner), partials)
            case WorkspaceNonzeros():
                return nonzeros_loop(loop, loop.domain, scope, lambda inner: self.stmt(loop.body, inner))
            case Derivation():
                return self.derivation(loop, loop.domain, scope)
            case Lanes() | HorizontalReduce() | Runs():
                return self.stmt(loop.body, scope)

    def derivation(self, loop: Forall, domain: Derivation, scope: Scope) -> ir.Stmt:
        """Run the body at the coordinate that other variables determine, if the coordinate is in range."""
        here = scope.fresh(loop.var)
        found = reduce(add, (mul(const(stride), scope.indices[part]) for stride, part in domain.derived.parts))
        inner = self.stmt(loop.body, scope.with_index(loop.var, here))
        return block(ir.Let(here, found), ir.If(less(here, scope.storage.size(loop.var)), inner))

    def range(self, loop: Forall, scope: Scope, partials: Partials | None) -> ir.Stmt:
        def body(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            n = scope.fresh(loop.var)
            inner, run = self.stmt(loop.body, scope.with_index(loop.var, n)), scope.runs[loop.var] if loop.run else None
            return in_run(scope, run, start, stop, lambda lo, hi: ir.For(n, lo, hi, inner, copies=loop.jam))

        size = scope.storage.size(loop.var)
        parts = joint_sum(loop.body) if loop.lanes else None
        if parts is not None:
            return joint_coordinates(scope, loop, self.problem.size[loop.var] or 0, parts, self.stmt)
        if loop.unroll:
            known, run = self.problem.size[loop.var] or 0, scope.runs[loop.var] if loop.run else None
            each = (self.stmt(loop.body, scope.with_index(loop.var, const(n))) for n in range(known))
            return block(*(count_iteration(run, one) for one in each))
        if isinstance(loop.domain, Range) and loop.domain.panel:
            panel = scope.panels[loop.var]
            return body(panel.start, panel.stop)
        if loop.parallel is None:
            return body(const(0), size)
        return in_chunks(scope, size, loop.parallel.grain, body, partials)

    def lower_fused_loop(self, loop: Forall, domain: Fused, scope: Scope, partials: Partials | None) -> ir.Stmt:
        """Run the body at every pair of coordinates."""
        outer, inner = scope.storage.size(domain.outer), scope.storage.size(domain.inner)

        def body(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            n, row, column = scope.fresh(loop.var), scope.fresh(domain.outer), scope.fresh(domain.inner)
            there = scope.with_index(domain.outer, row).with_index(domain.inner, column)
            at = block(
                ir.Let(row, floor_div(n, inner)), ir.Let(column, sub(n, mul(row, inner))), self.stmt(loop.body, there)
            )
            return ir.For(n, start, stop, at)

        size = mul(outer, inner)
        if loop.parallel is None:
            return body(const(0), size)
        return in_chunks(scope, size, loop.parallel.grain, body, partials)

    def tiles(self, loop: Forall, lanes: int, scope: Scope) -> ir.Stmt:
        """Run all full tiles, then one narrower tile. Each width is a constant, so no lane is masked."""
        size = self.problem.size[loop.var]
        if size is None:
            raise ValueError(f"{loop.var} is tiled but its size is unknown")
        whole, rest = size // lanes * lanes, size % lanes

        def body(start: ir.Expr, width: int) -> ir.Stmt:
            return self.stmt(loop.body, scope.with_tile(loop.var, start, width))

        if loop.run:
            return tiles_in_run(scope, scope.runs[loop.var], whole, lanes, rest, body)
        parts: list[ir.Stmt] = []
        if whole == lanes:
            parts.append(body(const(0), lanes))
        elif whole and loop.parallel is not None:
            t = scope.fresh("tile")
            parts.append(ir.Parallel(t, const(whole // lanes), body(mul(t, const(lanes)), lanes)))
        elif whole:
            start = scope.fresh(loop.var)
            parts.append(ir.For(start, const(0), const(whole), body(start, lanes), lanes))
        if rest:
            parts.append(body(const(whole), rest))
        return block(*parts)

    def lower_level_loop(
        self, loop: Forall, domain: LevelIteration, scope: Scope, partials: Partials | None
    ) -> ir.Stmt:
        parts = joint_sum(loop.body) if domain.lanes else None
        if parts is not None:
            ahead = partial(self.ahead, loop, domain, scope)
            return joint_sums(scope, domain, loop, parts, self.stmt, ahead)
        if domain.lanes and assignment_in_lanes(loop) is not None:
            return position_lanes(scope, domain, loop, self.stmt, partials)
        body = partial(self.entry, loop, domain, scope)
        if domain.panel:
            return panel_entries(scope, domain, loop.var, scope.runs[loop.var] if loop.run else None, body)
        return each_entry(scope, domain, loop, body, partials)

    def entry(self, loop: Forall, domain: LevelIteration, scope: Scope, entry: Entry) -> ir.Stmt:
        """The body of a loop at one entry."""
        inner = scope.with_positions(domain, entry.positions).with_index(loop.var, entry.coordinate)
        return block(*self.ahead(loop, domain, scope, entry), self.stmt(loop.body, inner))

    def ahead(self, loop: Forall, domain: LevelIteration, scope: Scope, entry: Entry) -> list[ir.Stmt]:
        """The prefetches at an entry of a loop."""
        return prefetches(loop, domain, entry, scope) if loop.prefetch else []

    def assign(self, assign: Assign, scope: Scope) -> ir.Stmt:
        """Lower an assignment. If an index from a table is out of range, nothing is added, or a zero is stored."""
        if is_sparse_workspace(assign.target.tensor, scope):
            return self.row_assign(assign, scope)
        assert assign.value is not None
        prelude, in_range, scope = self.indirect(assign, scope)
        for access in assign.reads:
            added = scope.registers.get(addition_flag_name(access.tensor))
            if added is not None:
                in_range = added if in_range is None else both(in_range, added)
        bound, value = self.value_or_zero(assign, assign.value, scope)
        store = block(*bound, self.put(assign, value, scope))
        if in_range is None:
            return store
        empty = None if assign.accumulate else self.put(assign, ir.Const(assign.monoid.zero, value.type), scope)
        return block(*prelude, ir.If(in_range, store, empty))

    def row_assign(self, assign: Assign, scope: Scope) -> ir.Stmt:
        """Add to a sparse workspace, or only mark the coordinate if the workspace holds no values."""
        indices = assign.target.indices
        index = scope.indices[str(indices[0])] if indices else None
        bound, value = self.row_value(assign, scope)
        return block(*bound, add_to_workspace(assign, index, value, scope))

    def row_value(self, assign: Assign, scope: Scope) -> tuple[list[ir.Let], ir.Expr | None]:
        return ([], None) if assign.value is None else self.value(assign, assign.value, scope)

    def runs_in_lanes(self, assign: Assign, scope: Scope) -> bool:
        return any(scope.tiled in access.variables() for access in (assign.target, *assign.reads)) and bool(scope.lanes)

    def put(self, assign: Assign, value: ir.Expr, scope: Scope) -> ir.Stmt:
        """Write to a register or to memory. A sum in memory is formed in the dtype of arithmetic, and then narrowed."""
        register, operation = scope.registers.get(assign.target.tensor), assign.monoid.add
        if register is None:
            address = self.address(assign.target, scope)
            address = address.first if isinstance(address, ir.Ramp) else address
            if scope.adding is not None and assign.accumulate:
                return scope.adding(address, value)
            return self.store_at(assign, address, value, scope)
        value = cast(value, register.type.dtype)
        if value.type.lanes and not register.type.lanes:
            value = ir.HorizontalReduce(value, operation)
        elif value.type.lanes < register.type.lanes:
            value = ir.Widen(value, register.type.lanes, assign.monoid.zero)
        added = scope.registers.get(addition_flag_name(assign.target.tensor))
        mark = [] if added is None else [ir.Set(added, self.any_counted(added, scope))]
        return block(ir.Set(register, ir.Binary(operation, register, value) if assign.accumulate else value), *mark)

    def store_at(
        self, assign: Assign, address: ir.Expr, value: ir.Expr, scope: Scope, rounded: bool = False
    ) -> ir.Stmt:
        """Write to the target in memory. If `rounded`, a product is rounded before it is added."""
        operation, buffer = assign.monoid.add, scope.storage.by_name[assign.target.tensor]
        same = buffer.type.dtype == value.type.dtype
        if scope.blocks is not None and assign.accumulate and assign.target.tensor == scope.blocks.target:
            return add_in_block(scope.blocks, address, cast(value, buffer.type.dtype), scope)
        if not same and assign.accumulate and assign.target.tensor in scope.storage.copies:
            return ir.Store(buffer, address, cast(value, buffer.type.dtype), True, operation, rounded)
        if same or not assign.accumulate:
            stored = cast(value, buffer.type.dtype)
            whole = ir.Store(buffer, address, stored, assign.accumulate, operation, rounded)
            return self.store_or_carry(assign, stored, whole, scope)
        old = cast(ir.Load(buffer, address, value.type.lanes), value.type.dtype)
        return ir.Store(buffer, address, cast(ir.Binary(operation, old, value), buffer.type.dtype))

    def any_counted(self, added: ir.Expr, scope: Scope) -> ir.Expr:
        """Whether the present assignment, or an earlier one, adds a value to the workspace."""
        counts = scope.counts
        if counts is None:
            return ir.Const(1, BOOL)
        return ir.Binary("|", added, ir.HorizontalReduce(counts, "|") if counts.type.lanes else counts)

    def store_or_carry(self, assign: Assign, value: ir.Expr, whole: ir.Stmt, scope: Scope) -> ir.Stmt:
        """Store the value to the target, or to the carry-out if the segment began in an earlier chunk."""
        going = scope.carry_in
        if going is None:
            return whole
        offset = self.address(assign.target, scope.with_index(going.var, const(0)))
        return ir.If(going.condition, ir.Store(going.carry_out, add(going.base, offset), value), whole)

    def value(self, assign: Assign, value: Scalar, scope: Scope) -> tuple[list[ir.Let], ir.Expr]:
        """The bindings of an assignment's local names, and its value, in lanes if the assignment runs in lanes.

        In a product, scalars come first, so that there is one broadcast, and the last factor fuses into a multiply-add.
        A selective sum (min, max) needs values that are bit-equal in every nest, so its factors stay in their order.
        """
        lanes = scope.together or (scope.lanes if self.runs_in_lanes(assign, scope) else 0)

        def read(access: Access) -> ir.Expr:
            return self.factor(access, scope, assign.dtype)

        return lower_scalar(value, read, scope.fresh, assign.dtype, lanes, in_order=assign.monoid.is_selective)

    def value_or_zero(self, assign: Assign, scalar: Scalar, scope: Scope) -> tuple[list[ir.Let], ir.Expr]:
        """Return bindings of local names, and the value: zero if the condition fails or a lane is out of range."""
        bound, value = self.value(assign, scalar, scope)
        holds = scope.counts
        if assign.condition is not None:
            named, condition = self.value(assign, assign.condition, scope)
            bound, holds = [*bound, *named], condition if holds is None else both(holds, condition)
        return bound, value if holds is None else ir.Select(holds, value, ir.Const(assign.monoid.zero, value.type))

    def factor(self, access: Access, scope: Scope, dtype: str) -> ir.Expr:
        register = scope.registers.get(access.tensor)
        if register is not None:
            return cast(register, dtype)
        if access.tensor in scope.packs:
            return cast(load_packed(access, scope), dtype)
        buffer, address = scope.storage.by_name[access.tensor], self.address(access, scope)
        if scope.tiled not in access.variables() or not scope.lanes:
            return cast(element(buffer, address), dtype)
        self.check_contiguous(access, scope.tiled)
        return cast(ir.Load(buffer, address, scope.lanes), dtype)

    def check_contiguous(self, access: Access, var: IndexVar | None) -> None:
        *outer, last = self.problem.type_of[access.tensor].axes
        inner = [axis for axis in outer if isinstance(axis, Dense) and access.indices[axis.dim] == var]
        if not isinstance(last, Dense) or access.indices[last.dim] != var or inner:
            raise ValueError(f"{var} runs in lanes, but {access} does not store it innermost")

    def address(self, access: Access, scope: Scope) -> ir.Expr:
        axes = self.problem.type_of[access.tensor].axes
        coordinates = [self.coordinate(access, axis, scope) for axis in axes]
        array = scope.arrays.get(access.tensor)
        if array is None:
            return scope.storage.address(access, coordinates)
        return address_in(array, coordinates)

    def coordinate(self, access: Access, axis: Dense | Positions, scope: Scope) -> ir.Expr:
        if isinstance(axis, Positions):
            return scope.positions[axis.pattern, len(axis.dims) - 1].first
        index = access.indices[axis.dim]
        return scope.indirect[index] if isinstance(index, Access) else scope.indices[index]

    def indirect(self, assign: Assign, scope: Scope) -> tuple[list[ir.Stmt], ir.Expr | None, Scope]:
        """Return loads of indices from tables, a condition that all are in range, and the scope with their values."""
        prelude: list[ir.Stmt] = []
        in_range: ir.Expr | None = None
        for access in (assign.target, *assign.reads):
            for number, axis in enumerate(self.axes(access, scope)):
                index = access.indices[axis.dim] if isinstance(axis, Dense) else ""
                if not isinstance(index, Access):
                    continue
                if index.indirections():
                    raise NotImplementedError(f"doubly indirect access {access}")
                loaded = scope.fresh("index")
                prelude.append(
                    ir.Let(loaded, scope.load_index(scope.storage.by_name[index.tensor], self.address(index, scope)))
                )
                scope = scope.with_indirect(index, loaded)
                extent = scope.storage.dense_extent(access, number)
                inside = both(ir.Compare("<=", const(0), loaded), less(loaded, extent))
                in_range = inside if in_range is None else both(in_range, inside)
        return prelude, in_range, scope

    def axes(self, access: Access, scope: Scope) -> tuple[Dense | Positions, ...]:
        """The storage axes of a tensor; a workspace has none."""
        is_workspace = access.tensor in scope.registers or access.tensor in scope.packs
        return () if is_workspace else self.problem.type_of[access.tensor].axes
