"""The parameter of the primitive `entries`, and the compiler problem that it describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.output_kind import Coordinates, Write
from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.scalar import Number, Scalar, product_of
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.compiler.schedule.search.ordered import plan_in_order
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.compiler.statement import Statement
from jsparse.formats import Pattern, PatternType
from jsparse.notation import IndexVar
from jsparse.notation.einsum import operand_name
from jsparse.primitives.assembly import OutputPattern, plan_assembly
from jsparse.primitives.spec import Spec, check_shape, split_by_counts


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Entries:
    """A sum of products on the entries that the products reach; without terms, only the pattern of these entries.

    Attributes:
        reached: the coordinates that are reached, and the patterns that reach them.
        coefficients: the number that multiplies each term.
        specs: each term as an einsum on the result's pattern. That pattern is the last of the spec's walks; the walks
            before it are the patterns of `reached.terms`. Empty if the primitive computes index arrays, but no values.
        result: a static pattern, if the primitive returns only values; or the type of a dynamic pattern, if the
            primitive returns index arrays and values.
        schedule: steps that the kernel has to have; None if the scheduler decides everything.
        lead: the leading axes of all index arrays, for a batch of patterns without values.
    """

    reached: OutputPattern
    coefficients: tuple[float, ...]
    specs: tuple[Spec, ...]
    result: Pattern | PatternType
    schedule: Schedule | None = None
    lead: tuple[int, ...] = ()

    @property
    def order(self) -> tuple[IndexVar, ...]:
        """The result's index variables in storage order."""
        return tuple(self.reached.kept[dim] for dim in self.result.format.order)

    @property
    def is_fused(self) -> bool:
        """Whether one kernel may find the result's entries and compute their values.

        Loops over sparse levels have to bind all index variables, and reach the entries in storage order. So the result
        may have no dense levels at its end, and sparse factors must carry all summed index variables. A static result
        must have fewer than 2**31 slots, because the kernel's offsets of chunks are int32.
        """
        if isinstance(self.result, Pattern) and self.result.nse >= 2**31:
            return False
        format, sums_dense = self.result.format, any(map(self._sums_dense, range(len(self.specs))))
        if sums_dense or format.trailing_dense or not format.appends or not self.reached.walks:
            return False
        return plan_assembly(self.reached, self.order).is_ordered

    def _sums_dense(self, term: int) -> bool:
        """Whether a term is summed over an index variable that only dense factors carry."""
        walked = {v for n in self.reached.terms[term] for v in self.reached.walks[n].indices}
        return any(v not in walked and v not in self.reached.kept for v, _ in self.specs[term].sizes)

    @property
    def semiring(self) -> Semiring:
        """The semiring of all terms. Only (+, ·) admits several terms."""
        return self.specs[0].semiring if self.specs else PLUS_TIMES

    def split(self, operands: Sequence[Any]) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
        """Split operands into the factors of each term and the index arrays of each pattern."""
        counts = (*(len(spec.factors) for spec in self.specs), *(walk.operand_count for walk in self.reached.walks))
        parts = split_by_counts(operands, counts)
        return parts[: len(self.specs)], parts[len(self.specs) :]

    def check_operands(self, operands: Sequence[Any]) -> None:
        """Raise LeafError unless the operands have the required shapes and dtypes (see `Spec.check_operands`)."""
        factors, index = self.split(operands)
        for spec, arrays in zip(self.specs, factors, strict=True):
            for n, (x, stored) in enumerate(zip(arrays, spec.factors, strict=True)):
                check_shape(x, spec.shape(stored), None, f"factor {n} of {spec.text}")
        for walk, arrays in zip(self.reached.walks, index, strict=True):
            walk.check_index(arrays, self.lead, f"a sum on {self.result!r}")

    def dtypes(self, operands: Sequence[Any]) -> tuple[str, ...]:
        """The names of the dtypes of the result and of all factors."""
        factors = self.split(operands)[0]
        result = self.specs[0].dtype_of(factors[0])
        return (result.name, *(np.dtype(x.dtype).name for of_term in factors for x in of_term))

    def problem(self, dtypes: Sequence[str]) -> Problem:
        """Return the compiler problem. `dtypes` lists the dtypes of the result and of all factors.

        The kernel writes values, and for a dynamic pattern also coordinates.
        """
        counting = self.reached.problem()
        result, *of_factors = dtypes
        left = iter(of_factors)
        tensors = [TensorType("R", result, ())]
        statements = []
        for number, (spec, patterns) in enumerate(zip(self.specs, self.reached.terms, strict=True)):
            named = [(f"{operand_name(n)}{number or ''}", term) for n, term in enumerate(spec.factors)]
            factors = tuple(spec.access(name, term) for name, term in named)
            tensors += [TensorType(name, next(left), spec.axes(term, patterns)) for name, term in named]
            scale = self.coefficients[number]
            scaled: tuple[Scalar, ...] = factors if scale == 1 else (Number(scale), *factors)
            value = product_of(self.semiring.multiply, scaled, self.semiring.one(result))
            statements.append(Statement(counting.target, value, self.semiring.add, patterns))
        known = {v for v, _ in counting.sizes}
        more = {v: size for spec in self.specs for v, size in spec.sizes if v not in known}
        return replace(
            counting, statements=tuple(statements), tensors=tuple(tensors), sizes=(*counting.sizes, *more.items()),
            output=Write(Coordinates.NONE if isinstance(self.result, Pattern) else Coordinates.LEVELS, values=True),
        )  # fmt: skip


@memoize(maxsize=256)
def entries_plan(work: Entries, dtypes: tuple[str, ...]) -> Plan:
    """The plan of the kernel that finds the entries and computes their values."""
    chosen = plan_in_order(work.problem(dtypes), work.reached.scheduler_patterns, work.order, work.schedule)
    assert chosen is not None
    return chosen
