"""`jsparse.evaluate`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.algebra.assign import check_distinct, counting
from jsparse.algebra.compute import in_format
from jsparse.algebra.dtypes import preferred_dtype
from jsparse.algebra.indirect import Direct, direct
from jsparse.algebra.operands import OutFormat, as_array, asked
from jsparse.algebra.signature import is_relation
from jsparse.algebra.summation import Summation, summation, total
from jsparse.errors import NotYetSupportedError, ShapeError, SubscriptError
from jsparse.formats import Format
from jsparse.notation import Access
from jsparse.notation.evaluate import parse_statement
from jsparse.notation.statement import Statement
from jsparse.tensor import SparseTensor

__all__ = ["evaluate", "evaluated", "stated_sum"]

ONE = "1"  # the factor of a term that has none; no tensor can be called so


def evaluate(
    text: str,
    /,
    *,
    out_format: OutFormat = None,
    nse: int | None = None,
    semiring: str = "plus_times",
    schedule: Any = None,
    preferred_element_type: Any = None,
    shape: tuple[int, ...] | None = None,
    **tensors: Any,
) -> jax.Array | SparseTensor:
    """Sums of products of sparse and dense tensors, in tensor index notation.

        y = jsparse.evaluate("y[i] = b[i] - 2 * A[i,j] * x[j]", b=b, A=A, x=x)
        D = jsparse.evaluate("D[i,j] = (A[i,k] + B[i,k]) * E[k,j] - F[i,j]", A=A, B=B, E=E, F=F)

    Each term is summed over the indices that the result lacks and that it carries itself; a term that lacks an index of
    the result is the same along it. Compiled, and differentiable, as `einsum` is.

    Args:
        text: `name[indices] = sum of products` of numbers and tensors, with parentheses. Names have any length; a name
            without brackets is a tensor of rank 0. Division is by numbers.
        tensors: what the names mean: SparseTensors, arrays, numbers.
        out_format: "dense"; a format, for a sparse result in that format; a SparseTensor to compute on its pattern
            only. By default the result is sparse if every term is, as a product of einsum would be.
        nse: the room of a sparse result with a dynamic pattern; by default, where operands bound it, theirs.
        preferred_element_type: the dtype of the result, by default what tensors and numbers promote to; see `einsum`.

    Returns:
        An array of the result's shape, or a SparseTensor.

    Raises:
        SubscriptError: the text does not follow the notation (the message points at the place), or tensors are missing
            or not named in it.
        ShapeError, DTypeError, FormatError, PatternError: as einsum raises them.
    """
    given = {"schedule": schedule}
    for name, value in given.items():
        if value is not None:
            raise NotYetSupportedError(f"evaluate does not take {name}= yet; leave it out of '{text}'.")
    if semiring != "plus_times":
        raise NotYetSupportedError(f"evaluate knows only 'plus_times' so far; '{text}' asks semiring={semiring!r}.")
    statement = _parsed(text)
    _check_names(text, statement, tensors)
    preferred = preferred_dtype(f"'{text}'", preferred_element_type)
    return _assigned(text, statement, tensors, shape, out_format, nse, preferred)


def _assigned(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    shape: tuple[int, ...] | None,
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None,
) -> Any:
    """The result of a statement, and what it leaves of the target that was there before."""
    before = tensors.get(statement.target.tensor)
    stated = _direct(text, statement, tensors, shape)
    if statement.operator in ("min=", "max="):
        raise NotYetSupportedError(f"evaluate does not take 'min=' and 'max=' yet: '{text}'.")
    if statement.operator == "=":
        check_distinct(text, stated)
    operands = {**tensors, **stated.relations}
    out = evaluated(text, stated.statement, operands, out_format, nse, preferred)
    wanted = _target_shape(before, shape)
    if wanted is not None and out.shape != wanted:
        raise ShapeError(
            f"Expected {statement.target.tensor} of '{text}' to have shape {wanted}, but it has shape {out.shape}."
        )
    if before is None:
        return out
    if statement.operator == "+=":
        return out + before
    writes, same = counting(stated)
    written = evaluated(text, writes, operands, "dense", None)
    return jnp.where(jnp.expand_dims(written > 0, same), out, before)


def _direct(text: str, statement: Statement, tensors: dict[str, Any], shape: tuple[int, ...] | None) -> Direct:
    """The statement without indirect accesses. Raises ShapeError if the target's shape does not follow."""
    target = statement.target
    before = tensors.get(target.tensor)
    if before is not None and statement.operator == "=" and not target.nested():
        raise SubscriptError(
            f"Expected no tensor for {target.tensor}, which '{text}' writes everywhere. Leave it out, or write '+='."
        )
    if target.nested() and shape is None and before is None:
        raise ShapeError(
            f"Expected shape= for '{text}', since the sizes of {target.tensor} do not follow from what "
            f"{', '.join(str(index) for index in target.nested())} reads. Pass shape=, {len(target.indices)} sizes."
        )
    return direct(text, statement, tensors, _target_shape(before, shape))


def _target_shape(before: Any, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape that the result has to have, if something says so."""
    if shape is not None:
        return tuple(shape)
    return None if before is None else tuple(getattr(before, "shape", ()))


def evaluated(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None = None,
) -> Any:
    """The result of a statement on tensors; `text` is for messages."""
    work, operands, out_format = _stated(text, statement, tensors, out_format, nse, preferred)
    return total(work, operands, out_format)


def stated_sum(
    text: str, tensors: dict[str, Any], shape: tuple[int, ...] | None, out_format: OutFormat, nse: int | None
) -> tuple[Summation, list[Any]]:
    """What `evaluate` does with these tensors, and its operands."""
    statement = _parsed(text)
    _check_names(text, statement, tensors)
    stated = _direct(text, statement, tensors, shape)
    work, operands, _ = _stated(text, stated.statement, {**tensors, **stated.relations}, out_format, nse)
    return work, operands


def _stated(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None = None,
) -> tuple[Summation, list[Any], OutFormat]:
    statement, more = _with_factors(statement, tensors)
    names = tuple(dict.fromkeys(factor.tensor for term in statement.terms for factor in term.factors))
    every = {**tensors, **more}
    operands = [every[name] if isinstance(every[name], SparseTensor) else as_array(every[name], text) for name in names]
    signatures, out = asked(text, operands, out_format)
    work = summation(text, statement, names, signatures, out, nse, preferred)
    if work.resorted:
        statement, taken = _converted(statement, work.resorted, every)
        return _stated(text, statement, {**every, **taken}, work.format or out_format, nse, preferred)
    return work, operands, out_format


def _converted(
    statement: Statement, resorted: tuple[tuple[int, int, Format], ...], tensors: dict[str, Any]
) -> tuple[Statement, dict[str, Any]]:
    """The statement with some factors in other formats, under names of their own."""
    terms, taken = list(statement.terms), {}
    for number, place, format in resorted:
        factors = list(terms[number].factors)
        name = f"{factors[place].tensor}'{number}.{place}"
        taken[name] = in_format(tensors[factors[place].tensor], format)
        factors[place] = replace(factors[place], tensor=name)
        terms[number] = replace(terms[number], factors=tuple(factors))
    return replace(statement, terms=tuple(terms)), taken


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Statement:
    return parse_statement(text)


def _with_factors(statement: Statement, tensors: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
    """A term of a number only, or of tables besides, gets the factor 1, an operand."""
    bare = [all(is_relation(tensors[factor.tensor]) for factor in term.factors) for term in statement.terms]
    if not any(bare):
        return statement, {}
    one = Access(ONE, ())
    terms = (
        replace(term, factors=(one, *term.factors)) if alone else term
        for term, alone in zip(statement.terms, bare, strict=True)
    )
    return replace(statement, terms=tuple(terms)), {ONE: jnp.asarray(1)}


def _check_names(text: str, statement: Statement, tensors: dict[str, Any]) -> None:
    wanted = statement.tensors()
    missing = [name for name in wanted if name not in tensors]
    if missing:
        raise SubscriptError(
            f"Expected a tensor for every name in '{text}', but {', '.join(missing)} did not come. Pass "
            f"{', '.join(f'{name}=...' for name in missing)}."
        )
    unknown = [name for name in tensors if name not in (*wanted, statement.target.tensor)]
    if unknown:
        raise SubscriptError(
            f"Expected tensors that '{text}' names ({', '.join(wanted)}), but {', '.join(unknown)} came as well."
        )
