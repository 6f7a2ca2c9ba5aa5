"""Taylor-mode differentiation of our primitives, by `jax.experimental.jet`.

With xᵢ(t) = Σₖ xᵢ,ₖ tᵏ, an einsum of n factors has the coefficients

    yₖ = Σ einsum(x₁,ₖ₁, …, xₙ,ₖₙ)        over all k₁ + … + kₙ = k

A minimum or maximum of sums follows the terms that attain it, so it has the coefficients of the tangent. Primitives
that consist of others are differentiated as these. This module is imported once `jax.experimental.jet` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Never, TypeAlias

import jax.numpy as jnp

from jsparse import _compat
from jsparse.errors import NotYetSupportedError
from jsparse.primitives.einsum import einsum_p, semiring_jvp
from jsparse.primitives.entries import entries_p, term
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.fused import evaluate_fused, fused_p
from jsparse.primitives.map_values import compute_map, map_p
from jsparse.primitives.permute_values import permute_values_p
from jsparse.primitives.routine import routine_p
from jsparse.primitives.softmax import compute_logsumexp, compute_softmax, logsumexp_p, softmax_p
from jsparse.primitives.spec import Spec
from jsparse.primitives.sums import compute_sum, sum_p

Series: TypeAlias = Sequence[Sequence[Any]]
"""For each operand, the Taylor coefficients from the first order on."""


def register() -> None:
    """Register the rules of all primitives that take values."""
    _compat.register_taylor(einsum_p, _einsum)
    _compat.register_taylor(permute_values_p, _permute_series)
    _compat.register_taylor(entries_p, _entries)
    _compat.register_taylor(routine_p, _indices)
    _compat.register_taylor_as(map_p, compute_map)
    _compat.register_taylor_as(fused_p, evaluate_fused)
    _compat.register_taylor_as(softmax_p, compute_softmax)
    _compat.register_taylor_as(sum_p, compute_sum)
    _compat.register_taylor_as(logsumexp_p, compute_logsumexp)


def _einsum(primals: Sequence[Any], series: Series, *, spec: Spec) -> tuple[Any, list[Any]]:
    count, order = len(spec.factors), len(series[0])
    factors, index = primals[:count], primals[count:]
    out = einsum_p.bind(*primals, spec=spec)
    if spec.semiring.is_linear:

        def product(*moved: Any) -> Any:
            return einsum_p.bind(*_compat.same_varying((*factors[: spec.compared], *moved, *index)), spec=spec)

        moving = factors[spec.compared :]
        return out, _products(product, moving, series[spec.compared : count]) if moving else _zeros(out, order)
    if not spec.semiring.is_selective or (spec.semiring.multiply != "+" and count > 1):
        _refuse(f"{spec.text} with the semiring {spec.semiring}")
    return out, [semiring_jvp(primals, [*(own[k] for own in series[:count]), *index], out, spec) for k in range(order)]


def _entries(primals: Sequence[Any], series: Series, *, work: Entries) -> tuple[list[Any], list[Any]]:
    out = entries_p.bind(*primals, work=work)
    arrays, order = out[:-1], len(series[0])
    if not work.specs:
        return out, [_zeros(x, order) for x in out]
    factors, index = work.split(primals)
    if not work.semiring.is_linear:
        _refuse("the entries of a new pattern over a semiring")
    terms = [
        _products(lambda *moved, n=n: term(work, n, moved, index, arrays), own, changes)
        for n, (own, changes) in enumerate(zip(factors, work.split(series)[0], strict=True))
        if own
    ]
    values = [sum(parts) for parts in zip(*terms, strict=True)]
    return out, [*(_zeros(x, order) for x in arrays), values]


def _indices(primals: Sequence[Any], series: Series, **params: Any) -> tuple[list[Any], list[list[Any]]]:
    out = routine_p.bind(*primals, **params)
    return out, [_zeros(x, len(series[0])) for x in out]


def _products(product: Callable[..., Any], factors: Sequence[Any], series: Series) -> list[Any]:
    """The coefficients from the first order on of a function that is linear in each factor."""
    terms = [[x, *own] for x, own in zip(factors, series, strict=True)]
    orders = range(1, len(terms[0]))
    return [
        sum(product(*(own[k] for own, k in zip(terms, each, strict=True))) for each in _compositions(k, len(terms)))
        for k in orders
    ]


def _zeros(x: Any, order: int) -> list[Any]:
    return [jnp.zeros(x.shape, x.dtype)] * order


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All tuples of `parts` numbers >= 0 with this sum."""
    if parts <= 1:
        yield from [(total,)] if parts else []
        return
    for first in range(total + 1):
        yield from ((first, *others) for others in _compositions(total - first, parts - 1))


def _permute_series(primals: Sequence[Any], series: Sequence[Sequence[Any]], **params: Any) -> tuple[Any, list[Any]]:
    move = partial(permute_values_p.bind, **params)
    return move(*primals), [move(term, *primals[1:]) for term in series[0]]


def _refuse(what: str) -> Never:
    raise NotYetSupportedError(
        f"The Taylor series of {what} is not supported yet by jax.experimental.jet. Nest jax.jvp instead."
    )
