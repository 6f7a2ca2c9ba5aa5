"""`jsparse.evaluate`: statements of tensor index notation on sparse and dense tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from operator import index
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import Array
from jsparse.base.limits import parse_nse
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.semiring import PLUS_TIMES, Semiring, semiring_named
from jsparse.convert.choice import in_chosen_format
from jsparse.convert.composed import composition_of, in_composed_format, plain_out_format
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import (
    FormatError,
    NotYetSupportedError,
    ScheduleError,
    ShapeError,
    SubscriptError,
    short_repr,
    shorten,
)
from jsparse.formats.composed import is_composed
from jsparse.formats.format import is_auto
from jsparse.formats.validate import LARGEST_SIZE
from jsparse.notation.ellipsis import letters_of
from jsparse.notation.evaluate import parse_statement
from jsparse.notation.statement import Statement
from jsparse.notation.terms import base_and_exponent
from jsparse.ops.calls.desugar import with_powers, without_calls
from jsparse.ops.einsum import contract
from jsparse.planning.desugaring import DesugaredStatement, as_product, check_distinct, counting, desugar_statement
from jsparse.planning.dtypes import parse_preferred_dtype
from jsparse.planning.plan import Schedules, as_schedules
from jsparse.planning.planned import Planned, as_array, plan_statement
from jsparse.planning.signature import OutFormat, is_sparse
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike


def evaluate(
    text: str,
    /,
    *,
    out_format: OutFormat = None,
    nse: int | None = None,
    semiring: str | Semiring = "plus_times",
    schedule: Schedule | Sequence[Schedule | None] | None = None,
    preferred_element_type: DTypeLike | None = None,
    shape: tuple[int, ...] | None = None,
    **tensors: TensorLike | PatternLike,
) -> jax.Array | SparseTensor:
    """Compute a sum of products of sparse and dense tensors, in tensor index notation.

        >>> y = jsparse.evaluate("y[i] = b[i] - 2 * A[i,j] * x[j]", b=b, A=A, x=x)
        >>> D = jsparse.evaluate("D[i,j] = (A[i,k] + B[i,k]) * X[k,j] - Y[i,j]", A=A, B=B, X=X, Y=Y)

        >>> e = {"rows": np.array([0, 2, 2]), "cols": np.array([1, 0, 1]), "V": jnp.ones(3)}
        >>> C = jsparse.evaluate("C[rows[p],n] += V[p] * X[cols[p],n]", shape=(3, 64), X=X, **e)
        >>> d = jsparse.evaluate("d[rows[p]] min= V[p] + x[cols[p]]", shape=(3,), x=x, **e)

        >>> R = jsparse.evaluate("R[i,j] = exp(A[i,j] - m[i]) / s[i]", A=A, m=b, s=b, out_format=A)
        >>> y = jsparse.evaluate("y[i] += relu(A[i,j] * x[j] + B[i,j])", A=A, B=B, x=x)

    Each term is summed over its indices that are not in the result. A term without one of the result's indices is
    repeated along it; if no term has that index, pass `shape`. On both sides an index may be read from a tensor of
    integers. If that integer is out of range, a read contributes nothing and a write is dropped (see
    docs/concepts/indirect.md).
    Functions and comparisons are computed at each point, before the sum, with 0 for elements that are not stored (see
    docs/concepts/results.md). Statements are compiled, differentiable and transformable as `einsum` is.

    Args:
        text: `name[indices] = sum of products` of numbers, tensors and functions, with parentheses. Names have any
            length; a name without brackets is a tensor of rank 0. `/` divides by any of these, and `** p` raises to the
            power of a number p: both act on each element, and only on the stored entries of a sparse tensor. Functions
            are exp, relu, max, where and others, and comparisons. `=` writes each element of the target once, `+=` adds
            to it, `min=` and `max=` keep the smallest or the largest of all values written to it.
        tensors: the tensors by name: SparseTensors, Patterns, arrays (also of jax.experimental.sparse and scipy.sparse)
            and numbers. A tensor with the target's name is the target's previous content.
        shape: the result's shape. It is required if an index of the result is read from a tensor, or if no term
            carries it.
        out_format: "dense"; a format, for a sparse result in that format; "auto", as in `einsum`; a Pattern or a
            SparseTensor, to compute on that pattern only. By default the result is sparse if every term is, by the
            rules of `einsum`.
        nse: the capacity, in slots, of a sparse result with a dynamic pattern; by default the bound that follows from
            the operands.
        semiring: a semiring as in `einsum`, for products of tensors without functions and numbers. `+` is its ⊕, so
            that with "min_plus", `A[i,j] + B[i,j]` is the smaller entry where both store an entry, and the stored entry
            elsewhere.
        schedule: steps that the kernel must contain, as in `einsum`. If the statement has several terms, pass a list
            with a schedule or None for each term.
        preferred_element_type: the dtype of the result, by default the dtype to which tensors and numbers promote; see
            `einsum`.

    Returns:
        An array of the result's shape, or a SparseTensor.

    Raises:
        SubscriptError: the text does not follow the notation (the message points at the error), `=` does not say
            whether the values or the arguments of a function are summed, or tensors are missing or unexpected.
        ShapeError, DTypeError, FormatError, PatternError, SemiringError, ScheduleError: as in `einsum`. PatternError
            also if `=` writes an element twice, as far as the indices are known, or if a function has values other than
            0 where no operand stores an entry and nothing says that they are wanted.
    """
    shown = f"'{shorten(text)}'"
    schedules = as_schedules(schedule, shown)
    nse = parse_nse(nse, shown)
    statement, ring, tensors = _parse_and_check(text, tensors, semiring, shape, out_format)
    is_converted = is_auto(out_format) or is_composed(out_format) or composition_of(out_format)
    if is_converted and not _takes_composed(statement, ring, tensors):
        options = {"semiring": semiring, "shape": shape, "nse": nse, "preferred_element_type": preferred_element_type}
        plain = plain_out_format(out_format, len(statement.target.indices))
        result: Any = evaluate(text, out_format=plain, **options, **tensors)  # type: ignore[arg-type]
        return in_chosen_format(result, ring, shown) if is_auto(out_format) else in_composed_format(result, out_format)
    preferred = parse_preferred_dtype(f"'{text}'", preferred_element_type)
    request = _Request(text, statement, ring, tensors, shape, out_format, nse, preferred, schedules)
    if not ring.is_linear and len(statement.terms) > 1:
        if schedules:
            raise ScheduleError(
                f"Expected no schedule= for a sum of several terms over a semiring, '{shorten(text)}', because each "
                "term has its own kernel. Evaluate the terms one by one, each with its schedule."
            )
        return _sum_by_semiring(request)
    rewritten, operands, planned = request.plan()
    before, text = tensors.get(statement.target.tensor), shorten(text)
    _check_format(text, statement, before, out_format)
    if statement.operator == "=":
        check_distinct(text, rewritten)
    out = planned.run()
    return out if before is None else _combine_with_previous(text, rewritten, operands, before, out)


class _Request(NamedTuple):
    """A statement that has been checked, its tensors, and what its result should be."""

    text: str
    statement: Statement
    ring: Semiring
    tensors: dict[str, Any]
    shape: tuple[int, ...] | None
    out_format: OutFormat
    nse: int | None
    preferred: np.dtype | None
    schedules: Schedules = ()

    def plan(self) -> tuple[DesugaredStatement, dict[str, Any], Planned]:
        """Compute calls, plan the rest. Returns the statement without indirect accesses, its operands, and the plan."""
        tensors = with_powers(self.statement, self.tensors)
        text = shorten(self.text)  # only messages use it
        shape = _target_shape(text, tensors.get(self.statement.target.tensor), self.shape)
        statement, tensors = without_calls(text, self.statement, tensors, self.out_format, shape)
        rewritten = _desugar(text, statement, tensors, shape)
        plain, operands, ring = _by_semiring(text, rewritten, tensors, self.ring)
        options = self.out_format, self.nse, self.preferred, ring, shape, self.schedules
        return rewritten, operands, plan_statement(text, plain, operands, *options)


def _sum_by_semiring(request: _Request) -> SparseTensor | jax.Array:
    """Compute the sum ⊕ of several terms: by min_plus, `A[i, j] + B[i, j]` is the smaller of two entries.

    Each term is computed as a separate statement. As in the element-wise addition of GraphBLAS, terms are combined
    where at least one of them stores an entry. Elements that no term stores are the zero of ⊕: a sparse result does not
    store them, and an array contains that zero.
    """
    statement, shape, out_format = request.statement, request.shape, request.out_format
    on = out_format if out_format == "dense" or is_sparse(out_format) else None
    whole = set(statement.target.variables())
    results: list[SparseTensor | jax.Array] = []
    for term in sorted(statement.terms, key=lambda term: not whole.issubset(term.variables())):
        one = replace(statement, terms=(term,))
        named = {base_and_exponent(name)[0] for name in one.tensors()}
        of_term = {name: x for name, x in request.tensors.items() if name in named}
        # A term that lacks an index is repeated along it.
        sizes = results[0].shape if shape is None and results else shape
        _, _, planned = request._replace(statement=one, tensors=of_term, shape=sizes, out_format=on, nse=None).plan()
        results.append(planned.run())
    return _combine_terms(results, request.ring, out_format, request.nse)


_ADD: dict[str, Callable[..., jax.Array]] = {
    "+": jnp.add,
    "*": jnp.multiply,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "|": jnp.bitwise_or,
    "&": jnp.bitwise_and,
}


def _combine_terms(
    terms: Sequence[SparseTensor | jax.Array], ring: Semiring, out_format: OutFormat, nse: int | None
) -> SparseTensor | jax.Array:
    """Combine terms of equal shape by ⊕. The result is sparse if all terms are and `out_format` is not "dense"."""
    add = _ADD[ring.add]
    if is_sparse(out_format):  # all terms are values on that pattern
        first, *others = terms
        return reduce(lambda one, other: one.map(add, other), others, first)
    if out_format != "dense" and all(isinstance(x, SparseTensor) for x in terms):
        union = _union(terms, out_format, nse)
        first, *others = (_convert_term(x, ring, union) for x in terms)
        return reduce(lambda one, other: one.map(add, other), others, first)
    return reduce(add, (_convert_term(x, ring, "dense") for x in terms))


def _union(terms: Sequence[SparseTensor | jax.Array], out_format: OutFormat, nse: int | None) -> SparseTensor:
    """Return a tensor that stores an entry wherever at least one of the terms does."""
    indices = ", ".join(letters_of(terms[0].ndim))
    text = f"U[{indices}] = {' + '.join(f'P{n}[{indices}]' for n in range(len(terms)))}"
    patterns = {f"P{n}": x.pattern for n, x in enumerate(terms) if isinstance(x, SparseTensor)}
    union: SparseTensor = plan_statement(text, parse_statement(text), patterns, out_format, nse).run()
    return union


def _convert_term(x: SparseTensor | jax.Array, ring: Semiring, out_format: OutFormat) -> Any:
    """Convert a term to another pattern or to an array. Elements that the term does not store become the zero of ⊕."""
    if not isinstance(x, SparseTensor):
        return x
    letters = letters_of(x.ndim)
    return contract(f"{letters}->{letters}", x, semiring=ring, out_format=out_format)


def _check_format(text: str, statement: Statement, before: object, out_format: OutFormat) -> None:
    """Raise FormatError if a result in `out_format` cannot be combined with the target's previous content."""
    if before is None or out_format in (None, "dense"):
        return
    if not isinstance(before, SparseTensor):
        raise FormatError(
            f"Expected out_format of '{text}' to be 'dense', because {statement.target.tensor} is an array, but got "
            f"{out_format if isinstance(out_format, str) else type(out_format).__name__}. Pass it as a SparseTensor, "
            "or leave out out_format=."
        )


def _combine_with_previous(
    text: str, rewritten: DesugaredStatement, operands: dict[str, Any], before: Any, out: Any
) -> SparseTensor | jax.Array:
    """Combine the target's previous content with the result, as the statement's operator (such as `+=`) says."""
    if not isinstance(before, SparseTensor):
        before = as_array(before, text)
    combine: dict[str, Callable[[Any, Any], Any]] = {"min=": jnp.minimum, "max=": jnp.maximum}
    match rewritten.statement.operator:
        case "+=":
            return before + out
        case _ if isinstance(out, SparseTensor) or isinstance(before, SparseTensor):
            raise NotYetSupportedError(
                f"'{rewritten.statement.operator}' cannot yet replace some entries of a sparse tensor: '{text}'. Pass "
                f"{rewritten.statement.target.tensor} as a dense array, and out_format='dense'."
            )
        case "=":
            writes, same = counting(rewritten)
            count = plan_statement(text, writes, operands, "dense", None).run()
            return jnp.where(jnp.expand_dims(count > 0, same), out, before)
        case operator:
            return combine[operator](before, out)


def plan_sum(
    text: str,
    tensors: dict[str, Any],
    shape: tuple[int, ...] | None,
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None = None,
    semiring: str | Semiring = PLUS_TIMES,
    schedules: Schedules = (),
) -> Planned:
    """Return the plan of `evaluate` for these tensors. The plan ignores the target's previous content.

    The statement must not have calls.
    """
    nse = parse_nse(nse, f"'{shorten(text)}'")
    statement, ring, tensors = _parse_and_check(text, tensors, semiring, shape, out_format)
    if not ring.is_linear and len(statement.terms) > 1:
        raise NotYetSupportedError(
            f"Expected one product over {ring}, which is one kernel, but '{shorten(text)}' has several terms, each "
            "with its own kernel. Evaluate them one by one."
        )
    return _Request(text, statement, ring, tensors, shape, out_format, nse, preferred, schedules).plan()[2]


def _parse_and_check(
    text: str, tensors: dict[str, Any], semiring: str | Semiring, shape: Sequence[int] | None, out_format: OutFormat
) -> tuple[Statement, Semiring, dict[str, Any]]:
    """Parse a statement, and convert its tensors to types that planning takes.

    Check that its tensors are given, and that only plus_times has functions and numbers.
    """
    statement, ring = parse_cached(text), semiring_named(semiring, text)
    if shape is None and statement.target.tensor not in tensors and not is_sparse(out_format):
        statement = parse_cached(text, sized=False)
    if not ring.is_linear and statement.calls:
        raise NotYetSupportedError(
            f"evaluate takes sums of products of tensors over {ring}, without functions, but '{text}' has "
            f"{shorten(statement.calls[-1])}. Compute that in an earlier statement."
        )
    if not ring.is_linear and any(term.coefficient != 1 or not term.factors for term in statement.terms):
        raise NotYetSupportedError(
            f"evaluate takes sums of products of tensors over {ring}, without numbers, but '{text}' has a number or a "
            "difference. Evaluate the products one by one, and combine them with jax.numpy."
        )
    if not ring.is_linear and statement.operator != "=":
        raise SubscriptError(
            f"Expected '=' in a statement over {ring}, because the semiring says how products are combined, but "
            f"'{text}' has '{statement.operator}'. Leave out semiring=, or write '='."
        )
    _check_names(text, statement, tensors)
    composed = _takes_composed(statement, ring, tensors)
    return statement, ring, {n: as_sparse_operand(x, f"'{shorten(text)}'", composed) for n, x in tensors.items()}


def _takes_composed(statement: Statement, ring: Semiring, tensors: Collection[str]) -> bool:
    """Whether a statement takes composed tensors as they are: a sum of products of tensors."""
    return (
        statement.operator == "="
        and not statement.calls
        and not statement.target.indirections()
        and statement.target.tensor not in tensors
        and (ring.is_linear or len(statement.terms) == 1)
        and all(factor.tensor in tensors and not factor.indirections() for factor in statement.read())
    )


def _by_semiring(
    text: str, rewritten: DesugaredStatement, tensors: dict[str, Any], semiring: Semiring
) -> tuple[Statement, dict[str, Any], Semiring]:
    """Return a statement, its operands and its semiring.

    A statement with `min=` or `max=` becomes one product by a semiring whose ⊕ is min or max.
    """
    operands = {**tensors, **rewritten.relations}
    if rewritten.statement.operator not in ("min=", "max="):
        return rewritten.statement, operands, semiring
    plain, more, semiring = as_product(
        rewritten.statement, operands, lambda product: plan_statement(text, product, operands, None, None).run()
    )
    return plain, {**operands, **more}, semiring


def _desugar(
    text: str, statement: Statement, tensors: dict[str, Any], shape: tuple[int, ...] | None
) -> DesugaredStatement:
    """Rewrite a statement to have no indirect accesses. Raises ShapeError if the target's shape is unknown."""
    target = statement.target
    if tensors.get(target.tensor) is not None and statement.operator == "=" and not target.indirections():
        raise SubscriptError(
            f"Expected no tensor for {target.tensor}, because '{text}' overwrites all of it, but one was passed. Leave "
            "it out, or write '+='."
        )
    if target.indirections() and shape is None:
        raise ShapeError(
            f"Expected shape= for '{text}', because the integers of {', '.join(map(str, target.indirections()))} do "
            f"not determine the sizes of {target.tensor}. Pass shape=, a tuple of {len(target.indices)} sizes."
        )
    return desugar_statement(text, statement, tensors, shape)


def _target_shape(text: str, before: Array | None, shape: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the target's shape, from `shape` or the target's previous content; None if neither is given.

    Raises ShapeError if `shape` is not a valid shape, or contradicts the previous content.
    """
    had = None if before is None else tuple(before.shape if hasattr(before, "shape") else np.shape(before))
    if shape is None:
        return had
    try:
        sizes = tuple(index(size) for size in shape)
    except (TypeError, ValueError):
        sizes = (-1,)
    if min(sizes, default=0) < 0 or max(sizes, default=0) > LARGEST_SIZE:
        raise ShapeError(
            f"Expected shape= of '{text}' to be a tuple of sizes from 0 to 2**62, but got {short_repr(shape)}."
        )
    if had not in (None, sizes):
        raise ShapeError(
            f"Expected shape= of '{text}' to be {had}, the shape of the tensor passed for the target, but got "
            f"{sizes}. Leave shape= out."
        )
    return sizes


@lru_cache(maxsize=1024)
def parse_cached(text: str, sized: bool = True) -> Statement:
    """Parse a statement (cached)."""
    return parse_statement(text, sized)


def _check_names(text: str, statement: Statement, tensors: dict[str, object]) -> None:
    names = list(dict.fromkeys(base_and_exponent(name)[0] for name in statement.tensors()))
    missing = [name for name in names if name not in tensors]
    if missing:
        raise SubscriptError(
            f"Expected a tensor for every name in '{shorten(text)}'. Missing tensors: "
            f"{shorten(', '.join(missing))}. Pass {shorten(', '.join(f'{name}=...' for name in missing))}."
        )
    unknown = [name for name in tensors if name not in (*names, statement.target.tensor)]
    if unknown:
        raise SubscriptError(
            f"Expected only the tensors that '{shorten(text)}' names ({shorten(', '.join(names))}). Unexpected "
            f"tensors: {shorten(', '.join(unknown))}. Leave them out, or name them in the statement."
        )
