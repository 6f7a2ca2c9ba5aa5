"""The number of points at which all patterns of a statement store an entry.

A pattern is a relation: its coordinate tuples, each with the weight 1. The number of points is the sum, over all
combinations of tuples that agree in the variables that they share, of the product of their weights. An index variable
that only one relation has is summed out of that relation, and the relations that remain are joined (variable
elimination: Dechter, Bucket elimination, 1999). For A[i, j] B[j, k] the number is
Σⱼ (entries of A in column j) (entries of B in row j).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.ops.indexing.matches import joint_keys

# the maximum number of tuples of a relation, so that a count takes seconds and some hundred megabytes at most
LARGEST = 1 << 24

SPREAD = 16  # a table is quicker than a sort if it has at most this many numbers for each tuple


@dataclass(frozen=True, eq=False, slots=True)
class Relation:
    """Coordinate tuples with weights: a column (n,) for each index variable, and the weights (n,), int64."""

    columns: dict[IndexVar, NDArray[np.integer]]
    weights: NDArray[np.int64]

    def tuples(self, variables: Sequence[IndexVar]) -> int:
        """Count the distinct tuples of these variables."""
        keys = _keys([self.columns[v] for v in variables])
        if keys.max(initial=0) < SPREAD * len(keys):
            return int(np.count_nonzero(np.bincount(keys)))
        return len(np.unique(keys))


def relation_of(pattern: Pattern, names: Sequence[IndexVar]) -> Relation:
    """Return the coordinate tuples of a pattern's slots. For a repeated variable, only the diagonal is kept."""
    rows = pattern.rows()
    columns: dict[IndexVar, NDArray[np.integer]] = {}
    on_diagonal = np.ones(pattern.nse, bool)
    for name, row in zip(names, rows, strict=True):
        on_diagonal &= columns.setdefault(name, row) == row
    kept = {name: column[on_diagonal] for name, column in columns.items()}
    return Relation(kept, np.ones(int(on_diagonal.sum()), np.int64))


def most_points(stored: Sequence[tuple[Sequence[IndexVar], int]], size: Mapping[IndexVar, int]) -> int:
    """Return an upper bound on the number of points at which all patterns store an entry.

    `stored` lists the index variables and the number of entries of each pattern. The bound is a product of powers of
    the numbers of entries. The exponents are the fractional cover of the index variables that makes the product
    least. Each index variable also counts as a pattern with as many entries as its size (Atserias, Grohe and Marx,
    Size Bounds and Query Plans for Relational Joins, 2008).
    """
    from scipy.optimize import linprog  # noqa: PLC0415  # it starts threads

    variables = list(dict.fromkeys(v for names, _ in stored for v in names))
    sets = [*((set(names), count) for names, count in stored), *(({v}, size[v]) for v in variables)]
    if any(count == 0 for _, count in sets):
        return 0
    logarithms = np.log([float(count) for _, count in sets])
    covers = np.array([[float(v in names) for names, _ in sets] for v in variables])
    return round(float(np.exp(linprog(logarithms, -covers, -np.ones(len(variables))).fun)))


def count_points(relations: Iterable[Relation]) -> int | None:
    """Return how many points have a tuple in every relation; None if `_join` returns None."""
    total, left = 1, list(relations)
    while left:
        shared = Counter(v for relation in left for v in relation.columns)
        grouped = [_project(relation, [v for v in relation.columns if shared[v] > 1]) for relation in left]
        left = []
        for relation in grouped:
            if relation.columns:
                left.append(relation)
            else:
                total *= int(relation.weights.sum())
        if left:  # join the smallest relation with the relation that shares the most variables with it
            smallest = min(left, key=lambda relation: len(relation.weights))
            others = [relation for relation in left if relation is not smallest]
            partner = max(others, key=lambda relation: len(relation.columns.keys() & smallest.columns.keys()))
            joined = _join(partner, smallest)
            if joined is None:
                return None
            left = [*(relation for relation in others if relation is not partner), joined]
    return total


def _project(relation: Relation, kept: Sequence[IndexVar]) -> Relation:
    """Reduce a relation to the variables `kept`, and add the weights of tuples that become equal."""
    if not kept:
        return Relation({}, relation.weights.sum(keepdims=True))
    if len(kept) == len(relation.columns):
        return relation
    keys = _keys([relation.columns[v] for v in kept])
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.zeros(len(first), np.int64)
    np.add.at(weights, group, relation.weights)
    return Relation({v: relation.columns[v][first] for v in kept}, weights)


def _join(left: Relation, right: Relation) -> Relation | None:
    """Join two relations: combine tuples that agree in the shared variables, and multiply their weights.

    Returns None if the join has more than `LARGEST` tuples.
    """
    shared = [v for v in left.columns if v in right.columns]
    keys = _keys([np.concatenate([left.columns[v], right.columns[v]]) for v in shared])
    of_left, of_right = keys[: len(left.weights)], keys[len(left.weights) :]
    order = np.argsort(of_right, kind="stable")
    begin, end = (np.searchsorted(of_right[order], of_left, side) for side in ("left", "right"))
    counts = end - begin
    if counts.sum() > LARGEST:
        return None
    before = np.cumsum(counts) - counts
    from_left = np.repeat(np.arange(len(of_left)), counts)
    from_right = order[np.arange(len(from_left)) - np.repeat(before - begin, counts)]
    columns = {v: column[from_left] for v, column in left.columns.items()}
    columns |= {v: column[from_right] for v, column in right.columns.items() if v not in columns}
    return Relation(columns, left.weights[from_left] * right.weights[from_right])


def _keys(columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    """Return an integer key for each tuple, equal for equal tuples."""
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    return joint_keys(columns, [column[:0] for column in columns], sizes)[0]
