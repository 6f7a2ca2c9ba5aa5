"""Evaluates a call at many points at once, with JAX functions.

Operands are arrays with an element for each point. An operand that is absent at a point (`support`) has the value 0
there. Products with it, and its powers, are 0 there whatever the other factors are.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.base.dataclass import dataclass
from jsparse.notation import Access
from jsparse.notation.statement import Call, Product
from jsparse.notation.terms import base_and_exponent
from jsparse.ops.aligned import call_function
from jsparse.ops.calls.support import Keys, supports
from jsparse.planning.dtypes import check_coefficients


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
