"""Sums of products: each term is an einsum, all of them on one pattern or all dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any

import jax
import numpy as np

from jsparse.algebra.assembly import Assembly
from jsparse.algebra.compute import fused_entries, product_values, result_pattern, wrapped
from jsparse.algebra.contraction import (
    REMEMBERED,
    Contraction,
    asked_place,
    contracted,
    fused,
    result_dtype,
    result_place,
)
from jsparse.algebra.product import Product, checked_sizes
from jsparse.algebra.signature import Signature, StoredOn
from jsparse.dynamic import DynamicPattern
from jsparse.errors import ShapeError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Access, Assignment
from jsparse.notation.statement import Statement
from jsparse.primitives.entries import Entries

__all__ = ["Summation", "clear_cache", "computed", "summation"]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A term: a number times a product of the operands at `places`."""

    coefficient: complex
    work: Contraction
    places: tuple[int, ...]

    def values(self, operands: Sequence[Any], on: Any) -> jax.Array:
        """What the term adds, dense or on the result's pattern."""
        out = product_values(self.work, [operands[n] for n in self.places], on)
        if self.coefficient == 1:
            return out
        return -out if self.coefficient == -1 else out * np.asarray(self.coefficient, out.dtype)


@dataclass(frozen=True, slots=True)
class Summation:
    """A statement that is checked. `result`, `assembly` and `entries` are as in `Contraction`."""

    terms: tuple[Scaled, ...]
    result: Pattern | DynamicType | None
    assembly: Assembly | None
    entries: Entries | None


def computed(work: Summation, operands: Sequence[Any], out_format: object) -> Any:
    """The result of a statement on its operands: an array or a SparseTensor."""
    if work.entries is not None and work.assembly is not None:
        of_terms = [(term.work, [operands[n] for n in term.places]) for term in work.terms]
        return fused_entries(work.entries, work.assembly, of_terms, operands)
    on = _pattern(work, operands, out_format)
    return wrapped(reduce(add, (term.values(operands, on) for term in work.terms)), work.result, on)


def _pattern(work: Summation, operands: Sequence[Any], out_format: object) -> DynamicPattern | None:
    if work.assembly is not None:
        return work.assembly.pattern(operands)
    first = work.terms[0]
    return result_pattern(first.work, [operands[n] for n in first.places], out_format)


def clear_cache() -> None:
    """Forget all statements."""
    summation.cache_clear()


@lru_cache(maxsize=REMEMBERED)
def summation(
    text: str,
    statement: Statement,
    names: tuple[str, ...],
    operands: tuple[Signature, ...],
    out: str | Format | StoredOn | None,
    nse: int | None,
) -> Summation:
    """Check a statement whose tensors `names` have these signatures.

    Raises ShapeError, DTypeError, FormatError, PatternError as einsum does.
    """
    place = {name: n for n, name in enumerate(names)}
    factors = [factor for term in statement.terms for factor in term.factors]
    for factor in factors:
        _check_rank(text, factor, operands[place[factor.tensor]])
    shapes = [(factor, operands[place[factor.tensor]].shape) for factor in factors]
    sizes = checked_sizes(text, shapes, (statement.target, out.pattern.shape) if isinstance(out, StoredOn) else None)
    dtype = result_dtype(text, operands, *(t.coefficient for t in statement.terms if not _is_one(t.coefficient)))
    products, places = [], []
    for term in statement.terms:
        places.append(tuple(place[factor.tensor] for factor in term.factors))
        taken = tuple(operands[n] for n in places[-1])
        products.append(Product(Assignment(statement.target, term.factors), taken, sizes))
    on, assembly = result_place(text, products, places, asked_place(text, products, out, nse), nse)
    terms = tuple(
        Scaled(term.coefficient, contracted(text, product, dtype, on), where)
        for term, product, where in zip(statement.terms, products, places, strict=True)
    )
    entries = fused(assembly, [(term.coefficient, term.work) for term in terms])
    return Summation(terms, None if on is None else on.pattern, assembly, entries)


def _is_one(number: complex) -> bool:
    return isinstance(number, int) and abs(number) == 1


def _check_rank(text: str, access: Access, operand: Signature) -> None:
    if len(access.indices) != len(operand.shape):
        raise ShapeError(
            f"Expected tensor {access.tensor} of '{text}' to have rank {len(access.indices)}, as {access} says, but "
            f"it has shape {operand.shape}."
        )
