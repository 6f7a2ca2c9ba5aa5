"""Entries: what the primitive `entries` computes, as a value, and the compiler's problem of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.output import Coordinates, Write
from jsparse.compiler.problem import Addend, Problem, TensorType
from jsparse.compiler.schedule import Plan
from jsparse.compiler.schedule.ordered import ordered_plan
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.formats import DynamicType, Pattern
from jsparse.notation import Assignment, IndexVar
from jsparse.notation.einsum import operand_name
from jsparse.primitives.assembly import OutputPattern, find_places
from jsparse.primitives.spec import Spec, check_shape, divided

__all__ = ["Entries", "entries_plan"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Entries:
    """What is computed.

    Attributes:
        reached: the places, and the patterns that lead there.
        coefficients: of each term.
        specs: each term as an einsum on the result's pattern, which is the last of its walks; the walks before are
            those that `reached.terms` names.
        result: the pattern, or the type of one that is found as well: then the results are its index arrays and the
            values; else just the values.
    """

    reached: OutputPattern
    coefficients: tuple[float, ...]
    specs: tuple[Spec, ...]
    result: Pattern | DynamicType

    @property
    def order(self) -> tuple[IndexVar, ...]:
        """The result's indices as it stores them."""
        return tuple(self.reached.kept[dim] for dim in self.result.format.order)

    @property
    def is_fused(self) -> bool:
        """Whether loops reach the result's entries in storage order, and leave no index variable to vector lanes.

        Chunk offsets of a static pattern are int32, so that a larger result is not fused.
        """
        if isinstance(self.result, Pattern) and self.result.nse >= 2**31:
            return False
        if (
            any(self._sums_dense(n) for n in range(len(self.specs)))
            or self.result.format.trailing_dense
            or not self.result.format.appends
            or not self.reached.walks
        ):
            return False
        return find_places(self.reached, self.order).is_ordered

    def _sums_dense(self, term: int) -> bool:
        """Whether a term is summed over an index that only dense factors carry."""
        walked = {v for n in self.reached.terms[term] for v in self.reached.walks[n].indices}
        return any(v not in walked and v not in self.reached.kept for v, _ in self.specs[term].sizes)

    @property
    def semiring(self) -> Semiring:
        """Of all terms; there is one only, unless it is that of sums and products."""
        return self.specs[0].semiring if self.specs else PLUS_TIMES

    def split(self, operands: Sequence[Any]) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
        """The factors of each term, and the index arrays of each pattern."""
        counts = (*(len(spec.factors) for spec in self.specs), *(walk.operand_count for walk in self.reached.walks))
        parts = divided(operands, counts)
        return parts[: len(self.specs)], parts[len(self.specs) :]

    def check_operands(self, operands: Sequence[Any]) -> None:
        """As `Spec.check_operands`."""
        factors, index = self.split(operands)
        for spec, arrays in zip(self.specs, factors, strict=True):
            for n, (x, stored) in enumerate(zip(arrays, spec.factors, strict=True)):
                check_shape(x, spec.shape(stored), None, f"factor {n} of {spec.text}")
        for walk, arrays in zip(self.reached.walks, index, strict=True):
            walk.check_index(arrays, (), f"a sum on {self.result!r}")

    def dtypes(self, operands: Sequence[Any]) -> tuple[str, ...]:
        """Of the result and of all factors."""
        factors = self.split(operands)[0]
        result = self.specs[0].dtype_of(factors[0])
        return (result.name, *(np.dtype(x.dtype).name for of_term in factors for x in of_term))

    def problem(self, dtypes: Sequence[str]) -> Problem:
        """The compiler's problem; `dtypes` are those of the result and of all factors. Of a static pattern only the
        values are written."""
        counting = self.reached.problem()
        result, *of_factors = dtypes
        left = iter(of_factors)
        tensors = [TensorType("R", result, ())]
        terms = []
        for number, (spec, patterns) in enumerate(zip(self.specs, self.reached.terms, strict=True)):
            named = [(f"{operand_name(n)}{number or ''}", term) for n, term in enumerate(spec.factors)]
            factors = tuple(spec.access(name, term) for name, term in named)
            tensors += [TensorType(name, next(left), spec.axes(term, patterns)) for name, term in named]
            terms.append(Addend(self.coefficients[number], factors, patterns))
        known = {v for v, _ in counting.sizes}
        more = {v: size for spec in self.specs for v, size in spec.sizes if v not in known}
        return replace(
            counting, tensors=tuple(tensors), terms=tuple(terms), sizes=(*counting.sizes, *more.items()),
            assignment=Assignment(counting.assignment.target, ()), semiring=self.semiring,
            output=Write(Coordinates.NONE if isinstance(self.result, Pattern) else Coordinates.LEVELS, values=True),
        )  # fmt: skip


@remembered(maxsize=256)
def entries_plan(work: Entries, dtypes: tuple[str, ...]) -> Plan:
    """The plan that finds and computes the entries."""
    found = ordered_plan(work.problem(dtypes), work.reached.stored, work.order)
    assert found is not None
    return found
