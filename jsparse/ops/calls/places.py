"""The places where calls are computed: on a pattern, or at all points of their index variables.

The first of these cases that applies is taken:

own pattern       the call is 0 where its own sparse operands store no entry (`support`)
factor's pattern  a sparse factor of the term, or another call in the term, has exactly the call's index variables
result's pattern  `out_format` is a pattern with exactly these index variables
all points        an array of all points is no larger than one that the caller passed or asked for
larger pattern    a sparse factor, or the result's pattern, has the call's index variables and others
extended pattern  a sparse factor has only some of the call's index variables; dense levels are added for the others,
                  which the result has

In all cases but the first and the fourth, values outside the pattern are not needed. If no case applies, an error is
raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any, NoReturn

import numpy as np

from jsparse.errors import shorten
from jsparse.formats import Pattern
from jsparse.notation import Access, IndexVar, Product, Statement
from jsparse.notation.background import dense_background
from jsparse.notation.statement import Call
from jsparse.ops.aligned import join_patterns, same_pattern
from jsparse.ops.calls.operands import Operands, Place
from jsparse.ops.calls.support import supports
from jsparse.planning.signature import OutFormat, PatternRef, is_sparse, pattern_of, places_of
from jsparse.planning.term import extend_to_target
from jsparse.tensor.dynamic_pattern import DynamicPattern


class Places:
    """The places of a statement's calls.

    Attributes:
        sources: the patterns, each represented by an access to it. An access that reads from tables counts as a pattern
            with entries wherever it reads within range.
        keys: for each access that is not present everywhere, the index of its pattern in `sources`.
        known: the supports of the calls.
    """

    def __init__(self, statement: Statement, operands: Operands, out_format: OutFormat) -> None:
        self.statement, self.operands, self.out_format = statement, operands, out_format
        self.sources: list[Access] = []
        accesses = dict.fromkeys(access for call in statement.calls for access in call.factors)
        keys = {access: self._number(access) for access in accesses}
        self.keys = tuple((access, number) for access, number in keys.items() if number is not None)
        self.nested = frozenset(n for n, access in enumerate(self.sources) if access.indirections())
        self.known = supports(statement.calls, self.keys)
        self._own: dict[Call, Place | None] = {}

    def _number(self, access: Access) -> int | None:
        """Return the index of the pattern where an access has entries; None if the access is present everywhere."""
        if access.is_call or not access.variables():
            return None
        if access.indirections():
            if not self.operands.may_miss(access):
                return None
            same = [n for n, source in enumerate(self.sources) if source == access]
        else:
            pattern = self.operands.pattern(access)
            if pattern is None:
                return None
            same = [n for n, source in enumerate(self.sources) if self._is_on(source, access.indices, pattern)]
        if same:
            return same[0]
        self.sources.append(access)
        return len(self.sources) - 1

    def _is_on(self, source: Access, indices: Sequence[Any], pattern: Pattern | DynamicPattern) -> bool:
        own = None if source.indirections() else self.operands.pattern(source)
        return own is not None and source.indices == tuple(indices) and same_pattern(own, pattern)

    def of_term(self, term: Product) -> dict[Access, Place]:
        """Find the place of each call among the factors of a term."""
        guards = [guard for factor in term.factors if not factor.is_call for guard in self._guard(factor)]
        called = {factor: self.own(self.known.call_of(factor)) for factor in term.factors if factor.is_call}
        guards += [place for place in called.values() if place is not None]
        return {factor: place or self._elsewhere(factor, term, guards) for factor, place in called.items()}

    def _guard(self, access: Access) -> Iterator[Place]:
        """Yield the place of a factor that has a pattern. No value of the term is needed outside of this pattern."""
        pattern = self.operands.pattern(access)
        if pattern is not None and not access.indirections() and len(set(access.indices)) == len(access.indices):
            yield Place(_names(access), pattern)

    def own(self, call: Call) -> Place | None:
        """Find the place of a call that is 0 where its operands store no entry; None for other calls."""
        if call not in self._own:
            self._own[call] = self._own_place(call)
        return self._own[call]

    def _own_place(self, call: Call) -> Place | None:
        patterns = self.known.patterns(call) - self.nested
        if not patterns:
            return None
        sets = self.known.of(call, self.nested) or (frozenset({min(patterns)}),)
        if not all(sets):
            return None
        stored = tuple(tuple(map(self._stored, sorted(chosen))) for chosen in sets)
        used = [v for patterns in stored for _, indices in patterns for v in indices]
        indices = tuple(dict.fromkeys((*used, *call.variables())))
        pattern = join_patterns(self.operands.text, indices, stored, self.operands.shape(indices))
        return Place(indices, pattern, frozenset.intersection(*sets))

    def _stored(self, number: int) -> tuple[Pattern | DynamicPattern, tuple[IndexVar, ...]]:
        """Return a pattern of `sources` and its index variables."""
        access = self.sources[number]
        pattern = self.operands.pattern(access)
        assert pattern is not None
        return pattern, _names(access)

    def _elsewhere(self, factor: Access, term: Product, guards: Sequence[Place]) -> Place:
        """Find the place of a call that is needed at the entries of another factor or of the result, or everywhere."""
        own = set(factor.variables())
        larger = [place for place in (*guards, *self._of_result()) if own <= set(place.indices)]
        same = [place for place in larger if own == set(place.indices)]
        if same and own:
            return same[0]
        if self._fits(factor, term):
            return Place(factor.variables())
        if larger:
            return larger[0]
        return self._extend_place(factor, guards) or self._refuse(self.known.call_of(factor))

    def _extend_place(self, factor: Access, guards: Sequence[Place]) -> Place | None:
        """Return a place on the pattern of a factor, extended by the index variables of the call that the factor lacks.

        Dense levels store the added index variables. Returns None unless the result has these index variables.
        """
        own = factor.variables()
        for place in guards:
            missing = tuple(v for v in own if v not in place.indices)
            is_part = set(place.indices) < set(own) and {*missing} <= set(self.statement.target.variables())
            if place.pattern is not None and is_part:
                pattern = place.pattern.extended(self.operands.shape(missing))
                return Place((*place.indices, *missing), pattern, place.complete)
        return None

    def _of_result(self) -> Iterator[Place]:
        if self._result is not None:
            yield self._result

    @cached_property
    def _result(self) -> Place | None:
        """The place of the result, if `out_format` is a pattern on which the result is computed; else None."""
        target, given = self.statement.target, self.out_format
        if target.indirections() or not is_sparse(given):
            return None
        pattern = pattern_of(given)
        if pattern is None or len(pattern.shape) == len(target.indices):
            return Place(_names(target), pattern)
        (on,) = places_of([given])
        assert isinstance(on, PatternRef)
        joined = extend_to_target(self.operands.text, target, on, self.operands.sizes).pattern
        if isinstance(pattern, DynamicPattern):
            assert not isinstance(joined, Pattern)
            return Place(_names(target), pattern.with_type(joined))
        assert isinstance(joined, Pattern)
        return Place(_names(target), joined)

    def _fits(self, factor: Access, term: Product) -> bool:
        """Whether a dense array of a call's values is no larger than an array that the caller passed or asked for."""
        tensors = [self.operands.tensors[name] for name in self.statement.tensors()]
        if not any(map(is_sparse, tensors)):
            return True
        if set(factor.variables()) <= set(self.statement.target.variables()):
            is_dense = all(self.operands.pattern(access) is None for access in self.accesses(*term.factors))
            if self.out_format == "dense" or (is_dense and self.out_format is None):
                return True
        size = prod(self.operands.shape(factor.variables()))
        return size <= max((np.size(x) for x in tensors if not is_sparse(x)), default=1)

    def accesses(self, *factors: Access) -> Iterator[Access]:
        """Yield the accesses to tensors among these factors, and in the arguments of the calls among these factors."""
        for access in factors:
            if access.is_call:
                yield from self.accesses(*self.known.call_of(access).factors)
            else:
                yield access

    def is_complete(self, number: int, place: Place) -> bool:
        """Whether pattern `number` of `sources` certainly stores an entry at every point of a place."""
        if place.pattern is None:
            return False
        return number in place.complete or self._is_on(self.sources[number], place.indices, place.pattern)

    def _refuse(self, call: Call) -> NoReturn:
        names = ", ".join(call.variables())
        is_of_result = set(call.variables()) <= set(self.statement.target.variables())
        advice = f"Multiply it by a SparseTensor or a pattern with the indices {names} to say where it is needed"
        advice += ", or pass out_format='dense' for all of its values. " if is_of_result else ". "
        what = f"{shorten(str(call), 60)} in '{self.operands.text}'"
        raise dense_background(what, self.known.value_of_nothing(call, self.nested), advice)


def _names(access: Access) -> tuple[IndexVar, ...]:
    return tuple(map(str, access.indices))
