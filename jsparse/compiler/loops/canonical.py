"""The canonical nest of a statement: the loops that define it, from which transformations start.

The loops run over the variables of the patterns, in the order in which patterns store them, and then over the variables
that occur only on dense axes. The target is cleared, and every product is added to the target in memory:

    C[i, k] = 0
    ∀ i ∈ P0.0
      ∀ j ∈ P0.1
        ∀ k ∈ range
          C[i, k] += A[i, j] * B[j, k]

After the last transformation, `leave_out_steps` leaves out unnecessary steps: the clearing of a target whose elements
are all written, and the addition to elements that are written only once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Sequence as Items
from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import nest_loops, path_to
from jsparse.compiler.loops.domain import Derivation, Domain, LevelIteration, Range, is_lookup
from jsparse.compiler.loops.nest import AppendCoord, Assign, Clear, Forall, LoopNest, Sequence, Widened, map_assignments
from jsparse.compiler.problem import Problem
from jsparse.compiler.statement import DerivedVar, Statement, as_added
from jsparse.notation.assignment import IndexVar


@dataclass(frozen=True, slots=True)
class Loop:
    """A variable and the domain from which its values come."""

    var: IndexVar
    domain: Domain

    @property
    def is_lookup(self) -> bool:
        """Whether the loop has at most one iteration, because outer loops determine its variable."""
        return is_lookup(self.domain)


class LevelIterators:
    """Iterators over the levels of each pattern of a problem, in the order in which the pattern stores them.

    Attributes:
        left: for each pattern, the levels (with their variables) that are not walked yet, outermost first.
        bound: the variables that have a value.
        derived: the variables that are computed from other variables, as soon as all of these have a value.
    """

    def __init__(
        self,
        problem: Problem,
        merge_leaders: Collection[tuple[IndexVar, int]] = (),
        patterns: Iterable[int] | None = None,
    ) -> None:
        self.problem, self.merge_leaders = problem, frozenset(merge_leaders)
        names = problem.level_variables
        self.left = {n: list(enumerate(names[n])) for n in (range(len(names)) if patterns is None else patterns)}
        self.bound: set[IndexVar] = set()
        self.derived: tuple[DerivedVar, ...] = ()

    @staticmethod
    def of(
        problem: Problem, statement: Statement, merge_leaders: Collection[tuple[IndexVar, int]] = ()
    ) -> LevelIterators:
        """Return the iterators over a statement's patterns, with the statement's derived variables."""
        iterators = LevelIterators(problem, merge_leaders, statement.patterns)
        if problem.derived:
            variables = problem.variables_of(statement)
            iterators.derived = tuple(derived for derived in problem.derived if derived.var in variables)
        return iterators

    def part(self, patterns: Iterable[int]) -> LevelIterators:
        """Return a copy with only the given patterns. It continues from the present state of the iterators."""
        iterators = LevelIterators(self.problem, self.merge_leaders, ())
        iterators.left = {n: list(self.left[n]) for n in patterns}
        iterators.bound = set(self.bound)
        return iterators

    def bind(self, *variables: IndexVar) -> list[Loop]:
        """Bind the variables. Returns one loop over the variables, loops over the derived variables that then have a
        value, and lookups in levels of bound variables.

        The loop over one variable walks one of the levels that meet at it, and the other levels are looked up. The loop
        walks a level in which lookups take a search, if there is one, else a level in which they take arithmetic. It
        walks a dense level only if there is no other level. If several levels are equal in this respect, the loop walks
        the level of the merge leader. If no level meets at the variable, or if there are several variables, the loop
        runs over every coordinate.
        """
        met = self.patterns_at(variables[0]) if len(variables) == 1 else []
        if len(met) > 1:
            met.sort(key=lambda n: (self._is_located(n), (variables[0], n) not in self.merge_leaders))
        loops = [Loop(variables[0], self._next(met[0]) if met else Range())]
        self.bound.update(variables)
        for derived in self.derived:
            if derived.var not in self.bound and self.bound.issuperset(part for _, part in derived.parts):
                loops.append(Loop(derived.var, Derivation(derived)))
                self.bound.add(derived.var)
        return loops + self.lookups()

    def lookups(self) -> list[Loop]:
        """Return lookups in each pattern's next levels, as long as the variables of these levels are bound."""
        loops: list[Loop] = []
        for n, levels in self.left.items():
            while levels and levels[0][1] in self.bound:
                loops.append(Loop(levels[0][1], self._next(n, bound=True)))
        return loops

    def coiterate(self, var: IndexVar, walked: Iterable[int] | None = None) -> dict[int, LevelIteration]:
        """Bind `var` in one loop over the levels that meet at it. Returns pattern → level. The loop walks the levels of
        the patterns in `walked`. If `walked` is None, it walks the merge leader's level and looks up the other levels.
        Without a merge leader, it walks all levels."""
        self.bound.add(var)
        if walked is None:
            met = self.patterns_at(var)
            walked = [n for n in met if (var, n) in self.merge_leaders] or met
        return {n: self._next(n) for n in walked}

    def check(self) -> None:
        """Raise ValueError if some level has not been walked."""
        if any(self.left.values()):
            raise ValueError(f"the schedule does not visit the levels of {self.problem} in order")

    def patterns_at(self, var: IndexVar) -> list[int]:
        """The patterns whose next level is over `var`."""
        return [n for n, levels in self.left.items() if levels and levels[0][1] == var]

    def _next(self, pattern: int, bound: bool = False) -> LevelIteration:
        level, _ = self.left[pattern].pop(0)
        return LevelIteration(pattern, level, bound)

    def _is_located(self, pattern: int) -> int:
        """Return how a coordinate is located in the pattern's next level. 0: only by a search; 1: by arithmetic, but
        the coordinate may be absent; 2: by arithmetic, and every coordinate is present."""
        level, _ = self.left[pattern][0]
        kind = self.problem.patterns[pattern].levels[level].kind
        return 2 if kind.is_full else 0 if kind.has_coordinates else 1


def canonical_order(problem: Problem, statement: Statement) -> tuple[IndexVar, ...]:
    """The variables of the canonical nest's loops: batch axes, then the patterns' levels, then dense axes."""
    batch = (v for n in statement.patterns for v in problem.batch_variables[n])
    levels = (v for n in statement.patterns for v in problem.level_variables[n])
    named = statement.target.variables() if problem.is_assembly else statement.assignment.variables()
    every = tuple(dict.fromkeys((*batch, *levels, *named)))
    return problem.without_derived(every) if problem.derived else every


def canonical_nest(problem: Problem, number: int = 0) -> LoopNest:
    """The canonical nest of one of the problem's statements."""
    statement = problem.statements[number]
    iterators = LevelIterators.of(problem, statement)
    loops = [loop for var in canonical_order(problem, statement) for loop in iterators.bind(var)]
    iterators.check()
    headers = [Forall(loop.var, loop.domain, AppendCoord(statement.target)) for loop in loops]
    if problem.is_assembly:
        return LoopNest(problem, nest_loops(headers, AppendCoord(statement.target)))
    monoid, dtype = problem.monoid_of(statement), problem.accumulator_of(statement)
    assert statement.value is not None
    value = as_added(statement.value, monoid, problem.type_of[statement.target.tensor].dtype, dtype)
    leaf = Assign(statement.target, value, dtype, monoid, True, statement.condition)
    body = nest_loops(headers, leaf)
    if not problem.adds(statement):
        body = Sequence((Clear(statement.target, monoid), body))
    return LoopNest(problem, body)


def leave_out_steps(nest: LoopNest) -> LoopNest:
    """Leave out unnecessary steps of a nest with one statement.

    If every element of the target is written at most once, additions become stores. The target is then cleared only if
    some elements may not be written. A later term of a sum has no such steps.
    """
    if nest.problem.is_assembly or isinstance(nest.body, Widened) or nest.problem.adds(nest.statement):
        return nest
    problem, statement = nest.problem, nest.statement
    assert isinstance(nest.body, Sequence)
    (_, body), monoid = nest.body.stmts, problem.monoid_of(statement)
    target, loops = statement.target, path_to(body, statement.target.tensor) or []
    free, pattern = problem.with_parts(target.variables()), _own_pattern(problem, statement)
    if not all(loop.is_lookup or free.issuperset(loop.variables) for loop in loops):
        return nest  # several iterations of a loop write one element

    def store(assign: Assign) -> Assign:
        return replace(assign, accumulate=False) if assign.target.tensor == target.tensor else assign

    body = map_assignments(body, store)
    # Elements are missed if a sparse level leaves coordinates out, if a repeated index restricts the loops to a
    # diagonal, or if an index is a sum of other variables, because such a sum may leave coordinates out.
    names = set(target.indices)
    covers = len(names) == len(target.indices) and names.isdisjoint(problem.derivations)
    if not covers or not all(visits_all(loop, problem, pattern) for loop in loops):
        return replace(nest, body=Sequence((Clear(target, monoid), body)))
    if pattern is None or not problem.patterns[pattern].dynamic:
        return replace(nest, body=body)
    return replace(nest, body=Sequence((Clear(target, monoid, _writes_in_use(loops, problem, pattern)), body)))


def places_target(loop: Forall, problem: Problem, statement: Statement) -> bool:
    """Whether a loop determines where the target is written: by the loop's variable, or by a looked-up position."""
    free = problem.with_parts(statement.target.variables())
    if not loop.is_lookup or isinstance(loop.domain, Derivation):
        return any(v in free for v in loop.variables)
    return isinstance(loop.domain, LevelIteration) and loop.domain.pattern == _own_pattern(problem, statement)


def _own_pattern(problem: Problem, statement: Statement) -> int | None:
    """The pattern on which the target is stored; None if the target is dense."""
    positions = problem.type_of[statement.target.tensor].positions
    return None if positions is None else positions.pattern


def _writes_in_use(loops: Items[Forall], problem: Problem, pattern: int) -> bool:
    """Whether loops over every coordinate of a dynamic pattern write all positions in use, even if index arrays hold
    coordinates out of range. At such a coordinate, loops in lanes write zero, but other loops do not write."""
    type_, domains = problem.patterns[pattern], [loop.domain for loop in loops]
    walked = [x for x in domains if isinstance(x, LevelIteration) and x.pattern == pattern]
    if [x.level for x in walked] != list(range(len(type_.levels))) or type_.batch_axes:
        return False
    if not all(problem.size[name] for name in problem.level_variables[pattern]):
        return False
    if any(loop.parallel is not None and loop.parallel.mode == "split" for loop in loops):
        return False
    return all(level.kind.is_full for level in type_.levels[:-1]) and walked[-1].lanes > 0 and not walked[-1].panel


def visits_all(loop: Forall, problem: Problem, pattern: int | None) -> bool:
    """Whether the loop visits every coordinate of the target. The target is stored on pattern `pattern`, or is dense if
    `pattern` is None. A loop that computes a derived variable leaves out values beyond the variable's size."""
    if isinstance(loop.domain, Derivation):
        return loop.domain.derived.stays_below(problem.size)
    if not isinstance(loop.domain, LevelIteration):
        return True
    level = problem.patterns[loop.domain.pattern].levels[loop.domain.level]
    return level.kind.is_full or (loop.domain.pattern == pattern and not loop.domain.bound)
