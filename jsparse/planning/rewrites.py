"""Rewrites of a term to an equal term: collapsed index variables, products entry by entry, factors of ones.

*Collapse*: two index variables that always occur at adjacent levels become one. `ijk,ijl->kl` becomes `pk,pl->kl`.

The tuples (i, j) that an operand stores are numbered. One level with the number p replaces the levels of i and j. So
the loop nest has one loop less, and one lookup of pointers locates a tuple. The entries keep their order, so the values
do not move. There are two cases, both for static patterns:

    shared    (i, j) are the first two levels of several operands; p numbers the tuples of all these operands, and the
              level of p is dense if the operand has more levels
    private   (j, k) are the last two levels of one operand and have short segments; p numbers its entries

*Entry by entry*: one loop visits the stored entries of a product in which each entry multiplies a matrix.

An example is the relational graph convolution `rij,jc,rcf->if` of A, x and W. Every entry of A multiplies a row of x by
the matrix W[r] of its relation r. Loops over the levels of A would load a matrix for each segment (r, i), which has a
single entry in most cases. Instead, one loop visits the entries p = 0, 1, …, with A's coordinates as index relations R,
I and J:

    O[i, f] = Σ A[p] · I(p, i) · J(p, j) · R(p, r) · x[j, c] · W[r, c, f]

The kernel then multiplies several entries of one relation at a time, and the gradient of W is a sum over neighbouring
entries. Insum (Won et al., 2026) computes formats that store coordinates in the same way, as indirect einsums.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.formats import Format, Level, Pattern
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, LevelKind
from jsparse.notation import Access, IndexVar
from jsparse.planning.desugaring import relation
from jsparse.planning.plan import Ones
from jsparse.planning.term import Term

ONE = "1"  # the name of a factor that no operand is; no tensor can have this name


SEGMENT = 1.5  # the largest average number of entries of a segment for which entries are taken one by one
REMEMBERED = 64


def multiplies_matrices(product: Term) -> int | None:
    """Find an operand whose every entry multiplies a matrix. Returns its index, or None if there is no such operand.

    The operand is the only sparse operand. Its static pattern has three levels or more, and the segments of the last
    level have little more than one entry on average. A dense operand holds the matrices: it has an index variable of
    the sparse operand, an index variable of the result, and a summed index variable that no pattern stores.
    """
    sparse = [n for n, x in enumerate(product.operands) if x.stored is not None]
    if len(sparse) != 1 or not product.semiring.is_linear:
        return None
    (number,) = sparse
    names, on = product.indices[number], product.operands[number].stored
    if on is None or not isinstance(on.pattern, Pattern) or len(names) < 3 or len(set(names)) < len(names):
        return None
    if on.core is None or on.core.ndim < len(names) or not on.pattern.nse:
        return None
    has_matrices = any(_is_matrix(product, n, names) for n in range(len(product.operands)))
    return number if has_matrices and _segment(on.pattern) <= SEGMENT else None


def _is_matrix(product: Term, number: int, stored: tuple[IndexVar, ...]) -> bool:
    """Whether an operand is dense and holds a matrix for each coordinate of a stored index variable."""
    names = set(product.indices[number])
    if product.operands[number].stored is not None or names.isdisjoint(stored):
        return False
    summed = names.difference(stored, product.result_vars)
    return bool(summed) and bool(names.intersection(product.result_vars).difference(stored))


@memoize(maxsize=REMEMBERED)
def _segment(pattern: Pattern) -> float:
    """The average number of entries in a segment of a pattern's last level."""
    coords = pattern.to_coords()
    above = coords[list(pattern.format.order[:-1])]
    return pattern.nse / (1 + np.count_nonzero((above[:, 1:] != above[:, :-1]).any(0)))


@memoize(maxsize=REMEMBERED)
def coordinates_of(pattern: Pattern, dim: int) -> Pattern:
    """The relation from entries, in stored order, to coordinates in one dimension; its shape is (entries, size)."""
    coordinates = relation(pattern.to_coords()[dim], pattern.shape[dim])
    assert isinstance(coordinates, Pattern)
    return coordinates


def free_name(product: Term, name: str, size: int) -> IndexVar:
    """A name for a new index variable of a product. Other terms of the sum may have the name, with the same size."""
    while name in product.assignment.variables() or product.sizes.get(name, size) != size:
        name += "'"
    return name


def factors_of_ones(product: Term) -> list[tuple[Access, Ones]]:
    """The factors of ones that a product needs: one for each summed index variable over which no loop runs.

    Loops walk the cores of patterns and run over the axes of arrays. If no values are stored on a pattern, no loop runs
    over the dense levels below its core. But a sum has to add each product for all coordinates of these levels: for
    every a and b in `ijab,j->i`, if the first operand is a bare pattern of blocks. So vectors of ones over a and over b
    become factors. A product without values and without loops gets the factor 1.
    """
    added: list[tuple[IndexVar, ...]] = [(v,) for v in product.unread]
    if not added and product.is_bare and not product.walks:
        added = [()]
    dtype = product.dtypes.promoted
    one = product.semiring.one(dtype.name)
    return [(Access(ONE, indices), Ones(tuple(product.sizes[v] for v in indices), one, dtype)) for indices in added]


SHORT = 16.0  # entries of a segment, on average, below which private levels are collapsed
SPREAD = 4  # operands stay unchanged if each of them has this many times the tuples of the smallest operand


@dataclass(frozen=True, slots=True)
class Collapsed:
    """An index variable that replaces two index variables.

    Attributes:
        var: the name of the new variable.
        size: the size of the new variable, which is the number of tuples.
        operands: for each operand with the variable: its index in the product, its new pattern, its index variables.
    """

    var: IndexVar
    size: int
    operands: tuple[tuple[int, Pattern, tuple[IndexVar, ...]], ...]


class _Held(NamedTuple):
    """An operand to collapse, with the index `number`. Its levels `level` and `level + 1` become one level."""

    number: int
    core: Pattern
    level: int


def next_collapse(product: Term) -> Collapsed | None:
    """Find the next two index variables of a product to collapse; None if there are none."""
    sparse = [(number, x.core) for number, x in enumerate(product.operands) if x.core is not None]
    adjacent = (pair for number, core in sparse for pair in pairwise(_levels(product, number)[: core.ndim]))
    for first, second in adjacent:
        held = _holders(product, first, second)
        if held is None or {first, second} & set(product.result_vars):
            continue
        cores = tuple(x.core for x in held)
        patterns = _private(cores[0], held[0].level) if len(held) == 1 else _merge_first_levels(held)
        if patterns is None:
            continue
        size = patterns[0].shape[held[0].level]
        var = free_name(product, first + second, size)
        operands = tuple(_operand(product, x, new, var) for x, new in zip(held, patterns, strict=True))
        return Collapsed(var, size, operands)
    return None


def _levels(product: Term, number: int) -> list[IndexVar]:
    """The index variable of each level of a sparse operand."""
    stored = product.operands[number].stored
    assert stored is not None
    return [product.indices[number][dim] for dim in stored.pattern.format.order]


def _holders(product: Term, first: IndexVar, second: IndexVar) -> list[_Held] | None:
    """The operands that have one of these index variables; None unless all have both, at adjacent static levels."""
    held = []
    for number, (x, indices) in enumerate(zip(product.operands, product.indices, strict=True)):
        if first not in indices and second not in indices:
            continue
        core = x.core
        if core is None or not isinstance(core.pattern, Pattern) or x.is_relation or len(set(indices)) < len(indices):
            return None
        levels = _levels(product, number)
        level = levels.index(first) if first in levels else -1
        if level < 0 or level + 1 >= core.ndim or levels[level + 1] != second or not core.pattern.nse:
            return None
        held.append(_Held(number, core.pattern, level))
    return held


def _operand(product: Term, held: _Held, core: Pattern, var: IndexVar) -> tuple[int, Pattern, tuple[IndexVar, ...]]:
    """The index, pattern and index variables of an operand after its collapse. Its dimensions are in level order."""
    levels = _levels(product, held.number)
    names = (*levels[: held.level], var, *levels[held.level + 2 :])
    return held.number, core.extended([product.sizes[v] for v in names[len(core.shape) :]]), names


def _merge_first_levels(held: Sequence[_Held]) -> tuple[Pattern, ...] | None:
    """Replace the first two levels of each pattern by one level. None if that is impossible or does not pay."""
    if any(x.level or x.core.format.levels[1].kind.is_full for x in held):
        return None
    return _number_first_coordinates(tuple(x.core for x in held)) if max(len(x.core.shape) for x in held) > 2 else None


@memoize(maxsize=REMEMBERED)
def _number_first_coordinates(cores: tuple[Pattern, ...]) -> tuple[Pattern, ...] | None:
    keys = []
    for core in cores:
        first, second = core.format.order[:2]
        if core.shape[first] * core.shape[second] > np.iinfo(np.int64).max:
            return None
        rows = core.rows()
        keys.append(rows[first].astype(np.int64) * core.shape[second] + rows[second])
    of_each = [key[np.concatenate([[True], key[1:] != key[:-1]])] for key in keys]  # the distinct ones: keys are sorted
    tuples = np.unique(np.concatenate(of_each))
    if len(tuples) > SPREAD * min(map(len, of_each)):
        return None
    return tuple(
        _with_level(core, 0, np.searchsorted(tuples, key), len(tuples), DENSE if len(core.shape) > 2 else COMPRESSED)
        for core, key in zip(cores, keys, strict=True)
    )


@memoize(maxsize=REMEMBERED)
def _private(core: Pattern, level: int) -> tuple[Pattern] | None:
    """Replace a pattern's last two levels by one `RANGE` level. None if that is impossible or does not pay."""
    if not level or level + 2 < len(core.shape) or not core.format.levels[level + 1].kind.has_segments:
        return None
    if core.nse > SHORT * core.level_sizes[level]:
        return None
    return (_with_level(core, level, np.arange(core.nse), core.nse, RANGE),)


def _with_level(core: Pattern, level: int, coordinates: np.ndarray, size: int, kind: LevelKind) -> Pattern:
    """Replace two levels of a pattern, `level` and the level after it, by one level that has the given coordinates.

    The dimensions of the result are numbered in the order of its levels.
    """
    rows, levels = core.rows(), core.format.levels
    merged = [*levels[:level], *levels[level + 2 :]]
    order = [x.dim for x in merged]
    merged.insert(level, Level(kind, 0))
    if level + 1 < len(merged) and merged[level + 1].kind.is_branchless:  # each number has one entry or more below it
        merged[level + 1] = Level(COMPRESSED, 0, merged[level + 1].unique)
    format = Format(tuple(Level(x.kind, dim, x.unique) for dim, x in enumerate(merged)))
    columns, shape = [rows[dim] for dim in order], [core.shape[dim] for dim in order]
    columns.insert(level, coordinates.astype(rows[0].dtype))
    shape.insert(level, size)
    return Pattern.from_rows(columns, shape, format, sorted_by=range(len(shape)))[0]
