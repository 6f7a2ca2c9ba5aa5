"""Executes plans on operands, instruction by instruction.

A product of dense arrays by a semiring other than (+, ·) is computed by jax.numpy, in two operations: an elementwise
product over the whole iteration space, and a reduction. XLA fuses the two, so the elementwise product is stored only if
a derivative needs it. The result equals what a kernel would compute: an empty reduction is the semiring's zero, and the
factors that attain a minimum share its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import prod
from operator import add, mul
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import is_divided, same_varying
from jsparse.base.limits import MOST_COUNTED, check_bytes
from jsparse.compiler.dtypes import as_dtype
from jsparse.compiler.semiring import Semiring
from jsparse.convert.composed import without_padding
from jsparse.convert.dynamic_creation import convert_pattern
from jsparse.convert.slots import Conversion
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.dynamic import sufficient_nse
from jsparse.formats.split import join_arrays, split_arrays
from jsparse.notation import IndexVar
from jsparse.planning.dtypes import convert_dtype
from jsparse.planning.plan import (
    AssembledPattern,
    Compose,
    Convert,
    DenseOutput,
    EntryCoordinates,
    EntryValues,
    Instruction,
    JoinAxes,
    MoveValues,
    Ones,
    OnLevels,
    OnPattern,
    ProgramPlan,
    SplitAxes,
    SumOfProducts,
    TakePart,
)
from jsparse.planning.signature import BarePattern, IndexRelation, pattern_of
from jsparse.planning.term import Term, subscripts_of
from jsparse.primitives.division.dense import sharding_of_reshaped
from jsparse.primitives.einsum import einsum_p, with_checkpoint_name
from jsparse.primitives.entries import entries_p
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.host import is_on_host, on_device
from jsparse.primitives.spec import Spec
from jsparse.primitives.sums import sum_of_einsums
from jsparse.tensor.composed import ComposedTensor, Composition, dynamic_patterns, join_values
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import SparseTensor, dense_array, dense_levels

Values: TypeAlias = Sequence[Any]
"""The values of a plan: the operands, then the results of instructions."""

_SPARSE = "Make an operand sparse (jsparse.asarray): then the loops visit only its stored entries."
_MULTIPLY = {"*": jnp.multiply, "+": jnp.add, "&": jnp.bitwise_and}
_REDUCE: Mapping[str, Callable[..., jax.Array]] = {
    "+": jnp.sum, "*": jnp.prod, "min": jnp.min, "max": jnp.max, "|": jax.lax.reduce_or
}  # fmt: skip


def execute(plan: ProgramPlan, operands: Sequence[Any], out_format: object) -> Any:
    """Run a plan on operands with the signatures for which the plan was made. The result is an array or a SparseTensor.

    `out_format` is the argument that the caller passed. If it is a tensor or a pattern, the result may have that
    pattern.
    """
    values = list(operands)
    for instruction in plan.instructions:
        values.append(_result(instruction, values, out_format))
    return values[-1]


def _result(instruction: Instruction, values: Values, out_format: object) -> Any:
    """Execute an instruction."""
    match instruction:
        case SumOfProducts():
            return _sum(instruction, values, out_format)
        case Convert(value, format):
            return in_format(values[value], format)
        case OnLevels(value):
            return _on_levels(instruction, values[value])
        case Ones(shape, one, dtype):
            return jnp.full(shape, one, dtype)
        case EntryValues(value):
            return values[value].values
        case EntryCoordinates(pattern):
            return IndexRelation(pattern)
        case TakePart(value):
            return _part(instruction, out_format if value is None else values[value])
        case SplitAxes(value, padded, shape):
            x = values[value]
            more = [(0, size - old) for size, old in zip(padded, x.shape, strict=True)]
            # `_factor` reshapes an array that needs no zeros: a sum of products reads it in several shapes.
            return _reshape_array(jnp.pad(x, more), shape) if padded != x.shape else x
        case JoinAxes(value, padded, shape):
            x = _reshape_array(values[value], padded)
            return x[tuple(slice(size) for size in shape)] if padded != shape else x
        case MoveValues(value, conversion):
            return _move_values(values[value], conversion)
        case Compose():
            return _compose_tensor(instruction, values, out_format)


def _reshape_array(x: Any, shape: tuple[int, ...]) -> Any:
    """Reshape an array. A call to XLA takes longer than a small product, so known arrays are reshaped on the host."""
    if not is_on_host(x):
        # JAX refuses to guess where a divided axis is in the new shape.
        divided = is_divided(jax.typeof(x))
        return jax.lax.reshape(x, shape, out_sharding=sharding_of_reshaped(jax.typeof(x), shape) if divided else None)
    view = np.asarray(x).reshape(shape)
    return view if type(x) is np.ndarray else on_device([view], [x])[0]


def _part(work: TakePart, x: Any) -> SparseTensor | BarePattern | jax.Array:
    """A part of a composed tensor. Values of padding are 0, whatever the tensor has there."""
    composition: Composition = pattern_of(x)
    part, on = composition.parts[work.number], cast("Any", work.pattern)
    if isinstance(on, PatternType) and isinstance(part.pattern, DynamicPattern):
        on = part.pattern.with_type(on)
    if work.is_bare:
        return BarePattern(on)
    first = sum(other.nse for other in composition.parts[: work.number])
    values = x.values if len(composition.parts) == 1 else x.values[first : first + part.nse]
    values = without_padding(values, part, composition.shape)
    if on is None:
        return jnp.reshape(values, (part.slots, *part.inner))
    return SparseTensor._wrap(values, on)


def _move_values(x: SparseTensor | BarePattern, conversion: Conversion) -> SparseTensor | BarePattern:
    """Move the values of a tensor to another place."""
    place = conversion.place
    if isinstance(x, BarePattern):
        return BarePattern(place)
    values = conversion.move(x.values)
    if isinstance(place, Pattern):
        return SparseTensor._wrap(values, place)
    return ComposedTensor._wrap(values, place)


def _compose_tensor(work: Compose, values: Values, out_format: object) -> ComposedTensor:
    """Make a composed tensor from the values of its parts."""
    on = work.composition
    if on.is_dynamic:
        pattern = pattern_of(out_format if work.source is None else values[work.source])
        # A pattern with the levels of blocks below it has the index arrays of the outer pattern.
        is_composed = isinstance(pattern, Composition)
        on = on.with_patterns(dynamic_patterns(pattern) if is_composed else [pattern.with_type(on.parts[0].pattern)])
    taken = [values[n].values if isinstance(values[n], SparseTensor) else values[n].reshape(-1) for n in work.values]
    of_parts = [without_padding(x, part, on.shape) for x, part in zip(taken, on.parts, strict=True)]
    return ComposedTensor._wrap(join_values(of_parts), on)


def in_format(x: SparseTensor | BarePattern, format: Format) -> SparseTensor | BarePattern:
    """Convert a sparse operand to another format."""
    if isinstance(x, SparseTensor):
        return _sort_into_format(x, format)
    assert isinstance(x.pattern, DynamicPattern)
    return BarePattern(_sort_pattern(x.pattern, format))


@partial(jax.jit, static_argnames="format", inline=True)  # outside jit, one program takes less time than its parts
def _sort_into_format(x: SparseTensor, format: Format) -> SparseTensor:
    return x.asformat(format)


@partial(jax.jit, static_argnames="format", inline=True)
def _sort_pattern(pattern: DynamicPattern, format: Format) -> DynamicPattern:
    type_ = dynamic_type(pattern.shape, format, sufficient_nse(pattern.type, format))
    return convert_pattern(pattern, type_)


def _on_levels(work: OnLevels, x: Any) -> SparseTensor | BarePattern:
    """Move a tensor, an array or a bare pattern `x` to a pattern with the same entries in the same order."""
    on: Any = work.pattern
    if isinstance(on, PatternType):
        pattern: DynamicPattern = x.pattern
        if work.joins:
            arrays = join_arrays(on.format, on.shape, work.strides, pattern.arrays)
        else:
            arrays = split_arrays(pattern.format, pattern.shape, work.strides, pattern.arrays)
        on = DynamicPattern(on, tuple(arrays))
    if isinstance(x, BarePattern):
        return BarePattern(on)
    values = x.values if isinstance(x, SparseTensor) else jnp.reshape(x, on.nse)
    return SparseTensor._wrap(values, on)


def _sum(work: SumOfProducts, values: Values, out_format: object) -> Any:
    output = work.output
    if isinstance(output, DenseOutput):
        array = _total(work, values, None)
        return jnp.broadcast_to(jnp.expand_dims(array, output.repeated), output.shape) if output.repeated else array
    if isinstance(output, AssembledPattern) and output.entries is not None:
        return _assemble_with_values(work, output, output.entries, values)
    if isinstance(output, AssembledPattern):
        on = output.assembly.pattern(values)
        out = _total(work, values, on)
        if on is not None and not jnp.issubdtype(out.dtype, jnp.inexact):  # floats are NaN
            out, on = on.guard_overflow(out)
        return _wrap_values(out, output.pattern, on)
    on = _existing(output, values, out_format)
    return _wrap_values(_total(work, values, on), output.pattern, on)


def _total(work: SumOfProducts, values: Values, on: DynamicPattern | None) -> jax.Array:
    """Add all terms. Returns a dense array, or the values on the result's pattern (`on`, if the pattern is dynamic)."""
    joint, shape = work.joint, work.terms[0].shape
    parts = [_compute_term(term, values, on) for term in work.terms if term not in joint]
    if isinstance(work.output, DenseOutput):  # terms may see a dense result in different shapes
        parts = [x if x.shape == shape else _reshape_array(x, shape) for x in parts]
    if joint:
        parts.append(with_checkpoint_name(sum_of_einsums([_einsum(x, values) for x in joint], shape, joint[0].dtype)))
    return cast(jax.Array, convert_dtype(reduce(add, parts), work.dtype))


def _einsum(term: Term, values: Values) -> tuple[Spec, tuple[Any, ...]]:
    """A term of a sum that is one kernel: its einsum and the operands. A coefficient is one more factor, of rank 0."""
    index = (array for pattern in term.dynamic_patterns(values, None) for array in pattern.operands())
    scale = [] if term.coefficient == 1 else [jnp.asarray(as_dtype(term.coefficient, term.dtype))]
    assert term.spec_with_coefficient is not None
    return term.spec_with_coefficient, (*factors_of(term, values, in_digits=False), *scale, *index)


def _existing(output: OnPattern, values: Values, out_format: object) -> DynamicPattern | None:
    """Find the existing dynamic pattern of the result; None if the result's pattern is static."""
    if isinstance(output.pattern, Pattern):
        return None
    pattern = pattern_of(out_format) if output.source is None else values[output.source].pattern
    if isinstance(pattern, DynamicPattern):
        return pattern.ordinary() if output.source is None else pattern.common(values)
    return DynamicPattern.empty(output.pattern)  # dense levels of size 0 leave no entries, so no pattern to share


def _assemble_with_values(
    work: SumOfProducts, output: AssembledPattern, entries: Entries, values: Values
) -> SparseTensor:
    """Compute a sparse result, with one kernel that finds the pattern and the values together."""
    factors = [x for term in work.terms for x in factors_of(term, values)]
    index = [array for arrays in output.assembly.index(values) for array in arrays]
    *arrays, out = entries_p.bind(*same_varying((*factors, *index)), work=entries)
    has_nan = jnp.issubdtype(out.dtype, jnp.inexact)
    out = with_checkpoint_name(convert_dtype(out, work.dtype))
    on = output.assembly.pattern(values, arrays)
    if on is not None:
        out = out if entries.semiring.is_linear else on.in_use(out)
        if jnp.issubdtype(out.dtype, jnp.inexact):
            out = out if has_nan else on.poison(out)  # integers that are converted to floats only now
        else:
            out, on = on.guard_overflow(out)
    return cast(SparseTensor, _wrap_values(out, output.pattern, on))


def _compute_term(term: Term, values: Values, on: DynamicPattern | None) -> jax.Array:
    """Compute a term (a product times a coefficient). Returns a dense array, or values on the result's pattern."""
    out = _product(term, values, on)
    if term.coefficient in (1, -1):
        return out if term.coefficient == 1 else -out
    number = as_dtype(term.coefficient, out.dtype)
    if on is None or np.isfinite(number):
        return out * number
    assert isinstance(term.result, PatternType)
    return cast(jax.Array, jit_map(mul, on.with_type(term.result), out, number))


def _product(work: Term, values: Values, on: DynamicPattern | None) -> jax.Array:
    """Compute a product. Returns a dense array, or the values on the result's pattern (`on`, if it is dynamic).

    The product is NaN if a dynamic pattern overflowed.
    """
    operands = [values[n] for n in work.values]
    if work.spec is None and work.semiring.is_linear and any(0 in x.shape for x in operands):
        return jnp.zeros(work.shape, work.dtype)  # XLA would loop over the other dimensions, however large they are
    arrays = factors_of(work, values)
    if work.spec is None:
        return _dense(work, arrays) if work.semiring.is_linear else _dense_by_semiring(work, arrays)
    if work.spec.factors == (work.spec.result,) and work.spec.result.on is not None and len(work.spec.walks) == 1:
        return convert_dtype(arrays[0], work.dtype)  # no kernel: the result is the factor, with dimensions renamed
    index = [array for pattern in work.dynamic_patterns(values, on) for array in pattern.operands()]
    out = einsum_p.bind(*same_varying((*arrays, *index)), spec=work.spec)
    out = with_checkpoint_name(convert_dtype(out, work.dtype))
    if not work.semiring.is_linear and isinstance(work.result, PatternType) and on is not None:
        out = on.with_type(work.result).in_use(out)
    return out


def factors_of(work: Term, values: Values, in_digits: bool = True) -> list[Any]:
    """The factors that have values. They are prereduced, and have the dtypes that the primitive expects.

    Without `in_digits`, arrays whose axes are split into digits may have the shapes of the whole arrays.
    """
    operands = (values[n] for n in work.values)
    return [_factor(work, x, n, in_digits) for n, x in enumerate(operands) if not isinstance(x, BarePattern)]


def _factor(work: Term, x: Any, n: int, in_digits: bool) -> Any:
    is_stored = isinstance(x, SparseTensor) and not x.format.is_dense
    array = x.values if is_stored else dense_array(x)
    dtype, text, shape = work.operand_dtypes[n], work.prereductions[n], work.operands[n].shape
    assert dtype is not None
    if not is_stored and array.shape != shape and (in_digits or text is not None):
        array = _reshape_array(array, shape)
    array = convert_dtype(array, dtype)
    if text is None:
        return array
    array = convert_dtype(array, work.dtypes.reduction_dtype(dtype))
    if work.semiring.is_linear:
        return jnp.einsum(text, array)
    before, _, after = text.partition("->")
    sizes = dict(zip(before, array.shape, strict=True))
    return _dense_product(work.semiring, [tuple(before)], tuple(after), [array], sizes)


def _dense(work: Term, arrays: Sequence[Any]) -> jax.Array:
    """Compute a product of dense arrays by `jnp.einsum`.

    The result is broadcast along index variables that no array has.
    """
    carried = {v for factor in work.factors for v in factor.variables()}
    target = [str(v) for v in work.assignment.target.indices]
    kept = [v for v in target if v in carried]
    *terms, result = subscripts_of(*(tuple(map(str, f.indices)) for f in work.factors), kept)
    text = ",".join(terms) + "->" + result
    out: jax.Array = jnp.einsum(text, *arrays, preferred_element_type=work.dtypes.dense)
    out = convert_dtype(out, work.dtype)
    if kept == target:
        return out
    sizes = dict(zip(target, work.shape, strict=True))
    spread = jnp.expand_dims(out, [n for n, v in enumerate(target) if v not in carried])
    return jnp.broadcast_to(spread, [sizes[v] for v in target])


def _dense_by_semiring(work: Term, arrays: Sequence[Any]) -> jax.Array:
    terms = [tuple(map(str, factor.indices)) for factor in work.factors]
    kept = work.assignment.target.variables()
    sizes = {v: n for term, x in zip(terms, arrays, strict=True) for v, n in zip(term, x.shape, strict=True)}
    return _dense_product(work.semiring, terms, kept, arrays, {**sizes, **dict(zip(kept, work.shape, strict=True))})


def _dense_product(
    semiring: Semiring,
    terms: Sequence[tuple[IndexVar, ...]],
    kept: tuple[IndexVar, ...],
    arrays: Sequence[Any],
    sizes: Mapping[IndexVar, int],
) -> jax.Array:
    """Compute ⊕ ⊗ arrays: multiply the arrays and reduce the index variables that `kept` lacks.

    Args:
        terms: for each array the index variable of each axis; a repeated variable takes a diagonal.
        kept: the index variables of the result's axes.
        arrays: the factors, all of the result's dtype.
        sizes: the size of each index variable.

    Raises ShapeError if the iteration space is too large to count.
    """
    carried = dict.fromkeys((*kept, *(v for term in terms for v in term)))
    space = tuple(carried)
    shape = tuple(sizes[v] for v in space)
    summed = tuple(range(len(kept), len(space)))
    dtype = arrays[0].dtype
    check_bytes(shape, dtype, f"all combinations of indices over {semiring}", _SPARSE, MOST_COUNTED)
    if not prod(shape[len(kept) :]):
        return jnp.full(shape[: len(kept)], semiring.zero(dtype.name), dtype)
    aligned = [_align_axes(x, term, space) for x, term in zip(arrays, terms, strict=True)]
    product = jnp.broadcast_to(reduce(_MULTIPLY[semiring.multiply], aligned), shape)
    # numpy's rules would widen integers
    return _REDUCE[semiring.add](product, summed).astype(dtype) if summed else product


def _align_axes(x: Any, term: Sequence[IndexVar], space: Sequence[IndexVar]) -> Any:
    """Align an array with the iteration space: one axis for each index variable, of size 1 where the term lacks it."""
    names = list(term)
    while len(set(names)) < len(names):
        last = max(n for n, v in enumerate(names) if names.index(v) < n)
        first = names.index(names[last])
        x = jnp.diagonal(x, axis1=first, axis2=last)  # numpy puts the diagonal last
        names = [v for n, v in enumerate(names) if n not in (first, last)] + [names[last]]
    order = sorted(range(len(names)), key=lambda n: space.index(names[n]))
    return jnp.expand_dims(jnp.transpose(x, order), [n for n, v in enumerate(space) if v not in names])


def _wrap_values(out: jax.Array, result: Pattern | PatternType, on: DynamicPattern | None) -> Any:
    """Make a SparseTensor from `out`, the values on the pattern of the result."""
    if result.format.is_dense:
        return dense_levels(out, result.format)
    if isinstance(result, Pattern):
        return SparseTensor._wrap(out, result)
    assert on is not None
    return SparseTensor._wrap(out, on.with_type(result))
