"""The loop orders worth pricing.

The variables of the pattern's levels come first, in some order; the pattern will be walked in that order, through its
transposed index if need be. Variables that only dense axes carry follow. Where a reduction over stored entries stands
innermost, the loops over dense indices of the target go around it, so that the sum stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations

import numpy as np

from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule.stored import Stored, TracedPattern
from jsparse.compiler.schedule.visits import walked_as
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["Candidate", "candidates"]

REGISTER_BYTES = 256  # of one register tile: 8 vectors of 32 bytes, half of AVX2's registers
SHARED_TILES = 16  # tiles wanted where threads own tiles of the target
SHARED_LANES = 16  # but none narrower than a cache line of float32
MAX_PERMUTED = 4  # variables of patterns up to which every order is priced
MAX_WALKS = 120  # orders tried beyond that, where several patterns have to agree


@dataclass(frozen=True)
class Candidate:
    """A loop order in parts.

    Attributes:
        walk: the pattern's variables in the order visited.
        vector: the variable to run in vector lanes, if any.
    """

    problem: Problem
    walk: tuple[IndexVar, ...]
    vector: IndexVar | None

    @cached_property
    def kept(self) -> frozenset[IndexVar]:
        """The target's variables."""
        return frozenset(self.problem.assignment.target.variables())

    @cached_property
    def tail(self) -> tuple[IndexVar, ...]:
        """The innermost of `walk` that are all reductions."""
        start = len(self.walk)
        while start and self.walk[start - 1] not in self.kept:
            start -= 1
        return self.walk[start:]

    @property
    def head(self) -> tuple[IndexVar, ...]:
        """`walk` without its tail."""
        return self.walk[: len(self.walk) - len(self.tail)]

    @cached_property
    def dense(self) -> tuple[IndexVar, ...]:
        """The variables outside the pattern: the target's first."""
        return tuple(v for v in self.problem.assignment.variables() if v not in self.walk)

    @property
    def lead(self) -> tuple[IndexVar, ...]:
        """The variables that choose among patterns: outside everything."""
        return tuple(v for names in self.problem.lead_variables for v in names)

    @property
    def spread(self) -> tuple[IndexVar, ...]:
        """The target's scalar loops over dense indices."""
        return tuple(v for v in self.dense if v in self.kept and v != self.vector and v not in self.lead)

    @property
    def owns_tiles(self) -> bool:
        """Whether threads can only own tiles of the vector variable: what is outermost is summed over."""
        return self.scatters and self.vector in self.kept and self.walk[0] not in self.kept

    @cached_property
    def scatters(self) -> bool:
        """Whether a reduction stands outside an index of the target, so that sums are added up in memory."""
        return any(v not in self.kept for v in self.head)

    @property
    def contracted(self) -> tuple[IndexVar, ...]:
        """The scalar loops that reduce dense indices."""
        return tuple(v for v in self.dense if v not in self.kept and v != self.vector)

    @cached_property
    def summed(self) -> tuple[IndexVar, ...]:
        """The last of `tail` that only factors without dense indices carry: Σ (a·b) = (Σ a)·b where b lacks them."""
        chosen: tuple[IndexVar, ...] = ()
        factors = self.problem.assignment.factors
        for start in range(len(self.tail) - 1, -1, -1):
            names = set(self.tail[start:])
            inner = [f for f in factors if names & set(f.variables())]
            if len(inner) == len(factors) or any(set(f.variables()) & set(self.dense) for f in inner):
                break
            chosen = self.tail[start:]
        return chosen if self.dense else ()

    @cached_property
    def sums_all(self) -> bool:
        """Whether nothing of the tail is left once `summed` is taken out."""
        return bool(self.summed) and self.summed == self.tail

    @cached_property
    def order(self) -> tuple[IndexVar, ...]:
        """All loops, outermost first; the vector variable last."""
        last = () if self.vector is None else (self.vector,)
        if self.sums_all:
            return (*self.lead, *self.head, *self.tail, *self.spread, *self.contracted, *last)
        return (*self.lead, *self.head, *self.spread, *self.tail, *self.contracted, *last)

    @property
    def lanes(self) -> int:
        """Elements of a register tile: all that fit, but where threads own tiles, enough tiles for some threads."""
        if self.vector is None:
            return 0
        target = self.problem.type_of[self.problem.assignment.target.tensor]
        room, size = REGISTER_BYTES // np.dtype(target.dtype).itemsize, self.problem.size[self.vector] or 0
        if self.owns_tiles:
            room = min(room, max(SHARED_LANES, -(-size // SHARED_TILES)))
        return min(room, size)

    @property
    def tile(self) -> int:
        """Where the loop over register tiles stands: around the reductions if the target carries the lanes; outside
        everything when threads own tiles of the target."""
        if self.owns_tiles:
            return len(self.lead)
        inner = len(self.contracted) + (0 if self.sums_all else len(self.tail))
        return len(self.order) - 1 - (inner if self.vector in self.kept else 0)


def candidates(problem: Problem, patterns: Sequence[Stored] = ()) -> Iterator[Candidate]:
    """The candidates, the order in which the pattern is stored first."""
    walks = list(dict.fromkeys(_walks(problem, patterns)))
    vectors: list[IndexVar | None] = [v for v in problem.assignment.variables() if _vectorizes(problem, v, walks[0])]
    for walk in walks:
        for vector in (*vectors, None):
            yield Candidate(problem, walk, vector)


def _walks(problem: Problem, patterns: Sequence[Stored]) -> Iterator[tuple[IndexVar, ...]]:
    """Orders of all variables that patterns carry, in which each pattern can be walked."""
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    orders = [_orders(names, n, patterns) for n, names in enumerate(problem.level_variables)]
    if len(orders) == 1:
        own = tuple(dict.fromkeys(problem.level_variables[0]))
        yield own
    for walk in permutations(every) if len(every) <= MAX_PERMUTED else _some_walks(problem, every):
        if all(_walkable(names, walk, legal) for names, legal in zip(problem.level_variables, orders, strict=True)):
            yield walk


def _walkable(names: Sequence[IndexVar], walk: Sequence[IndexVar], legal: set[tuple[IndexVar, ...]] | None) -> bool:
    """Whether a pattern can be walked along, in a legal order of its own that takes variables as `walk` does."""
    order = walked_as(names, walk)
    first = tuple(dict.fromkeys(order))
    return (legal is None or order in legal) and first == tuple(sorted(first, key=walk.index))


def _orders(names: Sequence[IndexVar], n: int, patterns: Sequence[Stored]) -> set[tuple[IndexVar, ...]] | None:
    """The orders in which a pattern can be walked; None for any."""
    pattern = patterns[n] if patterns else None
    if len(set(names)) < len(names):
        return {tuple(names)}
    if isinstance(pattern, TracedPattern):
        return {tuple(names), *(tuple(names[level] for level in order) for order in pattern.orders)}
    return None


def _some_walks(problem: Problem, every: tuple[IndexVar, ...]) -> Iterator[tuple[IndexVar, ...]]:
    """Where there are too many orders to price: the stored one, the target's variables first, each of them first."""
    target = problem.assignment.target.variables()
    first = [v for v in every if v in target]
    yield every
    yield (*first, *(v for v in every if v not in target))
    yield (*(v for v in target if v in every), *(v for v in every if v not in target))
    yield from ((v, *(w for w in every if w != v)) for v in first)
    if len(problem.level_variables) > 1:
        yield from islice(permutations(every), MAX_WALKS)


def _vectorizes(problem: Problem, var: IndexVar, walk: Sequence[IndexVar]) -> bool:
    """Whether every tensor that carries `var` can store it innermost, once."""
    size = problem.size[var]
    if var in walk or size is None or size < 2:
        return False
    return all(
        _innermost(problem.type_of[a.tensor], a, var) for a in problem.assignment.accesses if var in a.variables()
    )


def _innermost(tensor: TensorType, access: Access, var: IndexVar) -> bool:
    if access.indices.count(var) != 1 or access.nested():
        return False
    last = tensor.axes[-1]
    free_order = tensor.positions is None
    return free_order or (isinstance(last, Dense) and access.indices[last.dim] == var)
