"""What `entries` computes, in two steps: the pattern, then each term by `einsum` on it.

That is how it is batched, differentiated and transposed.
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
from jsparse.primitives.places import listed_arrays
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
    return () if isinstance(work.result, Pattern) else listed_arrays(work.reached, index, work.result)


def term(work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any]) -> Any:
    """One term on the result's pattern, which has these index arrays."""
    spec, more, scale = _scaled(work, number, work.specs[number].dtype_of(factors))
    taken = term_operands(work, number, (*factors, *more), index, arrays)
    out = einsum_p.bind(*_compat.same_varying(taken), spec=spec)
    return out if scale is None else out * scale


def term_transposed(
    work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any], cotangent: Any
) -> list[Any]:
    """For each factor of a term its cotangent if it is unknown, else None."""
    spec, more, scale = _scaled(work, number, cotangent.dtype)
    taken = term_operands(work, number, (*factors, *more), index, arrays)
    found: list[Any] = transposed(einsum_p, cotangent if scale is None else cotangent * scale, *taken, spec=spec)
    return found[: len(factors)]


def term_operands(
    work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any]
) -> tuple[Any, ...]:
    """What a term takes as an einsum of its own."""
    walks = zip(work.reached.terms[number], work.specs[number].walks, strict=False)
    given = (index[n][: walk.operand_count] for n, walk in walks)
    return (*factors, *(array for of in given for array in of), *arrays)


def _scaled(work: Entries, number: int, dtype: np.dtype) -> tuple[Spec, tuple[np.ndarray, ...], np.ndarray | None]:
    """A term's einsum, its factors besides, and by what its result of that dtype is multiplied. An infinite number is a
    factor like others: behind the product, slots out of use would not stay 0."""
    spec, scale = work.specs[number], as_dtype(work.coefficients[number], dtype)
    if not np.isfinite(scale):
        return replace(spec, factors=(*spec.factors, Term(()))), (scale,), None
    return spec, (), None if work.coefficients[number] == 1 else scale
