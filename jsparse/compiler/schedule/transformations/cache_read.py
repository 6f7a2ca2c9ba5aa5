"""`cache_read`: rows that a panel reads are copied to contiguous memory first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import Assign, LoopNest, Pack, Stmt, with_children
from jsparse.compiler.scalar import replace_accesses
from jsparse.compiler.schedule.limits import LARGEST_COPY
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import change_loop, first_of
from jsparse.notation.assignment import Access


@dataclass(frozen=True, slots=True)
class CacheRead(Transformation):
    """Before the loops inside a panel run, copy the part of a dense tensor that one panel and one register tile read.

    TVM has a step of the same name. Rows whose stride is a power of two fall into the same few sets of a cache; in the
    copy they are contiguous.

    Attributes:
        tensor: the name of the tensor. Its indices are the variable of the panel and the variable in lanes.
        loop: the name of the loop over panels.
    """

    tensor: str
    loop: str
    keyword: ClassVar[str] = "cache_read"

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> CacheRead:
        return CacheRead((names or {}).get(self.tensor, self.tensor), self.loop)

    def check(self, nest: Summary) -> str | None:
        var = nest.outer.get(self.loop)
        if var is None or var in nest.positions or self.loop not in nest.loops or var == nest.vector:
            return f"{self.loop} is not a loop over panels of coordinates"
        if step := first_of(nest, "cache_read", "precompute", "scatter"):
            return f"'{step}' has already made a workspace"
        if nest.tile_loop is None:
            return "rows are copied by register tiles, and nothing runs in lanes"
        if nest.loops.index(nest.tile_loop) > nest.loops.index(self.loop):
            return f"the loop {nest.tile_loop} over register tiles has to be outside {self.loop}"
        reads = [set(f.indices) for f in nest.factors if f.tensor == self.tensor]
        if reads != [{var, nest.vector}] or not nest.is_product:
            return f"{self.tensor} is not read exactly once, with only the indices {var} and {nest.vector}"
        item = np.dtype(nest.problem.type_of[self.tensor].dtype).itemsize
        bytes_ = nest.splits[var] * nest.lanes * item
        if bytes_ > LARGEST_COPY:
            return f"a copy has at most {LARGEST_COPY:,} bytes, not {bytes_:,}"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        (source,) = (f for f in nest.statement.reads if f.tensor == self.tensor)
        copy = Access("pack", source.indices)

        def read_copy(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Assign) and stmt.value is not None:
                return replace(stmt, value=replace_accesses(stmt.value, {source: copy}))
            return with_children(stmt, read_copy)

        return change_loop(nest, self.loop, lambda loop: replace(loop, body=Pack("pack", source, read_copy(loop.body))))
