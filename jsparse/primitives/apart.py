"""The unfused form of `entries`: it finds the pattern first, then computes each term by `einsum` on that pattern.

Batching, differentiation and transposition of `entries` use this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from jsparse import _compat
from jsparse.compiler.dtypes import as_dtype
from jsparse.formats import Pattern
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.multilinear import transposed
from jsparse.primitives.output_pattern import assemble_arrays
from jsparse.primitives.spec import Spec, Term

__all__ = ["apart", "pattern_arrays", "term", "term_operands", "term_transposed"]

Index = Sequence[Sequence[Any]]  # the index arrays of each pattern that is walked


def apart(*operands: Any, work: Entries) -> list[Any]:
    """The results of `entries`: the index arrays of a dynamic pattern, and the values on it."""
    factors, index = work.split(operands)
    arrays = pattern_arrays(work, index)
    return [*arrays, reduce(add, (term(work, n, own, index, arrays) for n, own in enumerate(factors)))]


def pattern_arrays(work: Entries, index: Index) -> tuple[Any, ...]:
    """The index arrays of the result's pattern if it is dynamic."""
    return () if isinstance(work.result, Pattern) else assemble_arrays(work.reached, index, work.result)


def term(work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any]) -> Any:
    """Compute one term on the result's pattern. `arrays` are that pattern's index arrays."""
    spec, more, scale = _scaled(work, number, work.specs[number].dtype_of(factors))
    taken = term_operands(work, number, (*factors, *more), index, arrays)
    out = einsum_p.bind(*_compat.same_varying(taken), spec=spec)
    return out if scale is None else out * scale


def term_transposed(
    work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any], cotangent: Any
) -> list[Any]:
    """Transpose one term: the cotangent of each unknown factor, and None for each known one."""
    spec, more, scale = _scaled(work, number, cotangent.dtype)
    taken = term_operands(work, number, (*factors, *more), index, arrays)
    found: list[Any] = transposed(einsum_p, cotangent if scale is None else cotangent * scale, *taken, spec=spec)
    return found[: len(factors)]


def term_operands(
    work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any]
) -> tuple[Any, ...]:
    """The operands of a term's own `einsum`: factors, index arrays of its patterns, and those of the result."""
    walks = zip(work.reached.terms[number], work.specs[number].walks, strict=False)
    given = (index[n][: walk.operand_count] for n, walk in walks)
    return (*factors, *(array for of in given for array in of), *arrays)


def _scaled(work: Entries, number: int, dtype: np.dtype) -> tuple[Spec, tuple[np.ndarray, ...], np.ndarray | None]:
    """A term's einsum, its additional factors, and the number of that dtype that multiplies its result, or None."""
    spec, scale = work.specs[number], as_dtype(work.coefficients[number], dtype)
    if not np.isfinite(scale):
        # As a factor it multiplies stored products only. Applied to the result it would turn padding from 0 into NaN.
        return replace(spec, factors=(*spec.factors, Term(()))), (scale,), None
    return spec, (), None if work.coefficients[number] == 1 else scale
