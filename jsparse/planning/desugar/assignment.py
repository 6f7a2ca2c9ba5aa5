"""Assignment through indirect accesses: elements of the target that are written more than once, or never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jsparse.base.memo import remembered
from jsparse.errors import PatternError
from jsparse.formats import Pattern
from jsparse.notation import Access, IndexVar
from jsparse.notation.statement import Product, Statement
from jsparse.planning.desugar.gather_scatter import DesugaredStatement

__all__ = ["check_distinct", "counting"]

_Relations = tuple[tuple[tuple[IndexVar, ...], Pattern], ...]  # for each relation its index variables and its entries


def check_distinct(text: str, stated: DesugaredStatement) -> None:
    """Check that no element of the target is written twice, as far as the index tables are known while tracing.

    Raises PatternError with the element's coordinates.
    """
    patterns = [(access, stated.relations[access.tensor].pattern) for access in stated.of_target]
    for group in _connected([access for access, _ in patterns]):
        found = tuple((tuple(map(str, a.indices)), p) for a, p in patterns if a in group)
        known = tuple((names, p) for names, p in found if isinstance(p, Pattern))
        if len(known) < len(found):
            continue
        target = tuple(str(v) for v in stated.statement.target.indices)
        twice = _twice(known, target)
        if twice is not None:
            element = ", ".join(f"{v} = {n}" for v, n in twice)
            raise PatternError(
                f"Expected '{text}' to write each element of {stated.statement.target.tensor} once, as '=' asks, but "
                f"it writes the element at {element} more than once. Write += to add the values, or min= or max= to "
                f"keep one of them."
            )


def counting(stated: DesugaredStatement) -> tuple[Statement, tuple[int, ...]]:
    """The statement that counts how often each element of the target is written, and the dimensions it leaves out.

    The count is constant along dimensions that no index table addresses, so these are left out.
    An index out of range, on either side of the statement, writes nothing and is not counted.
    """
    target = stated.statement.target
    related = [tuple(f for f in term.factors if f.tensor in stated.relations) for term in stated.statement.terms]
    led = {v for accesses in related for access in accesses for v in access.variables()}
    same = tuple(dim for dim, index in enumerate(target.indices) if index not in led)
    kept = Access(target.tensor, tuple(index for index in target.indices if index in led))
    terms = tuple(Product(1, accesses) for accesses in dict.fromkeys(related))
    return replace(stated.statement, target=kept, terms=terms), same


def _connected(accesses: Sequence[Access]) -> list[list[Access]]:
    """Group the accesses so that no two groups share an index variable."""
    groups: list[list[Access]] = []
    for access in accesses:
        names = set(access.variables())
        meeting = [group for group in groups if any(names & set(other.variables()) for other in group)]
        groups = [group for group in groups if group not in meeting]
        groups.append([*(other for group in meeting for other in group), access])
    return groups


@remembered(maxsize=256)
def _twice(relations: _Relations, target: tuple[IndexVar, ...]) -> tuple[tuple[IndexVar, int], ...] | None:
    """The coordinates of an element that two combinations of entries address; None if there is no such element."""
    read = _read(relations)
    kept = [v for v in target if v in read]
    columns = np.stack([column.reshape(-1) for column in np.broadcast_arrays(*(read[v] for v in kept))])
    columns = columns[:, (columns >= 0).all(axis=0)]
    ordered = columns[:, np.lexsort(columns[::-1])]
    same = np.nonzero((ordered[:, 1:] == ordered[:, :-1]).all(axis=0))[0]
    return tuple(zip(kept, ordered[:, same[0]].tolist(), strict=True)) if len(same) else None


def _read(relations: _Relations) -> dict[IndexVar, np.ndarray]:
    """The value of each index variable for every combination of the variables that no relation determines.

    The value is -1 where a table is read out of range.
    """
    sizes = {v: size for names, pattern in relations for v, size in zip(names, pattern.shape, strict=True)}
    given = {names[-1] for names, _ in relations}
    free = [v for v in sizes if v not in given]
    read = {v: np.arange(sizes[v]).reshape([-1 if v == w else 1 for w in free]) for v in free}
    for (*names, last), pattern in relations:
        *elements, coordinates = pattern.rows()
        table = np.full(pattern.shape[:-1], -1, np.int64)
        table[tuple(elements)] = coordinates
        where = np.broadcast_arrays(*(read[v] for v in names))
        found = table[tuple(np.maximum(axis, 0) for axis in where)] if table.size else np.full(where[0].shape, -1)
        read[last] = np.where(np.all([axis >= 0 for axis in where], axis=0), found, -1)
    # Every combination of the free variables is one write, so all columns get the same full shape.
    every = np.broadcast_shapes(*(column.shape for column in read.values()))
    return {v: np.broadcast_to(column, every) for v, column in read.items()}
