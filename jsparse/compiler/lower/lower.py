"""Loop nest → KernelIR: one function for each kind of node."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from jsparse.compiler.dtypes import BOOL, Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, both, cast, const, element, floor_div, less, mul, sub
from jsparse.compiler.loops import domain as domains
from jsparse.compiler.loops import nest
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Assign, Forall, LoopNest
from jsparse.compiler.lower import workspaces
from jsparse.compiler.lower.assembly import append, append_edges, listing, reserve
from jsparse.compiler.lower.bins import lower_bins
from jsparse.compiler.lower.blocked_sums import add_runs, total_where
from jsparse.compiler.lower.chunks import (
    Partials,
    count_iteration,
    in_chunks,
    in_run,
    tiles_in_run,
    with_private_sum,
)
from jsparse.compiler.lower.joint_sums import joint_coordinates, joint_sum, joint_sums
from jsparse.compiler.lower.levels import Entry, each_entry
from jsparse.compiler.lower.merge import lower_coiteration
from jsparse.compiler.lower.panels import load_packed, pack, panel_entries, panels, position_panels, with_panel_bounds
from jsparse.compiler.lower.position_lanes import assignment_in_lanes, position_lanes
from jsparse.compiler.lower.prefetch import prefetches
from jsparse.compiler.lower.row_split import split_loop
from jsparse.compiler.lower.scalars import lower_scalar
from jsparse.compiler.lower.scattered_sums import add_to_blocks, lower_in_blocks, stores_alike
from jsparse.compiler.lower.scope import Scope, addition_flag_name
from jsparse.compiler.lower.storage import Storage
from jsparse.compiler.lower.targets import CLEAR_GRAIN, clear_target, with_private_targets
from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.compiler.scalar import Scalar
from jsparse.notation.assignment import Access


def lower(loops: LoopNest) -> Kernel:
    """The kernel of a loop nest."""
    problem, storage, lowerer = loops.problem, Storage(loops.problem), _Lowerer(loops.problem)
    if problem.is_assembly:
        body = listing(loops, storage, lowerer)
    else:
        body = lowerer.stmt(loops.body, Scope(storage))
    arrays, targets = workspaces.array_names(loops.body), {a.target.tensor for a in nest.assignments(loops.body)}
    if arrays or any(isinstance(stmt, nest.Scatter) for stmt in nest.statements(loops.body)):
        body = workspaces.with_hoisted_memory(body)
    for name in problem.temporaries:
        if name in targets and name not in arrays:
            access = next(s.target for s in problem.statements if s.target.tensor == name)
            body = ir.Borrow(storage.by_name[name], storage.size_of(access), body)
    return Kernel(storage.buffers, body)


class _Lowerer:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def stmt(self, stmt: nest.Stmt, scope: Scope) -> ir.Stmt:
        match stmt:
            case Assign():
                return self.assign(stmt, scope)
            case Forall():
                return self.forall(stmt, scope)
            case nest.Clear():
                return clear_target(stmt, scope)
            case nest.Widened():
                return self.lower_widened(stmt, scope)
            case nest.AppendCoord():
                return append(stmt, scope)
            case nest.Pack(body=body):
                return pack(stmt, scope, lambda inner: self.stmt(body, inner))
            case nest.Scatter(body=body):
                return workspaces.lower_scatter(stmt, scope, lambda inner: self.stmt(body, inner))
            case nest.ReserveUpperBound():
                return reserve(stmt, scope)
            case nest.AppendEdges(body=body):
                return append_edges(stmt, scope, self.stmt(body, scope))
            case nest.Sequence(stmts=stmts):
                return block(*(self.stmt(inner, scope) for inner in stmts))
            case nest.TermGuard(term=term, body=Assign() as assign) if (
                term in scope.readable and not assign.target.indices
            ):
                return self.add_to_sparse(assign, scope, scope.present[term])
            case nest.TermGuard(term=term, body=body):
                inner = self.stmt(body, scope)
                return ir.If(scope.present[term], inner) if term in scope.present else inner
            case nest.Where(workspace=nest.SparseWorkspace() as row):
                return workspaces.sparse_where(stmt, row, scope, self.stmt)
            case nest.Where(workspace=nest.ArrayWorkspace() as array):
                return workspaces.array_where(stmt, array, scope, self.stmt)
            case nest.Where(producer=Forall(domain=domains.Runs())):
                return total_where(stmt, scope, self)
            case nest.Where():
                return self.register_where(stmt, scope)

    def lower_widened(self, stmt: nest.Widened, scope: Scope) -> ir.Stmt:
        """Run the body on a copy of the target in borrowed memory, which is zero at first. Then store the narrowed copy
        in the target, or add it there."""
        if stmt.block and stores_alike(stmt):
            return lower_in_blocks(stmt, scope, self.stmt)
        storage, name = scope.storage, stmt.target.tensor
        size, target = storage.size_of(stmt.target), storage.by_name[name]
        copy = ir.Buffer(scope.fresh(f"{name} in float64").name, Type("float64"), -1, True)
        body = self.stmt(stmt.body, replace(scope, storage=storage.with_copies({name: copy})))

        def store_narrow_copy(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            n = scope.fresh("n")
            return ir.For(n, start, stop, ir.Store(target, n, cast(ir.Load(copy, n), target.type.dtype), stmt.adds))

        return ir.Borrow(copy, size, block(body, in_chunks(scope, size, CLEAR_GRAIN, store_narrow_copy)))

    def register_where(self, where: nest.Where, scope: Scope) -> ir.Stmt:
        workspace = where.workspace
        assert isinstance(workspace, nest.Workspace)
        lanes = 0 if workspace.var is None else scope.lanes or workspace.lanes
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

    def forall(self, loop: Forall, scope: Scope, partials: Partials | None = None) -> ir.Stmt:
        """Lower a loop. If threads divide it, `partials` adds code around the loops of each chunk."""
        # Chunks that have their partial sums already are not prepared again.
        mode = None if loop.parallel is None or partials is not None else loop.parallel.mode
        # The code around a loop comes first: it lowers the loop again, in a scope that knows what this code prepares.
        if (divided := with_panel_bounds(loop, scope, lambda inner: self.stmt(loop, inner))) is not None:
            return divided
        if mode == "reduced":
            reduced = with_private_sum if scope.produced is not None else partial(with_private_targets, loop)
            return reduced(scope, lambda inner, chunks: self.forall(loop, inner, chunks))
        if mode == "binned":
            return lower_bins(loop, scope, self)

        def body(inner: Scope) -> ir.Stmt:
            return self.stmt(loop.body, inner)

        match loop.domain:
            case domains.Runs():
                return add_runs(loop, scope, self)
            case domains.Range():
                return self.range(loop, loop.domain, scope, partials)
            case domains.Tiles(lanes=lanes, wide=wide):
                narrow, size = self.tiles(loop, lanes, scope), self.problem.size[loop.var]
                if not wide or size is None or loop.parallel is None:
                    return narrow
                enough = ir.Compare("<=", ir.Threads(), const(size // wide))
                return ir.If(enough, self.tiles(loop, wide, scope), narrow)
            case domains.Panels():
                return panels(loop, loop.domain, scope, body, partials)
            case domains.PositionPanels():
                return position_panels(loop, loop.domain, scope, body)
            case domains.Fused():
                return self.lower_fused_loop(loop, loop.domain, scope, partials)
            case LevelIteration():
                return self.lower_level_loop(loop, loop.domain, scope, partials)
            case domains.Coiteration():
                return lower_coiteration(scope, loop, loop.domain, body, partials)
            case domains.WorkspaceNonzeros():
                return workspaces.nonzeros_loop(loop, loop.domain, scope, body)
            case domains.Derivation(derived=derived):
                # The body runs at the coordinate that other variables determine, if the coordinate is in range.
                here = scope.fresh(loop.var)
                coordinate = reduce(add, (mul(const(stride), scope.indices[part]) for stride, part in derived.parts))
                inner = body(scope.with_index(loop.var, here))
                return block(ir.Bind(here, coordinate), ir.If(less(here, scope.storage.size(loop.var)), inner))
            case domains.Lanes() | domains.WorkspaceLanes():
                return body(scope)

    def range(self, loop: Forall, domain: domains.Range, scope: Scope, partials: Partials | None) -> ir.Stmt:
        run, number = scope.runs[loop.var] if loop.run else None, self.problem.size[loop.var] or 0

        def body(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            n = scope.fresh(loop.var)
            inner = self.stmt(loop.body, scope.with_index(loop.var, n))
            return in_run(scope, run, start, stop, lambda lo, hi: ir.For(n, lo, hi, inner, copies=loop.jam))

        parts = joint_sum(loop.body) if loop.lanes else None
        if parts is not None:
            return joint_coordinates(scope, loop, number, parts, self.stmt)
        if loop.unroll:
            each = (self.stmt(loop.body, scope.with_index(loop.var, const(n))) for n in range(number))
            return block(*(count_iteration(run, one) for one in each))
        if domain.panel:
            panel = scope.panels[loop.var]
            return body(panel.start, panel.stop)
        return in_chunks(scope, scope.storage.size(loop.var), loop.grain, body, partials)

    def lower_fused_loop(self, loop: Forall, domain: domains.Fused, scope: Scope, partials: Partials | None) -> ir.Stmt:
        """Run the body at every pair of coordinates."""
        outer, inner = scope.storage.size(domain.outer), scope.storage.size(domain.inner)

        def body(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            n, row, column = scope.fresh(loop.var), scope.fresh(domain.outer), scope.fresh(domain.inner)
            there = scope.with_index(domain.outer, row).with_index(domain.inner, column)
            coordinates = (ir.Bind(row, floor_div(n, inner)), ir.Bind(column, sub(n, mul(row, inner))))
            return ir.For(n, start, stop, block(*coordinates, self.stmt(loop.body, there)))

        return in_chunks(scope, mul(outer, inner), loop.grain, body, partials)

    def tiles(self, loop: Forall, lanes: int, scope: Scope) -> ir.Stmt:
        """Run all full tiles, then one narrower tile. Each width is a constant, so no lane is masked."""
        size = self.problem.size[loop.var]
        if size is None:
            raise ValueError(f"{loop.var} is tiled but its size is unknown")
        full, remainder = size // lanes * lanes, size % lanes

        def body(start: ir.Expr, width: int) -> ir.Stmt:
            return self.stmt(loop.body, replace(scope.with_index(loop.var, start), tiled=loop.var, lanes=width))

        if loop.run:
            return tiles_in_run(scope, scope.runs[loop.var], full, lanes, remainder, body)
        parts: list[ir.Stmt] = []
        if full == lanes:
            parts.append(body(const(0), lanes))
        elif full and loop.parallel is not None:
            t = scope.fresh("tile")
            parts.append(ir.ParallelFor(t, const(full // lanes), body(mul(t, const(lanes)), lanes)))
        elif full:
            start = scope.fresh(loop.var)
            parts.append(ir.For(start, const(0), const(full), body(start, lanes), lanes))
        if remainder:
            parts.append(body(const(full), remainder))
        return block(*parts)

    def lower_level_loop(
        self, loop: Forall, domain: LevelIteration, scope: Scope, partials: Partials | None
    ) -> ir.Stmt:
        def ahead(outside: Scope, entry: Entry) -> list[ir.Stmt]:
            return prefetches(loop, domain, entry, outside) if loop.prefetch else []

        def at(outside: Scope, entry: Entry) -> ir.Stmt:
            inner = outside.with_positions(domain, entry.positions).with_index(loop.var, entry.coordinate)
            return block(*ahead(outside, entry), self.stmt(loop.body, inner))

        if loop.parallel is not None and loop.parallel.mode == "split":
            return split_loop(scope, loop, domain, at)
        parts = joint_sum(loop.body) if domain.lanes else None
        if parts is not None:
            return joint_sums(scope, domain, loop, parts, self.stmt, partial(ahead, scope))
        if domain.lanes and assignment_in_lanes(loop) is not None:
            return position_lanes(scope, domain, loop, self.stmt, partials)
        if domain.panel:
            return panel_entries(scope, domain, loop, partial(at, scope))
        return each_entry(scope, domain, loop, partial(at, scope), partials)

    def assign(self, assign: Assign, scope: Scope) -> ir.Stmt:
        """Lower an assignment. If an index from a table is out of range, nothing is added, or a zero is stored."""
        if workspaces.is_sparse_workspace(assign.target.tensor, scope):
            return self.add_to_sparse(assign, scope)
        assert assign.value is not None
        prelude, in_range, scope = self.indirect(assign, scope)
        for access in assign.reads:
            added = scope.registers.get(addition_flag_name(access.tensor))
            if added is not None:
                in_range = added if in_range is None else both(in_range, added)
        bound, value = self.value(assign, assign.value, scope)
        # If the condition fails, or a lane is out of range, the value is zero.
        holds = scope.counts
        if assign.condition is not None:
            names, condition = self.value(assign, assign.condition, scope)
            bound, holds = [*bound, *names], condition if holds is None else both(holds, condition)
        if holds is not None:
            value = ir.Select(holds, value, ir.Const(assign.monoid.zero, value.type))
        store = block(*bound, self.put(assign, value, scope))
        if in_range is None:
            return store
        empty = None if assign.accumulate else self.put(assign, ir.Const(assign.monoid.zero, value.type), scope)
        return block(*prelude, ir.If(in_range, store, empty))

    def add_to_sparse(self, assign: Assign, scope: Scope, condition: ir.Expr | None = None) -> ir.Stmt:
        """Add to a sparse workspace, or only mark the coordinate if the workspace holds no values. With a condition, do
        this only if it holds; the workspace is then a scalar."""
        bound, value = ([], None) if assign.value is None else self.value(assign, assign.value, scope)
        if condition is not None:
            return block(*bound, workspaces.add_if(condition, assign, value, scope))
        index = scope.indices[str(assign.target.indices[0])] if assign.target.indices else None
        return block(*bound, workspaces.add_to_workspace(assign, index, value, scope))

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
            value = ir.WidenLanes(value, register.type.lanes, assign.monoid.zero)
        store = ir.Set(register, ir.Binary(operation, register, value) if assign.accumulate else value)
        added, counts = scope.registers.get(addition_flag_name(assign.target.tensor)), scope.counts
        if added is None:
            return store
        # The flag becomes true if a lane counts, or if an earlier assignment has set it.
        some: ir.Expr = ir.Const(1, BOOL)
        if counts is not None:
            some = ir.Binary("|", added, ir.HorizontalReduce(counts, "|") if counts.type.lanes else counts)
        return block(store, ir.Set(added, some))

    def store_at(
        self, assign: Assign, address: ir.Expr, value: ir.Expr, scope: Scope, rounded: bool = False
    ) -> ir.Stmt:
        """Write to the target in memory. If `rounded`, a product is rounded before it is added."""
        operation, buffer = assign.monoid.add, scope.storage.by_name[assign.target.tensor]
        same, narrow = buffer.type.dtype == value.type.dtype, cast(value, buffer.type.dtype)
        if scope.blocked is not None and assign.accumulate and assign.target.tensor == scope.blocked.target:
            return add_to_blocks(scope.blocked, address, narrow, scope)
        if not same and assign.accumulate and assign.target.tensor in scope.storage.copies:
            return ir.Store(buffer, address, narrow, True, operation, rounded)
        if not same and assign.accumulate:
            old = cast(ir.Load(buffer, address, value.type.lanes), value.type.dtype)
            return ir.Store(buffer, address, cast(ir.Binary(operation, old, value), buffer.type.dtype))
        store, carry = ir.Store(buffer, address, narrow, assign.accumulate, operation, rounded), scope.carry_in
        if carry is None:
            return store
        # In a segment that began in an earlier chunk, the value goes to this chunk's carry-out (`row_split`).
        offset = self.address(assign.target, scope.with_index(carry.var, const(0)))
        return ir.If(carry.condition, ir.Store(carry.carry_out, add(carry.base, offset), narrow), store)

    def value(self, assign: Assign, value: Scalar, scope: Scope) -> tuple[list[ir.Bind], ir.Expr]:
        """The bindings of an assignment's local names, and its value, in lanes if the assignment runs in lanes.

        In a product, scalars come first, so that there is one broadcast, and the last factor fuses into a multiply-add.
        A selective sum (min, max) needs values that are bit-equal in every nest, so its factors stay in their order.
        """
        tiled = any(scope.tiled in access.variables() for access in (assign.target, *assign.reads))
        lanes = scope.together or (scope.lanes if tiled else 0)

        def read(access: Access) -> ir.Expr:
            return cast(self.factor(access, scope), assign.dtype)

        return lower_scalar(value, read, scope.fresh, assign.dtype, lanes, in_order=assign.monoid.is_selective)

    def factor(self, access: Access, scope: Scope) -> ir.Expr:
        register, var = scope.registers.get(access.tensor), scope.tiled
        if register is not None:
            return register
        if access.tensor in scope.packs:
            return load_packed(access, scope)
        buffer, address = scope.storage.by_name[access.tensor], self.address(access, scope)
        if var not in access.variables() or not scope.lanes:
            return element(buffer, address)
        *outer, last = self.problem.type_of[access.tensor].axes
        inner = [axis for axis in outer if isinstance(axis, Dense) and access.indices[axis.dim] == var]
        if not isinstance(last, Dense) or access.indices[last.dim] != var or inner:
            raise ValueError(f"{var} runs in lanes, but {access} does not store it innermost")
        return ir.Load(buffer, address, scope.lanes)

    def address(self, access: Access, scope: Scope) -> ir.Expr:
        coordinates: list[ir.Expr] = []
        for axis in self.problem.type_of[access.tensor].axes:
            if isinstance(axis, Positions):
                coordinates.append(scope.positions[axis.pattern, len(axis.dims) - 1].first)
            else:
                index = access.indices[axis.dim]
                coordinates.append(scope.indirect[index] if isinstance(index, Access) else scope.indices[index])
        if access.tensor in scope.arrays:
            return workspaces.address_in(scope.arrays[access.tensor], coordinates)
        return scope.storage.address(access, coordinates)

    def indirect(self, assign: Assign, scope: Scope) -> tuple[list[ir.Stmt], ir.Expr | None, Scope]:
        """Return loads of indices from tables, a condition that all are in range, and the scope with their values."""
        prelude: list[ir.Stmt] = []
        in_range: ir.Expr | None = None
        for access in (assign.target, *assign.reads):
            is_workspace = access.tensor in scope.registers or access.tensor in scope.packs
            for number, axis in enumerate(() if is_workspace else self.problem.type_of[access.tensor].axes):
                index = access.indices[axis.dim] if isinstance(axis, Dense) else ""
                if not isinstance(index, Access):
                    continue
                if index.indirections():
                    raise NotImplementedError(f"doubly indirect access {access}")
                loaded = scope.fresh("index")
                table = scope.storage.by_name[index.tensor]
                prelude.append(ir.Bind(loaded, scope.load_index(table, self.address(index, scope))))
                scope = replace(scope, indirect={**scope.indirect, index: loaded})
                extent = scope.storage.dense_extent(access, number)
                inside = both(ir.Compare("<=", const(0), loaded), less(loaded, extent))
                in_range = inside if in_range is None else both(in_range, inside)
        return prelude, in_range, scope
