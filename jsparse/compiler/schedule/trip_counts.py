"""Trip counts of the loops over one or several patterns, and the merge leader where patterns meet.

If several patterns have a level of a variable, the loop walks the leader's entries and looks them up in the other
patterns, by searches or in maps of segments. The leader is the pattern for which that costs least. Each other pattern
is assumed to store a given coordinate with probability entries / size, as if coordinates were spread evenly. Counts of
stored entries are exact for a pattern that is walked as stored; otherwise they are the smaller of nse and the product
of the sizes. If the entries of another static pattern select segments, the counts use the mean length of the selected
segments (`degrees.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf, log2
from operator import mul

from jsparse.base.dataclass import dataclass
from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.degrees import SAMPLE, common_share, degree_groups, skew
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.formats import Pattern, find_determined_levels
from jsparse.formats.levels import is_dense_cheap, is_single
from jsparse.notation.assignment import IndexVar

UNKNOWN = 1 << 10  # the size of an index variable that is known only at run time
FEWER = 4  # the pattern walked last selects coordinates, unless an earlier one has this many times fewer of them


@dataclass(frozen=True, slots=True)
class TripCounts:
    """Counts for each variable of a loop order.

    Attributes:
        iterations: the number of coordinates that the variable's loop visits in all executions, plus its search steps.
        entries: the combinations of the patterns' entries that are left once the variable is bound.
        merge_leaders: pairs (variable, pattern): the merge leader where several patterns meet.
        scattered: pairs (pattern, level): the levels whose segments are worth scattering into maps.
        single: for each variable, whether its level has exactly one entry below each entry of the level above.
    """

    iterations: tuple[float, ...]
    entries: tuple[float, ...]
    merge_leaders: tuple[tuple[IndexVar, int], ...]
    scattered: tuple[tuple[int, int], ...] = ()
    single: tuple[bool, ...] = ()

    def entries_above(self, inner: int) -> float:
        """The combinations of entries before the `inner` innermost variables are bound; 1 if there are no others."""
        return self.entries[-1 - inner] if inner < len(self.entries) else 1.0


def levels_in_walk_order(names: Sequence[IndexVar], walk: Sequence[IndexVar]) -> tuple[int, ...]:
    """A pattern's levels in the order of the walk.

    If two levels have the same variable, they become neighbours, unless the stored order already agrees with the walk.
    """
    first = list(dict.fromkeys(names))
    levels = range(len(names))
    return tuple(
        levels if first == sorted(first, key=walk.index) else sorted(levels, key=lambda n: walk.index(names[n]))
    )


def variables_in_walk_order(names: Sequence[IndexVar], walk: Sequence[IndexVar]) -> tuple[IndexVar, ...]:
    """A pattern's level variables in the order of the walk."""
    return tuple(names[level] for level in levels_in_walk_order(names, walk))


def single_levels(names: Sequence[IndexVar], walk: Sequence[IndexVar], pattern: AnyPattern) -> tuple[bool, ...]:
    """For each level of a pattern in the order of the walk: whether it has exactly one entry below each entry above."""
    levels, moved = pattern.format.levels, levels_in_walk_order(names, walk)
    if moved == tuple(range(len(names))):
        return tuple(is_single(levels, n) for n in range(len(names)))
    return find_determined_levels(pattern, tuple(pattern.format.order[level] for level in moved))


def trip_counts(
    problem: Problem, walk: Sequence[IndexVar], patterns: Sequence[AnyPattern], merged: Collection[IndexVar] = ()
) -> TripCounts:
    """The trip counts of loops in the order `walk`.

    At the variables `merged`, a loop advances in all of its levels side by side. At other variables, a loop walks one
    level and looks up its coordinates in the other levels.
    """
    unbound = [_fans(problem, names, walk, p) for names, p in zip(problem.level_variables, patterns, strict=True)]
    selection = _SelectingPatterns(problem.level_variables, patterns)
    below = [fans[0].count if fans else 1.0 for fans in unbound]  # the entries of each pattern's next level, read once
    bound: set[IndexVar] = set()
    iterations, entries, merge_leaders, scattered, single = [], [], [], list[tuple[int, int]](), list[bool]()
    # Invariant: `count` is the expected number of tuples of entries, one of each pattern, that agree in all variables
    # in `bound`. The loop over `var` runs once for each tuple. `unbound` has the levels that are below these entries.
    count = 1.0
    for var in walk:
        met, size = [n for n, fans in enumerate(unbound) if fans and fans[0].var == var], problem.size[var] or UNKNOWN
        sparse = [(selection.longer(unbound[n][0], n), n) for n in met if not unbound[n][0].is_full]
        if not sparse:  # full levels alone, or none at all: the loop visits every coordinate
            meeting = _Meeting(count * size, float(size), met[0] if met else 0, ())
        elif var in merged:
            meeting = _merge(problem.cpu, count, sparse)
        else:
            meeting = min(_walk_level(problem.cpu, fan, n, count, sparse, below) for fan, n in sparse)
        single.append(bool(sparse) and unbound[meeting.leader][0].is_single)
        scattered += meeting.scattered
        cost, count = meeting.cost, count * meeting.fan
        bound.add(var)
        for other, n in sparse:  # of the leader's entries, those go on that the other patterns store, too
            if n != meeting.leader:
                share = selection.common(meeting.leader, n, bound)
                count *= other.per_coordinate(size) if share is None else share
        if sparse:
            selection.narrow(meeting.leader, bound)
        for n in met:
            fans = unbound[n]
            del fans[0]
            while fans and fans[0].var in bound:  # a diagonal, or a level whose variable another pattern has bound
                fan = selection.longer(fans.pop(0), n)
                if not fan.is_full:
                    cost += _search(problem.cpu, fan, count)
                    count *= fan.per_coordinate(problem.size[fan.var] or UNKNOWN)
            if fans:
                below[n] = count * selection.longer(fans[0], n).count
        iterations.append(cost)
        entries.append(count)
        if len(sparse) > 1:
            merge_leaders.append((var, meeting.leader))
    return TripCounts(tuple(iterations), tuple(entries), tuple(merge_leaders), tuple(scattered), tuple(single))


@dataclass(frozen=True, slots=True)
class _Fan:
    """A level of a pattern whose levels are in the order in which loops walk them.

    Attributes:
        var: the variable of the level.
        above: the variable of the level above; None for the outermost level.
        level: the index of the level in that order.
        count: the entries per position of the level above.
        is_full: whether the level stores every coordinate.
        has_segments: whether the segments can be scattered into maps.
        is_unique: whether the coordinates of a segment differ.
        is_single: whether each segment has exactly one entry.
    """

    var: IndexVar
    above: IndexVar | None
    level: int
    count: float
    is_full: bool
    has_segments: bool
    is_unique: bool
    is_single: bool = False

    def per_coordinate(self, size: int) -> float:
        """Return the expected number of a segment's entries at one coordinate of a dimension of `size` coordinates."""
        return min(self.count / size, 1.0) if self.is_unique else self.count / size


class _SelectingPatterns:
    """For each bound variable, the pattern whose entries select its coordinates."""

    def __init__(self, names: Sequence[Sequence[IndexVar]], patterns: Sequence[AnyPattern]) -> None:
        self.levels = [{var: level for level, var in enumerate(of_one)} for of_one in names]
        self.patterns = patterns
        self.by: dict[IndexVar, int] = {}

    def narrow(self, leader: int, bound: set[IndexVar]) -> None:
        """Record that a loop has walked the leader's entries, which select coordinates of the bound variables.

        If an earlier leader has far fewer coordinates of a variable than the new leader, the earlier leader still
        selects the coordinates of this variable.
        """
        for var in self.levels[leader].keys() & bound:
            if var not in self.by or FEWER * self._coordinates(self.by[var], var) > self._coordinates(leader, var):
                self.by[var] = leader

    def _coordinates(self, number: int, var: IndexVar) -> float:
        """Return an upper bound of the number of coordinates of a variable that have entries in a pattern."""
        pattern = self.patterns[number]
        if not isinstance(pattern, Pattern):
            return inf
        return float(degree_groups(pattern, pattern.format.order[self.levels[number][var]])[0].sum())

    def common(self, leader: int, number: int, bound: set[IndexVar]) -> float | None:
        """Estimate the share of the leader's entries that another pattern also stores; None if it is not known.

        The share is counted in a sample of entries if both patterns are static and have the same index variables. It
        may be much larger than for independent patterns. For example, a result's pattern lies within its operands'
        patterns, and a narrow band lies within a wider band.
        """
        one, other = self.patterns[leader], self.patterns[number]
        levels, others = self.levels[leader], self.levels[number]
        if len(levels) < 2 or levels.keys() != others.keys() or not levels.keys() <= bound:
            return None
        if not (isinstance(one, Pattern) and isinstance(other, Pattern)):
            return None
        if not len(one.format.levels) == len(other.format.levels) == len(levels):  # a diagonal has more levels
            return None
        dims = [(one.format.order[levels[v]], other.format.order[others[v]]) for v in levels]
        return max(common_share(one, tuple(a for a, _ in dims), other, tuple(b for _, b in dims)), 1 / SAMPLE)

    def longer(self, fan: _Fan, number: int) -> _Fan:
        """Return the level with its count scaled to the segments that another pattern selects, which may be longer."""
        if fan.above is None or (leader := self.by.get(fan.above, number)) == number:
            return fan
        both = [(self.patterns[n], self.levels[n][fan.above]) for n in (leader, number)]
        return replace(fan, count=fan.count * skew(*both[0], *both[1]))


@dataclass(frozen=True, slots=True, order=True)
class _Meeting:
    """A loop at which patterns meet.

    Attributes:
        cost: the cost of all executions of the loop.
        fan: the leader's entries per position of the level above.
        leader: the index of the pattern that is walked.
        scattered: pairs (pattern, level) of levels whose segments are scattered into maps.
    """

    cost: float
    fan: float
    leader: int
    scattered: tuple[tuple[int, int], ...]


def _merge(cpu: CpuModel, count: float, sparse: Sequence[tuple[_Fan, int]]) -> _Meeting:
    """The loop, run `count` times, that advances in all levels that meet (coiteration).

    The kernel passes the entries of a level one by one, or searches the level for the coordinates of the shortest one.
    As in a galloping search (Bentley and Yao, 1976), a search begins at the present position, but it is a bounded
    bisection (`lower.merge`). The cheaper way counts.
    """
    shortest, number = min(sparse, key=lambda level: level[0].count)
    others = sum(min(count * fan.count, _search(cpu, fan, count * shortest.count)) for fan, n in sparse if n != number)
    return _Meeting(count * shortest.count + others, shortest.count, number, ())


def _walk_level(
    cpu: CpuModel, leader: _Fan, number: int, count: float, sparse: Sequence[tuple[_Fan, int]], below: Sequence[float]
) -> _Meeting:
    """The loop, run `count` times, over the entries of one level, which looks these entries up in the other levels.

    `below` has, for each pattern, the number of entries of its level over all executions.
    """
    # Patterns meet in a product, whose merge lattice has a single point: a coordinate counts if all of them store it
    # (Kjolstad et al., 2017). So each of them can lead, and the loop ends with the leader's segment.
    times = count * leader.count
    cost, scattered = times * (cpu.single_entry if leader.is_single else 1.0), list[tuple[int, int]]()
    for other, n in sparse:
        if n == number:
            continue
        # A map takes one step for each lookup, but each entry of the segments is put into it and taken out again.
        search, in_map = _search(cpu, other, times), cpu.map_lookup * times + cpu.map_entry * below[n]
        if other.has_segments and in_map < search:
            scattered.append((n, other.level))
            search = in_map
        cost += search
    return _Meeting(cost, leader.count, number, tuple(scattered))


def _search(cpu: CpuModel, fan: _Fan, times: float) -> float:
    """The cost of `times` bisections in segments of a level."""
    return times * cpu.bisection_step * log2(1 + fan.count)


def _fans(problem: Problem, names: Sequence[IndexVar], walk: Sequence[IndexVar], pattern: AnyPattern) -> list[_Fan]:
    """The levels of a pattern in the order in which loops walk them."""
    order, single = variables_in_walk_order(names, walk), single_levels(names, walk, pattern)
    if order == tuple(names):
        levels = pattern.format.levels
        kinds = [(x.kind.is_full, x.kind.has_segments and x.unique, x.unique) for x in levels]
        counts = [float(size) for size in pattern.level_sizes]
    else:
        sizes = [float(problem.size[var] or UNKNOWN) for var in order]
        dense_outermost = is_dense_cheap(sizes[0], pattern.nse) and not any(single[1:2])  # as `index_format` says
        kinds = [(dense_outermost, not dense_outermost, True), *[(False, not one, True) for one in single[1:]]]
        counts = [min(float(pattern.nse), product) for product in accumulate(sizes, mul)]
        counts[0] = sizes[0] if dense_outermost else counts[0]
    pairs = zip(counts, (1.0, *counts), strict=False)
    means = [entries / max(above, 1.0) for entries, above in pairs]
    parents = (None, *order)
    return [
        _Fan(var, parents[level], level, means[level], *kinds[level], single[level]) for level, var in enumerate(order)
    ]
