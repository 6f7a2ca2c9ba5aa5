"""Patterns that come out of other patterns: all places that products of sparse operands reach.

    in order    bound what each chunk of one plan may write; run them, each of which writes its part of every level;
                join the parts (`csrc/routines/ordered_assembly.cc`)
    else        for each term: count the columns of coordinates, chunk by chunk; write them; then sort all, each place
                once (`csrc/routines/unordered_assembly.cc`)

The loops that count and write are kernels like any other (`lower.assembly`). Nothing is as large as a dimension,
whatever the formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from jsparse import _native
from jsparse.compiler.backends.backend import CompiledKernel
from jsparse.compiler.lower.buffer_types import buffer_types
from jsparse.compiler.output import Coordinates, Count, Write
from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.runtime.routine import Parameters, has_batch, with_batch
from jsparse.compiler.schedule import Plan
from jsparse.compiler.semiring import PLUS_TIMES
from jsparse.compiler.signature import BufferType, Length, fixed
from jsparse.errors import JsparseError

__all__ = ["AssemblyCall", "AssemblyTerm", "assembly_term", "counting", "is_assembly", "listing", "read_assembly"]

VERSION = 2


@dataclass(frozen=True, slots=True)
class AssemblyTerm:
    """The two kernels of one term, as recipes, and the bytes of an element of each index array they walk."""

    counts: str
    columns: str
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AssemblyCall:
    """The call that finds the pattern of a sum of terms.

    Attributes:
        params: the pattern's type, as `compiler.runtime.routine.parameters` says it.
        operands: of all terms' index arrays, those that come as operands.
        is_ordered: the one term gives the pattern's levels, in order; else columns are sorted.
        bound: the names of the others, which are no part of the recipe.
        factors: operands in front of the index arrays, whose products are the values, of so many bytes each, that are
            the last result; 0 where only the pattern is found.
    """

    params: tuple[int, ...]
    terms: tuple[AssemblyTerm, ...]
    operands: tuple[bool, ...]
    results: int
    is_ordered: bool = False
    bound: str = ""
    factors: int = 0
    value_bytes: int = 0

    @property
    def recipe(self) -> str:
        """The call as text."""
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
            ],
            separators=(",", ":"),
        )

    @property
    def address(self) -> int:
        """Where the code that runs the terms lies in this process."""
        return _native.routine("ordered" if self.is_ordered else "unordered")

    @property
    def slots(self) -> list[int]:
        """Bound in front: the parameters, the table of terms; then index arrays, each an operand or bound."""
        count = self.factors + sum(self.operands)
        operands, bound = iter(range(self.factors, count)), iter(range(-3, -3 - len(self.operands), -1))
        arrays = [next(operands) if operand else next(bound) for operand in self.operands]
        return [-1, -2, *range(self.factors), *arrays, *range(count, count + self.results)]

    @property
    def buffer_types(self) -> list[BufferType]:
        """Of the parameters and the table of terms, of factors, index arrays and results."""
        given, flags = Parameters.read(self.params), iter(self.operands)
        factors: list[BufferType] = []
        arrays: list[BufferType] = []
        for number, term in enumerate(self.terms):
            problem, _ = read_recipe(term.columns)
            types = [type_.within(f"t{number} ") for type_ in buffer_types(problem)]
            own = len(problem.tensors) - 1
            factors += types[:own]
            arrays += [
                type_.batched(given.batch) if next(flags) and self.is_batched else type_
                for type_ in types[own : own + len(term.widths)]
            ]
        values = [BufferType(self.value_bytes, (Length(given.type.nse),))] if self.value_bytes else []
        found = [type_.batched(given.batch) if self.is_batched else type_ for type_ in (*given.arrays(), *values)]
        if len(factors) != self.factors or len(arrays) != len(self.operands) or len(found) != self.results:
            raise JsparseError(f"Expected lists that state the buffers of their terms, but got {self.recipe[:80]!r}.")
        table = 3 + sum(3 + len(term.widths) for term in self.terms)
        return [fixed("int64", len(self.params)), fixed("int64", table), *factors, *arrays, *found]

    @property
    def is_batched(self) -> bool:
        """Whether operands and results have a leading axis."""
        return has_batch(self.params)

    def batched(self, size: int) -> AssemblyCall:
        """`size` of these at once, on operands with one leading axis."""
        return replace(self, params=with_batch(self.params, size))

    def tables(self, kernel_of: Callable[[str], CompiledKernel]) -> tuple[list[np.ndarray], list[CompiledKernel]]:
        """The parameters and the table of terms as `csrc/routines/terms.h` reads them, and what has to stay alive for
        the latter."""
        table = [self.factors, self.value_bytes, len(self.terms)]
        alive: list[CompiledKernel] = []
        operands = iter(self.operands)
        for term in self.terms:
            kernels = (kernel_of(term.counts), kernel_of(term.columns))
            alive += kernels
            table += [*(kernel.address for kernel in kernels), len(term.widths)]
            table += [width if next(operands) else 0 for width in term.widths]
        return [np.array(self.params, np.int64), np.array(table, np.int64)], alive


def assembly_term(plan: Plan, index_dtype: str, backend: str) -> AssemblyTerm:
    """The kernels of a plan by a backend, coordinates being written in `index_dtype`. Of a plan with terms: one that
    bounds how much each chunk writes, which takes a pass over pointers, mostly, where counting would fill every
    workspace; and one that writes levels. Of any other: one that counts columns and one that writes them."""
    dtypes = (pattern.index_dtype for pattern in plan.problem.patterns)
    widths = (
        np.dtype(dtype).itemsize for dtype, used in zip(dtypes, plan.patterns, strict=True) for _ in used.format.arrays
    )
    counted, written = counting(plan.problem), listing(plan.problem, index_dtype)
    if plan.problem.terms:
        counted = replace(counted, output=Count(exact=False))
        written = _levels(plan.problem, index_dtype)
    counts, columns = (write_recipe(problem, plan.schedule, backend) for problem in (counted, written))
    return AssemblyTerm(counts, columns, tuple(widths))


def counting(problem: Problem) -> Problem:
    """The problem of counting the columns of another."""
    target = problem.tensors[0]
    terms = tuple(replace(term, coefficient=1, factors=()) for term in problem.terms)
    tensors = (TensorType(target.name, "int64", ()),)
    return replace(problem, output=Count(), tensors=tensors, terms=terms, column_dtype="int32", semiring=PLUS_TIMES)


def listing(problem: Problem, index_dtype: str) -> Problem:
    """The problem of writing the columns of another."""
    target = TensorType(problem.tensors[0].name, index_dtype, ())
    return replace(counting(problem), output=Write(Coordinates.COLUMNS), tensors=(target,))


def _levels(problem: Problem, index_dtype: str) -> Problem:
    """The problem of writing the levels of another, with values if it has these."""
    if problem.output == Write(Coordinates.LEVELS, values=True):
        return replace(problem, column_dtype=index_dtype)
    return replace(listing(problem, index_dtype), output=Write(Coordinates.LEVELS))


def is_assembly(recipe: str) -> bool:
    """Whether a recipe is that of an `AssemblyCall`."""
    return recipe.startswith('["lists"')


def read_assembly(recipe: str) -> AssemblyCall:
    """The call of a recipe. Raises JsparseError for any other text."""
    try:
        _, version, params, terms, operands, results, ordered, *values = json.loads(recipe)
        if version != VERSION:
            raise JsparseError(f"Expected lists of version {VERSION}, but got version {version}.")
        read = tuple(
            AssemblyTerm(str(counts), str(columns), tuple(map(int, widths))) for counts, columns, widths in terms
        )
        flags, (factors, value_bytes) = tuple(map(bool, operands)), map(int, values)
        return AssemblyCall(tuple(map(int, params)), read, flags, int(results), bool(ordered), "", factors, value_bytes)
    except (TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of lists, but got {recipe[:80]!r}: {error}") from error
