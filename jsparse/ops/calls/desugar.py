"""Rewrites a statement with calls to a statement without calls: each call becomes a tensor, which is computed first.

Powers and divisors become tensors, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.base.arrays import Array, jax_array
from jsparse.formats import Pattern
from jsparse.notation import Access, Product
from jsparse.notation.statement import Call, Statement
from jsparse.notation.terms import base_and_exponent
from jsparse.ops.aligned import poison_if_overflowed, same_pattern
from jsparse.ops.calls.evaluation import Points, conditional, evaluate_call
from jsparse.ops.calls.operands import Operands, Place, operands_of
from jsparse.ops.calls.places import Places
from jsparse.planning.signature import OutFormat
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


def without_calls(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    out_format: OutFormat,
    shape: Sequence[int] | None,
) -> tuple[Statement, dict[str, Any]]:
    """Replace the calls of a statement by tensors. Return the new statement, and all tensors by name.

    Args:
        tensors: the tensors by name, powers included.
        shape: the target's shape, if the caller gave it.

    Raises ShapeError if ranks or sizes do not agree, PatternError for a call that is not 0 where no operand stores an
    entry, unless another factor or `out_format` determines where its values are needed.
    """
    if not statement.calls:
        return statement, tensors
    calls = _Calls(statement, operands_of(text, statement, tensors, out_format, shape), out_format)
    terms = tuple(calls.term(term) for term in statement.terms)
    return replace(statement, terms=terms, calls=()), {**tensors, **calls.made}


class _Calls:
    """The calls of a statement, and the tensors that replace them.

    A call is computed once for each `Place`, a pattern or all points, where the statement needs its values.

    Attributes:
        made: the tensors that stand for calls and their powers, by name.
    """

    def __init__(self, statement: Statement, operands: Operands, out_format: OutFormat) -> None:
        self.operands, self.places = operands, Places(statement, operands, out_format)
        self.calls = statement.calls
        self.made: dict[str, Any] = {}
        self._values: list[tuple[Call, Place, Any]] = []

    def term(self, term: Product) -> Product:
        """Replace the calls in a term by tensors."""
        place_of = self.places.of_term(term)
        return replace(term, factors=tuple(self.factor(f, place_of[f]) if f.is_call else f for f in term.factors))

    def factor(self, factor: Access, place: Place) -> Access:
        """Return an access to a new tensor, which has the values of a call, or of a power of a call, at a place."""
        _, exponent = base_and_exponent(factor.tensor)
        value, name = self.value(self.places.known.call_of(factor), place), factor.tensor
        while name in self.made:
            name = f"{name}'"
        self.made[name] = value if exponent == 1 else power(value, exponent)
        return Access(name, place.indices)

    def value(self, call: Call, place: Place) -> Any:
        """Return the tensor with the values of a call at a place. For equal arguments it is computed only once."""
        for other, where, value in self._values:
            if other == call and where.indices == place.indices and same_pattern(where.pattern, place.pattern):
                return value
        value = self._compute_call(call, place)
        self._values.append((call, place, value))
        return value

    def _compute_call(self, call: Call, place: Place) -> SparseTensor | jax.Array:
        accesses = tuple(dict.fromkeys(self.places.accesses(*call.factors)))
        bare = frozenset(filter(self.operands.is_bare, accesses))
        gathered = tuple(access for access in accesses if access not in bare)
        points = Points(call, self.calls, gathered, self.places.keys, (), bare)
        flags = tuple(sorted(n for n in conditional(points) if not self.places.is_complete(n, place)))
        points = replace(points, flags=flags)
        arrays = [self.operands.at(place, access) for access in gathered]
        arrays += [self.operands.presence(place, self.places.sources[n]) for n in flags]
        if place.pattern is None:
            values = jnp.broadcast_to(_at_all_points(*arrays, points=points), self.operands.shape(place.indices))
        else:
            values = jit_map(evaluate_call, place.pattern, *arrays, points=points)
        values = poison_if_overflowed(values, place.pattern, map(self.operands.pattern, accesses))
        return values if place.pattern is None else SparseTensor._wrap(values, place.pattern)


@partial(jax.jit, static_argnames="points", inline=True)
def _at_all_points(*arrays: jax.Array, points: Points) -> jax.Array:
    return jnp.asarray(evaluate_call(*arrays, points=points))


def with_powers(statement: Statement, tensors: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of a statement by name, including powers such as "x**-1".

    A power of a sparse tensor acts on its stored entries only. Negative powers of integers are floats.
    """
    used = {name: base_and_exponent(name) for name in statement.tensors()}
    needed = {name: x for name, x in tensors.items() if name in used or name == statement.target.tensor}
    for name, (base, exponent) in used.items():
        if name not in needed:
            needed[name] = power(tensors[base], exponent)
    return needed


def power(x: PatternLike | Array, exponent: float) -> Any:
    """Raise a tensor of a statement to a power. In a sparse tensor, only stored entries are raised."""
    if isinstance(x, Pattern | DynamicPattern):
        return x  # a tensor of ones
    if not isinstance(x, SparseTensor):
        x = jax_array(x, "the base of a power in evaluate to be an array of numbers")
    if exponent == -1:
        return 1 / x
    if exponent < 0 and not jnp.issubdtype(x.dtype, jnp.inexact):
        x = x.astype(jnp.result_type(float))
    return x**exponent
