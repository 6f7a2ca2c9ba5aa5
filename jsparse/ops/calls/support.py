"""The points where a call may differ from 0: a boolean expression in the patterns of its arguments.

The value of a call at a point depends on which of its sparse operands store an entry there. An operand without
an entry is *absent*, and `notation.background` tells which results are absent then. So each set of patterns is tested:
is the call absent at a point where exactly these patterns store an entry? Let S₁, …, Sₙ be the smallest sets for which
the call is not absent. The call may differ from 0 at the points where all patterns of at least one Sₖ store an entry.

For relu(A * x + B) and for min(A, B) these sets are {A} and {B}, for tanh(A * B) the only set is {A, B}, and for exp(A)
the empty set: exp(A) is 1 where nothing is stored. The sets are points of a merge lattice (Kjolstad et al., 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import TypeAlias

from jsparse.errors import NotYetSupportedError
from jsparse.notation import Access
from jsparse.notation.background import ABSENT, UNKNOWN, Background, background
from jsparse.notation.statement import Call, Product
from jsparse.notation.terms import base_and_exponent
from jsparse.ops.aligned import Sets, of_numbers, smallest_sets

MOST = 8  # patterns in one call: their sets are tried one by one

Keys: TypeAlias = tuple[tuple[Access, int], ...]
"""For each access, the index of the pattern where it has entries. Accesses not listed are present everywhere."""


class Supports:
    """The supports of calls. The support of a call is the set of points where the call may differ from 0."""

    def __init__(self, calls: Sequence[Call], keys: Keys) -> None:
        self.calls = {str(call): call for call in calls}
        self.keys = dict(keys)
        self._found: dict[tuple[Call, frozenset[int]], Sets] = {}

    def patterns(self, call: Call) -> frozenset[int]:
        """Return the indices of the patterns in a call's arguments, including nested calls."""
        inner = (self.patterns(self.call_of(access)) for access in call.factors if access.is_call)
        own = (self.keys[access] for access in call.factors if access in self.keys)
        return frozenset(own).union(*inner)

    def call_of(self, access: Access) -> Call:
        """Return the call of an access. The access reads the value of this call, or a power of the value."""
        return self.calls[base_and_exponent(access.tensor)[0]]

    def of(self, call: Call, everywhere: frozenset[int] = frozenset()) -> Sets:
        """Find the smallest sets of patterns such that a call is present where all patterns of a set store an entry.

        There are no sets if the call is absent everywhere.

        Args:
            everywhere: the patterns that are assumed to store all entries.

        Raises NotYetSupportedError if the call has too many patterns.
        """
        if (call, everywhere) not in self._found:
            self._found[call, everywhere] = self._smallest(call, everywhere)
        return self._found[call, everywhere]

    def value_of_nothing(self, call: Call, everywhere: frozenset[int]) -> Background:
        """Return the call's background: its value at points where only the patterns `everywhere` store an entry."""
        return self._call(call, everywhere)

    def _smallest(self, call: Call, everywhere: frozenset[int]) -> Sets:
        patterns = sorted(self.patterns(call) - everywhere)
        if len(patterns) > MOST:
            raise NotYetSupportedError(
                f"A call takes at most {MOST} sparse operands with their own entries, but '{call}' has "
                f"{len(patterns)}. Compute part of it in an earlier statement."
            )
        return smallest_sets(patterns, lambda stored: self._call(call, stored | everywhere))

    def _call(self, call: Call, present: frozenset[int]) -> Background:
        """Return what is known of a call's value at a point where exactly the patterns `present` store an entry."""
        arguments = [self._sum(terms, present) for terms in call.arguments]
        return (
            background(call.function, arguments, partial(of_numbers, call.function)) if call.function else arguments[0]
        )

    def _sum(self, terms: Sequence[Product], present: frozenset[int]) -> Background:
        return background("total", [self._product(term, present) for term in terms], sum)

    def _product(self, term: Product, present: frozenset[int]) -> Background:
        factors = [self._factor(factor, present) for factor in term.factors]
        return background("product", [term.coefficient, *factors], prod)

    def _factor(self, access: Access, present: frozenset[int]) -> Background:
        if not access.is_call:
            return ABSENT if self.keys.get(access, -1) not in (-1, *present) else UNKNOWN
        value = self._call(self.call_of(access), present)
        _, exponent = base_and_exponent(access.tensor)
        if value is ABSENT or value is UNKNOWN or exponent == 1:
            return value
        try:
            return complex(value) ** exponent  # type: ignore[arg-type]
        except (ZeroDivisionError, OverflowError):
            return UNKNOWN


@lru_cache(maxsize=256)
def supports(calls: tuple[Call, ...], keys: Keys) -> Supports:
    """The supports of these calls (cached)."""
    return Supports(calls, keys)
