"""Operands of an elementwise function on one pattern: where the function may differ from 0, and their values there.

An operand is an array, a tensor or a pattern, with an index variable for each dimension. The pattern is the union, over
some sets of operands, of the entries that all operands of a set store. So the union of two patterns is the sum A + B,
and their intersection the product A * B, of patterns without values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import Owner, memoize
from jsparse.errors import DTypeError, shorten
from jsparse.formats import Pattern
from jsparse.notation import Access, IndexVar, Product, Statement
from jsparse.notation.background import ABSENT, Background
from jsparse.notation.functions import COMPARISONS, FUNCTIONS, Function
from jsparse.planning.planned import plan_statement
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.sparse_tensor import SparseTensor

PlainPattern: TypeAlias = Pattern | DynamicPattern
Indices: TypeAlias = tuple[IndexVar, ...]
PatternSets: TypeAlias = tuple[tuple[tuple[PlainPattern, Indices], ...], ...]
"""For each set the patterns that it contains, each with its index variables."""

Sets: TypeAlias = tuple[frozenset[int], ...]
"""Sets of patterns, by number."""

_RESULT = "'result"  # a name that no tensor of a statement has


def join_patterns(text: str, indices: Indices, sets: PatternSets, shape: tuple[int, ...]) -> PlainPattern:
    """Return the pattern of the points that all patterns of some set store. Dense levels store what no pattern has.

    Args:
        text: the operation, for messages.
        indices: the index variables of the result, whose sizes are `shape`.
    """
    if len(sets) == 1 and len(sets[0]) == 1:
        ((pattern, own),) = sets[0]
        if own == indices[: len(own)]:
            added = shape[len(own) :]
            return pattern.extended(added) if added else pattern
    if all(isinstance(pattern, Pattern) for patterns in sets for pattern, _ in patterns):
        return _join_static(text, indices, sets, shape)[0]
    return _join(text, indices, sets, shape)


@memoize(maxsize=256)
def _join_static(
    text: str, indices: Indices, sets: PatternSets, shape: tuple[int, ...]
) -> tuple[PlainPattern, Owner | None]:
    """Return the joined pattern, and its owner, so that plans on it live as long as the operands' tensors.

    An operand with the same index arrays has the same owner, which this memo must not keep alive.
    """
    pattern: Any = _join(text, indices, sets, shape)
    operands: Any = (operand for patterns in sets for operand, _ in patterns)
    is_new = all(operand.identity() != pattern.identity() for operand in operands)
    return pattern, pattern.owner() if is_new else None


def _join(text: str, indices: Indices, sets: PatternSets, shape: tuple[int, ...]) -> PlainPattern:
    tensors: dict[str, Any] = {}
    terms = []
    for patterns in sets:
        factors = []
        for stored, own in patterns:
            # An operand has one name in all sets, so that the statement reads it once.
            name = next((name for name, x in tensors.items() if x is stored), f"'{len(tensors)}")
            tensors[name] = stored
            factors.append(Access(name, own))
        terms.append(Product(1, tuple(factors)))
    statement = Statement(Access(_RESULT, indices), tuple(terms))
    # The dtype has NaN, so that an operand that has overflowed marks the pattern. Integers would make the program fail,
    # although the operands' values, which are NaN, say what is wrong.
    floats = np.dtype(np.float32)
    pattern: PlainPattern = plan_statement(text, statement, tensors, None, None, floats, shape=shape).run().pattern
    return pattern


def values_at(text: str, access: Access, x: Any, indices: Indices, pattern: PlainPattern) -> jax.Array:
    """Return the elements of an operand at the slots of a pattern over `indices`, 0 where the operand stores nothing.

    Args:
        access: the operand's name in messages, and its index variables.
    """
    if isinstance(x, SparseTensor) and access.indices == indices and same_pattern(x.pattern, pattern):
        return x.values
    statement = Statement(Access(_RESULT, indices), (Product(1, (access,)),))
    planned = plan_statement(text, statement, {access.tensor: x}, pattern, None, shape=tuple(pattern.shape))
    values: jax.Array = planned.run().values
    return values


def poison_if_overflowed(
    values: jax.Array, pattern: PlainPattern | None, operands: Iterable[PlainPattern | None]
) -> jax.Array:
    """Return the values on a pattern, or NaN if an operand's pattern overflowed: functions may hide its NaN."""
    if jnp.issubdtype(values.dtype, jnp.inexact):
        for own in operands:
            if isinstance(own, DynamicPattern) and not same_pattern(own, pattern):
                values = own.poison(values)
    return values


def same_pattern(a: PlainPattern | None, b: PlainPattern | None) -> bool:
    """Whether two patterns certainly have the same slots. None matches only None."""
    return a is b or (a is not None and b is not None and a.format == b.format and same_entries(a, b))


def smallest_sets(patterns: Sequence[int], value: Callable[[frozenset[int]], Background]) -> Sets:
    """Find the smallest sets of patterns such that a value is not absent where just the patterns of a set are stored.

    There are no sets if the value is absent everywhere.
    """
    smallest: list[frozenset[int]] = []
    for size in range(len(patterns) + 1):
        for chosen in map(frozenset, combinations(patterns, size)):
            if not any(part <= chosen for part in smallest) and value(chosen) is not ABSENT:
                smallest.append(chosen)
    return tuple(smallest)


def row_of(function: str) -> Function:
    """Return the row of a function in the table of functions or of comparisons."""
    return COMPARISONS[function] if function in COMPARISONS else FUNCTIONS[function]


def of_numbers(function: str, numbers: Sequence[complex]) -> complex:
    """Compute a function of known numbers. The value may be infinite or NaN."""
    row = row_of(function)
    numbers = [x * 1.0 for x in numbers] if row.divides else numbers
    with jax.ensure_compile_time_eval(), jax.debug_nans(False), jax.debug_infs(False):
        return complex(row.function(*numbers))


def call_function(*arguments: Any, name: str, what: object) -> Any:
    """Compute a function of arrays. Raises DTypeError, which shows the call `what`, for dtypes that JAX refuses."""
    try:
        return row_of(name).function(*arguments)
    except (TypeError, ValueError) as error:
        dtypes = ", ".join(str(jnp.result_type(x)) for x in arguments)
        raise DTypeError(
            f"Expected arguments with dtypes for which JAX computes '{shorten(str(what))}', but got {dtypes}. Convert "
            "operands with .astype."
        ) from error
