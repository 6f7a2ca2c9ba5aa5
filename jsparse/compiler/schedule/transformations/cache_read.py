"""`cache_read`: rows that a panel reads are copied to contiguous memory first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import with_loop
from jsparse.compiler.loops.nest import Assign, Forall, LoopNest, Pack, Stmt, with_children
from jsparse.compiler.scalar import accesses_of, replace_accesses
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.limits import LARGEST_COPY
from jsparse.compiler.schedule.summary import Summary, Transformation
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

    def __str__(self) -> str:
        return line(self.keyword, self.tensor, self.loop)

    @staticmethod
    def parse(words: list[str]) -> CacheRead:
        """Read the step from the words that follow its keyword in a line."""
        tensor, loop = words
        return CacheRead(tensor, loop)

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> CacheRead:
        """Return the step with another name of the tensor."""
        return CacheRead((names or {}).get(self.tensor, self.tensor), self.loop)

    def check(self, nest: Summary) -> str | None:
        """Why the step is illegal; None if it is legal."""
        var = nest.outer.get(self.loop)
        if var is None or var in nest.positions or self.loop not in nest.loops or var == nest.vector:
            return f"{self.loop} is no loop over panels of coordinates"
        for keyword in ("cache_read", "precompute", "scatter"):
            if nest.first(keyword) is not None:
                return f"'{nest.first(keyword)}' has made a workspace already"
        if nest.vector is None:
            return "rows are copied by register tiles, and nothing runs in lanes"
        tiles = next(name for name, v in nest.outer.items() if v == nest.vector)
        if nest.loops.index(tiles) > nest.loops.index(self.loop):
            return f"the loop {tiles} over register tiles has to stand outside of {self.loop}"
        return self._access_reason(nest, var)

    def _access_reason(self, nest: Summary, var: str) -> str | None:
        found = [f for f in nest.factors if f.tensor == self.tensor]
        if len(found) != 1 or set(found[0].indices) != {var, nest.vector} or not nest.is_product:
            return f"{self.tensor} is not read once, by the indices {var} and {nest.vector} alone"
        item = np.dtype(nest.problem.type_of[self.tensor].dtype).itemsize
        bytes_ = nest.splits[var] * nest.lanes * item
        if bytes_ > LARGEST_COPY:
            return f"a copy has at most {LARGEST_COPY:,} bytes, not {bytes_:,}"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step."""
        (source,) = (f for f in nest.statement.reads if f.tensor == self.tensor)

        def pack_source(loop: Forall) -> Stmt:
            return replace(loop, body=Pack("pack", source, _reading(loop.body, source, Access("pack", source.indices))))

        return replace(nest, body=with_loop(nest.body, self.loop, nest.problem, pack_source))


def _reading(stmt: Stmt, source: Access, copy: Access) -> Stmt:
    """Replace the reads of the tensor in a statement by reads of the copy."""
    if isinstance(stmt, Assign):
        reads = stmt.value is not None and source in accesses_of(stmt.value)
        return (
            replace(stmt, value=replace_accesses(stmt.value, {source: copy}))
            if reads and stmt.value is not None
            else stmt
        )
    return with_children(stmt, lambda inner: _reading(inner, source, copy))
