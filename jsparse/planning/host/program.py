"""A host program: the kernels of a plan, which run on other patterns of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.formats import Format, Pattern, PatternType
from jsparse.planning.host.assembly import HostEntries, HostPattern, NewFormat
from jsparse.planning.host.operands import Sources, Unfit
from jsparse.planning.host.values import RESULT, HostTerm
from jsparse.planning.output import NEW, assemble_pattern, fuse_pattern_with_values, resolve_output
from jsparse.planning.plan import DenseOutput, ProgramPlan
from jsparse.planning.signature import BarePattern, PatternRef, Request
from jsparse.primitives.host import host_arrays, on_device
from jsparse.tensor.sparse_tensor import SparseTensor, dense_levels


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The kernels of a plan that has one sum of products.

    Attributes:
        cores: the numbers of the operands whose cores are walked. The number after the operands is `out_format`.
        result: where the result is stored: None for a dense array, the number of an operand, or how it is found.
        terms: the terms of the sum. Empty if their values are found together with the pattern.
    """

    cores: tuple[int, ...]
    result: int | HostPattern | HostEntries | None
    terms: tuple[HostTerm, ...]
    dtype: np.dtype

    @staticmethod
    def of(plan: ProgramPlan, stored: Sequence[Pattern | None], request: Request) -> HostProgram:
        """Make the program from the plan of operands that are stored on these patterns. Raises Unfit."""
        if len(plan.instructions) != 1:
            raise Unfit
        work = plan.result
        if work.dtype == bool and len(work.terms) > 1:
            raise Unfit  # numpy does not subtract bools
        sources: Sources = {p.core: n for n, p in reversed([*enumerate(stored)]) if p is not None}
        cores, output, terms = tuple(sources.values()), work.output, work.terms
        resolved = resolve_output(plan.text, terms, request.output, None)
        result: int | HostPattern | None = None
        if isinstance(output, DenseOutput):
            if output.repeated:
                raise Unfit
        elif isinstance(resolved, PatternRef):
            if resolved.pattern not in stored or output.pattern != resolved.pattern:  # more dense levels, for example
                raise Unfit
            result = stored.index(resolved.pattern)
        else:
            request_format = resolved if isinstance(resolved, Format) else None
            format = NewFormat.of(terms, request_format)
            on, assembly = assemble_pattern(plan.text, terms, request_format, None)
            type_ = PatternType(on.pattern.shape, on.pattern.format, on.pattern.nse)
            moved = [term.store_on(plan.text, PatternRef(type_, NEW)) for term in terms]
            entries = fuse_pattern_with_values(replace(assembly, result=type_), moved)
            if entries is not None:
                return HostProgram(cores, HostEntries.of(entries, moved, format, sources), (), work.dtype)
            if not isinstance(on.pattern, Pattern) or on.pattern.core in sources:
                raise Unfit  # the kernels may be right only for results that are stored like an operand
            result = HostPattern.of(assembly, format, sources)
            terms = tuple(term.store_on(plan.text, on) for term in terms)
            sources[on.pattern.core] = RESULT
        return HostProgram(cores, result, tuple(HostTerm.of(term, sources) for term in terms), work.dtype)

    def run(self, operands: Sequence[object], stored: Sequence[Pattern | None]) -> jax.Array | SparseTensor:
        """Compute the result for operands on these patterns."""
        arrays = host_arrays(values_of(operands))
        cores = {n: p.core for n, p in enumerate(stored) if p is not None and n in self.cores}
        pattern: Pattern | None
        if isinstance(self.result, HostEntries):
            pattern, out = self.result.find(arrays, cores)
        else:
            pattern = self.result.find(cores) if isinstance(self.result, HostPattern) else None
            if isinstance(self.result, int):
                pattern = stored[self.result]
            if pattern is not None:
                cores[RESULT] = pattern.core
            out = reduce(add, (term.run(arrays, cores) for term in self.terms))
        values = on_device([out.astype(self.dtype, copy=False)], values_of(operands))[0]
        if pattern is not None and pattern.format.is_dense:
            return dense_levels(values, pattern.format)
        return values if pattern is None else SparseTensor._wrap(values, pattern)


def values_of(operands: Sequence[object]) -> list[object]:
    """The array of each operand; an empty one for a pattern without values."""
    return [
        x.values if isinstance(x, SparseTensor) else np.empty(0, np.int32) if isinstance(x, BarePattern) else x
        for x in operands
    ]
