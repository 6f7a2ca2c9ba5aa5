"""Sums that are scattered into a large target, shared by threads.

The loop is lowered three times. If there are few threads, it runs unchanged. Else chunks of its iterations run in
parallel, and a chunk adds nothing: it first counts its terms for each of at most 64 ranges of the target, and then
lists the address and the value of each term. Then the ranges run in parallel, and each adds its terms:

    ∀ chunks in parallel    count[chunk, range of t] += 1             for each term v of C[t]
    places of lists         by ranges, and within a range by chunks
    ∀ chunks in parallel    list[next place of (chunk, range of t)] = (t, v)
    ∀ ranges in parallel    C[t] += v                                  for each (t, v), from the first chunk to the last

A range adds terms of an element in the order of the loop, so both paths give the same bits. For that, a product is
rounded before it is added. Lists of terms by ranges are called propagation blocking (Beamer, Asanović and Patterson,
"Reducing PageRank communication via propagation blocking", IPDPS 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, less, mul
from jsparse.compiler.loops.nest import MAX_CHUNKS, Forall, Parallel, assignments
from jsparse.compiler.lower.chunks import Lowerer, Partials
from jsparse.compiler.lower.scope import Scope

FEWEST = 6
"""The fewest threads by which lists take less time than the serial loop. They take four times its processor time."""

RANGES = 64
"""The most ranges of the target. As many lists grow at a time, which a near cache has to hold."""


def lower_bins(loop: Forall, scope: Scope, lowerer: Lowerer) -> ir.Stmt:
    """Lower a loop that scatters sums: serial for few threads, by lists of terms for more."""
    assert loop.parallel is not None
    targets = {s.target.tensor for s in scope.storage.problem.statements}
    (assign,) = (one for one in assignments(loop) if one.target.tensor in targets)

    def add_term(address: ir.Expr, value: ir.Expr) -> ir.Stmt:
        return lowerer.store_at(assign, address, value, scope, rounded=True)

    serial = lowerer.forall(replace(loop, parallel=None), replace(scope, adding=add_term), None)
    chunks = replace(loop, parallel=Parallel("owned", loop.parallel.grain))

    def in_chunks(put: _Put) -> ir.Stmt:
        row = scope.fresh("row")
        each = Partials(lambda chunk, inner: block(ir.Bind(row, mul(chunk, const(RANGES))), inner), lambda _: block())
        adding = replace(scope, adding=lambda address, value: put(row, address, value))
        return lowerer.forall(chunks, adding, each)

    size = prod(scope.storage.problem.size[v] or 1 for v in assign.target.variables())
    types = {"addresses": "int32" if size < 1 << 31 else "int64", "counts": "int64", "values": assign.dtype}
    buffers = {name: ir.Buffer(scope.fresh(name).name, Type(dtype), -1, True) for name, dtype in types.items()}
    lists = _Lists(scope, **buffers, shift=max((size - 1) // RANGES, 0).bit_length())
    # The counts are borrowed for both passes, and the lists, whose length the first pass finds, for the second one.
    total = scope.fresh("total")
    count = block(in_chunks(lists.count_term), lists.turn_counts_into_places(total))
    add_listed = block(in_chunks(lists.append_term), lists.in_ranges(add_term))
    for buffer in (lists.values, lists.addresses):
        add_listed = ir.Borrow(buffer, total, add_listed, zeros=False)
    parallel = ir.Borrow(
        lists.counts, const(MAX_CHUNKS * RANGES), block(ir.Declare(total, const(0)), count, add_listed)
    )
    return ir.If(less(ir.Threads(), const(FEWEST)), serial, parallel)


_Put = Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Stmt]
"""`put(row, address, value)` takes a term. `row` is where the counts of the present chunk begin."""


@dataclass(frozen=True, slots=True)
class _Lists:
    """The lists of terms, in borrowed memory.

    Attributes:
        scope: the scope of the loop.
        counts: by chunk, then by range: the number of terms, and later the next place in the lists.
        addresses: the address of each term.
        values: the value of each term.
        shift: the binary logarithm of the number of elements of a range.
    """

    scope: Scope
    counts: ir.Buffer
    addresses: ir.Buffer
    values: ir.Buffer
    shift: int

    def count_term(self, row: ir.Expr, address: ir.Expr, _: ir.Expr) -> ir.Stmt:
        return ir.Store(self.counts, add(row, self._range(address)), const(1), accumulate=True)

    def turn_counts_into_places(self, total: ir.Var) -> ir.Stmt:
        """Turn counts into the first place of each chunk in each range's list, and count all terms in `total`."""
        part, chunk, count, at = (self.scope.fresh(name) for name in ("range", "chunk", "count", "at"))
        step = block(
            ir.Bind(at, add(mul(chunk, const(RANGES)), part)),
            ir.Bind(count, ir.Load(self.counts, at)),
            ir.Store(self.counts, at, total),
            ir.Set(total, add(total, count)),
        )
        return ir.For(part, const(0), const(RANGES), ir.For(chunk, const(0), const(MAX_CHUNKS), step))

    def append_term(self, row: ir.Expr, address: ir.Expr, value: ir.Expr) -> ir.Stmt:
        here, at, place = self.scope.fresh("address"), self.scope.fresh("at"), self.scope.fresh("place")
        return block(
            ir.Bind(here, address),
            ir.Bind(at, add(row, self._range(here))),
            ir.Bind(place, ir.Load(self.counts, at)),
            ir.Store(self.counts, at, add(place, const(1))),
            ir.Store(self.addresses, place, cast(here, self.addresses.type.dtype)),
            ir.Store(self.values, place, value),
        )

    def in_ranges(self, added: Callable[[ir.Expr, ir.Expr], ir.Stmt]) -> ir.Stmt:
        """Add the terms of each range. The last chunk's next place in a list is where the next list begins."""
        part, first, stop, n = (self.scope.fresh(name) for name in ("range", "first", "stop", "n"))
        last = const((MAX_CHUNKS - 1) * RANGES)
        before = ir.Load(self.counts, add(last, ir.Binary("max", add(part, const(-1)), const(0))))
        here, value = self.scope.fresh("address"), self.scope.fresh("value", self.values.type)
        term = block(
            ir.Bind(here, cast(ir.Load(self.addresses, n), "int64")),
            ir.Bind(value, ir.Load(self.values, n)),
            added(here, value),
        )
        return ir.ParallelFor(
            part,
            const(RANGES),
            block(
                ir.Bind(first, ir.Select(ir.Compare("==", part, const(0)), const(0), before)),
                ir.Bind(stop, ir.Load(self.counts, add(last, part))),
                ir.For(n, first, stop, term),
            ),
        )

    def _range(self, address: ir.Expr) -> ir.Expr:
        return ir.Binary(">>", address, const(self.shift))
