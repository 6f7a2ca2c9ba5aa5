"""The operations of a kernel, the bytes that it moves, and the bandwidth of this machine's memory.

The arithmetic and the bytes are counted from the kernel's problem and its patterns. The bandwidth is measured by a
kernel.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.compiler.backends import DEFAULT, fault
from jsparse.compiler.output_kind import Compute
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.runtime.kernel_call import kernel_of
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.scalar import Apply, Number
from jsparse.compiler.schedule import Plan
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.search.statements import plan_statements
from jsparse.compiler.statement import Statement
from jsparse.formats import Pattern, PatternType
from jsparse.notation import Access, IndexVar
from jsparse.ops.explanation.points import LARGEST, Relation, count_points, most_points, relation_of

ELEMENTS = 1 << 24  # float32 elements of each of three arrays: more than caches hold
REPEATS = 10


@dataclass(frozen=True, slots=True)
class Traffic:
    """The arithmetic of one execution of a kernel, and the bytes that it moves if it moves each array once.

    Caches may load an array several times, so the kernel moves at least these bytes (the roofline model, Williams et
    al., 2009).

    Attributes:
        operations: the number of multiply-adds: n - 1 for each product of n factors, and at least 1. If no values are
            computed, the number of combinations of entries that the loops reach.
        operands: a pair (name, bytes) for each operand. The bytes of a dense operand include only elements selected by
            stored coordinates.
        index: the bytes of the index arrays that are read.
        results: the bytes that are written.
        moved: the bytes read and written to permute values and to transpose arrays, before and after the kernel.
        by_capacity: whether dynamic patterns are counted as if they were full.
        most: an upper bound on the operations, from the sizes of the patterns. None if `operations` is exact. Otherwise
            `operations` is an estimate, which assumes that the entries of patterns that meet are spread evenly.
        meets: whether several patterns meet, so that some entries may stay unread.
        computes: whether values are computed.
    """

    operations: int = 0
    operands: tuple[tuple[str, int], ...] = ()
    index: int = 0
    results: int = 0
    moved: int = 0
    by_capacity: bool = False
    most: int | None = None
    meets: bool = False
    computes: bool = True

    @property
    def nbytes(self) -> int:
        """The sum of all bytes."""
        return sum(size for _, size in self.operands) + self.index + self.results + self.moved

    def __str__(self) -> str:
        named = ", ".join(f"{name} {as_bytes(size)}" for name, size in self.operands)
        parts = {named: len(self.operands), "index arrays " + as_bytes(self.index): self.index}
        parts |= {"results " + as_bytes(self.results): self.results}
        parts |= {"values permuted and arrays transposed " + as_bytes(self.moved): self.moved}
        lines = [f"moves {as_bytes(self.nbytes)}: {', '.join(part for part, there in parts.items() if there)}"]
        if self.operations:
            what = "multiply-adds" if self.computes else "combinations of entries"
            lines.insert(0, f"{'' if self.most is None else 'about '}{self.operations:,} {what}")
        if self.most is not None:
            lines.append("estimated as if the entries of patterns that meet were spread evenly")
            lines[-1] += f"; their sizes allow up to {float(self.most):.3g}"
        if self.by_capacity:
            lines.append("counted by the capacity of dynamic patterns, which may have fewer entries")
        return "\n".join(lines)

    def limit(self, bandwidth: float) -> str:
        """Return a sentence with the least time to move these bytes at `bandwidth` bytes per second."""
        reads = ", if all entries are read" if self.meets else ""
        return (
            f"at the {bandwidth / 1e9:.2g} GB/s that this machine's memory reaches, that takes at least "
            f"{as_time(self.nbytes / bandwidth)}{reads} (less for arrays that a cache holds)"
        )


def traffic_of(*plans: Plan, result: Pattern | PatternType | None = None) -> Traffic:
    """Count the operations of the kernel of a plan, or of the sum of several plans, and the bytes that it moves.

    A dynamic pattern counts with its capacity. A result is counted once, although each plan of a sum adds to it.
    `result` is the pattern that the kernel assembles, or the pattern of the values if the kernel writes values alone.
    """
    first = plans[0]
    statements = [(plan, statement) for plan in plans for statement in plan.problem.statements]
    patterns = [(plan.problem, n, pattern) for plan in plans for n, pattern in enumerate(plan.patterns)]
    counted = [_operations(plan.problem, plan.patterns, statement) for plan, statement in statements]
    is_exact = all(most is None for _, most in counted)
    valued = [plan for plan in plans if plan.problem.wants_values]
    return Traffic(
        operations=sum(count for count, _ in counted),
        most=None if is_exact else sum(count if most is None else most for count, most in counted),
        operands=tuple(pair for plan in valued for pair in operand_bytes(plan.problem, plan.patterns)),
        index=sum(_index_bytes(*one) for one in patterns),
        results=_results(first.problem, first.patterns, result),
        moved=sum(map(_bytes_to_reorder, plans)),
        by_capacity=not all(isinstance(pattern, Pattern) for *_, pattern in patterns),
        meets=any(len(statement.patterns) > 1 for _, statement in statements),
        computes=first.problem.wants_values,
    )


def as_bytes(count: int) -> str:
    """Format a number of bytes in a decimal unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size - size / 2000:  # also a number that is rounded up to the unit
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def as_count(number: int, what: str) -> str:
    """Format a number of things: "1 kernel", "2 kernels"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def as_time(seconds: float) -> str:
    """Format a number of seconds in a decimal unit."""
    unit, scale = ("s", 1.0) if seconds >= 0.9995 else ("ms", 1e3) if seconds >= 1e-4 else ("µs", 1e6)
    return f"{seconds * scale:.3g} {unit}"


def _operations(problem: Problem, patterns: Sequence[AnyPattern], statement: Statement) -> tuple[int, int | None]:
    """Count the operations of a statement. Also return an upper bound if the count is an estimate, else None."""
    walked = {v for n in statement.patterns for v in problem.walks[n]}
    free = [v for v in problem.variables_of(statement) if v not in walked and v not in problem.derivations]
    points, most = _points(problem, patterns, statement.patterns)
    each = _extent(problem, free) * max(len(statement.reads) - 1, 1)
    return points * each, None if most is None else most * each


def _points(problem: Problem, patterns: Sequence[AnyPattern], numbers: Sequence[int]) -> tuple[int, int | None]:
    """Count the points at which all patterns store an entry.

    A point has a coordinate for each variable of the patterns. Also return an upper bound if the count is an estimate,
    else None.
    """
    if not numbers:
        return 1, None
    known = [p for p in (patterns[n] for n in numbers) if isinstance(p, Pattern) and p.nse <= LARGEST]
    names = [problem.level_variables[n] for n in numbers]
    alone = len(numbers) == 1
    if len(known) == len(numbers) and not (alone and len(set(names[0])) == len(names[0])):
        points = count_points(_relation(*pair) for pair in zip(known, names, strict=True))
        if points is not None:
            return points, None
    if alone:
        return _entries(problem, numbers[0], patterns[numbers[0]]), None
    numbers = _of_factors(problem, numbers)
    entries = [_entries(problem, n, patterns[n]) for n in numbers]
    spaces = prod(_extent(problem, problem.walks[n]) for n in numbers)
    every = dict.fromkeys(v for n in numbers for v in problem.walks[n])
    walks = [problem.walks[n] for n in numbers]
    most = most_points(list(zip(walks, entries, strict=True)), {v: _extent(problem, [v]) for v in every})
    return round(prod(entries) * _extent(problem, every) / spaces) if spaces else 0, most


def _relation(pattern: Pattern, names: Sequence[IndexVar]) -> Relation:
    """Return the coordinates that a pattern stores, as a relation of the variables of its levels."""
    return relation_of(pattern, [name for _, name in sorted(zip(pattern.format.order, names, strict=True))])


def _of_factors(problem: Problem, numbers: Sequence[int]) -> Sequence[int]:
    """Return the pattern indices `numbers` without the target's pattern, if other patterns bind all of its variables.

    In this case the target most likely stores all points that the other patterns reach.
    """
    target = problem.type_of[problem.target.tensor].positions
    if target is None:
        return numbers
    others = [n for n in numbers if n != target.pattern]
    bound = {v for n in others for v in problem.walks[n]}
    return others if bound.issuperset(problem.walks[target.pattern]) else numbers


def _entries(problem: Problem, number: int, pattern: AnyPattern) -> int:
    """Return the number of slots of a pattern, or of all members of a batch of patterns."""
    return pattern.nse * _extent(problem, problem.batch_variables[number])


def operand_bytes(problem: Problem, patterns: Sequence[AnyPattern]) -> Iterator[tuple[str, int]]:
    """Yield (name, bytes) for each operand. For a dense operand, include only elements at coordinates of entries."""
    types = {tensor.name: tensor for tensor in problem.operands}
    for statement in problem.statements:
        for access in dict.fromkeys(statement.reads):
            if access.tensor in types:
                tensor = types.pop(access.tensor)
                selected = _elements_to_read(problem, patterns, statement, tensor, access)
                yield access.tensor, selected * np.dtype(tensor.dtype).itemsize


def _elements_to_read(
    problem: Problem, patterns: Sequence[AnyPattern], statement: Statement, tensor: TensorType, access: Access
) -> int:
    """Return how many elements of an operand are read by loops over every entry of the patterns."""
    if tensor.positions is not None:
        return _elements(problem, patterns, tensor, access)
    walked = {v for n in statement.patterns for v in problem.level_variables[n]}
    variables = dict.fromkeys(access.variables())
    by_entries = [v for v in variables if v in walked]
    carrying = (n for n in statement.patterns if by_entries and {*by_entries} <= {*problem.level_variables[n]})
    bounds = [_extent(problem, by_entries), *(_tuples(problem, patterns[n], n, by_entries) for n in carrying)]
    return min(bounds) * _extent(problem, [v for v in variables if v not in walked])


def _tuples(problem: Problem, pattern: AnyPattern, number: int, variables: Sequence[IndexVar]) -> int:
    """Return the number of distinct tuples of these variables that a pattern stores, or an upper bound."""
    names = problem.level_variables[number]
    if isinstance(pattern, Pattern) and pattern.nse <= LARGEST and set(variables) != set(names):
        return _relation(pattern, names).tuples(variables)
    return _entries(problem, number, pattern)


def _elements(problem: Problem, patterns: Sequence[AnyPattern], tensor: TensorType, access: Access) -> int:
    """Return the number of elements that a tensor stores."""

    def size(axis: Dense | Positions) -> int:
        if isinstance(axis, Positions):
            return patterns[axis.pattern].nse
        return _extent(problem, [str(access.indices[axis.dim])])

    return prod(map(size, tensor.axes))


def _index_bytes(problem: Problem, number: int, pattern: AnyPattern) -> int:
    if problem.patterns[number].constant_indices:  # they are part of the code
        return 0
    if isinstance(pattern, Pattern):
        return pattern.nbytes()
    return _array_bytes(pattern) * _extent(problem, problem.batch_variables[number])


def _array_bytes(type_: PatternType) -> int:
    return sum(type_.array_lengths) * type_.index_dtype.itemsize


def _results(problem: Problem, patterns: Sequence[AnyPattern], result: Pattern | PatternType | None) -> int:
    if isinstance(problem.output, Compute):
        access = {s.target.tensor: s.target for s in problem.statements}
        return sum(_tensor_bytes(problem, patterns, t, access[t.name]) for t in problem.results)
    assert result is not None
    values = result.nse * np.dtype(problem.tensors[0].dtype).itemsize if problem.wants_values else 0
    if isinstance(result, PatternType):
        return values + _array_bytes(result)
    return values or result.nbytes()  # index arrays of a static result are there before its values are computed


def _tensor_bytes(problem: Problem, patterns: Sequence[AnyPattern], tensor: TensorType, access: Access) -> int:
    return _elements(problem, patterns, tensor, access) * np.dtype(tensor.dtype).itemsize


def _bytes_to_reorder(plan: Plan) -> int:
    """Count the bytes moved to reorder tensors. A tensor is read once and written once if the plan stores its
    dimensions in another order than the caller. The slot numbers by which values are permuted are read once."""
    problem, total = plan.problem, 0
    permuted = {n for n, walk in enumerate(plan.given.walks) if walk != problem.walks[n]}
    access = {a.tensor: a for a in problem.accesses}
    for tensor in problem.tensors:
        on, before = tensor.positions, plan.given.type_of[tensor.name]
        if on is None and tensor.axes == before.axes:
            continue
        if on is None or on.pattern in permuted:
            total += 2 * _tensor_bytes(problem, plan.patterns, tensor, access[tensor.name])
        if on is not None and on.pattern in permuted:
            total += plan.patterns[on.pattern].nse * np.dtype(problem.patterns[on.pattern].index_dtype).itemsize
    return total


def _extent(problem: Problem, variables: Sequence[IndexVar] | dict[IndexVar, None]) -> int:
    """Return the size of the variables' iteration space."""
    return prod(problem.size[v] or 0 for v in variables)


@cache
def memory_bandwidth() -> float:
    """Measure the bytes per second that kernels move between memory and all cores that this process may use.

    The measurement runs once in a process, for about 0.3 s, and takes the best of ten runs of the triad
    `R[q] = A[q] + 3 B[q]` (STREAM, McCalpin, 1995) on 192 MiB. Without LLVM, numpy adds A and B, on one core.
    """
    buffers = [np.ones(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32), np.empty(ELEMENTS, np.float32)]
    kernel = kernel_of(_triad()) if fault is None else None

    def run() -> None:
        if kernel is None:
            np.add(buffers[0], buffers[1], out=buffers[2])
        else:
            _native.run(kernel.code.address, buffers, 0, kernel.signature)  # without a recipe, so no profile counts it

    run()  # maps the pages of the result
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sum(buffer.nbytes for buffer in buffers) / min(times)


def _triad() -> str:
    """Return the recipe of the kernel that `memory_bandwidth` times. The kernel's buffers are A, B and R."""
    a, b, r = (Access(name, ("q",)) for name in "ABR")
    statement = Statement(r, Apply("+", (a, Apply("*", (Number(3), b)))))
    tensors = tuple(TensorType(name, "float32", (Dense(0),)) for name in "RAB")
    problem = Problem((statement,), tensors, (), (("q", ELEMENTS),))
    return write_recipe(problem, plan_statements(problem, ()), DEFAULT)
