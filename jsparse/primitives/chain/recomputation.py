"""Recomputation: a group of equations computes values of stored entries again, instead of reading them.

A group becomes one nest of loops. Another group has computed the same values.

Take `O = W V`, where W is a softmax of scores S. The gradient `dV = Wᵀ dO` and the gradients through S are sums over
rows. They share no loops with the kernel that computes W and dS row by row. So W and dS would be written, permuted to
the order of columns, and read again. But an entry of W or dS is a function of a few dense rows, such as the maximum and
the sum of the entries in its row. So a second group that loops over columns can recompute W and dS. Then no array has
an element for each entry. The gradient of FlashAttention-2 also consists of these two loops (Dao, 2023).

Recomputation pays if it reads no more bytes of dense rows than are moved to store and permute the values:

    bytes of the rows that recomputation reads  <=  MOVES · bytes of the values

MOVES is how many times each value is moved otherwise.

In GATv2, a function is applied to the sum of the features at both ends of an edge. That makes a value for each entry
and feature, so recomputation pays. It does not pay for a product of two rows of features: the two rows are read, but
there is only one value for each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from jsparse import _compat
from jsparse.primitives.chain.expand import COMPOSED
from jsparse.primitives.spec import Spec

MOVES = 6  # a value is written, read and written to permute it, and read again: 4; new memory pages cost 2 more
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "dot_general")


def read(equation: Any) -> list[Any]:
    """The variables that an equation reads."""
    return [v for v in equation.invars if not isinstance(v, _compat.Literal)]


class Recomputation:
    """A search for the equations of a jaxpr that a group may recompute.

    Attributes:
        makers: variable → the equation that computes it.
        on_entries: the variables with an element for each stored entry.
        sums: the equations that sum entries into a dense array, keyed by the pattern and the summed levels.
        repeated: the variables that hold a broadcast number, which loops need not read from memory.
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
            if (key := _find_summed_levels(equation)) is not None:
                self.sums.setdefault(key, []).append(equation)

    def of(self, equation: Any, is_there: Callable[[Any], bool]) -> list[Any]:
        """The equations to recompute so that `equation` can join a group, in program order; none if that does not pay.

        All sums over the same levels are judged together, because they will share their loops.

        Args:
            equation: the equation that joins. The result is empty unless it sums entries into a dense array.
            is_there: whether the group computes a variable, or may read it from memory in any order.
        """
        key = _find_summed_levels(equation)
        anew = [] if key is None else self.values([equation], is_there)
        if not anew or any(e.effects or e.primitive.name in COMPOSED or _compares(e) for e in anew):
            return []
        sums = self.sums[key]
        kept = dict.fromkeys(v for e in sums for v in read(e) if v in self.on_entries)
        stored = sum(v.aval.size * v.aval.dtype.itemsize for v in kept)
        return anew if sum(map(self.bytes_of_rows, self.values(sums))) <= MOVES * stored else []

    def values(self, sums: Sequence[Any], is_there: Callable[[Any], bool] = lambda _: False) -> list[Any]:
        """The equations that compute the values of entries that `sums` read, directly or indirectly."""
        makers = dict[int, Any]()

        def collect(reader: Any) -> None:
            for v in read(reader):
                maker = self.makers.get(v)
                if maker is not None and v in self.on_entries and not is_there(v) and id(maker) not in makers:
                    collect(maker)
                    makers[id(maker)] = maker

        for equation in sums:
            collect(equation)
        return list(makers.values())

    def bytes_of_rows(self, equation: Any) -> int:
        """The bytes of dense rows that an equation reads for all entries."""
        spec = _spec(equation)
        if spec is None or not spec.walks:
            return 0
        levels, sizes, of_entry = {v for walk in spec.walks for v in walk.indices}, dict(spec.sizes), 0
        for v, term in zip(equation.invars, spec.factors, strict=False):
            if term.on is None and not isinstance(v, _compat.Literal) and v not in self.repeated:
                of_entry += prod(sizes[x] for x in term.before if x not in levels) * v.aval.dtype.itemsize
        return of_entry * max(walk.pattern.nse for walk in spec.walks)


def _spec(equation: Any) -> Spec | None:
    spec = equation.params["spec"] if equation.primitive.name == "jsparse_einsum" else None
    return None if spec is None or spec.mask is not None else spec


def _find_summed_levels(equation: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Return the pattern whose entries an equation sums into a dense array, and the indices of the summed levels.

    The result is None for any other equation, and for sums over all levels or over none.
    """
    spec = _spec(equation)
    if spec is None or spec.result.on is not None or len(spec.walks) != 1:
        return None
    indices = spec.walks[0].indices
    summed = tuple(n for n, v in enumerate(indices) if v not in spec.result.before)
    return (spec.walks[0].pattern, summed) if 0 < len(summed) < len(indices) else None


def _compares(equation: Any) -> bool:
    """Whether an equation compares two variables. Then it is not recomputed.

    The gradient of a maximum compares values with that maximum. Recomputed values may differ in the last bit from the
    values from which the maximum was computed, so none of them might equal it.
    """
    mapped = [equation.params["function"].jaxpr] if equation.primitive.name == "jsparse_map" else []
    inner = [*mapped, *(closed.jaxpr for closed in _compat.jaxprs_in(equation.params))]
    compares = equation.primitive.name in COMPARISONS and len(read(equation)) > 1
    return compares or any(_compares(e) for jaxpr in inner for e in jaxpr.eqns)
