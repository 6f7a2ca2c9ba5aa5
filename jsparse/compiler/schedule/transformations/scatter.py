"""`scatter`: a segment is scattered into a map, in which lookups take one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.assemble import own_loops
from jsparse.compiler.loops.chain import loops_over
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Forall, LoopNest, Scatter, Stmt, with_children
from jsparse.compiler.schedule.layout import pattern_numbers
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import first_of, loops_of, with_loops

LARGEST_MAP = 1 << 30  # coordinates of a dimension


@dataclass(frozen=True, slots=True)
class ScatterSegment(Transformation):
    """Scatter a segment into a workspace that maps the segment's coordinates to positions, so that lookups are fast.

    The map is made as soon as loops know the position of the level above, and before the inner loops run. It pays if
    these inner loops look up many more coordinates than the segment has entries. Gustavson's algorithm uses maps for
    products that are sampled at a pattern's entries. Algorithms that count triangles use them, too (Schank and Wagner,
    2005).

    Attributes:
        level: the pattern and the index of its level, as in `P1.1`.
    """

    level: str
    keyword: ClassVar[str] = "scatter"
    keeps_loops = True

    @staticmethod
    def parse(words: list[str]) -> ScatterSegment:
        (level,) = words
        if len(pattern_numbers(level)) != 2:
            raise ValueError(f"expected a level of a pattern, as in P1.0, but got {level!r}")
        return ScatterSegment(level)

    @property
    def numbers(self) -> tuple[int, int]:
        """The index of the pattern and the index of its level. An index is -1 if `level` does not name it."""
        pattern, level = (*pattern_numbers(self.level), -1, -1)[:2]
        return pattern, level

    def check(self, nest: Summary) -> str | None:
        if nest.problem.is_assembly and not nest.problem.ordered:
            return "the entries are listed without loops"
        if any(step.level == self.level for step in nest.steps_with("scatter")):
            return f"{self.level} is already scattered"
        if step := first_of(nest, "unroll", "unroll_and_jam"):
            return f"'{step}' runs several iterations at a time, which would share a map"
        pattern, level = self.numbers
        levels = nest.problem.level_variables
        if not (0 <= pattern < len(levels) and 0 <= level < len(levels[pattern])):
            return f"there is no level {self.level}"
        if not nest.concordant:  # else the levels are known only later
            if not _is_looked_up(nest, pattern, level):
                return f"{self.level} is not looked up"
            type_ = nest.problem.patterns[pattern]
            if not type_.levels[level].kind.has_segments or type_.repeats(level):
                return f"{self.level} has no segments of distinct coordinates, which are searched"
        var = levels[pattern][level]
        size = nest.problem.size[var]
        if size is not None and size > LARGEST_MAP:
            return f"a map has at most {LARGEST_MAP:,} coordinates, not the {size:,} of {var}"
        return None

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> ScatterSegment:
        pattern, level = self.numbers
        return ScatterSegment(f"P{numbers[pattern]}.{level}")

    def apply(self, nest: LoopNest) -> LoopNest:
        (pattern, level), problem = self.numbers, nest.problem
        # The positions of entries are read by deeper levels, or by a tensor that is stored on them.
        on_pattern = any(t.positions is not None and t.positions.pattern == pattern for t in problem.tensors)
        reads_positions = on_pattern or level < len(problem.patterns[pattern].levels) - 1
        domain = LevelIteration(pattern, level, bound=True, scattered=True)
        map_ = Scatter(problem.level_variables[pattern][level], domain, reads_positions, loops_of(nest))
        inner = _in_map(loops_of(nest), pattern, level)
        return with_loops(nest, _insert_map(inner, map_, {*problem.batch_variables[pattern]}))


def _is_looked_up(nest: Summary, pattern: int, level: int) -> bool:
    """Whether loops look up coordinates in a level. In an assembly, only the loops of the pattern's term can do so."""
    if nest.problem.ordered:
        terms = (n for n, term in enumerate(nest.problem.terms) if pattern in term.patterns)
        loops = [loop for n in terms for loop in own_loops(nest.problem, nest.shape, n)]
    else:
        loops = [loop for _, loop in nest.chain]
    levels = (loop.domain for loop in loops if isinstance(loop.domain, LevelIteration))
    return next((x.bound for x in levels if (x.pattern, x.level) == (pattern, level)), False)


def _in_map(stmt: Stmt, pattern: int, level: int) -> Stmt:
    """Replace the lookups in the level by lookups in the map."""
    inner = with_children(stmt, lambda child: _in_map(child, pattern, level))
    if not (isinstance(inner, Forall) and isinstance(inner.domain, LevelIteration)):
        return inner
    is_level = inner.domain.bound and (inner.domain.pattern, inner.domain.level) == (pattern, level)
    return replace(inner, domain=replace(inner.domain, scattered=True)) if is_level else inner


def _insert_map(stmt: Stmt, map_: Scatter, unbound: set[str]) -> Stmt:
    """Put the map directly inside of the loops that bind the position of the level above and the variables
    `unbound`."""
    pattern, level = map_.domain.pattern, map_.domain.level
    if not unbound and not loops_over(stmt, pattern, level - 1):
        return replace(map_, body=stmt)
    if isinstance(stmt, Forall):
        unbound = unbound - set(stmt.variables)
    return with_children(stmt, lambda x: _insert_map(x, map_, unbound) if loops_over(x, pattern, level) else x)
