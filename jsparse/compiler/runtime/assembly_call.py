"""Calls that assemble the pattern of a sum of products from the patterns of its operands.

    ordered     compute an upper bound for the entries of each chunk of the only term; run the chunks, which write their
                parts of every level; join the parts (`csrc/routines/ordered_assembly.cc`)
    unordered   for each term, count the columns (coordinate tuples) of each chunk and write them; then sort all columns
                and drop duplicates (`csrc/routines/unordered_assembly.cc`)

The loops that count and write are ordinary kernels (`lower.assembly`). They count per chunk, not per row, so no array
of counts is as long as a dimension.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.compiler.backends.backend import CompiledKernel
from jsparse.compiler.lower.storage import buffer_types
from jsparse.compiler.output_kind import Coordinates, Count, Write
from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.runtime.bound_arrays import OPERAND, arrays_of_patterns
from jsparse.compiler.runtime.recipe import backend_of, check_version, read_recipe, write_recipe
from jsparse.compiler.runtime.routine import Parameters, has_batch, with_batch
from jsparse.compiler.schedule import Plan
from jsparse.compiler.signature import BufferType, Length, static_buffer_type
from jsparse.errors import JsparseError

VERSION = 2
HEAD = 8  # the length of the head of a table of terms: kTableHead of csrc/routines/terms.h


@dataclass(frozen=True, slots=True)
class AssemblyTerm:
    """The kernels of one term.

    Attributes:
        columns: the recipe of the kernel that writes entries.
    """

    columns: str

    @property
    def problem(self) -> Problem:
        """The problem of the kernel that writes entries."""
        return read_recipe(self.columns)[0]

    @property
    def counts(self) -> str:
        """The recipe of the kernel that counts entries. If entries are written in order, it counts an upper bound.

        The kernel has the same loops as the kernel that writes entries, so memory for the counted entries is enough. An
        exact count of entries in order would have to fill every workspace. A bound only needs a pass over pointers.
        """
        problem, schedules = read_recipe(self.columns)
        counted = replace(counting_problem(problem), output=Count(exact=not problem.ordered))
        return write_recipe(counted, schedules, backend_of(self.columns))

    @property
    def widths(self) -> tuple[int, ...]:
        """The size in bytes of the elements of each index array that the kernels walk."""
        types = self.problem.patterns
        return tuple(np.dtype(t.index_dtype).itemsize for t in types for level in t.levels for _ in level.kind.arrays)


@dataclass(frozen=True, slots=True)
class AssemblyCall:
    """The call that finds the pattern of a sum of terms.

    Attributes:
        params: the pattern's type, encoded by `compiler.runtime.routine.parameters`.
        terms: the kernels of each term.
        operands: for each index array of each term, whether the array is an operand; otherwise it is bound.
        results: the number of results.
        is_ordered: whether the only term writes the pattern's levels in order. If not, the terms write columns, which
            are then sorted.
        bound: the names of the bound index arrays. The recipe does not contain them.
        factors: the number of factors whose products are the values, or 0 if the call finds only the pattern. The
            factors are the operands before the index arrays.
        value_bytes: the size of a value in bytes, or 0 if the call finds only the pattern. The values are the last
            result.
        has_source_count: whether the first operand is a count that is 0 unless a walked pattern has overflowed. After
            an overflow, the count exceeds the result's capacity, so that the result overflows, too.
    """

    params: tuple[int, ...]
    terms: tuple[AssemblyTerm, ...]
    operands: tuple[bool, ...]
    results: int
    is_ordered: bool = False
    bound: str = ""
    factors: int = 0
    value_bytes: int = 0
    has_source_count: bool = False

    @property
    def recipe(self) -> str:
        """The call encoded as text."""
        terms = [[term.counts, term.columns, term.widths] for term in self.terms]
        return json.dumps(
            [
                "lists",
                VERSION,
                self.params,
                terms,
                self.operands,
                self.results,
                self.is_ordered,
                self.factors,
                self.value_bytes,
                *[True] * self.has_source_count,
            ],
            separators=(",", ":"),
        )

    @property
    def address(self) -> int:
        """The address in this process of the code that runs the terms."""
        return _native.routine("ordered" if self.is_ordered else "unordered")

    @property
    def slots(self) -> list[int]:
        """The slots of the buffers: parameters and table of terms (bound), source count, factors, index arrays and
        results."""
        before = int(self.has_source_count) + self.factors
        count = before + sum(self.operands)
        operands, bound = iter(range(before, count)), iter(range(-3, -3 - len(self.operands), -1))
        arrays = [next(operands) if operand else next(bound) for operand in self.operands]
        return [-1, -2, *range(before), *arrays, *range(count, count + self.results)]

    @property
    def buffer_types(self) -> list[BufferType]:
        """The types of the buffers: parameters, table of terms, source count, factors, index arrays and results.

        Raises JsparseError if the recipe contradicts its terms.
        """
        parameters, flags = Parameters.read(self.params), iter(self.operands)

        def in_batch(type_: BufferType) -> BufferType:
            return type_.with_leading_axis(parameters.batch) if self.is_batched else type_

        factors: list[BufferType] = []
        arrays: list[BufferType] = []
        for number, term in enumerate(self.terms):
            types = [type_.within(f"t{number} ") for type_ in buffer_types(term.problem)]
            first = len(term.problem.operands)
            factors += types[:first]
            of_term = types[first : first + len(term.widths)]
            arrays += [in_batch(type_) if next(flags, None) else type_ for type_ in of_term]
        results = [static_buffer_type(parameters.index_dtype, length) for length in parameters.type.array_lengths]
        results += [BufferType(self.value_bytes, (Length(parameters.type.nse),))] if self.value_bytes else []
        counted = len(factors), len(arrays), len(results)
        fits = all(map(self._fits, self.terms)) and (len(self.terms) == 1 or not self.is_ordered)
        if counted != (self.factors, len(self.operands), self.results) or not fits:
            raise JsparseError(
                f"Expected an assembly recipe that fits its terms, but got {self.recipe[:80]!r}. Compile the program "
                f"again with this version of jsparse."
            )
        sources = [in_batch(static_buffer_type(parameters.index_dtype))] * self.has_source_count
        table = HEAD + sum(3 + len(term.widths) for term in self.terms)
        tables = (static_buffer_type("int64", length) for length in (len(self.params), table))
        return [*tables, *sources, *factors, *arrays, *map(in_batch, results)]

    def _fits(self, term: AssemblyTerm) -> bool:
        """Whether the kernels of a term fit the buffers that the routine passes (`csrc/routines/terms.h`)."""
        problem, parameters = term.problem, Parameters.read(self.params)
        layout = (Coordinates.LEVELS, bool(self.value_bytes)) if self.is_ordered else (Coordinates.COLUMNS, False)
        target = problem.type_of[problem.target.tensor]
        widths = target.dtype, problem.column_dtype if self.value_bytes else target.dtype
        sizes = [problem.size[str(var)] for var in problem.target.indices]
        return (
            problem.output == Write(*layout)
            and problem.ordered == self.is_ordered
            and sizes == list(parameters.type.shape)
            and widths[1] == parameters.index_dtype
            and self.value_bytes in (0, np.dtype(widths[0]).itemsize)
            and not any(type_.batch_axes for type_ in problem.patterns)
        )

    def find_bound_arrays(self) -> list[np.ndarray]:
        """Find the index arrays of all terms. Raises what `arrays_of_patterns` raises, and JsparseError if `bound`
        names more arrays than the terms have."""
        bound, numbers = iter(self.bound.split()), iter(self.operands)
        every: list[np.ndarray] = []
        for term in self.terms:
            names = [OPERAND if flag else next(bound, "") for flag in islice(numbers, len(term.widths))]
            every += [array for arrays in arrays_of_patterns(term.problem, names) for array in arrays]
        if next(bound, None) is not None:
            raise JsparseError(f"Expected {len(every)} names of index arrays for an assembly, but there are more.")
        return every

    @property
    def is_batched(self) -> bool:
        """Whether operands and results have a leading batch axis."""
        return has_batch(self.params)

    def with_batch_axis(self, size: int) -> AssemblyCall:
        """Return the call for a batch of `size` members, whose operands have one leading axis for the batch."""
        return replace(self, params=with_batch(self.params, size))

    def tables(self, kernel_of: Callable[[str], CompiledKernel]) -> tuple[list[np.ndarray], list[CompiledKernel]]:
        """The parameters and the table of terms (`csrc/routines/terms.h`), and the kernels that must outlive the
        table."""
        limit = Parameters.read(self.params).type.limit or (-1, 0)
        nan = 0, 0
        if self.value_bytes:  # whether their dtype has a NaN, and its bytes as an integer
            problem = self.terms[0].problem
            dtype = np.dtype(problem.type_of[problem.target.tensor].dtype)
            if dtype.kind not in "iub":
                nan = 1, int.from_bytes(np.array(np.nan, dtype).tobytes(), sys.byteorder)
        table = [self.factors, self.value_bytes, *nan, int(self.has_source_count), *limit, len(self.terms)]
        alive: list[CompiledKernel] = []
        operands = iter(self.operands)
        for term in self.terms:
            kernels = (kernel_of(term.counts), kernel_of(term.columns))
            alive += kernels
            table += [*(kernel.address for kernel in kernels), len(term.widths)]
            table += [width if next(operands) else 0 for width in term.widths]
        return [np.array(self.params, np.int64), np.array(table, np.int64)], alive


def assembly_term(plan: Plan, index_dtype: str, backend: str) -> AssemblyTerm:
    """Make the kernels of a plan for a backend. They write coordinates in `index_dtype`.

    An ordered plan gets a kernel that computes an upper bound for the entries of each chunk, and a kernel that writes
    levels. Any other plan gets a kernel that counts columns, and a kernel that writes columns.
    """
    problem = (_levels if plan.problem.ordered else column_problem)(plan.problem, index_dtype)
    return AssemblyTerm(write_recipe(problem, (plan.schedule,), backend))


def counting_problem(problem: Problem) -> Problem:
    """Change `problem` so that its kernel counts columns."""
    statements = tuple(replace(s, value=None, add="+", condition=None) for s in problem.statements)
    tensors = (TensorType(problem.target.tensor, "int64", ()),)
    return replace(problem, output=Count(), tensors=tensors, statements=statements, column_dtype="int32")


def column_problem(problem: Problem, index_dtype: str) -> Problem:
    """Change `problem` so that its kernel writes columns in `index_dtype`."""
    target = TensorType(problem.target.tensor, index_dtype, ())
    return replace(counting_problem(problem), output=Write(Coordinates.COLUMNS), tensors=(target,))


def _levels(problem: Problem, index_dtype: str) -> Problem:
    """Change `problem` so that its kernel writes levels, and also values if `problem` computes values."""
    if problem.output == Write(Coordinates.LEVELS, values=True):
        return replace(problem, column_dtype=index_dtype)
    return replace(column_problem(problem, index_dtype), output=Write(Coordinates.LEVELS))


def read_assembly(recipe: str) -> AssemblyCall:
    """Read a call from its recipe. Raises JsparseError for any other text."""
    try:
        _, version, params, terms, operands, results, ordered, *values = json.loads(recipe)
        check_version("an assembly recipe", version, VERSION)
        read = tuple(AssemblyTerm(str(columns)) for _, columns, _ in terms)
        stated = [[counts, tuple(widths)] for counts, _, widths in terms]
        if stated != [[term.counts, term.widths] for term in read]:
            raise ValueError("its kernels do not count the entries that they write")
        factors, value_bytes, *source = map(int, values)
        if source not in ([], [1]):
            raise ValueError("it has more parts")
        flags, count = tuple(map(bool, operands)), int(results)
        return AssemblyCall(
            tuple(map(int, params)), read, flags, count, bool(ordered), "", factors, value_bytes, bool(source)
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of an assembly, but got {recipe[:80]!r}: {error}") from error
