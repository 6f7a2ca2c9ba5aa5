"""`precompute`: a sum is computed before the factors that lack its variables are multiplied in.

`loops_to_precompute` and `dense_first` say which sums are worth computing first. `tiles_among_sums` says where the loop
over register tiles stands if only some sums are computed first.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import ClassVar, Literal, cast

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import chain, groups, nest_loops, outer_name
from jsparse.compiler.loops.domain import LevelIteration, Tiles
from jsparse.compiler.loops.nest import Assign, Forall, LoopNest, Stmt, Where, Workspace
from jsparse.compiler.scalar import Apply, Scalar, product_of
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import WORKSPACES, first_of, loops_of, no_loop, with_loops
from jsparse.compiler.semiring import Multiply, Semiring
from jsparse.compiler.statement import as_added
from jsparse.notation.assignment import Access, IndexVar


@dataclass(frozen=True, slots=True)
class Precompute(Transformation):
    """Sum over some loops before multiplying by factors b that do not depend on these loops: Σ (a·b) = (Σ a)·b.

    The sum is held in the workspace `sub` (Kjolstad et al., 2019), in lanes if one of the summed factors runs in lanes.
    A sum over stored entries is marked when a term is added to it, because a sum without terms contributes nothing,
    even if b is infinite.

    Attributes:
        loops: the names of the loops, which are neighbours in the nest. Either all run over stored entries, or all
            run over dense indices.
    """

    loops: tuple[str, ...]
    keyword: ClassVar[str] = "precompute"

    def __str__(self) -> str:
        return line(self.keyword, *self.loops)

    @staticmethod
    def parse(words: list[str]) -> Precompute:
        return Precompute(tuple(words))

    def check(self, nest: Summary) -> str | None:
        missing = [name for name in self.loops if name not in nest.loops]
        if missing or not self.loops:
            return no_loop(missing[0], nest) if missing else "name the loops to sum over"
        if step := first_of(nest, *WORKSPACES):
            return f"'{step}' has already made a workspace: put precompute before it"
        if not nest.sums_first:
            return "the value is not a product that distributes over its sum"
        at = nest.loops.index(self.loops[0])
        if nest.loops[at : at + len(self.loops)] != self.loops:
            return f"the loops {' '.join(self.loops)} are not next to each other, in this order"
        return self._factors_reason(nest)

    def _factors_reason(self, nest: Summary) -> str | None:
        names = set(self.loops)
        for name in self.loops:
            if name in nest.free_vars or name in nest.splits or name not in (*nest.walk, *nest.scalar_reductions):
                return f"{name} is not an index that is summed in one loop"
            if (name in nest.walk) != (self.loops[0] in nest.walk):
                return f"of {self.loops[0]} and {name}, one is an index of a sparse pattern, and the other is dense"
            if name not in nest.walk and nest.problem.size[name] == 0:
                return f"{name} has no coordinates, and an empty sum is not multiplied"
        inner = [f for f in nest.factors if names & set(f.variables())]
        if len(inner) == len(nest.factors):
            return f"every factor depends on {' '.join(self.loops)}, so there is nothing to gain"
        inside = nest.loops[nest.loops.index(self.loops[-1]) + 1 :]
        later = {v for name in inside for v in nest.variables_of(name)} - {nest.vector}
        for factor in inner:
            shared = later.intersection(factor.variables())
            if shared:
                return f"{factor} depends on {min(shared)}, whose loop is inside {self.loops[-1]}"
        # The summed loops end before the rest of the product is computed, and with them each pattern that they walk.
        for n in nest.statement.patterns:
            levels = set(nest.problem.level_variables[n])
            if levels & names and (levels - names).intersection(inside):
                return f"the levels of P{n} below {self.loops[-1]} are walked inside it"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        problem, statement = nest.problem, nest.statement
        loops, leaf = chain(loops_of(nest))
        parts = groups(loops)
        at = [n for n, part in enumerate(parts) if part[0].var in self.loops and not isinstance(part[0].domain, Tiles)]
        summed = [loop for n in at for loop in parts[n]]
        before = [loop for part in parts[: at[0]] for loop in part]
        after = [loop for part in parts[at[-1] + 1 :] for loop in part]
        factors, value, monoid = statement.factors, statement.value, problem.monoid_of(statement)
        target_dtype, dtype = problem.type_of[statement.target.tensor].dtype, problem.accumulator_of(statement)
        assert factors is not None
        multiply = cast(Multiply, value.operation if isinstance(value, Apply) else "*")
        inner = tuple(f for f in factors if not set(self.loops).isdisjoint(f.variables()))
        outer = tuple(f for f in factors if set(self.loops).isdisjoint(f.variables()))
        lanes = leaf if isinstance(leaf, Forall) and any(leaf.var in f.variables() for f in inner) else None
        tile = next((x.domain.lanes for x in loops if lanes is not None and isinstance(x.domain, Tiles)), 1)
        checked = any(isinstance(loop.domain, LevelIteration) for loop in summed)  # the sum may have no terms
        sub = Workspace("sub", dtype, monoid, None if lanes is None else lanes.var, tile, checked)

        def assign(target: Access, value: Scalar) -> Stmt:
            """Return `target ⊕= value`. For a minimum or maximum, `value` is first rounded to the target's dtype."""
            return Assign(target, as_added(value, monoid, target_dtype, dtype), dtype, monoid)

        produce = assign(sub.access(), product_of(multiply, inner, Semiring(statement.add, multiply).one(target_dtype)))
        consume = assign(statement.target, product_of(multiply, (sub.access(), *outer)))
        producer = produce if lanes is None else replace(lanes, body=produce)
        consumer = replace(leaf, body=consume) if isinstance(leaf, Forall) else consume
        where = Where(sub, nest_loops(summed, producer), nest_loops(after, consumer))
        return with_loops(nest, nest_loops(before, where))


def loops_to_precompute(nest: Summary) -> tuple[IndexVar, ...]:
    """Find the innermost reductions whose indices are only in factors without dense indices. Summing first pays."""
    if not nest.sums_first or not nest.dense:
        return ()
    chosen: tuple[IndexVar, ...] = ()
    factors, dense = nest.factor_vars, set(nest.dense)
    for start in range(len(nest.tail) - 1, -1, -1):
        names = set(nest.tail[start:])
        inner = [variables for variables in factors if names & variables]
        if len(inner) == len(factors) or any(dense & variables for variables in inner):
            break
        chosen = nest.tail[start:]
    return () if nest.single.issuperset(chosen) else chosen  # a sum of one term saves nothing


def dense_first(nest: Summary) -> tuple[IndexVar, ...]:
    """Find the reductions over dense indices if some factor lacks them. Summing first saves products with it."""
    if not nest.sums_first or nest.vector not in nest.free_vars or not nest.scalar_reductions:
        return ()
    names = set(nest.scalar_reductions)
    lacking = sum(names.isdisjoint(variables) for variables in nest.factor_vars)
    sizes = [nest.problem.size[v] or 0 for v in nest.scalar_reductions]
    return nest.scalar_reductions if 0 < lacking < len(nest.factors) and 0 not in sizes and prod(sizes) > 1 else ()


def tiles_among_sums(nest: Summary) -> Literal["outside", "inside"] | None:
    """Return where the loop over tiles stands if only the inner sums over entries are computed first; else None.

    "outside": the loop is outside of the inner sums, so each tile computes them again. "inside": the loop is inside of
    the outer sums only, so they add to the target in memory.
    """
    if not nest.sums_entries_first or nest.precompute_loops == nest.tail or nest.vector not in nest.free_vars:
        return None
    tiles = outer_name(nest.problem, str(nest.vector))
    is_inside = tiles in nest.loops and nest.loops.index(tiles) > nest.loops.index(nest.precompute_loops[0])
    return "inside" if is_inside else "outside"
