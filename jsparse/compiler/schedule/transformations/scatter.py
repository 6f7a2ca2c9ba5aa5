"""`scatter`: a segment is scattered into a map, in which lookups take one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.assemble import own_loops
from jsparse.compiler.loops.canonical import Loop
from jsparse.compiler.loops.chain import loops_over
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Forall, LoopNest, Scatter, Stmt, with_children
from jsparse.compiler.problem import Positions, Problem
from jsparse.compiler.schedule.layout import line, pattern_numbers
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import loops_of, with_loops

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

    def __str__(self) -> str:
        return line(self.keyword, self.level)

    @staticmethod
    def parse(words: list[str]) -> ScatterSegment:
        """Read the step from the words that follow its keyword in a line."""
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
        """Why the step is illegal; None if it is legal."""
        if nest.problem.is_assembly and not nest.problem.ordered:
            return "the entries are listed without loops"
        if any(step.level == self.level for step in nest.steps_with("scatter")):
            return f"{self.level} is scattered already"
        for keyword in ("unroll", "unroll_and_jam"):
            if nest.first(keyword) is not None:
                return f"'{nest.first(keyword)}' runs several iterations at a time, which would share a map"
        pattern, level = self.numbers
        levels = nest.problem.level_variables
        if not (0 <= pattern < len(levels) and 0 <= level < len(levels[pattern])):
            return f"there is no level {self.level}"
        if not nest.concordant:  # else the levels are known only later
            if _lookup(nest, pattern, level) is None:
                return f"{self.level} is not looked up"
            if not _has_segments(nest.problem, pattern, level):
                return f"{self.level} has no segments of distinct coordinates, which are searched"
        var = levels[pattern][level]
        size = nest.problem.size[var]
        if size is not None and size > LARGEST_MAP:
            return f"a map has at most {LARGEST_MAP:,} coordinates, not the {size:,} of {var}"
        return None

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> ScatterSegment:
        """Return the step with pattern n renamed to pattern `numbers[n]`."""
        pattern, level = self.numbers
        return ScatterSegment(f"P{numbers[pattern]}.{level}")

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step."""
        pattern, level = self.numbers
        names = nest.problem.level_variables[pattern]
        map_ = Scatter(
            names[level],
            LevelIteration(pattern, level, bound=True, scattered=True),
            _reads_positions(nest.problem, pattern, level),
            loops_of(nest),
        )
        inner = _in_map(loops_of(nest), pattern, level)
        known = {*nest.problem.batch_variables[pattern]}
        return with_loops(nest, _insert_map(inner, map_, known))


def _has_segments(problem: Problem, pattern: int, level: int) -> bool:
    """Whether lookups in a level search its segments, and the coordinates of a segment are distinct."""
    type_ = problem.patterns[pattern]
    kind = type_.levels[level].kind
    return kind.has_pointers and kind.has_coordinates and not type_.repeats(level)


def _lookup(nest: Summary, pattern: int, level: int) -> Loop | None:
    """The lookup in a level; None if there is none."""
    for loop in _loops(nest, pattern):
        domain = loop.domain
        if isinstance(domain, LevelIteration) and (domain.pattern, domain.level) == (pattern, level):
            return loop if domain.bound else None
    return None


def _loops(nest: Summary, pattern: int) -> list[Loop]:
    """The loops in which a pattern's levels may be looked up. In an assembly these are the loops of its term."""
    if not nest.problem.ordered:
        return [loop for _, loop in nest.chain]
    terms = (n for n, term in enumerate(nest.problem.terms) if pattern in term.patterns)
    return [loop for n in terms for loop in own_loops(nest.problem, nest.shape, n)]


def _reads_positions(problem: Problem, pattern: int, level: int) -> bool:
    """Whether the positions of a level's entries are read: by deeper levels, or by a tensor that lies on them."""
    if level < len(problem.patterns[pattern].levels) - 1:
        return True
    positions = (axis for tensor in problem.tensors for axis in tensor.axes if isinstance(axis, Positions))
    return any(axis.pattern == pattern for axis in positions)


def _in_map(stmt: Stmt, pattern: int, level: int) -> Stmt:
    """Replace the lookups in the level by lookups in the map."""
    inner = with_children(stmt, lambda child: _in_map(child, pattern, level))
    if not (isinstance(inner, Forall) and isinstance(inner.domain, LevelIteration)):
        return inner
    is_level = inner.domain.bound and (inner.domain.pattern, inner.domain.level) == (pattern, level)
    return replace(inner, domain=replace(inner.domain, scattered=True)) if is_level else inner


def _insert_map(stmt: Stmt, map_: Scatter, left: set[str]) -> Stmt:
    """Put the map directly inside of the loops that bind the position of the level above and the variables
    `left`."""
    above = (map_.domain.pattern, map_.domain.level - 1)
    if not left and not loops_over(stmt, *above):
        return replace(map_, body=stmt)
    if isinstance(stmt, Forall):
        left = left - set(stmt.variables)
    own = map_.domain
    return with_children(stmt, lambda x: _insert_map(x, map_, left) if loops_over(x, own.pattern, own.level) else x)
