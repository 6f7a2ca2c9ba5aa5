"""The search: it yields the candidate schedules that are worth pricing.

The outermost loops of a candidate run over the index variables of the patterns' levels, in some order. Loops walk the
patterns in that order. If a pattern is stored in another order, they walk a transposed index. The inner loops run over
the other variables, which belong to dense axes only. If the innermost loop over patterns is a reduction, the loops over
dense indices of the target are put around it, so that the sum stays in registers.

Candidates are written in the language of Senanayake et al. (2020). Their choices, the order of loops and the tiles, are
those that Scorch makes automatically as well (Yan et al., 2024). Here each candidate gets a price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.prices.gathers import extent, indices_beside_lanes
from jsparse.compiler.schedule.races import copies_reason
from jsparse.compiler.schedule.search.legality import concordant_orders, is_concordant, legal_orders
from jsparse.compiler.schedule.summary import StatementFacts, Summary, Transformation
from jsparse.compiler.schedule.transformations.cache_read import CacheRead
from jsparse.compiler.schedule.transformations.pos import Pos
from jsparse.compiler.schedule.transformations.precompute import Precompute, dense_first, loops_to_precompute
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.trip_counts import levels_in_walk_order, single_levels, variables_in_walk_order
from jsparse.notation.assignment import IndexVar

# the maximum number of panels that a float32 sum may be cut into: the panels' sums are added in memory
MOST_PANELS = 64

Names = tuple[str, ...]
Steps = tuple[Transformation, ...]
Alternative = tuple[Steps, Names]
"""Steps, and the names of the loops after these steps are applied to the canonical nest."""


def candidates(
    problem: Problem,
    patterns: Sequence[AnyPattern] = (),
    as_stored: bool = False,
    start: Summary | None = None,
    orders: Sequence[tuple[IndexVar, ...] | None] = (),
    outer: tuple[IndexVar, ...] = (),
    is_open: Callable[[Summary], bool] | None = None,
) -> Iterator[Summary]:
    """Yield the candidates. Those in the stored order come first. There are none if no order suits all patterns.

    Args:
        as_stored: whether patterns and dense tensors stay in their storage orders.
        start: the nest after the steps that are fixed. Candidates add other steps to the fixed steps.
        orders: for each pattern, the order of its variables with which loops have to agree; None if any order will do.
        outer: the variables of the outermost loops, which run over single coordinates.
        is_open: a function that decides whether some candidates are left out. It takes a nest, and looks at the order
            of the patterns' variables and at the variable in lanes. It returns whether candidates with the same order
            and lanes may include the cheapest candidate. By default, no candidates are left out.
    """
    start = Summary.canonical(problem, concordant=not as_stored) if start is None else start
    vectors = _vectors(start, outer)
    for walk in dict.fromkeys(_walks(start, patterns, as_stored)):
        first = tuple(v for v in outer if v in walk)
        if walk[: len(first)] != first:  # the loops that statements share are outside all others
            continue
        if orders and any(order is not None and variables_in_walk_order(order, walk) != order for order in orders):
            continue
        for vector in vectors:
            probe = _probe(start, walk, vector, patterns)
            if is_open is not None and not is_open(probe):  # branch and bound, see `cheapest._price_candidates`
                continue
            for steps, loops in _alternatives(probe, patterns, outer):
                # The steps of an alternative are legal by themselves: only given steps can conflict with them.
                candidate = _add_steps(start, steps) if start.steps else probe.instead(loops, steps)
                if candidate is not None:
                    yield candidate


def _walks(start: Summary, patterns: Sequence[AnyPattern], as_stored: bool) -> Iterator[tuple[IndexVar, ...]]:
    """Yield the orders of the patterns' variables in which loops can walk the patterns."""
    if start.first("reorder") is None:
        yield from concordant_orders(start.problem) if as_stored else legal_orders(start.problem, patterns)
        return
    stored = zip(start.problem.level_variables, patterns, strict=True) if patterns and not as_stored else ()
    if all(is_concordant(names, start.walk, pattern) for names, pattern in stored):
        yield start.walk


def _vectors(start: Summary, outer: Sequence[IndexVar]) -> list[IndexVar | None]:
    """The variables that may run in lanes. None means no lanes; it is left out if that cannot be faster."""
    if start.vector is not None:
        return [start.vector]
    problem = start.problem
    if problem.is_assembly or problem.derived:
        return [None]
    skipped = {*(v for names in problem.walks for v in names), *start.fusions, *outer}  # leading axes included
    vectors: list[IndexVar | None] = []
    for var in problem.assignment.variables():
        if var in skipped or (problem.size[var] or 0) < 2:
            continue
        # No tensor may have the variable twice, and each tensor that has it can store it innermost.
        carriers = (a for a in problem.assignment.accesses if var in a.variables())
        if all(start.stores_innermost(a, var) and not a.indirections() for a in carriers):
            vectors.append(var)
    return vectors if any(_stands_innermost(start, str(v)) for v in vectors) else [*vectors, None]


def _probe(
    start: Summary, walk: tuple[IndexVar, ...], vector: IndexVar | None, patterns: Sequence[AnyPattern]
) -> Summary:
    """Make a nest with the facts that all candidates with these two properties share: the order `walk` of the patterns'
    variables, and the variable in lanes."""
    problem = start.problem
    order = (*walk, *(v for v in start.order if v not in walk))
    order = problem.without_derived(order) if problem.derived else order
    loops = tuple(v for v in order if v != vector)
    steps = () if vector is None else (Vectorize(vector),)
    probe = Summary(problem, 0, loops, steps, steps, start.concordant).knowing(start, StatementFacts)
    if problem.derived:
        return probe
    probe.with_facts(walk=walk, vector=vector)
    if patterns:  # a nest may walk transposed indices, whose levels the problem does not have yet
        single: set[IndexVar] = set()
        for n in start.statement.patterns:
            names = problem.level_variables[n]
            levels = zip(variables_in_walk_order(names, walk), single_levels(names, walk, patterns[n]), strict=True)
            single.update(var for var, is_single in levels if is_single)
        probe.with_facts(single=frozenset(single.intersection(walk[1:])))
    return probe


def _add_steps(start: Summary, steps: Steps) -> Summary | None:
    """Add `steps` to the nest `start`, except for those that its own steps replace. Returns None if one is illegal."""
    fixed, nest = {step.keyword for step in start.steps}, start
    for step in steps:
        if isinstance(step, Reorder):
            step = _with_outer_loops(step, start)
        if step.keyword in fixed & {"reorder", "precompute"}:
            continue
        if isinstance(step, Vectorize) and start.vector is not None:
            continue
        if isinstance(step, Split) and step.loop in start.splits:
            continue
        if step.check(nest) is None:
            nest = nest.then(step)
        elif not isinstance(step, Precompute):  # without this step, the sums stay where they are
            return None
    return nest


def _with_outer_loops(step: Reorder, start: Summary) -> Reorder:
    """Adapt an order of loops to a nest in which some loops are split or fused already.

    The outer loop of a split is put directly around the inner loop. But a loop over panels of a pattern's variable is
    put around all loops over the pattern.
    """
    loops: list[str] = []
    # The loops over panels of coordinates of a level, and not of its positions.
    panels = {n: v for n, v in start.outer.items() if v in start.pattern_vars and v not in start.positions}
    for var in step.loops:
        fused = [name for name, parts in start.fusions.items() if var in parts]
        names = fused or [name for name, v in start.outer.items() if v == var and name not in panels] + [var]
        loops += [name for name in names if name in start.loops and name not in loops]
    for name, var in panels.items():
        if name in start.loops:
            variables = {v for names in start.problem.level_variables if var in names for v in names}
            at = min(n for n, loop in enumerate(loops) if variables.intersection(start.variables_of(loop)))
            loops.insert(at, name)
    return Reorder(tuple(loops))


def _alternatives(probe: Summary, patterns: Sequence[AnyPattern], outer: tuple[IndexVar, ...]) -> Iterator[Alternative]:
    """Yield the alternatives for one order of the patterns' variables and one variable in lanes."""
    summed = _inside(loops_to_precompute(probe), outer)
    dense = () if summed else _inside(dense_first(probe), outer)
    of_dense: Steps = (Precompute(dense),) if dense else ()
    saves_in_lanes = not summed and probe.saves_in_lanes  # asked here, so that the first candidate knows the answer
    lanes = default_lanes(probe, str(probe.vector)) if outer and probe.vector else _lanes(probe, probe.cpu.tile_bytes)
    steps, loops = _order_and_tile(probe, bool(summed) and summed == probe.tail, lanes, outer)
    first: Steps = (Precompute(summed),) if summed else of_dense
    yield (*steps, *first), loops
    # In the first alternative each tile computes the sums `summed` again. Here they are computed once, but the sums
    # around them add to the target in memory (`precompute.tiles_among_sums`).
    if summed and summed != probe.tail and not outer and probe.vector in probe.free_vars:
        steps, loops = _order_and_tile(probe, True, default_lanes(probe, str(probe.vector)), outer, owned=False)
        yield (*steps, *first), loops
    if saves_in_lanes and _inside(probe.tail[-1:], outer):
        yield (*steps, Precompute(probe.tail[-1:])), loops
    # Instead of threads that own tiles: chunks of the outermost reduction, each with a copy of the target.
    if not outer and owns_tiles(probe) and copies_reason(probe.instead(probe.walk, ()), probe.walk[0]) is None:
        steps, loops = _order_and_tile(probe, False, default_lanes(probe, str(probe.vector)), outer, owned=False)
        yield (*steps, *first), loops
    if not summed:
        yield from _jam(probe, patterns, outer, of_dense)
    if not summed and not outer:
        yield from _in_panels(probe, patterns)
        yield from _inside_tiles(probe)


def _inside(summed: tuple[IndexVar, ...], outer: tuple[IndexVar, ...]) -> tuple[IndexVar, ...]:
    """Return `summed`, the variables of sums that are computed first, or () if one of them is in `outer`."""
    return summed if set(outer).isdisjoint(summed) else ()


def _order_and_tile(
    probe: Summary, sums_all: bool, lanes: int, outer: tuple[IndexVar, ...], owned: bool = True, in_blocks: bool = False
) -> Alternative:
    """The steps that order the loops and make register tiles, and the names of the loops after these steps.

    If the variable in lanes is an index of the target, the loop over tiles is put around the reductions. It is the
    outermost loop if threads can own only tiles of the target.

    Args:
        sums_all: whether all innermost reductions over entries are computed before the other factors are used.
        owned: whether threads own tiles. If not, chunks of another loop have copies of the target.
        in_blocks: whether the innermost dense loop around the reductions runs over rows of blocks, which all read the
            same rows of a dense factor. It is then inside the loop over tiles: a near cache holds one tile of these
            rows.
    """
    vector, problem = probe.vector, probe.problem
    # If the whole tail is summed before, no loop over a dense index of the target has to go around it. Else these loops
    # go around the tail, so that its sum stays in registers.
    if sums_all or problem.is_assembly:
        order = (*probe.batch, *probe.head, *probe.tail, *probe.free_dense_vars, *probe.scalar_reductions)
    else:
        order = (*probe.batch, *probe.head, *probe.free_dense_vars, *probe.tail, *probe.scalar_reductions)
    order = problem.without_derived(order) if problem.derived else order
    order = (*outer, *(v for v in order if v not in outer))
    if vector is None:
        return (Reorder(order),), order
    # Lanes of the target: the `inner` reductions are inside the loop over tiles, and all of them add to one register
    # tile. Lanes of a summed index: the loop over tiles is the innermost part of the sum.
    inner = len(probe.scalar_reductions) + (0 if sums_all else len(probe.tail))
    tile = len(order) - (inner if vector in probe.free_vars else 0)
    tile -= in_blocks
    tile = max(len(probe.batch) if owned and owns_tiles(probe) else tile, len(outer))
    steps = (Reorder((*order[:tile], vector, *order[tile:])), Split(vector, lanes), Vectorize(vector))
    return steps, (*order[:tile], outer_name(problem, vector), *order[tile:])


def owns_tiles(probe: Summary) -> bool:
    """Whether threads can own nothing but tiles of the variable in lanes: the outermost loop is a reduction."""
    return probe.scatters and probe.vector in probe.free_vars and probe.walk[0] not in probe.free_vars


def _lanes(probe: Summary, tile_bytes: int) -> int:
    """The number of elements of a register tile. It is smaller than registers allow if threads have to divide tiles."""
    if probe.vector is None:
        return 0
    most, size = tile_bytes // probe.itemsize, probe.problem.size[probe.vector] or 0
    if owns_tiles(probe):
        most = min(most, max(probe.cpu.shared_lanes, -(-size // probe.cpu.shared_tiles)))
    return min(most, size)


def default_lanes(nest: Summary, var: IndexVar) -> int:
    """The number of elements of a register tile of a variable that runs in lanes."""
    return max(1, min(nest.cpu.tile_bytes // nest.itemsize, nest.problem.size[var] or 1))


def _jam(
    probe: Summary, patterns: Sequence[AnyPattern], outer: tuple[IndexVar, ...], precomputed: Steps
) -> Iterator[Alternative]:
    """Yield the alternatives in which several iterations of a loop run at a time.

    Each iteration has its own register tile, and all of them use a row that is loaded once. This is the register
    blocking of dense products (Goto and van de Geijn, 2008).
    """
    jammed, cpu = _find_loop_to_jam(probe), probe.cpu
    # Shared loops run over single coordinates. Only a dense statement may jam the innermost one (`shared_panels.py`).
    if jammed is None or (jammed in outer and (jammed != outer[-1] or probe.walk)):
        return
    lies_beside = _lie_beside(probe, jammed)
    # Does a dense loop around a sum over entries run over an axis of the blocks that these entries have?
    around_sum = bool(not outer and probe.head and probe.tail and jammed in probe.free_dense_vars)
    in_blocks = around_sum and not lies_beside and _is_axis_of_blocks(probe, jammed)
    of_blocks = in_blocks or _is_axis_of_blocks(probe, str(probe.vector))
    lanes = _lanes(probe, cpu.block_tile_bytes if of_blocks else cpu.jam_tile_bytes)
    # As many tiles as fit the registers, or as many short rows as fill one register tile. At least two iterations.
    fitting = (cpu.tile_bytes if lies_beside else cpu.jam_bytes) // (lanes * probe.itemsize)
    jam = UnrollAndJam(jammed, min(probe.problem.size[jammed] or cpu.jam_rows, cpu.jam_rows, max(2, fitting)))
    steps, loops = _order_and_tile(probe, False, lanes, outer, in_blocks=in_blocks)
    yield (*steps, *precomputed, jam), loops
    if not outer:
        yield from _in_position_panels(probe, patterns, lanes, jam)


def _find_loop_to_jam(probe: Summary) -> IndexVar | None:
    """Return the loop that gets faster if several of its iterations run at a time, or None if there is no such loop.

    The loop is the innermost one outside all reductions. The loops inside must be the same for all of its coordinates.
    They must read rows that these coordinates share, or short rows that are adjacent in memory.
    """
    if probe.vector not in probe.free_vars or not probe.is_product or probe.precompute_loops:
        return None
    # A loop over stored entries differs from row to row. So either a dense loop goes around a sum over entries, or all
    # reductions inside are over dense indices.
    entries = any(v not in probe.single for v in probe.tail)
    if not (entries if probe.free_dense_vars and entries else probe.scalar_reductions and not entries):
        return None
    loops = [v for v in (*probe.head, *probe.free_dense_vars) if v not in probe.single]
    if not loops or loops[-1] in probe.batch or probe.problem.size[loops[-1]] in (0, 1):
        return None
    # A row in lanes is shared if no index of it differs between the iterations.
    changed = probe.vars_changed_by(loops[-1])
    is_shared = any(probe.vector in names and changed.isdisjoint(names) for names in probe.factor_vars)
    return loops[-1] if is_shared or _lie_beside(probe, loops[-1]) else None


def _is_axis_of_blocks(probe: Summary, var: IndexVar) -> bool:
    """Whether an index is an axis of the blocks that the entries of a factor or of the target have."""
    accesses = (probe.statement.target, *probe.factors)
    stored = (x for x in accesses if probe.problem.type_of[x.tensor].positions is not None)
    return var not in probe.walk and any(var in x.variables() for x in stored)


def _lie_beside(probe: Summary, var: IndexVar) -> bool:
    """Whether entries select short rows, and the rows at neighbouring coordinates of `var` are contiguous in memory."""
    columns = probe.problem.size[str(probe.vector)] or 0
    if 2 * columns * probe.itemsize > probe.cpu.tile_bytes or var in probe.walk:
        return False
    gathered = (f for f in probe.factors if probe.vector in f.variables() and probe.entry_vars & {*f.variables()})
    return any(indices_beside_lanes(probe, f)[-1:] == (var,) for f in gathered)


def _in_panels(probe: Summary, patterns: Sequence[AnyPattern]) -> Iterator[Alternative]:
    """Divide the reduction over stored entries into panels, inside the loop over tiles, and copy each panel's rows.

    It pays where entries read the rows of a large tensor often: a pruned layer (80 % zeros, 1,024 x 2,048 by 256
    columns) takes 0.62 of the time.
    """
    problem, vector, gathered = probe.problem, probe.vector, probe.only_row_factor
    if vector is None or vector not in probe.free_vars or gathered is None or not probe.is_product or not patterns:
        return
    # The reduction has to be the only one, and the only loop inside the loops over the target.
    if probe.batch or probe.free_dense_vars or probe.scatters or probe.scalar_reductions:
        return
    if len(problem.level_variables) != 1 or len(probe.tail) != 1 or not probe.head:
        return
    # Threads have enough tiles to divide.
    lanes, (reduced,), (names,) = _lanes(probe, probe.cpu.tile_bytes), probe.tail, problem.level_variables
    if extent(problem, (vector,)) < probe.cpu.inner_tiles * lanes or len(names) > len(set(names)):
        return
    # Segments have ascending coordinates, so that each panel continues where the previous one left them. In another
    # order a transposed index is walked, whose levels inside the outermost one are compressed and unique.
    levels = patterns[0].format.levels[: len(names)]
    ascending = levels[-1].kind.has_pointers and all(x.unique and not x.kind.is_branchless for x in levels)
    if not ascending and levels_in_walk_order(names, probe.walk) == tuple(range(len(names))):
        return
    tiles, panels = outer_name(problem, vector), outer_name(problem, reduced)
    loops = (tiles, panels, *probe.head, reduced)
    order, tiling = Reorder((vector, *probe.head, reduced)), (Split(vector, lanes), Vectorize(vector))
    rows = problem.size[reduced]
    for size in probe.cpu.panel_rows:
        # The sums of panels are added in memory. A float32 sum is rounded once for each panel, so few are allowed.
        if problem.accumulator != "float32" or (rows is not None and rows <= MOST_PANELS * size):
            yield (order, *tiling, Split(reduced, size), Reorder(loops), CacheRead(gathered.tensor, panels)), loops


def _in_position_panels(
    probe: Summary, patterns: Sequence[AnyPattern], lanes: int, jam: UnrollAndJam
) -> Iterator[Alternative]:
    """Divide the positions of a reduction into panels, and put the loop over panels around the target's dense loops.

    Each iteration of the dense loops reads the same rows that a panel selects, and a near cache holds these rows. So
    that no precision is lost, the sums of panels are added up in a float64 copy of the target, which has to fit the
    last cache.
    """
    problem, vector, cpu = probe.problem, probe.vector, probe.cpu
    if vector is None or probe.scatters or probe.scalar_reductions:
        return
    if not probe.head or not probe.tail or not probe.free_dense_vars:
        return
    wide = 8 * extent(problem, problem.target.variables())  # bytes of the target in float64 (`widen`)
    if problem.type_of[problem.target.tensor].positions is not None or wide > cpu.last_cache_bytes:
        return
    reduced = probe.tail[0]
    walked = probe.level_walked_by(reduced)
    if Pos(reduced).check(probe) is not None or walked is None or not (walked.level or walked.above):
        return
    # The extent of the head bounds the number of segments. So a segment has more than two panels on average.
    entries = max((pattern.nse for pattern in patterns), default=0)
    if entries <= 2 * cpu.panel_positions * extent(problem, probe.head):
        return
    panels, around = outer_name(problem, reduced), (*probe.batch, *probe.head)
    inner = (*probe.free_dense_vars, vector, *probe.tail)
    divide = (Reorder((*around, *inner)), Pos(reduced), Split(reduced, cpu.panel_positions))
    steps = (*divide, Reorder((*around, panels, *inner)), Split(vector, lanes), Vectorize(vector), jam)
    yield steps, (*around, panels, *probe.free_dense_vars, outer_name(problem, vector), *probe.tail)


def _inside_tiles(probe: Summary) -> Iterator[Alternative]:
    """Move all loops over patterns inside the loop over register tiles of the target.

    The nearest cache then holds one tile of all rows that entries read: 60 x 60 with 244 entries on 10,000 columns
    takes 0.55 of the time.

    There must be no other loops, enough tiles for all threads, and no reduction outside the loops over the target.
    """
    vector, lanes = probe.vector, _lanes(probe, probe.cpu.tile_bytes)
    if vector is None or vector not in probe.free_vars or probe.scatters or not probe.head or not probe.tail:
        return
    others = probe.batch or probe.free_dense_vars or probe.scalar_reductions or probe.problem.is_assembly
    if not others and extent(probe.problem, (vector,)) >= probe.cpu.inner_tiles * lanes:
        steps = (Reorder((vector, *probe.walk)), Split(vector, lanes), Vectorize(vector))
        yield steps, (outer_name(probe.problem, vector), *probe.walk)


def _stands_innermost(start: Summary, var: IndexVar) -> bool:
    """Whether `var` in lanes is never slower than scalars: its size fills a vector, and it is innermost everywhere."""
    problem = start.problem
    carriers = [a for a in problem.assignment.accesses if var in a.variables()]
    last = [(a, problem.type_of[a.tensor].axes[-1]) for a in carriers]
    return (problem.size[var] or 0) >= start.cpu.vector_lanes and all(
        isinstance(axis, Dense) and a.indices[axis.dim] == var for a, axis in last
    )
