"""Summaries of nests: the properties that checks and prices of transformations read without building a nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.loops.assemble import AssemblyShape, canonical_assembly
from jsparse.compiler.loops.canonical import LevelIterators, Loop, canonical_order
from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.trip_counts import variables_in_walk_order
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.formats.levels import Level
from jsparse.notation.assignment import Access, IndexVar


@dataclass(frozen=True, slots=True)
class Transformation:
    """One step of a schedule: a frozen value that can be written as a line of text.

    Attributes:
        keyword: the first word of the line. The other words are the fields, without those that have their default.
        keeps_loops: whether the step does not change loops, lanes or sums. If so, `LoopFacts.structure` leaves it out.
    """

    keyword: ClassVar[str]
    keeps_loops: ClassVar[bool] = False

    def __str__(self) -> str:
        values = ((getattr(self, field.name), field.default) for field in fields(self))
        return line(self.keyword, *(value for value, default in values if value != default))

    @classmethod
    def parse(cls, words: list[str]) -> Self:
        """Read the step from the words that follow its keyword in a line. Raises ValueError for other words."""
        names = [field.name for field in fields(cls)]
        if not sum(field.default is MISSING for field in fields(cls)) <= len(words) <= len(names):
            raise ValueError(f"the words of this step are '{' '.join([cls.keyword, *names])}'")
        return cls(
            *(int(word) if field.type == "int" else word for field, word in zip(fields(cls), words, strict=False))
        )

    def check(self, nest: Summary) -> str | None:
        """Return why the step is illegal on this nest, as text; None if it is legal."""
        raise NotImplementedError

    def loops_after(self, nest: Summary) -> tuple[str, ...]:
        """The names of the nest's loops after the step."""
        return nest.loops

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step, which must be legal."""
        raise NotImplementedError

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> Self:
        """Return the step with pattern n renamed to pattern `numbers[n]`, and tensors renamed by `names`."""
        return self


@dataclass(frozen=True, slots=True)
class Walked:
    """The level that a loop walks.

    Attributes:
        pattern: the index of the pattern.
        above: the variables of the levels above, outermost first.
        level: the level; None if the pattern will be stored in another order, so that the level is not known yet.
    """

    pattern: int
    above: tuple[IndexVar, ...]
    level: Level | None


@dataclass(frozen=True)
class StatementFacts:
    """Facts that depend on the statement alone.

    Attributes:
        problem: the given problem or, once storage orders are chosen, the problem in these orders.
        number: the index of the statement.
    """

    problem: Problem
    number: int

    @property
    def cpu(self) -> CpuModel:
        return self.problem.cpu

    @lazy
    def statement(self) -> Statement:
        return self.problem.statements[self.number]

    @lazy
    def derived(self) -> tuple[DerivedVar, ...]:
        variables = self.problem.variables_of(self.statement) if self.problem.derived else ()
        return tuple(derived for derived in self.problem.derived if derived.var in variables)

    @lazy
    def free_vars(self) -> frozenset[IndexVar]:
        """The free index variables: the target's variables, and the parts of the derived variables among them."""
        return self.problem.with_parts(self.statement.target.variables())

    @lazy
    def pattern_vars(self) -> frozenset[IndexVar]:
        """The variables of the patterns' levels."""
        return frozenset(v for n in self.statement.patterns for v in self.problem.level_variables[n])

    @lazy
    def dense(self) -> tuple[IndexVar, ...]:
        """The variables that no pattern stores, the target's first."""
        names = self.statement.target.variables() if self.problem.is_assembly else self.statement.assignment.variables()
        return tuple(v for v in names if v not in self.pattern_vars)

    @lazy
    def batch(self) -> tuple[IndexVar, ...]:
        """The variables of the leading axes of batched patterns."""
        return tuple(dict.fromkeys(v for n in self.statement.patterns for v in self.problem.batch_variables[n]))

    @lazy
    def factors(self) -> tuple[Access, ...]:
        """The accesses that the statement reads; none in an assembly."""
        return () if self.problem.is_assembly else self.statement.reads

    @lazy
    def factor_vars(self) -> tuple[frozenset[IndexVar], ...]:
        return tuple(frozenset(f.variables()) for f in self.factors)

    @lazy
    def is_product(self) -> bool:
        """Whether the statement multiplies accesses, without a condition and without derived index variables."""
        is_plain = not self.problem.is_assembly and not self.derived and self.statement.condition is None
        return is_plain and self.statement.factors is not None

    @lazy
    def sums_first(self) -> bool:
        """Whether Σ (a·b) = (Σ a)·b for a factor b that lacks the summed index variable."""
        return self.is_product and self.statement.sums_first

    @lazy
    def itemsize(self) -> int:
        """The bytes of an element of the dtype of arithmetic."""
        return np.dtype(self.problem.accumulator_of(self.statement)).itemsize


class OrderFacts(StatementFacts):
    """Facts that depend on the statement, the order of the patterns' variables, and the variable in lanes."""

    @lazy
    def walk(self) -> tuple[IndexVar, ...]:
        """The patterns' variables, in the order in which loops bind them."""
        raise NotImplementedError

    @lazy
    def vector(self) -> IndexVar | None:
        """The dense variable that runs in vector lanes, if any."""
        raise NotImplementedError

    @property
    def _scalar(self) -> tuple[IndexVar, ...]:
        return tuple(v for v in self.dense if v != self.vector and v not in self.batch)

    @lazy
    def free_dense_vars(self) -> tuple[IndexVar, ...]:
        """The free dense variables that run in scalar loops."""
        return tuple(v for v in self._scalar if v in self.free_vars)

    @lazy
    def scalar_reductions(self) -> tuple[IndexVar, ...]:
        """The scalar loops that reduce dense indices."""
        return tuple(v for v in self._scalar if v not in self.free_vars)

    @lazy
    def tail(self) -> tuple[IndexVar, ...]:
        """The innermost variables of `walk`, after the last free variable. All of them are reductions."""
        return self.walk[len(self.head) :]

    @lazy
    def head(self) -> tuple[IndexVar, ...]:
        """The variables of `walk` before `tail`: the last one is free."""
        return self.walk[: max((n for n, v in enumerate(self.walk, 1) if v in self.free_vars), default=0)]

    @lazy
    def scatters(self) -> bool:
        """Whether a reduction is outside the loop over an index of the target, so that sums are added up in memory."""
        return not self.free_vars.issuperset(self.head)

    @lazy
    def inner_lanes(self) -> tuple[int, int]:
        """Two numbers of factors in lanes: with the index of the innermost reduction, and without this index."""
        last = self.tail[-1:]
        summed = [variables.issuperset(last) for variables in self.factor_vars if self.vector in variables]
        return sum(summed), len(summed) - sum(summed)

    @lazy
    def saves_in_lanes(self) -> bool:
        """Whether computing the innermost sum first saves products with factors in lanes that lack the summed index."""
        if self.vector not in self.free_vars or not self.tail or len(self.walk) < 2 or self.scalar_reductions:
            return False
        inner = [variables for variables in self.factor_vars if self.tail[-1] in variables]
        if not inner or not self.sums_first or self.tail[-1] in self.single:  # a sum of one term saves nothing
            return False
        return self.inner_lanes[1] > 0 and {self.vector}.issuperset(frozenset.union(*inner).intersection(self.dense))

    @lazy
    def only_row_factor(self) -> Access | None:
        """The only factor in lanes, if each stored entry reads one row of it and nothing else; else None."""
        in_lanes = [f for f in self.factors if self.vector in f.variables()]
        rows = [f for f in in_lanes if set(f.variables()) == {*self.tail[-1:], self.vector} and not f.indirections()]
        return rows[0] if len(in_lanes) == len(rows) == 1 else None

    @lazy
    def single(self) -> frozenset[IndexVar]:
        """The variables of the walk with exactly one coordinate below each coordinate of the variable before."""
        patterns = [(self.problem.patterns[n], self.problem.level_variables[n]) for n in self.statement.patterns]
        single = ((v, names) for p, names in patterns for v in names if p.is_single(names.index(v)))
        as_stored = {v for v, names in single if variables_in_walk_order(names, self.walk) == names}
        return frozenset(as_stored.intersection(self.walk[1:]))

    @lazy
    def entry_vars(self) -> frozenset[IndexVar]:
        """The variables that an entry determines: the last variable of `walk` not in `single`, and all after it."""
        return frozenset(self.walk[max((n for n, v in enumerate(self.walk) if v not in self.single), default=0) :])

    def vars_changed_by(self, loop: IndexVar) -> frozenset[IndexVar]:
        """The variables whose coordinates differ between two iterations of a loop."""
        return self.entry_vars if loop in self.walk else frozenset({loop})

    @lazy
    def tensors_to_transpose(self) -> tuple[str, ...]:
        """The dense tensors whose storage must change for the vector variable to be innermost."""
        types = ((a, self.problem.type_of[a.tensor]) for a in self.problem.assignment.accesses)
        last = ((a, t.axes[-1]) for a, t in types if self.vector in a.indices and t.positions is None)
        return tuple(a.tensor for a, axis in last if isinstance(axis, Dense) and a.indices[axis.dim] != self.vector)


@dataclass(frozen=True)
class LoopFacts(OrderFacts):
    """Facts that depend on the statement and on all of its loops.

    Attributes:
        loops: the names of the loops, without lookups and lanes. In an assembly, only the loops over the target's
            indices.
        structure: the steps that change loops, lanes or sums.
    """

    loops: tuple[str, ...]
    structure: tuple[Transformation, ...]

    def structure_steps(self, keyword: str) -> list[Any]:
        return [step for step in self.structure if step.keyword == keyword]

    @lazy
    def splits(self) -> dict[IndexVar, int]:
        """The panel size of each variable that is split."""
        return {step.loop: step.size for step in self.structure_steps("split")}

    @lazy
    def outer(self) -> dict[str, IndexVar]:
        """A map from the name of each outer loop of a split to the variable that the loop divides."""
        return {outer_name(self.problem, var): var for var in self.splits}

    @lazy
    def positions(self) -> frozenset[IndexVar]:
        """The variables whose loops run over positions."""
        return frozenset(step.loop for step in self.structure_steps("pos"))

    @lazy
    def fusions(self) -> dict[str, tuple[IndexVar, IndexVar]]:
        """A map from the name of each fused loop to the two variables that the loop binds."""
        return {step.name: (step.outer, step.inner) for step in self.structure_steps("fuse")}

    def variables_of(self, loop: str) -> tuple[IndexVar, ...]:
        """The variables that a loop binds, or divides."""
        return self.fusions.get(loop) or (self.outer.get(loop, loop),)

    @lazy
    def vector(self) -> IndexVar | None:
        return next((step.loop for step in self.structure_steps("vectorize") if not step.lanes), None)

    @lazy
    def lanes(self) -> int:
        """The elements of a register tile; 0 if nothing runs in lanes."""
        return 0 if self.vector is None else self.splits[self.vector]

    @lazy
    def tile_loop(self) -> str | None:
        """The name of the loop over register tiles; None if nothing runs in lanes."""
        return None if self.vector is None else outer_name(self.problem, self.vector)

    @lazy
    def order(self) -> tuple[IndexVar, ...]:
        """The variables in the order in which loops bind them, the variable in lanes last."""
        scalar = (v for name in self.loops if name not in self.outer for v in self.variables_of(name))
        return (*scalar, self.vector) if self.vector is not None else tuple(scalar)

    @lazy
    def walk(self) -> tuple[IndexVar, ...]:
        order = dict[IndexVar, None]()
        for var in self.order:
            order[var] = None
            for derived in self.problem.derived:  # is bound directly after the last of its parts
                if all(part in order for _, part in derived.parts):
                    order[derived.var] = None
        return tuple(v for v in order if v in self.pattern_vars)

    @lazy
    def precompute_loops(self) -> tuple[IndexVar, ...]:
        """The loops of the sum that is computed first. Then the factors without their variables are multiplied in."""
        return next((step.loops for step in self.structure_steps("precompute")), ())

    @lazy
    def tiles_outermost(self) -> bool:
        """Whether the loop over register tiles is outside all loops over patterns; false if `head` is empty."""
        if not self.head or self.vector not in self.free_vars or self.tile_loop not in self.loops:
            return False
        return set(self.loops[: self.loops.index(self.tile_loop)]).isdisjoint(self.walk)

    @lazy
    def sums_tail_first(self) -> bool:
        """Whether all loops of `tail` are summed first, and outside of lanes. Then no dense loop goes around them."""
        return bool(self.precompute_loops) and self.precompute_loops == self.tail and not self.sums_in_lanes

    @lazy
    def sums_entries_first(self) -> bool:
        """Whether a sum over stored entries is computed first; false for a sum over dense indices."""
        return bool(self.precompute_loops) and self.precompute_loops[0] in self.walk

    @lazy
    def sums_in_lanes(self) -> bool:
        """Whether a factor with an index in `precompute_loops` also has the index in lanes."""
        in_lanes = (variables for variables in self.factor_vars if self.vector in variables)
        return any(not variables.isdisjoint(self.precompute_loops) for variables in in_lanes)

    @lazy
    def position_panel(self) -> int:
        """The number of entries of a reduction in one panel of positions; 0 if positions are not divided."""
        return next((self.splits[v] for v in self.tail if v in self.positions and v in self.splits), 0)

    @lazy
    def panel(self) -> int:
        """The number of coordinates of the innermost reduction in one panel; 0 if this reduction is not split."""
        return self.splits.get(self.tail[-1], 0) if self.tail else 0

    @lazy
    def chain(self) -> tuple[tuple[str, Loop], ...]:
        """All loops over variables and all lookups, each with the name of the loop that binds its variable. It can be
        read only after the storage orders of the problem are chosen."""
        leaders = [(step.loop, step.pattern) for step in self.structure_steps("merge_by")]
        iterators = LevelIterators.of(self.problem, self.statement, leaders)
        names = (name for name in self.loops if name not in self.outer)
        return tuple((name, loop) for name in names for loop in iterators.bind(*self.variables_of(name)))

    @lazy
    def reduces_innermost(self) -> bool:
        """Whether there are loops or lookups inside the innermost loop over an index of the target."""
        if self.vector is not None and self.vector not in self.free_vars:
            return True
        names = [name for name in self.loops if name not in self.precompute_loops]
        if names and self.free_vars.isdisjoint(self.variables_of(names[-1])):
            return True
        # The last lookup inside the loop reduces nothing if it finds the position of an element of the target.
        lookups = [loop for name, loop in self.chain if names[-1:] == [name]][1:]
        positions = self.problem.type_of[self.statement.target.tensor].positions
        if lookups and isinstance(lookups[-1].domain, LevelIteration):
            return positions is None or lookups[-1].domain.pattern != positions.pattern
        return bool(lookups) and lookups[-1].var not in self.free_vars


@dataclass(frozen=True)
class Summary(LoopFacts):
    """The nest of one statement: the loops' names, outermost first, and the steps that made it.

    Facts are lazy attributes. Each fact is defined in the first base class that has all fields on which it depends. So
    two nests with equal fields of a class have equal facts of this class, and one can take them over from the other.

    Attributes:
        steps: the transformations so far.
        concordant: whether patterns will be stored in the order in which loops walk them. If not, patterns keep the
            storage orders of the problem, and loops in another order search for coordinates.
    """

    steps: tuple[Transformation, ...] = ()
    concordant: bool = False

    @staticmethod
    def canonical(problem: Problem, number: int = 0, concordant: bool = False) -> Summary:
        ordered = tuple(map(str, problem.target.indices))
        loops = ordered if problem.ordered else canonical_order(problem, problem.statements[number])
        return Summary(problem, number, loops, (), (), concordant).with_facts(order=loops, vector=None)

    def then(self, step: Transformation) -> Summary:
        structure = self.structure if step.keeps_loops else (*self.structure, step)
        steps = (*self.steps, step)
        nest = Summary(self.problem, self.number, step.loops_after(self), structure, steps, self.concordant)
        return nest.knowing(self, LoopFacts if step.keeps_loops else StatementFacts)

    def instead(self, loops: tuple[str, ...], steps: tuple[Transformation, ...]) -> Summary:
        """Return a summary with other loops and steps, the same order of the patterns' variables and the same lanes."""
        return Summary(self.problem, self.number, loops, steps, steps, self.concordant).knowing(self, OrderFacts)

    def on(self, problem: Problem) -> Summary:
        """The same nest over a problem in the chosen storage orders."""
        nest = Summary(problem, self.number, self.loops, self.structure, self.steps)
        nest.with_facts(order=self.order, walk=self.walk, vector=self.vector)
        return nest.knowing(self, LoopFacts) if problem is self.problem else nest

    def with_facts(self, **facts: Any) -> Summary:
        """Set facts that are known already, and return this summary."""
        self.__dict__.update(facts)
        return self

    def knowing(self, other: Summary, record: type[StatementFacts]) -> Summary:
        """Take over the computed facts of the class `record` from a summary with equal fields, and return `self`."""
        facts = other.__dict__
        self.__dict__.update({name: facts[name] for name in _FACTS[record] if name in facts})
        return self

    def steps_with(self, keyword: str) -> list[Any]:
        return [step for step in self.steps if step.keyword == keyword]

    def first(self, keyword: str) -> Any:
        """The first step with that keyword; None if there is none."""
        for step in self.steps:  # half the time of `next` with a generator: checks and prices ask dozens of times
            if step.keyword == keyword:
                return step
        return None

    @lazy
    def shape(self) -> AssemblyShape:
        """The decisions of the steps so far about the loops of an ordered assembly."""
        shape = canonical_assembly(self.problem)
        for step in (step for step in self.steps if hasattr(step, "apply_to_shape")):
            shape = step.apply_to_shape(shape, self.problem)
        return shape

    def level_walked_by(self, var: IndexVar) -> Walked | None:
        """The level that the loop over a variable walks; None if it runs over every coordinate."""
        names, levels = self.problem.level_variables, list[Walked]()
        if self.concordant:
            met = [n for n in self.statement.patterns if var in names[n]]
        else:
            walked = (loop.domain for _, loop in self.chain if loop.var == var and not loop.is_lookup)
            met = [domain.pattern for domain in walked if isinstance(domain, LevelIteration)]
        for n in met:
            order = variables_in_walk_order(names[n], self.walk) if self.concordant else names[n]
            at = order.index(var)
            levels.append(Walked(n, order[:at], self.problem.patterns[n].levels[at] if order == names[n] else None))
        # If another level meets a full one, coordinates are located in the full one.
        return min(levels, key=lambda x: x.level is not None and x.level.kind.is_full, default=None)

    @lazy
    def adds_in_memory(self) -> bool:
        """Whether a reduction is outside the assignment to the target, so that sums are added up in memory."""
        loops = [self.variables_of(name) for name in self.loops if name not in self.precompute_loops]
        reduces = [not self.free_vars.issuperset(variables) for variables in loops]
        if self.first("promote") is None:
            return any(reduces) or (self.vector is not None and self.vector not in self.free_vars)
        # The loops inside of the last one over an index of the target add to registers.
        last = max((n for n, variables in enumerate(loops) if not self.free_vars.isdisjoint(variables)), default=-1)
        return any(reduces[: last + 1])

    def folds_lanes_at(self, loop: str) -> bool:
        """Whether each iteration of the loop folds a sum over an index in lanes to a scalar, and stores the scalar."""
        if self.vector in {None, *self.free_vars} or self.precompute_loops or self.first("promote") is None:
            return False
        at = self.loops.index(loop) + 1
        stores_element = all(self.free_vars.issuperset(self.variables_of(name)) for name in self.loops[:at])
        return stores_element and all(name == self.tile_loop for name in self.loops[at:])

    @lazy
    def copies(self) -> int:
        """The number of iterations that run at a time."""
        jam = self.first("unroll_and_jam")
        return 1 if jam is None else jam.copies

    @lazy
    def shares_rows(self) -> bool:
        """Whether iterations that run at a time read the same rows in lanes."""
        jam = self.first("unroll_and_jam")
        changed = frozenset() if jam is None else self.vars_changed_by(jam.loop)
        return bool(changed) and any(self.vector in names and changed.isdisjoint(names) for names in self.factor_vars)

    @property
    def passes_saved(self) -> int:
        """How many iterations of a dense loop over the target share one pass over the entries; 1 if none share it."""
        return self.copies if self.copies > 1 and self.first("unroll_and_jam").loop in self.free_dense_vars else 1

    @lazy
    def is_unrolled(self) -> bool:
        """Whether loops over patterns are written out entry by entry."""
        return any(step.loop in self.walk for step in self.steps_with("unroll"))

    def stores_innermost(self, access: Access, var: IndexVar) -> bool:
        """Whether `var` occurs once in the access, and the tensor stores it innermost. If storage orders follow the
        loops, a dense tensor can store `var` innermost, unless an index is read from a table."""
        if access.indices.count(var) != 1:
            return False
        tensor = self.problem.type_of[access.tensor]
        last = tensor.axes[-1]
        stored = isinstance(last, Dense) and access.indices[last.dim] == var
        return stored or (self.concordant and tensor.positions is None and not access.indirections())


_FACTS = {
    record: [name for base in record.__mro__ for name, value in vars(base).items() if isinstance(value, lazy)]
    for record in (StatementFacts, OrderFacts, LoopFacts)
}
