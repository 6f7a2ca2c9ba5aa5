"""The calls of kernels that ran: what each call computed, and the bytes that it moved.

A call is described by its recipe (the kernel's problem and schedules, as JSON), the names of the index arrays that are
bound to it, and the shapes of its buffers. The extension records these for every call, so that calls in programs
that were loaded or exported are described, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod

from jsparse.base.dataclass import dataclass
from jsparse.compiler.lower.storage import Storage
from jsparse.compiler.problem import Problem, StorageType
from jsparse.compiler.runtime.assembly_call import read_assembly
from jsparse.compiler.runtime.bound_arrays import pattern_named
from jsparse.compiler.runtime.recipe import is_assembly, is_routine, read_recipe
from jsparse.compiler.runtime.routine import Parameters
from jsparse.formats import Format, Pattern, PatternType
from jsparse.ops.explanation.primitives import access_formats
from jsparse.ops.explanation.traffic import operand_bytes


def recipe_formats(recipe: str) -> tuple[tuple[str, str], ...]:
    """Return the formats of a kernel's operands and result, as in `ExplainedKernel.formats`, from its recipe.

    The recipe is the kernel's problem and schedules, as JSON. A routine gives an empty tuple.
    """
    if is_routine(recipe):
        return ()
    if not is_assembly(recipe):
        return _formats(read_recipe(recipe)[0], "dense")
    call = read_assembly(recipe)
    result = Parameters.read(call.params).type.format.name
    pairs = dict.fromkeys(pair for term in call.terms for pair in _formats(term.problem, result))
    last = str(call.terms[0].problem.target), result
    return (*(pair for pair in pairs if pair != last), last)


def _formats(problem: Problem, result: str) -> tuple[tuple[str, str], ...]:
    return access_formats(problem, [Format(type_.levels).name for type_ in problem.patterns], result)


@dataclass(frozen=True)
class MeasuredCalls:
    """Calls of one kernel. All of them bind index arrays of the same names, and pass buffers of the same shapes.

    Attributes:
        bound: the names of the index arrays that are bound, separated by spaces.
        buffers: for each buffer, the code of its dtype (see `compiler.signature.element_code`), its rank and its sizes.
        calls, seconds: how often the kernel ran, and the time of all runs.
        patterns: the static patterns that exist in this process, by their index in the kernel's problem.
    """

    recipe: str
    bound: str
    buffers: tuple[int, ...]
    calls: int
    seconds: float
    patterns: dict[int, Pattern] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if is_routine(self.recipe) or is_assembly(self.recipe):
            return
        names, at = self.bound.split(), 0
        for number, type_ in enumerate(read_recipe(self.recipe)[0].patterns):
            count = sum(len(level.kind.arrays) for level in type_.levels)
            pattern = pattern_named(names[at]) if count and at < len(names) else None
            at += count
            if pattern is not None:
                self.patterns[number] = pattern

    def nbytes(self) -> int:
        """Return the bytes that one run moves if it moves each array once, counted as in `explain`.

        For an assembly or a routine, these are the bytes of all buffers.
        """
        sizes = [prod(shape) * itemsize for itemsize, shape in self._shapes()]
        if is_routine(self.recipe) or is_assembly(self.recipe):
            return sum(sizes)
        problem, _ = read_recipe(self.recipe)
        names = [buffer.name for buffer in Storage(problem).buffers]
        moved = dict(zip(names, sizes, strict=True))
        if problem.wants_values and all(size is not None for _, size in problem.sizes):
            stored = [self.patterns.get(n) or self._type(problem, n) for n in range(len(problem.patterns))]
            moved |= dict(operand_bytes(problem, stored))
        return sum(moved.values())

    def _shapes(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the bytes per element and the shape of each buffer."""
        at = 0
        while at < len(self.buffers):
            element, rank = self.buffers[at : at + 2]
            yield element & 0xFF, self.buffers[at + 2 : at + 2 + rank]
            at += 2 + rank

    def _type(self, problem: Problem, number: int) -> PatternType:
        """Make the type of a pattern with a known capacity and unknown entries."""
        type_ = problem.patterns[number]
        names = [buffer.name for buffer in Storage(problem).buffers]
        shapes = {name: shape for name, (_, shape) in zip(names, self._shapes(), strict=True)}
        shape = tuple(problem.size[var] or 0 for var in problem.level_variables[number])
        return PatternType(shape, Format(type_.levels), _positions(type_, number, shape, shapes))


def _positions(type_: StorageType, number: int, sizes: Sequence[int], shapes: dict[str, tuple[int, ...]]) -> int:
    """Return the number of positions of a pattern's last level."""
    count = 1
    for depth, (level, size) in enumerate(zip(type_.levels, sizes, strict=True)):
        coordinates = shapes.get(f"P{number}_{depth}_coordinates")
        if type_.capacity(depth) is not None:
            count = type_.capacity(depth) or 0
        elif coordinates is not None:
            count = coordinates[-1]
        elif level.kind.is_full:
            count *= size
    return count
