"""`entries`: a sum of products on exactly the entries that it reaches. One kernel finds the pattern and the values.

    R = Σₜ cₜ Σ X₁ · … · Xₙ

The sum is linear in each factor, and its pattern does not depend on their values. So its JVP is a sum of `einsum`s on
that pattern (for semirings other than (+, ·) see `primitives.semiring_jvp`). Its transpose finds the pattern once more,
and transposes the `einsum` of each term on it. Batches are computed in two steps, see `primitives.apart`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.compiler.runtime.kernel_call import OPERAND, call_of
from jsparse.compiler.runtime.symbolic import chunk_counts
from jsparse.compiler.schedule import Plan
from jsparse.formats import Pattern
from jsparse.primitives.apart import apart, pattern_arrays, term, term_operands, term_transposed
from jsparse.primitives.assembly import assemble_with, ordered_assembly
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.movement import bound_names, static_patterns, value_permutations
from jsparse.primitives.multilinear import pattern_is_unknown
from jsparse.primitives.routine import array_results
from jsparse.primitives.semiring_jvp import semiring_jvp

__all__ = ["entries_p"]


def _abstract(*operands: Any, work: Entries) -> Any:
    work.check_operands(operands)
    results = () if isinstance(work.result, Pattern) else array_results(work.result)
    avals = [_compat.output_aval(shape, dtype, operands) for shape, dtype in results]
    return [*avals, _compat.output_aval((work.result.nse,), np.dtype(work.dtypes(operands)[0]), operands)]


def _execute(*operands: Any, work: Entries) -> list[Any]:
    """Permute values to the storage orders in which their patterns are walked, then call the kernel once."""
    dtypes = work.dtypes(operands)
    chosen = entries_plan(work, dtypes)
    factors, index = work.split(operands)
    moves = value_permutations(work.reached.walks, chosen.patterns, index)
    moved = []
    for arrays, spec, patterns in zip(factors, work.specs, work.reached.terms, strict=True):
        for x, of in zip(arrays, spec.factors, strict=True):
            move = None if of.on is None else moves[patterns[of.on]]
            moved.append(x if move is None else move.apply(x, 0, spec.slot_size(of), back=False))
    if isinstance(work.result, Pattern):
        return [_values_on(work.result, work, chosen, moved, np.dtype(dtypes[0]))]
    found = ordered_assembly(work.reached, chosen)
    return list(assemble_with(work.reached, found, index, work.result, moved, np.dtype(dtypes[0])))


def _values_on(result: Pattern, work: Entries, chosen: Plan, factors: Sequence[Any], dtype: np.dtype) -> jax.Array:
    """The values on a static pattern. The offset of each chunk's values is known, too, and bound as an operand."""
    walks, counts = work.reached.walks, chunk_counts(chosen)
    starts = jnp.asarray(np.cumsum(counts) - counts, np.int32)
    call = call_of(chosen.problem, chosen.schedule, (*bound_names(walks, chosen.patterns), OPERAND))
    keepalive = (*static_patterns(walks), result)
    return call_kernel(call, (*factors, starts), (result.nse,), dtype, keepalive)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, work: Entries) -> Any:
    out = entries_p.bind(*primals, work=work)
    arrays, values = out[:-1], out[-1]
    factors, index = work.split(primals)
    if not work.semiring.is_linear:
        taken = term_operands(work, 0, factors[0], index, arrays)
        tangent = semiring_jvp(einsum_p, taken, work.split(tangents)[0][0], values, work.specs[0])
        return out, [*(_compat.add_tangents((), x) for x in arrays), tangent]
    parts = []
    for number, (own, changes) in enumerate(zip(factors, work.split(tangents)[0], strict=True)):
        for n, tangent in enumerate(changes):
            if type(tangent) is not _compat.Zero:
                moved = (*own[:n], tangent, *own[n + 1 :])
                parts.append(term(work, number, moved, index, arrays))
    return out, [*(_compat.add_tangents((), x) for x in arrays), _compat.add_tangents(parts, values)]


def _transpose(cotangents: Sequence[Any], *operands: Any, work: Entries) -> list[Any]:
    """Transpose the einsum of each term with an unknown factor, on the pattern, which is found once more."""
    cotangent, (factors, index) = cotangents[-1], work.split(operands)
    if any(_compat.is_undefined(array) for of in index for array in of):
        raise pattern_is_unknown()
    if type(cotangent) is _compat.Zero:
        return [_compat.Zero(x.aval) if _compat.is_undefined(x) else None for x in operands]
    arrays = pattern_arrays(work, index)
    found: list[Any] = []
    for number, own in enumerate(factors):
        known = not any(map(_compat.is_undefined, own))
        found += [None] * len(own) if known else term_transposed(work, number, own, index, arrays, cotangent)
    return [*found, *[None] * (len(operands) - len(found))]


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, work: Entries) -> Any:
    out = jax.vmap(lambda *x: apart(*x, work=work), in_axes=tuple(axes))(*operands)
    return out, [0] * len(out)


def _has_known_pattern(known: Sequence[bool], work: Entries) -> bool:
    """Whether all index arrays are known although some values are not, so that the pattern can be found first."""
    of_factors, of_index = work.split(known)
    found = all(flag for of in of_index for flag in of) and not all(flag for of in of_factors for flag in of)
    return found and not isinstance(work.result, Pattern)


_compat.cache_weakly(Entries)
entries_p = _compat.make_primitive("jsparse_entries", _abstract, multiple_results=True)
_compat.register_jvp(entries_p, _jvp)
_compat.register_transpose(entries_p, _transpose)
_compat.register_split(entries_p, _has_known_pattern, apart)
_compat.register_batching(entries_p, _batch)
_compat.register_cpu_lowering(entries_p, _compat.lower_as(_execute, multiple_results=True))
