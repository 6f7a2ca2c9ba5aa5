"""`entries`: a sum of products, on exactly the entries that the products reach. One kernel finds pattern and values.

    R = Σₜ cₜ Σ X₁ · … · Xₙ

The sum is linear in each factor, and its pattern does not depend on the factors' values. So its JVP is a sum of
`einsum`s on that pattern (for semirings other than (+, ·) see `primitives.einsum`). The transpose finds the pattern
again, and transposes the `einsum` of each term on that pattern. Without terms there are no values, and the result is
the pattern, which has no derivative. A batch with values is computed in two steps: patterns, then values (`apart`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, cast

import jax
import numpy as np

from jsparse import _compat
from jsparse.compiler.dtypes import as_dtype
from jsparse.formats import Pattern, PatternType
from jsparse.primitives.assembly import OutputPattern
from jsparse.primitives.batch import move_batch_in_front
from jsparse.primitives.einsum import einsum_p, semiring_jvp, transpose_einsum
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.routine import array_results, pattern_is_unknown
from jsparse.primitives.spec import ArrayAccess, Spec


def _abstract(*operands: Any, work: Entries) -> Any:
    work.check_operands(operands)
    results = list(array_results(work.result))
    if work.specs:
        results.append(((work.result.nse,), np.dtype(work.dtypes(operands)[0])))
    return [_compat.output_aval((*work.lead, *shape), dtype, operands) for shape, dtype in results]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, work: Entries) -> Any:
    out = entries_p.bind(*primals, work=work)
    if not work.specs:
        return out, [_compat.add_tangents((), x) for x in out]
    arrays, values = out[:-1], out[-1]
    factors, index = work.split(primals)
    if not work.semiring.is_linear:
        taken = term_operands(work, 0, factors[0], index, arrays)
        tangent = semiring_jvp(taken, work.split(tangents)[0][0], values, work.specs[0])
        return out, [*(_compat.add_tangents((), x) for x in arrays), tangent]
    parts = []
    for number, (of_term, changes) in enumerate(zip(factors, work.split(tangents)[0], strict=True)):
        for n, tangent in enumerate(changes):
            if type(tangent) is not _compat.Zero:
                moved = (*of_term[:n], tangent, *of_term[n + 1 :])
                parts.append(term(work, number, moved, index, arrays))
    return out, [*(_compat.add_tangents((), x) for x in arrays), _compat.add_tangents(parts, values)]


def _transpose(cotangents: Sequence[Any], *operands: Any, work: Entries) -> list[Any]:
    """Find the pattern again, and transpose the einsum on it of each term that has an unknown factor."""
    cotangent, (factors, index) = cotangents[-1], work.split(operands)
    if any(_compat.is_undefined(array) for of in index for array in of):
        raise pattern_is_unknown()
    if type(cotangent) is _compat.Zero:
        return [_compat.Zero(x.aval) if _compat.is_undefined(x) else None for x in operands]
    arrays = pattern_arrays(work, index)
    out: list[Any] = []
    for number, of_term in enumerate(factors):
        known = not any(map(_compat.is_undefined, of_term))
        out += [None] * len(of_term) if known else term_transposed(work, number, of_term, index, arrays, cotangent)
    return [*out, *[None] * (len(operands) - len(out))]


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, work: Entries) -> Any:
    if work.specs:
        out = jax.vmap(lambda *x: apart(*x, work=work), in_axes=tuple(axes))(*operands)
        return out, [0] * len(out)
    size, moved = move_batch_in_front(operands, axes)
    out = entries_p.bind(*moved, work=replace(work, lead=(size, *work.lead)))
    return out, [0] * len(out)


def _has_known_pattern(known: Sequence[bool], work: Entries) -> bool:
    """Return whether a dynamic pattern can be found before its values are known.

    This holds if some factors are unknown, but all index arrays are known.
    """
    of_factors, of_index = work.split(known)
    is_split = all(flag for of in of_index for flag in of) and not all(flag for of in of_factors for flag in of)
    return is_split and not isinstance(work.result, Pattern)


Index = Sequence[Sequence[Any]]  # the index arrays of each pattern that is walked


def apart(*operands: Any, work: Entries) -> list[Any]:
    """Compute the results of `entries` in two steps: the index arrays of a dynamic pattern, then the values on it."""
    factors, index = work.split(operands)
    arrays = pattern_arrays(work, index)
    return [*arrays, reduce(add, (term(work, n, of_term, index, arrays) for n, of_term in enumerate(factors)))]


def pattern_arrays(work: Entries, index: Index) -> tuple[Any, ...]:
    """Compute the index arrays of the result's pattern; none if the pattern is static."""
    return () if isinstance(work.result, Pattern) else assemble_arrays(work.reached, index, work.result)


def assemble_arrays(reached: OutputPattern, index: Index, type_: PatternType) -> tuple[Any, ...]:
    """Compute the index arrays of a pattern of type `type_` with an entry at every coordinate tuple of `reached`.

    Args:
        index: the operands of each walked pattern (see `PatternAccess.array_counts`); none for a static pattern.
    """
    operands = _compat.same_varying([array for arrays in index for array in arrays])
    return tuple(entries_p.bind(*operands, work=Entries(reached, (), (), type_)))


def term(work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any]) -> Any:
    """Compute one term on the result's pattern. `arrays` are that pattern's index arrays."""
    spec, more, scale = _scale_term(work, number, work.specs[number].dtype_of(factors))
    taken = term_operands(work, number, (*factors, *more), index, arrays)
    out = einsum_p.bind(*_compat.same_varying(taken), spec=spec)
    return out if scale is None else out * scale


def term_transposed(
    work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any], cotangent: Any
) -> list[Any]:
    """Transpose one term. Return the cotangent of each unknown factor, and None for each known factor."""
    spec, more, scale = _scale_term(work, number, cotangent.dtype)
    taken = term_operands(work, number, (*factors, *more), index, arrays)
    cotangents = transpose_einsum(cotangent if scale is None else cotangent * scale, *taken, spec=spec)
    return cast("list[Any]", cotangents[: len(factors)])


def term_operands(
    work: Entries, number: int, factors: Sequence[Any], index: Index, arrays: Sequence[Any]
) -> tuple[Any, ...]:
    """Return the operands of a term's `einsum`: the factors, and the index arrays of its patterns and of the result."""
    walks = zip(work.reached.terms[number], work.specs[number].walks, strict=False)
    of_walks = (index[n][: walk.operand_count] for n, walk in walks)
    return (*factors, *(array for of in of_walks for array in of), *arrays)


def _scale_term(work: Entries, number: int, dtype: np.dtype) -> tuple[Spec, tuple[np.ndarray, ...], np.ndarray | None]:
    """Return a term's einsum, its additional factors, and the scale of its result in `dtype` (None if not needed)."""
    spec, scale = work.specs[number], as_dtype(work.coefficients[number], dtype)
    if not np.isfinite(scale):
        # As a factor it multiplies stored products only. Applied to the result it would turn padding from 0 into NaN.
        return replace(spec, factors=(*spec.factors, ArrayAccess(()))), (scale,), None
    return spec, (), None if work.coefficients[number] == 1 else scale


_compat.cache_weakly(Entries)
entries_p = _compat.make_primitive("jsparse_entries", _abstract, multiple_results=True)
_compat.register_jvp(entries_p, _jvp)
_compat.register_transpose(entries_p, _transpose)
_compat.register_split(entries_p, _has_known_pattern, apart)
_compat.register_batching(entries_p, _batch)
