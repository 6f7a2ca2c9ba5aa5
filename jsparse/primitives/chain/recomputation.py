"""Recomputation: values of stored entries that a group computes anew, where another group computes them, too.

Of `O = W V`, where W is a softmax of scores S, the gradients `dV = Wᵀ dO` and those through S are sums over the rows.
They share no loops with what computes W and dS row by row. So W and dS would be written, permuted to the order of
columns, and read. But an entry of each is a function of a few dense rows, such as the maximum and the sum of its row of
entries. So a second group that goes over the columns can compute them once more, and no array has an element for each
entry: these are the two loops of FlashAttention-2's gradient (Dao, 2023).

It pays if fewer bytes are read of dense rows for each entry than would be moved:

    rows that are read to compute the values anew  <=  MOVES · values

So it does for scores that add up features of both ends of an edge before a function of these (GATv2), where there are
values for each entry and feature. A product of two rows of features for each entry costs more than its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from jsparse import _compat
from jsparse.primitives.chain.expand import COMPOSED
from jsparse.primitives.spec import Spec

__all__ = ["COMPARISONS", "Recomputation", "read"]

MOVES = 6  # a value is written, read and written for its permutation, and read; new pages take as long as two of these
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "dot_general")


def read(equation: Any) -> list[Any]:
    """The variables that an equation reads."""
    return [v for v in equation.invars if not isinstance(v, _compat.Literal)]


class Recomputation:
    """What may be computed anew of a jaxpr.

    Attributes:
        makers: variable → the equation that computes it.
        on_entries: the variables with an element for each stored entry.
        sums: the equations that sum entries up into a dense array, by the pattern and the levels that they sum over.
        repeated: the variables that repeat a number, which no loop gathers.
    """

    def __init__(self, jaxpr: Any) -> None:
        self.makers = {v: equation for equation in jaxpr.eqns for v in equation.outvars}
        self.on_entries, self.repeated = set[Any](), set[Any]()
        self.sums: dict[Any, list[Any]] = {}
        for equation in jaxpr.eqns:
            spec = _spec(equation)
            if spec.result.on is not None if spec else not self.on_entries.isdisjoint(read(equation)):
                self.on_entries.update(equation.outvars if equation.primitive.name not in REDUCTIONS else ())
            if equation.primitive.name == "broadcast_in_dim" and not read(equation):
                self.repeated.update(equation.outvars)
            if (key := _summed_levels(equation)) is not None:
                self.sums.setdefault(key, []).append(equation)

    def of(self, equation: Any, is_there: Callable[[Any], bool]) -> list[Any]:
        """The equations that a group computes anew for one that joins it, in the order in which it needs them; none if
        that does not pay.

        Whether it does is asked of all sums over the same levels together, since these will share their loops.

        Args:
            equation: an equation that sums entries up into a dense array; there are none for others.
            is_there: whether the group computes a variable, or may take it from memory in any order.
        """
        key = _summed_levels(equation)
        anew = [] if key is None else self.values([equation], is_there)
        if not anew or any(e.effects or e.primitive.name in COMPOSED or _compares(e) for e in anew):
            return []
        sums = self.sums[key]
        kept = dict.fromkeys(v for e in sums for v in read(e) if v in self.on_entries)
        stored = sum(v.aval.size * v.aval.dtype.itemsize for v in kept)
        return anew if sum(map(self.bytes_of_rows, self.values(sums))) <= MOVES * stored else []

    def values(self, sums: Sequence[Any], is_there: Callable[[Any], bool] = lambda _: False) -> list[Any]:
        """The equations that compute the values of entries that sums need."""
        found = dict[int, Any]()

        def collect(reader: Any) -> None:
            for v in read(reader):
                maker = self.makers.get(v)
                if maker is not None and v in self.on_entries and not is_there(v) and id(maker) not in found:
                    collect(maker)
                    found[id(maker)] = maker

        for equation in sums:
            collect(equation)
        return list(found.values())

    def bytes_of_rows(self, equation: Any) -> int:
        """The bytes of dense rows that an equation reads for all entries."""
        spec = _spec(equation)
        if spec is None or not spec.walks:
            return 0
        levels, sizes, found = {v for walk in spec.walks for v in walk.indices}, dict(spec.sizes), 0
        for v, term in zip(equation.invars, spec.factors, strict=False):
            if term.on is None and not isinstance(v, _compat.Literal) and v not in self.repeated:
                found += prod(sizes[x] for x in term.before if x not in levels) * v.aval.dtype.itemsize
        return found * max(walk.pattern.nse for walk in spec.walks)


def _spec(equation: Any) -> Spec | None:
    spec = equation.params["spec"] if equation.primitive.name == "jsparse_einsum" else None
    return None if spec is None or spec.mask is not None else spec


def _summed_levels(equation: Any) -> tuple[Any, tuple[int, ...]] | None:
    """The pattern of an equation that sums entries into an array over some of its levels, and the other levels; None
    if it does not, or sums over all."""
    spec = _spec(equation)
    if spec is None or spec.result.on is not None or len(spec.walks) != 1:
        return None
    indices = spec.walks[0].indices
    summed = tuple(n for n, v in enumerate(indices) if v not in spec.result.before)
    return (spec.walks[0].pattern, summed) if 0 < len(summed) < len(indices) else None


def _compares(equation: Any) -> bool:
    """Whether an equation asks which of two variables is larger, or whether they are equal.

    Values that are computed anew may differ from those that a maximum was taken of in their last bit.
    """
    mapped = [equation.params["function"].jaxpr] if equation.primitive.name == "jsparse_map" else []
    inner = [_compat.closed(jaxpr).jaxpr for jaxpr in (*mapped, *_compat.jaxprs_in(equation.params))]
    compares = equation.primitive.name in COMPARISONS and len(read(equation)) > 1
    return compares or any(_compares(e) for jaxpr in inner for e in jaxpr.eqns)
