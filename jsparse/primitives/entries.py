"""`entries`: a sum of products on exactly the places that it reaches, found and computed in one walk.

    R = Σₜ cₜ Σ X₁ · … · Xₙ

It is linear in each factor, and its pattern does not depend on their values. So its JVP is a sum of `einsum`s on that
pattern (by another semiring than this, what `primitives.changes` makes of one), and there is nothing else to
differentiate. In its transpose the pattern is found once more, and the `einsum` of each term on it is transposed.
Whatever this cannot do (batches) is done in two steps; see `primitives.apart`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.compiler.assembly import chunk_counts
from jsparse.compiler.problem import Addend, Problem, TensorType
from jsparse.compiler.runtime import OPERAND, call_of
from jsparse.compiler.schedule import Plan
from jsparse.compiler.schedule.ordered import ordered_plan
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.formats import DynamicType, Pattern
from jsparse.memo import remembered
from jsparse.notation import Assignment, IndexVar
from jsparse.notation.einsum import operand_name
from jsparse.primitives.apart import apart, pattern_arrays, term, term_operands, term_transposed
from jsparse.primitives.changes import changed
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.lists import Reached, find_places, in_order, list_places
from jsparse.primitives.movement import bound_names, movements, static_patterns
from jsparse.primitives.multilinear import pattern_is_unknown
from jsparse.primitives.routine import array_results
from jsparse.primitives.spec import Spec, check_shape, divided

__all__ = ["Entries", "entries_p", "entries_plan"]


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

    reached: Reached
    coefficients: tuple[float, ...]
    specs: tuple[Spec, ...]
    result: Pattern | DynamicType

    @property
    def order(self) -> tuple[IndexVar, ...]:
        """The result's indices as it stores them."""
        return tuple(self.reached.kept[dim] for dim in self.result.format.order)

    @property
    def is_fused(self) -> bool:
        """Whether there are loops that reach the result's places in its order, and no index for vector lanes; where a
        known pattern's chunks begin is told in 32 bits."""
        if isinstance(self.result, Pattern) and self.result.nse >= 2**31:
            return False
        if (
            any(self._sums_dense(n) for n in range(len(self.specs)))
            or self.result.format.trailing_dense
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
        """The compiler's problem; `dtypes` are those of the result and of all factors. Of a known pattern only the
        values are wanted."""
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
            wanted="listed values" if isinstance(self.result, Pattern) else "entries",
        )  # fmt: skip


@remembered(maxsize=256)
def entries_plan(work: Entries, dtypes: tuple[str, ...]) -> Plan:
    """The plan that finds and computes the entries."""
    found = ordered_plan(work.problem(dtypes), work.reached.stored, work.order)
    assert found is not None
    return found


def _abstract(*operands: Any, work: Entries) -> Any:
    work.check_operands(operands)
    results = () if isinstance(work.result, Pattern) else array_results(work.result)
    avals = [_compat.output_aval(shape, dtype, operands) for shape, dtype in results]
    return [*avals, _compat.output_aval((work.result.nse,), np.dtype(work.dtypes(operands)[0]), operands)]


def _execute(*operands: Any, work: Entries) -> list[Any]:
    """Values to the order in which their patterns are walked, then one call."""
    dtypes = work.dtypes(operands)
    chosen = entries_plan(work, dtypes)
    factors, index = work.split(operands)
    moves = movements(work.reached.walks, chosen.patterns, index)
    moved = []
    for arrays, spec, patterns in zip(factors, work.specs, work.reached.terms, strict=True):
        for x, of in zip(arrays, spec.factors, strict=True):
            move = None if of.on is None else moves[patterns[of.on]]
            moved.append(x if move is None else move.apply(x, 0, spec.slot_size(of), back=False))
    if isinstance(work.result, Pattern):
        return [_known_places(work, chosen, moved, work.result, np.dtype(dtypes[0]))]
    found = in_order(work.reached, chosen)
    return list(list_places(work.reached, found, index, work.result, moved, np.dtype(dtypes[0])))


def _known_places(work: Entries, chosen: Plan, factors: Sequence[Any], result: Pattern, dtype: np.dtype) -> jax.Array:
    """The values only, of patterns that are all known: so is where the values of each chunk begin."""
    walks, counts = work.reached.walks, chunk_counts(chosen)
    starts = jnp.asarray(np.cumsum(counts) - counts, np.int32)
    call = call_of(chosen.problem, chosen.schedule, (*bound_names(walks, chosen.patterns), OPERAND))
    held = (*static_patterns(walks), result)
    return call_kernel(call, (*factors, starts), (result.nse,), dtype, held)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, work: Entries) -> Any:
    out = entries_p.bind(*primals, work=work)
    arrays, values = out[:-1], out[-1]
    factors, index = work.split(primals)
    if not work.semiring.is_linear:
        taken = term_operands(work, 0, factors[0], index, arrays)
        tangent = changed(einsum_p, taken, work.split(tangents)[0][0], values, work.specs[0])
        return out, [*(_compat.add_tangents((), x) for x in arrays), tangent]
    parts = []
    for number, (own, changes) in enumerate(zip(factors, work.split(tangents)[0], strict=True)):
        for n, tangent in enumerate(changes):
            if type(tangent) is not _compat.Zero:
                moved = (*own[:n], tangent, *own[n + 1 :])
                parts.append(term(work, number, moved, index, arrays))
    return out, [*(_compat.add_tangents((), x) for x in arrays), _compat.add_tangents(parts, values)]


def _transpose(cotangents: Sequence[Any], *operands: Any, work: Entries) -> list[Any]:
    """Each factor that is unknown is that of a term, whose einsum is transposed; the pattern is found once more."""
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
    """Whether a dynamic pattern is known though some values are not."""
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
