"""Rewrites a statement with calls to a statement without calls: each call becomes a tensor, which is computed first.

Powers and divisors become tensors, too. A call is computed at many points at once, with functions of JAX. Operands are
arrays with an element for each point. An operand that is absent at a point (`support`) has the value 0 there. Products
with it, and its powers, are 0 there whatever the other factors are.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.base.arrays import Array, jax_array
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.notation import Access, Product
from jsparse.notation.statement import Call, Statement
from jsparse.notation.terms import base_and_exponent
from jsparse.ops.aligned import call_function, poison_if_overflowed, same_pattern
from jsparse.ops.calls.operands import Operands, Place, operands_of
from jsparse.ops.calls.places import Places
from jsparse.ops.calls.support import Keys, supports
from jsparse.planning.dtypes import check_coefficients
from jsparse.planning.signature import OutFormat
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


@dataclass(frozen=True)
class Points:
    """A call, and the known facts about its operands.

    Attributes:
        call: the call.
        calls: all calls of the statement, among them the calls in the arguments of `call`.
        operands: the accesses whose values are given.
        keys: the index of each access's pattern.
        flags: the indices of the patterns that have an array of flags. A flag is set where an entry is stored.
        bare: the accesses to patterns without values. Their entries count as 1.
    """

    call: Call
    calls: tuple[Call, ...]
    operands: tuple[Access, ...]
    keys: Keys = ()
    flags: tuple[int, ...] = ()
    bare: frozenset[Access] = frozenset()


def evaluate_call(*arrays: jax.Array, points: Points) -> jax.Array:
    """Compute the values of a call.

    `arrays` are the values of the operands, followed by one array for each pattern in `points.flags`. Such an
    array is nonzero where its pattern stores an entry.
    """
    return _Evaluation(points, arrays).call(points.call)


def conditional(points: Points) -> frozenset[int]:
    """Find the patterns for which `evaluate_call` needs to know where entries are stored.

    They are bare patterns, and patterns in products of several factors or in powers of calls.
    """
    known, found, calls = supports(points.calls, points.keys), set[int](), [points.call]
    while calls:
        call = calls.pop()
        for term in (term for terms in call.arguments for term in terms):
            inner = [known.call_of(factor) for factor in term.factors if factor.is_call]
            is_power = any(f.is_call and base_and_exponent(f.tensor)[1] != 1 for f in term.factors)
            for factor in term.factors:
                if factor in known.keys and (len(term.factors) > 1 or factor in points.bare):
                    found.add(known.keys[factor])
            if len(term.factors) > 1 or is_power:
                found.update(n for one in inner for n in known.patterns(one))
            calls += inner
    return frozenset(found)


class _Evaluation:
    def __init__(self, points: Points, arrays: Sequence[jax.Array]) -> None:
        self.points = points
        count = len(points.operands)
        self.values = dict(zip(points.operands, arrays, strict=False))
        self.flags = {n: x != 0 for n, x in zip(points.flags, arrays[count:], strict=True)}
        self.known = supports(points.calls, points.keys)

    def call(self, call: Call) -> jax.Array:
        arguments = [reduce(operator.add, map(self.product, terms)) for terms in call.arguments]
        if not call.function:
            return arguments[0]  # a sum in parentheses
        return call_function(*arguments, name=call.function, what=call)

    def product(self, term: Product) -> Any:
        values = [self.factor(factor) for factor in term.factors if factor not in self.points.bare]
        if not values:
            return self.where_present(term.factors, _number(term.coefficient))
        value = reduce(operator.mul, values)
        return self.times_coefficient(self.where_present(term.factors, value) if len(term.factors) > 1 else value, term)

    def times_coefficient(self, value: jax.Array, term: Product) -> jax.Array:
        number = term.coefficient
        if number == 1 and isinstance(number, int):
            return value
        dtype = value.dtype if number == -1 else jnp.result_type(value.dtype, type(number))
        check_coefficients(str(self.points.call), [number], dtype)
        return -value if number == -1 else value * (_number(number) if jnp.issubdtype(dtype, jnp.inexact) else number)

    def factor(self, access: Access) -> jax.Array:
        if not access.is_call:
            return self.values[access]
        value = self.call(self.known.call_of(access))
        _, exponent = base_and_exponent(access.tensor)
        return value if exponent == 1 else self.where_present([access], _power(value, exponent))

    def where_present(self, factors: Sequence[Access], value: Any) -> Any:
        """Return the value, or 0 where one of the factors is absent."""
        flags = list(self.present(factors))
        if not flags:
            return value
        is_number = isinstance(value, int | float)
        return jnp.where(reduce(operator.and_, flags), value, 0 if is_number else jnp.zeros((), value.dtype))

    def present(self, factors: Sequence[Access]) -> Iterator[Any]:
        """Yield an array of flags for each factor that may be absent: True where the factor is present."""
        for access in factors:
            if access.is_call:
                sets = [[self.flags[n] for n in chosen if n in self.flags] for chosen in self.sets(access)]
                if all(sets):
                    yield reduce(operator.or_, (reduce(operator.and_, flags) for flags in sets), jnp.asarray(False))
            elif self.known.keys.get(access) in self.flags:
                yield self.flags[self.known.keys[access]]

    def sets(self, access: Access) -> Sequence[frozenset[int]]:
        return self.known.of(self.known.call_of(access))


def _number(x: complex) -> Any:
    """Return a number of a statement. An integer out of the range of int32 becomes a float."""
    return float(x) if isinstance(x, int) and abs(x) > 2**31 - 1 else x


def _power(x: jax.Array, exponent: float) -> jax.Array:
    """Raise values to a power. Negative powers of integers are floats."""
    if exponent == -1:
        return 1 / x
    if exponent < 0 and not jnp.issubdtype(jnp.result_type(x), jnp.inexact):
        x = x * 1.0
    return x**exponent


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
