"""Sums of products: each term is an einsum, all of them on one pattern or all dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.dtypes import accumulator, as_dtype
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import DTypeError, ShapeError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Access, Assignment
from jsparse.notation.statement import Statement
from jsparse.planning.concordize import resorted
from jsparse.planning.contraction import REMEMBERED, Contraction, contracted, fused, stated
from jsparse.planning.dtypes import Dtypes, converted, dtypes_of
from jsparse.planning.execute import computed, fused_entries, product_values, result_pattern, wrapped
from jsparse.planning.output.pattern import Assembly, future_place, new_format
from jsparse.planning.output.resolve import asked_place, result_place
from jsparse.planning.request import OutputRequest
from jsparse.planning.semiring_dtype import check_meaning
from jsparse.planning.signature import Signature, StoredOn
from jsparse.planning.typed_product import Product, checked_sizes
from jsparse.primitives.entries_spec import Entries
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.entrywise import compiled

__all__ = ["Summation", "summation", "total"]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A term: a number times a product of the operands at `places`."""

    coefficient: complex
    work: Contraction
    places: tuple[int, ...]

    def values(self, operands: Sequence[Any], on: Any) -> jax.Array:
        """What the term adds, dense or on the result's pattern."""
        taken = [operands[n] for n in self.places]
        out = computed(self.work, taken, "dense") if self.work.is_prepared else product_values(self.work, taken, on)
        if self.coefficient in (1, -1):
            return out if self.coefficient == 1 else -out
        number = as_dtype(self.coefficient, out.dtype)
        if on is None or np.isfinite(number):
            return out * number
        return cast(jax.Array, compiled(mul, on.retyped(self.work.result), out, number))


@dataclass(frozen=True, slots=True)
class Summation:
    """A statement that is checked. `result`, `assembly` and `entries` are as in `Contraction`.

    Attributes:
        dtype: the result's, to which the sum of all terms is rounded.
        resorted: what is converted before: the number of a term, of a factor in it, and the format it gets. Then only
            this and `format` are said, and the statement of converted factors says the rest.
        format: then the format of a new dynamic pattern that the result gets.
        repeated: of a dense result, the dimensions along which all of it is the same, and its shape. It is computed
            without them.
    """

    dtype: np.dtype
    terms: tuple[Scaled, ...] = ()
    result: Pattern | DynamicType | None = None
    assembly: Assembly | None = None
    entries: Entries | None = None
    resorted: tuple[tuple[int, int, Format], ...] = ()
    format: Format | None = None
    repeated: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def total(work: Summation, operands: Sequence[Any], out_format: object) -> Any:
    """The result of a statement on its operands: an array or a SparseTensor."""
    if work.entries is not None and work.assembly is not None:
        of_terms = [(term.work, [operands[n] for n in term.places]) for term in work.terms]
        return fused_entries(work.entries, work.assembly, of_terms, operands, work.dtype)
    on = _pattern(work, operands, out_format)
    values = reduce(add, (term.values(operands, on) for term in work.terms))
    out = wrapped(converted(values, work.dtype), work.result, on)
    if work.repeated is None:
        return out
    dims, shape = work.repeated
    return jnp.broadcast_to(jnp.expand_dims(out, dims), shape)


def _pattern(work: Summation, operands: Sequence[Any], out_format: object) -> DynamicPattern | None:
    if work.assembly is not None:
        return work.assembly.pattern(operands)
    first = work.terms[0]
    return result_pattern(first.work, [operands[n] for n in first.places], out_format)


@remembered(maxsize=REMEMBERED)
def summation(
    text: str,
    statement: Statement,
    names: tuple[str, ...],
    operands: tuple[Signature, ...],
    out: OutputRequest,
    nse: int | None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
    shape: tuple[int, ...] | None = None,
) -> Summation:
    """Check a statement whose tensors `names` have these signatures. `preferred` is the dtype of the result, by default
    what operands and numbers promote to. `shape` is its shape, None if the caller did not pass it.

    Raises ShapeError, DTypeError, FormatError, PatternError as einsum does.
    """
    products, places = _products(text, statement, names, operands, out, shape)
    products = [replace(product, semiring=semiring) for product in products]
    coefficients = [term.coefficient for term in statement.terms]
    numbers = [number for number in coefficients if not _is_one(number)]
    dtypes = dtypes_of(text, operands, numbers, preferred)
    check_meaning(text, semiring, dtypes.promoted)
    _check_numbers(text, coefficients, dtypes.promoted)
    place = asked_place(text, products, out, nse)
    products, repeated = _without_repeats(products) if place is None else (products, None)
    future = future_place(text, products, place, nse)
    moved = tuple((n, factor, to) for n, product in enumerate(products) for factor, to in resorted(product, future))
    if moved:
        return Summation(dtypes.result, resorted=moved, format=new_format(future))
    on, assembly = result_place(text, products, places, place, nse)
    terms = tuple(
        Scaled(number, _term(text, product, dtypes.of_term, on), where)
        for number, product, where in zip(coefficients, products, places, strict=True)
    )
    entries = fused(assembly, [(term.coefficient, term.work) for term in terms])
    result = None if on is None else on.pattern
    return Summation(dtypes.result, terms, result, assembly, entries, repeated=repeated)


def _without_repeats(
    products: list[Product],
) -> tuple[list[Product], tuple[tuple[int, ...], tuple[int, ...]] | None]:
    """The terms without the indices of a dense result that none of them carries; and of what it has there the
    dimensions, and its shape."""
    kept, shape = products[0].kept, products[0].shape
    carried = {v for product in products for indices in product.indices for v in indices}
    dims = tuple(dim for dim, v in enumerate(kept) if v not in carried)
    if not dims:
        return products, None
    name = products[0].assignment.target.tensor
    target = Access(name, tuple(v for v in kept if v in carried))
    return [replace(x, assignment=Assignment(target, x.assignment.factors)) for x in products], (dims, shape)


def _products(
    text: str,
    statement: Statement,
    names: tuple[str, ...],
    operands: tuple[Signature, ...],
    out: OutputRequest,
    shape: tuple[int, ...] | None,
) -> tuple[list[Product], list[tuple[int, ...]]]:
    """The terms with the signatures of their operands, and the numbers of these."""
    place = {name: n for n, name in enumerate(names)}
    factors = [factor for term in statement.terms for factor in term.factors]
    for factor in factors:
        _check_rank(text, factor, operands[place[factor.tensor]])
    shapes = [(factor, operands[place[factor.tensor]].shape) for factor in factors]
    pattern = (statement.target, out.pattern.shape) if isinstance(out, StoredOn) else None
    sizes = checked_sizes(text, shapes, pattern, None if shape is None else (statement.target, shape))
    places = [tuple(place[factor.tensor] for factor in term.factors) for term in statement.terms]
    products = [
        Product(Assignment(statement.target, term.factors), tuple(operands[n] for n in where), sizes)
        for term, where in zip(statement.terms, places, strict=True)
    ]
    return products, places


def _term(text: str, product: Product, dtypes: Dtypes, on: StoredOn | None) -> Contraction:
    """A term on the result's pattern, or dense: then perhaps in steps, if it carries all of the result's indices."""
    carried = {v for indices in product.indices for v in indices}
    if on is None and set(product.kept) <= carried:
        work = stated(text, product.assignment, product.operands, "dense", None, dtypes.result, product.semiring)
        if work.dtypes.promoted == dtypes.promoted:
            return work
    return contracted(text, product, dtypes, on)


def _check_numbers(text: str, coefficients: Sequence[complex], dtype: np.dtype) -> None:
    """A bool has no negative; an integer is computed with in 32 bits at least, in which its coefficient has to fit."""
    if dtype == np.bool_ and any(number != 1 for number in coefficients):
        raise DTypeError(
            f"Expected operands of '{text}' that can be subtracted, but all are bool. Convert one of them with .astype."
        )
    if dtype.kind in "iu":
        most = np.iinfo(accumulator(dtype.name)).max
        large = [number for number in coefficients if abs(number) > most]
        if large:
            raise DTypeError(
                f"Expected numbers of at most {most} with the {dtype} operands of '{text}', but got {large[0]}. "
                f"Convert an operand to float with .astype."
            )


def _is_one(number: complex) -> bool:
    return isinstance(number, int) and abs(number) == 1


def _check_rank(text: str, access: Access, operand: Signature) -> None:
    if len(access.indices) != len(operand.shape):
        raise ShapeError(
            f"Expected tensor {access.tensor} of '{text}' to have rank {len(access.indices)}, as {access} says, but "
            f"it has shape {operand.shape}."
        )
