"""`softmax` and `logsumexp` of the stored entries that share the coordinates of some index variables, such as a row.

    L_i  = log Σ_j exp x_ij          the sum runs over stored entries only
    y_ij = exp(x_ij - L_i)

A spec names the values and their pattern; `over` lists the index variables that are summed. With dx the tangent of x,

    dL_i  = Σ_j y_ij · dx_ij
    dy_ij = y_ij · (dx_ij - dL_i)

which are products and sums on the same pattern, and linear in dx. The tangent of y is one operation, which becomes one
kernel (`fused`). The maximum of each row is subtracted before the exponential (Blanchard, Higham and Higham, IMA J.
Numer. Anal. 41, 2021). Narrow floats are computed in float32.

A maximum of -inf, also in a row without entries, is replaced by 0: y and dL are 0 there. If a row has an
entry of +inf, y is NaN in that row, as exp(inf - inf) is. L is inf there, and the slopes of L are exp(x_ij) / inf: NaN
at entries of +inf, 0 at other entries.

These are primitives, and not functions with `jax.custom_jvp`, which would take 50 to 65 µs more in each call outside
jit, or chains, whose general rule computes the exponentials again: gradients took 1.2 and 3.8 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.base.memo import memoize
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.semiring import Semiring
from jsparse.notation import IndexVar
from jsparse.primitives.batch import batch_einsum
from jsparse.primitives.chain.expand import COMPOSED
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.fused import fused_p
from jsparse.primitives.padding import in_use, padding_of
from jsparse.primitives.spec import ArrayAccess, Spec

MAXIMUM = Semiring("max", "+")


def variables_without(spec: Spec, over: Sequence[IndexVar]) -> tuple[IndexVar, ...]:
    """Return the index variables of the values, except the variables in `over`."""
    return tuple(v for v in spec.access("", spec.factors[0]).variables() if v not in over)


def _sum_over(spec: Spec, over: Sequence[IndexVar]) -> Spec:
    """Return the spec of the sum of the values over the index variables `over`."""
    return replace(spec, result=ArrayAccess(variables_without(spec, over)))


def _at_entries(x: Any, index: Sequence[Any], spec: Spec, over: Sequence[IndexVar]) -> Any:
    """Gather a row statistic to the slots: each slot gets the element of its row."""
    gather = replace(spec, factors=(ArrayAccess(variables_without(spec, over)),), result=spec.factors[0])
    return einsum_p.bind(*_compat.same_varying((x, *index)), spec=gather)


def _exponentials(
    values: Any, index: Sequence[Any], spec: Spec, over: Sequence[IndexVar], has_padding: bool, of_sums: bool
) -> tuple[Any, Any, Any]:
    """Return the shift m of each row, the exponentials exp(x - m), and the row sums of these exponentials.

    m is the maximum of the row, but 0 where the maximum is -inf. With `of_sums`, for logarithms of sums and their
    slopes, m is 0 wherever the maximum is not finite.
    """
    reduced = _sum_over(spec, over)
    maxima = einsum_p.bind(values, *index, spec=replace(reduced, semiring=MAXIMUM))
    shift = jnp.where(jnp.isfinite(maxima) if of_sums else maxima != -jnp.inf, maxima, 0)
    powers = jnp.exp(values - _at_entries(shift, index, spec, over))
    powers = _without_padding(powers, index, spec) if has_padding else powers
    return shift, powers, einsum_p.bind(powers, *index, spec=reduced)


def _without_padding(values: Any, index: Sequence[Any], spec: Spec) -> Any:
    """Set the values in the padding of a dynamic pattern to 0."""
    if not spec.walks:
        return values
    term = spec.factors[0]
    pattern = spec.walks[0].pattern
    padding = padding_of(pattern, spec.slot_size(term))
    if pattern.limit is None or padding is None:
        return values
    pointers, lead = index[pattern.limit[0]], spec.walks[0].lead
    shape = [size if v in lead else 1 for size, v in zip(values.shape, term.before, strict=False)]
    return in_use(values, pointers.reshape(*shape, pointers.shape[-1]), padding=padding, other=0)


def _widen(values: Any) -> Any:
    return values.astype(arithmetic_dtype(values.dtype.name))


def compute_softmax(
    values: Any, *index: Any, spec: Spec, over: tuple[IndexVar, ...], are_slopes: bool, has_padding: bool = True
) -> Any:
    """Compute the softmax by einsums; with `are_slopes`, the slopes of logsumexp, which differ at infinite entries.

    `has_padding` is false inside a chain, whose kernel visits no padding. Values in padding may be anything there.
    """
    _, powers, sums = _exponentials(_widen(values), index, spec, over, has_padding, are_slopes)
    inverse = jnp.where(sums == 0, 0, 1 / jnp.where(sums == 0, 1, sums))
    return (powers * _at_entries(inverse, index, spec, over)).astype(values.dtype)


def compute_logsumexp(
    values: Any, *index: Any, spec: Spec, over: tuple[IndexVar, ...], has_padding: bool = True
) -> Any:
    """Compute the logarithm of row sums by einsums. It is -inf where nothing is stored.

    `has_padding` is as in `compute_softmax`."""
    on_values = replace(spec, result=spec.factors[0])
    maxima, _, sums = _exponentials(_widen(values), index, on_values, over, has_padding, of_sums=True)
    return (maxima + jnp.log(sums)).astype(values.dtype)


def _abstract(*operands: Any, spec: Spec, over: tuple[IndexVar, ...], are_slopes: bool = False) -> Any:
    spec.check_operands(operands)
    return _compat.output_aval(spec.shape(spec.result), spec.dtype_of(operands), operands)


def _softmax_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec, over: tuple[IndexVar, ...], are_slopes: bool
) -> Any:
    out = softmax_p.bind(*primals, spec=spec, over=over, are_slopes=are_slopes)
    change, index = tangents[0], primals[1:]
    if type(change) is _compat.Zero:
        return out, _compat.add_tangents((), out)
    operands = _compat.same_varying((_widen(out), _widen(change), *index))
    types = tuple((x.shape, x.dtype) for x in operands)
    (tangent,) = fused_p.bind(*operands, closed=_tangent_jaxpr(spec, over, types, _compat.mesh_of_chains()))
    return out, tangent.astype(out.dtype)


@memoize(maxsize=256)
def _tangent_jaxpr(spec: Spec, over: tuple[IndexVar, ...], types: Any, mesh: Any) -> Any:
    """The jaxpr of the tangent of a softmax, from the softmax and the tangent of the values, on a mesh."""

    def tangent(weights: Any, change: Any, *index: Any) -> list[Any]:
        part = weights * change
        sums = einsum_p.bind(*_compat.same_varying((part, *index)), spec=_sum_over(spec, over))
        return [part - weights * _at_entries(sums, index, spec, over)]

    avals = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in types]
    with jax.sharding.use_abstract_mesh(mesh):
        return jax.make_jaxpr(tangent)(*avals)


def _logsumexp_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec, over: tuple[IndexVar, ...]) -> Any:
    out = logsumexp_p.bind(*primals, spec=spec, over=over)
    change, index = tangents[0], primals[1:]
    if type(change) is _compat.Zero:
        return out, _compat.add_tangents((), out)
    on_values = replace(spec, result=spec.factors[0])
    weights = softmax_p.bind(*primals, spec=on_values, over=over, are_slopes=True)
    both = replace(spec, factors=(*spec.factors, *spec.factors))
    factors = _compat.same_varying((_widen(weights), _widen(change), *index))
    return out, einsum_p.bind(*factors, spec=both).astype(out.dtype)


def _batch(primitive: Any, operands: Sequence[Any], axes: Sequence[int | None], *, spec: Spec, **others: Any) -> Any:
    return batch_einsum(partial(primitive.bind, **others), operands, axes, spec=spec)


softmax_p = _compat.make_primitive("jsparse_softmax", _abstract)
logsumexp_p = _compat.make_primitive("jsparse_logsumexp", _abstract, empty=lambda **_: [-jnp.inf])
_compat.register_jvp(softmax_p, _softmax_jvp)
_compat.register_jvp(logsumexp_p, _logsumexp_jvp)
_compat.register_batching(softmax_p, partial(_batch, softmax_p))
_compat.register_batching(logsumexp_p, partial(_batch, logsumexp_p))
COMPOSED["jsparse_softmax"] = partial(compute_softmax, has_padding=False)
COMPOSED["jsparse_logsumexp"] = partial(compute_logsumexp, has_padding=False)
