"""`split`: one loop becomes two, over panels and inside a panel."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import chain, nest_loops, outer_name
from jsparse.compiler.loops.domain import LevelIteration, Panels, PositionPanels, Range
from jsparse.compiler.loops.nest import Forall, LoopNest
from jsparse.compiler.schedule.summary import Summary, Walked
from jsparse.compiler.schedule.transformations.base import LoopStep, loops_of, structure_reason, with_loops
from jsparse.notation.assignment import IndexVar


@dataclass(frozen=True, slots=True)
class Split(LoopStep):
    """Divide a loop into panels of `size` coordinates: a loop `k0` over the panels, and the loop `k` inside a panel.

    After `pos`, a panel has `size` positions of a segment. The outer loop is put directly around the inner one. Only if
    the inner loop walks the coordinates of a level, the outer loop is put around all loops over the pattern. In each
    panel, a segment is then continued where the previous panel left it.

    Attributes:
        loop: the name of the loop.
        size: the coordinates, or positions, of a panel.
    """

    size: int
    keyword: ClassVar[str] = "split"

    def reason(self, nest: Summary) -> str | None:
        if nest.problem.is_assembly:
            return "the loops of an assembly cannot be split"
        if self.loop in nest.outer or self.loop in nest.splits:
            return f"the loop over {self.loop} is already split"
        if self.size < 1:
            return f"a panel has at least one coordinate, not {self.size}"
        if self.loop in nest.fusions:
            return f"{self.loop} is a fused loop: split one of its parts before they are fused"
        reason = structure_reason(nest, self.loop)
        if reason is not None:
            return f"{reason}: put split first"
        if self.loop in nest.positions:
            return None
        if any(self.loop in (part for _, part in derived.parts) for derived in nest.derived):
            return f"a derived index variable depends on {self.loop}, so its loop stays whole"
        return panels_reason(nest.then(self))

    def loops_after(self, nest: Summary) -> tuple[str, ...]:
        at = nest.loops.index(self.loop)
        if self.loop in nest.pattern_vars and self.loop not in nest.positions:
            walked = nest.level_walked_by(self.loop)
            above = set() if walked is None else set(walked.above)
            before = (n for n, name in enumerate(nest.loops[:at]) if name not in nest.outer)
            at = min((n for n in before if above.intersection(nest.variables_of(nest.loops[n]))), default=at)
        return (*nest.loops[:at], outer_name(nest.problem, self.loop), *nest.loops[at:])

    def apply(self, nest: LoopNest) -> LoopNest:
        loops, leaf = chain(loops_of(nest))
        at = next(n for n, loop in enumerate(loops) if loop.var == self.loop and not loop.is_lookup)
        inner, domain = loops[at], loops[at].domain
        assert isinstance(domain, LevelIteration | Range)
        if isinstance(domain, LevelIteration) and domain.by_position:
            outer = Forall(self.loop, PositionPanels(domain.pattern, domain.level, self.size), leaf)
            return with_loops(nest, nest_loops([*loops[:at], outer, *loops[at:]], leaf))
        first = at
        if isinstance(domain, LevelIteration) and domain.level > 0:
            above = nest.problem.level_variables[domain.pattern][: domain.level]
            walks = (n for n, loop in enumerate(loops[:at]) if loop.var in above and not loop.is_lookup)
            first = min((n for n in walks if not isinstance(loops[n].domain, Panels | PositionPanels)), default=at)
        outer = Forall(self.loop, Panels(self.size), leaf)
        within = replace(inner, domain=replace(domain, panel=True))
        return with_loops(nest, nest_loops([*loops[:first], outer, *loops[first:at], within, *loops[at + 1 :]], leaf))


def _level_reason(nest: Summary, walked: Walked, var: IndexVar) -> str | None:
    """Why the coordinates of a level cannot be divided; None if they can."""
    meeting = [n for n in nest.statement.patterns if var in nest.problem.level_variables[n]]
    if len(meeting) > 1 or nest.derived:
        return f"several patterns meet at {var}: its segments cannot be continued from panel to panel"
    names, pattern = nest.problem.level_variables[walked.pattern], nest.problem.patterns[walked.pattern]
    if len(set(names)) < len(names):
        return f"P{walked.pattern} has levels of one variable, so {var} cannot be divided into panels"
    divisible = (level.unique and (level.kind.is_full or level.kind.has_pointers) for level in pattern.levels)
    if walked.level is not None and not all(divisible):
        return f"{var} is stored in single coordinates, which are not divided into panels; use pos first"
    return None


def panels_reason(nest: Summary) -> str | None:
    """Why the loops that are split cannot run panel by panel in the order of the nest's loops; None if they can."""
    reasons = (_panel_reason(nest, name, var) for name, var in nest.outer.items() if var in nest.loops)
    return next((reason for reason in reasons if reason is not None), None)


def _panel_reason(nest: Summary, name: str, var: IndexVar) -> str | None:
    """Why one loop cannot run panel by panel at the present place of the outer loop; None if it can."""
    if nest.loops.index(name) > nest.loops.index(var):
        return f"{name} is the outer loop of {var}, so it has to be outside {var}"
    walked, at = nest.level_walked_by(var), nest.loops.index(name)
    if walked is None:
        return None
    if var in nest.positions:  # the position of the level above has to be known
        later = [v for v in walked.above if v in nest.loops[at:]]
        return f"{name} divides segments below {later[0]}, so it has to be inside {later[0]}" if later else None
    reason = _level_reason(nest, walked, var)
    if reason is not None or may_be_full(walked):
        return reason
    # Each segment is continued where the previous panel left it, so it may be met only once in a panel.
    outside = [v for v in walked.above if v in nest.loops[:at]]
    if outside:
        return f"panels of {var} continue the segments below {outside[0]}, so {name} has to be outside {outside[0]}"
    for between in nest.loops[at + 1 : nest.loops.index(var)]:
        if between not in walked.above or between in nest.splits:
            return f"the loop {between} between {name} and {var} would walk each segment several times in a panel"
    return None


def may_be_full(walked: Walked) -> bool:
    """Whether a level has every coordinate, so that a panel's entries are found by arithmetic. Also true if the level
    is not known yet, because it may have every coordinate."""
    return walked.level is None or walked.level.kind.is_full
