"""Runs what is stated on operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import same_varying
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Access, Assignment
from jsparse.planning.checkpoint_name import named
from jsparse.planning.contraction import Contraction, stated
from jsparse.planning.dense_semiring import dense_product
from jsparse.planning.dtypes import converted
from jsparse.planning.index_relation import IndexRelation, pattern_of
from jsparse.planning.operands import asked
from jsparse.planning.output.pattern import Assembly
from jsparse.planning.request import NEW_PATTERN, OutFormat
from jsparse.planning.signature import StoredOn, stored_on
from jsparse.planning.typed_product import subscripts_of
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries import entries_p
from jsparse.primitives.entries_spec import Entries
from jsparse.tensor.dense import dense_levels
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = [
    "computed",
    "fused_entries",
    "in_format",
    "last_product",
    "product_values",
    "result_pattern",
    "step_products",
    "wrapped",
]


def result_pattern(work: Contraction, operands: Sequence[Any], out_format: object) -> DynamicPattern | None:
    """The dynamic pattern on which the result lies, if it is one: that of `out_format`, of an operand, or a new one."""
    if work.assembly is not None:
        return work.assembly.pattern(operands)
    requested = pattern_of(out_format)
    given = requested if isinstance(requested, DynamicPattern) else None
    if given is None and -1 in work.index_from:  # dense levels of size 0 leave nothing of an operand's pattern
        assert isinstance(work.result, DynamicType)
        given = DynamicPattern.empty(work.result)
    return work.stored_like(work.walked(operands, given))


def computed(work: Contraction, operands: Sequence[Any], out_format: OutFormat, nse: int | None = None) -> Any:
    """The result of one product: an array or a SparseTensor."""
    if work.is_prepared:
        return _prepared(work, operands, out_format, nse)
    if work.entries is not None and work.assembly is not None:
        return fused_entries(work.entries, work.assembly, [(work, operands)], operands, work.dtype)
    on = result_pattern(work, operands, out_format)
    return wrapped(product_values(work, operands, on), work.result, on)


def _prepared(work: Contraction, operands: Sequence[Any], out_format: OutFormat, nse: int | None) -> Any:
    """Conversions first, then each step as a product of its own; the last is stored where all of it would be."""
    values = list(operands)
    for step, taken in step_products(work, values):
        values.append(computed(step, taken, None))
    last, left, out_format = last_product(work, values, operands, out_format, nse)
    return computed(last, left, out_format, nse)


def step_products(work: Contraction, values: list[Any]) -> Iterator[tuple[Contraction, list[Any]]]:
    """The products before the last one, and the operands of each. `values`, the operands, are converted as the first
    is asked for; the result of each step has to be appended before the next, and without it what it is like is."""
    for place, format in work.resorted:
        values[place] = in_format(values[place], format)
    for number, step in enumerate(work.steps, start=len(work.assignment.factors)):
        assignment = Assignment(_result_of(work, number), tuple(_factor(work, place) for place in step.places))
        taken = [values[place] for place in step.places]
        signatures, _ = asked(work.subscripts, taken, None)
        out = "dense" if step.is_dense else None
        dtype = work.dtypes.intermediate
        product = stated(work.subscripts, assignment, signatures, out, None, dtype, work.semiring)
        yield product, taken
        if len(values) == number:
            values.append(jax.eval_shape(lambda *x, product=product: computed(product, x, None), *taken))


def in_format(x: SparseTensor | IndexRelation, format: Format) -> SparseTensor | IndexRelation:
    """A sparse operand in another format."""
    if isinstance(x, SparseTensor):
        return x.asformat(format)
    ones = SparseTensor._unchecked(jnp.ones(x.nse, jnp.float32), x.pattern)
    return IndexRelation(ones.asformat(format).pattern)


def _factor(work: Contraction, place: int) -> Access:
    """An operand's access, or that of the result of a step."""
    count = len(work.assignment.factors)
    if place < count:
        return work.assignment.factors[place]
    return _result_of(work, place)


def _result_of(work: Contraction, place: int) -> Access:
    number = place - len(work.assignment.factors)
    return Access(f"T{number}", work.steps[number].indices)


def last_product(
    work: Contraction, values: Sequence[Any], operands: Sequence[Any], out_format: OutFormat, nse: int | None
) -> tuple[Contraction, list[Any], OutFormat]:
    """The product behind all steps, its operands, and where it is stored; `values` are operands and steps' results."""
    used = {place for step in work.steps for place in step.places}
    left = [place for place in range(len(values)) if place not in used]
    last = Assignment(work.assignment.target, tuple(_factor(work, place) for place in left))
    if out_format is None and isinstance(work.place, StoredOn):
        out_format = _like(work.place, operands)
    taken = [values[place] for place in left]
    signatures, out = asked(work.subscripts, taken, out_format)
    if out is None:
        out = "dense" if work.place is None else work.place if isinstance(work.place, Format) else NEW_PATTERN
    return stated(work.subscripts, last, signatures, out, nse, work.dtype, work.semiring), taken, out_format


def _like(place: StoredOn, operands: Sequence[Any]) -> Pattern | DynamicPattern:
    """A pattern that follows from an operand's."""
    if isinstance(place.pattern, Pattern):
        return place.pattern
    dynamic = (x.pattern for x, on in zip(operands, stored_on(operands), strict=True) if on and on.core == place.core)
    found: DynamicPattern = next(dynamic).retyped(place.pattern)
    return found


def fused_entries(
    entries: Entries,
    assembly: Assembly,
    terms: Sequence[tuple[Contraction, Sequence[Any]]],
    operands: Sequence[Any],
    dtype: np.dtype,
) -> SparseTensor:
    """A sparse result of a dtype on a pattern of its own, found and computed at once: of terms with the operands of
    each, and all operands."""
    factors = [x for work, of in terms for x in work.arrays(of)]
    index = [array for arrays in assembly.index(operands) for array in arrays]
    *arrays, values = entries_p.bind(*same_varying((*factors, *index)), work=entries)
    values = named(converted(values, dtype))
    on = assembly.pattern(operands, arrays)
    if on is not None:
        values = on.poisoned(values if entries.semiring.is_linear else on.in_use(values))
    result: SparseTensor = wrapped(values, assembly.result, on)
    return result


def product_values(work: Contraction, operands: Sequence[Any], on: DynamicPattern | None) -> jax.Array:
    """The dense result, or its values on the pattern where it is stored, which is `on` if that is dynamic. NaN if a
    dynamic pattern overflowed."""
    if work.spec is None and work.semiring.is_linear and any(0 in x.shape for x in operands):
        return jnp.zeros(work.shape, work.dtype)  # XLA would go through what the other dimensions could hold
    arrays = work.arrays(operands)
    if work.spec is None:
        return _dense(work, arrays) if work.semiring.is_linear else _dense_by_semiring(work, arrays)
    if work.spec.factors == (work.spec.result,) and work.spec.result.on is not None and len(work.spec.walks) == 1:
        return converted(arrays[0], work.dtype)  # the same values, perhaps under other names of dimensions
    walked = work.walked(operands, on)
    index = [array for pattern in walked for array in pattern.operands()]
    out = named(converted(einsum_p.bind(*same_varying((*arrays, *index)), spec=work.spec), work.dtype))
    if not work.semiring.is_linear and isinstance(work.result, DynamicType) and on is not None:
        out = on.retyped(work.result).in_use(out)
    return out


def _dense(work: Contraction, arrays: Sequence[Any]) -> jax.Array:
    """What XLA computes: nothing is left to walk. Indices that no operand carries are broadcast."""
    carried = {v for factor in work.assignment.factors for v in factor.variables()}
    target = [str(v) for v in work.assignment.target.indices]
    kept = [v for v in target if v in carried]
    *terms, result = subscripts_of(*(tuple(map(str, f.indices)) for f in work.assignment.factors), kept)
    text = ",".join(terms) + "->" + result
    out: jax.Array = jnp.einsum(text, *arrays, preferred_element_type=work.dtypes.dense)
    out = converted(out, work.dtype)
    if kept == target:
        return out
    sizes = dict(zip(target, work.shape, strict=True))
    spread = jnp.expand_dims(out, [n for n, v in enumerate(target) if v not in carried])
    return jnp.broadcast_to(spread, [sizes[v] for v in target])


def _dense_by_semiring(work: Contraction, arrays: Sequence[Any]) -> jax.Array:
    terms = [tuple(map(str, factor.indices)) for factor in work.assignment.factors]
    kept = work.assignment.target.variables()
    sizes = {v: n for term, x in zip(terms, arrays, strict=True) for v, n in zip(term, x.shape, strict=True)}
    return dense_product(work.semiring, terms, kept, arrays, {**sizes, **dict(zip(kept, work.shape, strict=True))})


def wrapped(out: jax.Array, result: Pattern | DynamicType | None, on: DynamicPattern | None) -> Any:
    """An array, or values as a tensor on the pattern of the result."""
    if result is None or result.format.is_dense:
        return out if result is None else dense_levels(out, result.format)
    if isinstance(result, Pattern):
        return SparseTensor._unchecked(out, result)
    assert on is not None
    return SparseTensor._unchecked(out, on.retyped(result))
