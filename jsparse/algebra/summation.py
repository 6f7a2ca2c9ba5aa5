"""Sums of products: each term is an einsum, all of them on one pattern or all dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any

import jax
import numpy as np

from jsparse.algebra.assembly import Assembly, future_place, new_format
from jsparse.algebra.compute import computed, fused_entries, product_values, result_pattern, wrapped
from jsparse.algebra.contraction import REMEMBERED, Contraction, contracted, fused, stated
from jsparse.algebra.operands import Asked, result_dtype
from jsparse.algebra.places import asked_place, result_place
from jsparse.algebra.product import Product, checked_sizes
from jsparse.algebra.resort import resorted
from jsparse.algebra.signature import Signature, StoredOn
from jsparse.dynamic import DynamicPattern
from jsparse.errors import ShapeError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Access, Assignment
from jsparse.notation.statement import Statement
from jsparse.primitives.entries import Entries

__all__ = ["Summation", "clear_cache", "summation", "total"]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A term: a number times a product of the operands at `places`."""

    coefficient: complex
    work: Contraction
    places: tuple[int, ...]

    def values(self, operands: Sequence[Any], on: Any) -> jax.Array:
        """What the term adds, dense or on the result's pattern."""
        taken = [operands[n] for n in self.places]
        prepared = self.work.steps or self.work.resorted
        out = computed(self.work, taken, "dense") if prepared else product_values(self.work, taken, on)
        if self.coefficient == 1:
            return out
        return -out if self.coefficient == -1 else out * np.asarray(self.coefficient, out.dtype)


@dataclass(frozen=True, slots=True)
class Summation:
    """A statement that is checked. `result`, `assembly` and `entries` are as in `Contraction`.

    Attributes:
        resorted: what is converted before: the number of a term, of a factor in it, and the format it gets. Then only
            this and `format` are said, and the statement of converted factors says the rest.
        format: then the format of a new dynamic pattern that the result gets.
    """

    terms: tuple[Scaled, ...] = ()
    result: Pattern | DynamicType | None = None
    assembly: Assembly | None = None
    entries: Entries | None = None
    resorted: tuple[tuple[int, int, Format], ...] = ()
    format: Format | None = None


def total(work: Summation, operands: Sequence[Any], out_format: object) -> Any:
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
    out: Asked,
    nse: int | None,
) -> Summation:
    """Check a statement whose tensors `names` have these signatures.

    Raises ShapeError, DTypeError, FormatError, PatternError as einsum does.
    """
    products, places = _products(text, statement, names, operands, out)
    coefficients = [term.coefficient for term in statement.terms]
    dtype = result_dtype(text, operands, *(number for number in coefficients if not _is_one(number)))
    place = asked_place(text, products, out, nse)
    future = future_place(text, products, place, nse)
    moved = tuple((n, factor, to) for n, product in enumerate(products) for factor, to in resorted(product, future))
    if moved:
        return Summation(resorted=moved, format=new_format(future))
    on, assembly = result_place(text, products, places, place, nse)
    terms = tuple(
        Scaled(number, _term(text, product, dtype, on), where)
        for number, product, where in zip(coefficients, products, places, strict=True)
    )
    entries = fused(assembly, [(term.coefficient, term.work) for term in terms])
    return Summation(terms, None if on is None else on.pattern, assembly, entries)


def _products(
    text: str, statement: Statement, names: tuple[str, ...], operands: tuple[Signature, ...], out: Asked
) -> tuple[list[Product], list[tuple[int, ...]]]:
    """The terms with the signatures of their operands, and the numbers of these."""
    place = {name: n for n, name in enumerate(names)}
    factors = [factor for term in statement.terms for factor in term.factors]
    for factor in factors:
        _check_rank(text, factor, operands[place[factor.tensor]])
    shapes = [(factor, operands[place[factor.tensor]].shape) for factor in factors]
    sizes = checked_sizes(text, shapes, (statement.target, out.pattern.shape) if isinstance(out, StoredOn) else None)
    places = [tuple(place[factor.tensor] for factor in term.factors) for term in statement.terms]
    products = [
        Product(Assignment(statement.target, term.factors), tuple(operands[n] for n in where), sizes)
        for term, where in zip(statement.terms, places, strict=True)
    ]
    return products, places


def _term(text: str, product: Product, dtype: np.dtype, on: StoredOn | None) -> Contraction:
    """A term on the result's pattern, or dense: then perhaps in steps, if it carries all of the result's indices."""
    carried = {v for indices in product.indices for v in indices}
    if on is None and set(product.kept) <= carried:
        work = stated(text, product.assignment, product.operands, "dense", None)
        if work.dtype == dtype:
            return work
    return contracted(text, product, dtype, on)


def _is_one(number: complex) -> bool:
    return isinstance(number, int) and abs(number) == 1


def _check_rank(text: str, access: Access, operand: Signature) -> None:
    if len(access.indices) != len(operand.shape):
        raise ShapeError(
            f"Expected tensor {access.tensor} of '{text}' to have rank {len(access.indices)}, as {access} says, but "
            f"it has shape {operand.shape}."
        )
