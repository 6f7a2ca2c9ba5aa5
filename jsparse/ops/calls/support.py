"""Where a call may differ from 0: a boolean expression in the patterns of its arguments.

The value of a call at a point depends on which of its sparse operands store an entry there. An operand without one is
*absent*. What is absent contributes nothing: a product is absent if a factor is, a sum if all terms are, a power if its
base is. A function gets 0 for what is absent, and is absent itself if its value is 0 then. So for each set of patterns
one asks whether the call is absent where just these store an entry. The smallest sets at which it is not,

    S₁, …, Sₙ   stand for the entries that all patterns of some Sₖ store.

For relu(A * x + B) these are {A} and {B}, for min(A, B) as well, for tanh(A * B) there is {A, B}, and for exp(A) the
empty set: it is 1 where nothing is stored. These are the points of a merge lattice (Kjolstad et al., 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import TypeAlias

from jsparse.errors import NotYetSupportedError
from jsparse.notation import Access
from jsparse.notation.power import base_and_exponent
from jsparse.notation.statement import Call, Product
from jsparse.ops.calls.functions import of_numbers

__all__ = ["Keys", "Sets", "Supports", "supports"]

MOST = 8  # patterns in one call: their sets are tried one by one


class _Status(Enum):
    ABSENT = "absent"
    UNKNOWN = "unknown"


Status: TypeAlias = complex | _Status  # a number that is known, or none
Sets: TypeAlias = tuple[frozenset[int], ...]
Keys: TypeAlias = tuple[tuple[Access, int], ...]
"""The pattern, by number, that each access has entries of. Other accesses are present everywhere."""

ABSENT, UNKNOWN = _Status.ABSENT, _Status.UNKNOWN


class Supports:
    """The supports of calls."""

    def __init__(self, calls: Sequence[Call], keys: Keys) -> None:
        self.calls = {str(call): call for call in calls}
        self.keys = dict(keys)
        self._found: dict[tuple[Call, frozenset[int]], Sets] = {}

    def patterns(self, call: Call) -> frozenset[int]:
        """The patterns of a call, by number."""
        inner = (self.patterns(self.called(access)) for access in call.factors if access.is_call)
        own = (self.keys[access] for access in call.factors if access in self.keys)
        return frozenset(own).union(*inner)

    def called(self, access: Access) -> Call:
        """The call that an access is to the value of, or to a power of it."""
        return self.calls[base_and_exponent(access.tensor)[0]]

    def of(self, call: Call, everywhere: frozenset[int] = frozenset()) -> Sets:
        """The smallest sets of patterns at which a call is not absent; none if it always is.

        Args:
            everywhere: the patterns that are taken to store all entries.

        Raises NotYetSupportedError if the call has too many patterns.
        """
        if (call, everywhere) not in self._found:
            self._found[call, everywhere] = self._smallest(call, everywhere)
        return self._found[call, everywhere]

    def value_of_nothing(self, call: Call, everywhere: frozenset[int]) -> complex | None:
        """The call's value where no pattern stores an entry; None if that depends on other operands."""
        status = self._call(call, everywhere)
        return None if status is UNKNOWN else 0 if isinstance(status, _Status) else status

    def _smallest(self, call: Call, everywhere: frozenset[int]) -> Sets:
        patterns = sorted(self.patterns(call) - everywhere)
        if len(patterns) > MOST:
            raise NotYetSupportedError(
                f"A call takes at most {MOST} sparse operands with entries of their own, but '{call}' has "
                f"{len(patterns)}. Compute a part of it in a statement before."
            )
        found: list[frozenset[int]] = []
        for size in range(len(patterns) + 1):
            for chosen in map(frozenset, combinations(patterns, size)):
                if not any(one <= chosen for one in found) and self._call(call, chosen | everywhere) is not ABSENT:
                    found.append(chosen)
        return tuple(found)

    def _call(self, call: Call, present: frozenset[int]) -> Status:
        """The status of a call where just these patterns store an entry."""
        given = [self._sum(terms, present) for terms in call.arguments]
        if not call.function:
            return given[0]
        if call.function == "where":
            return _selected(*given)
        numbers = [0 if x is ABSENT else x for x in given if x is not UNKNOWN]
        if len(numbers) < len(given):
            return UNKNOWN
        value = of_numbers(call.function, tuple(x for x in numbers if not isinstance(x, _Status)))
        return value if value else ABSENT

    def _sum(self, terms: Sequence[Product], present: frozenset[int]) -> Status:
        found = [x for x in (self._product(term, present) for term in terms) if x is not ABSENT]
        if not found:
            return ABSENT
        numbers = [x for x in found if not isinstance(x, _Status)]
        return sum(numbers) if len(numbers) == len(found) else UNKNOWN

    def _product(self, term: Product, present: frozenset[int]) -> Status:
        found = [self._factor(factor, present) for factor in term.factors]
        if ABSENT in found:
            return ABSENT
        numbers = [x for x in found if not isinstance(x, _Status)]
        return term.coefficient * prod(numbers) if len(numbers) == len(found) else UNKNOWN

    def _factor(self, access: Access, present: frozenset[int]) -> Status:
        if not access.is_call:
            return ABSENT if self.keys.get(access, -1) not in (-1, *present) else UNKNOWN
        value = self._call(self.called(access), present)
        _, exponent = base_and_exponent(access.tensor)
        if isinstance(value, _Status) or exponent == 1:
            return value
        try:
            return complex(value) ** exponent
        except (ZeroDivisionError, OverflowError):
            return UNKNOWN


def _selected(condition: Status, then: Status, otherwise: Status) -> Status:
    """`where` of conditions that are known, or of two values that are absent or 0."""
    if condition is UNKNOWN:
        return ABSENT if all(x is ABSENT or x == 0 for x in (then, otherwise)) else UNKNOWN
    chosen = otherwise if condition is ABSENT or condition == 0 else then
    return ABSENT if chosen == 0 else chosen


@lru_cache(maxsize=256)
def supports(calls: tuple[Call, ...], keys: Keys) -> Supports:
    """The supports of these calls, which are remembered."""
    return Supports(calls, keys)
