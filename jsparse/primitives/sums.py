"""`sum`: a sum of einsums with dense results, which is one kernel.

    R = Σₙ einsumₙ(…)

An einsum may see an operand, or the result, in another shape: a matrix as rows of blocks, say. No array is copied for
that, because kernels read and write arrays row by row. The same operand may be seen in different shapes.

Its JVP is the sum of the tangents of all einsums, and the cotangent of an operand is the sum of the cotangents in the
einsums that have it as a factor. Both are sums of einsums again, so each of them is one kernel, too. Only values on a
pattern have cotangents that are not dense arrays: these are added up after their kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from math import prod
from operator import add
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse import _compat
from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import LeafError
from jsparse.notation import IndexVar
from jsparse.primitives.batch import batch_spec, one_by_one
from jsparse.primitives.chain.expand import COMPOSED
from jsparse.primitives.einsum import einsum_p, exchange_term
from jsparse.primitives.spec import Operands, Spec

Einsum: TypeAlias = tuple[Spec, Operands]
"""An einsum and its operands."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Sum:
    """The parameter of the primitive: einsums over + and ·, with dense results of one size.

    Attributes:
        specs: the einsums. Results of one shape have the same index variables.
        numbers: for each einsum, the numbers of its operands. Several einsums may have the same operand.
        shape, dtype: the shape and the dtype of the result.
    """

    specs: tuple[Spec, ...]
    numbers: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    dtype: str

    def terms(self, operands: Operands) -> Iterator[Einsum]:
        """Yield each einsum with its operands, in their own shapes."""
        for spec, numbers in zip(self.specs, self.numbers, strict=True):
            yield spec, tuple(operands[n] for n in numbers)


def sum_of_einsums(einsums: Sequence[Einsum], shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Add up einsums, and round the sum once, to `dtype`. Operands, and the results, may be given in other shapes."""
    if len(einsums) == 1:
        ((spec, of_term),) = einsums
        return _einsum(replace(spec, dtype=np.dtype(dtype).name), of_term).reshape(shape)
    operands = list({id(x): x for _, of_term in einsums for x in of_term}.values())
    at = {id(x): n for n, x in enumerate(operands)}
    numbers = tuple(tuple(at[id(x)] for x in of_term) for _, of_term in einsums)
    work = Sum(tuple(_alike([spec for spec, _ in einsums])), numbers, tuple(shape), np.dtype(dtype).name)
    return cast(jax.Array, sum_p.bind(*_compat.same_varying(operands), work=work))


def _alike(specs: Sequence[Spec]) -> Iterator[Spec]:
    """Rename index variables, so that results of one shape have the same ones, and each has one size in all specs."""
    sizes, results = dict[IndexVar, int](), dict[tuple[int, ...], tuple[IndexVar, ...]]()
    for spec in specs:
        names = dict(zip(spec.result.before, results.get(spec.shape(spec.result), ()), strict=False))
        fresh = (name for name in (f"v{n}" for n in count()) if name not in sizes and name not in dict(spec.sizes))
        for v, size in spec.sizes:
            if v not in names:
                names[v] = v if v not in names.values() and sizes.get(v, size) == size else next(fresh)
            sizes[names[v]] = size
        renamed = spec if all(v == name for v, name in names.items()) else spec.rename_variables(names)
        results.setdefault(renamed.shape(renamed.result), renamed.result.before)
        yield renamed


def in_own_shapes(spec: Spec, operands: Operands) -> Operands:
    """Return the operands of an einsum with its factors in the shapes of the spec."""
    count = len(spec.factors)
    shapes = map(spec.shape, spec.factors)
    factors = (x if x.shape == shape else x.reshape(shape) for x, shape in zip(operands[:count], shapes, strict=True))
    return (*factors, *operands[count:])


def _einsum(spec: Spec, operands: Operands) -> jax.Array:
    return cast(jax.Array, einsum_p.bind(*_compat.same_varying(in_own_shapes(spec, operands)), spec=spec))


def compute_sum(*operands: Array, work: Sum) -> jax.Array:
    """Compute the sum by einsums and additions."""
    wide = arithmetic_dtype(work.dtype)
    terms = (_einsum(replace(spec, dtype=wide), of_term).reshape(work.shape) for spec, of_term in work.terms(operands))
    return reduce(add, terms).astype(work.dtype)


def _abstract(*operands: Any, work: Sum) -> Any:
    for spec, of_term in work.terms(operands):
        seen = list(of_term)
        for n, (x, term) in enumerate(zip(of_term, spec.factors, strict=False)):
            shape = spec.shape(term)
            if x.size != prod(shape):
                raise LeafError(f"Expected {prod(shape):,} elements in factor {n} of {spec.text}, but got {x.size:,}.")
            seen[n] = jax.ShapeDtypeStruct(shape, x.dtype)
        spec.check_operands(seen)
    return _compat.output_aval(work.shape, np.dtype(work.dtype), operands)


def _jvp(primals: Operands, tangents: Operands, *, work: Sum) -> Any:
    out = sum_p.bind(*_compat.same_varying(primals), work=work)
    einsums = list[Einsum]()
    for (spec, operands), (_, changes) in zip(work.terms(primals), work.terms(tangents), strict=True):
        for n, change in enumerate(spec.split(changes)[0]):
            if type(change) is not _compat.Zero:
                einsums.append((spec.without_schedule, (*operands[:n], change, *operands[n + 1 :])))
    return out, sum_of_einsums(einsums, work.shape, work.dtype) if einsums else _compat.add_tangents([], out)


def _transpose(cotangent: Any, *operands: Any, work: Sum) -> Operands:
    out: list[Any] = [_compat.Zero(x.aval) if _compat.is_undefined(x) else None for x in operands]
    if type(cotangent) is _compat.Zero:
        return out
    by_operand: dict[int, list[Einsum]] = {n: [] for n, x in enumerate(operands) if _compat.is_undefined(x)}
    for (spec, of_term), numbers in zip(work.terms(operands), work.numbers, strict=True):
        if not any(map(_compat.is_undefined, of_term)):
            continue  # its tangent is a known array of zeros, which JAX makes of a symbolic zero in some places
        factor, exchanged, taken = exchange_term(cotangent, of_term, spec)
        by_operand[numbers[factor]].append((exchanged, taken))
    for n, einsums in by_operand.items():
        aval = operands[n].aval
        dtype = cotangent.dtype if aval.dtype == jax.dtypes.float0 else aval.dtype
        if all(spec.result.on is None for spec, _ in einsums):
            out[n] = sum_of_einsums(einsums, aval.shape, dtype)
        else:  # values on a pattern
            out[n] = reduce(add, (_einsum(spec, of_term) for spec, of_term in einsums)).reshape(aval.shape)
    return out


def _batch(operands: Operands, axes: Sequence[int | None], *, work: Sum) -> tuple[jax.Array, int]:
    """Batch each einsum. Einsums without the batch axis have the same result for all members."""
    members, same = list[tuple[Spec, IndexVar, Operands]](), list[Einsum]()
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    for (spec, of_term), (_, of) in zip(work.terms(operands), work.terms(axes), strict=True):
        if all(axis is None for axis in of):
            same.append((spec.without_schedule, of_term))
            continue
        member = batch_spec(*_reshape_batched(spec, of_term, of, size), spec)
        if member is None:
            return one_by_one(partial(sum_p.bind, work=work), operands, axes), 0
        members.append(member)
    places = {spec.result.before.index(name) for spec, name, _ in members}
    is_alike = len(places) == 1 and all(spec.shape(spec.result) == work.shape for spec in work.specs)
    at = min(places) if is_alike else 0
    grown = [(_with_result_at(at, spec, name), of_term) for spec, name, of_term in members]
    shape = (*work.shape[:at], size, *work.shape[at:])
    if not same:
        return sum_of_einsums(grown, shape, work.dtype), at
    wide = arithmetic_dtype(work.dtype)
    both = sum_of_einsums(grown, shape, wide) + jnp.expand_dims(sum_of_einsums(same, work.shape, wide), at)
    return both.astype(work.dtype), at


def _reshape_batched(
    spec: Spec, operands: Operands, axes: Sequence[int | None], size: int
) -> tuple[Operands, Sequence[int | None]]:
    """Return the operands of an einsum with batched factors in the shapes of the spec, and their batch axes."""
    shaped, moved = list(operands), list(axes)
    for n, (x, axis, term) in enumerate(zip(operands, axes, spec.factors, strict=False)):
        shape = spec.shape(term)
        if axis is None:
            shaped[n] = x.reshape(shape)
        elif np.delete(x.shape, axis).tolist() != list(shape):
            shaped[n], moved[n] = jnp.moveaxis(x, axis, 0).reshape(size, *shape), 0
    return shaped, moved


def _with_result_at(at: int, spec: Spec, name: IndexVar) -> Spec:
    """Return the spec with the batch index variable at that place of its result."""
    others = tuple(v for v in spec.result.before if v != name)
    return replace(spec, result=replace(spec.result, before=(*others[:at], name, *others[at:])))


_compat.cache_weakly(Sum)
sum_p = _compat.make_primitive("jsparse_sum", _abstract, empty=lambda *, work: [0.0])
_compat.register_jvp(sum_p, _jvp)
_compat.register_transpose(sum_p, _transpose)
_compat.register_batching(sum_p, _batch)
COMPOSED["jsparse_sum"] = compute_sum
