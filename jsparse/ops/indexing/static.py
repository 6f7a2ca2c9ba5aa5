"""Selections from a static pattern by slices, integers and known index tables, made on the host.

If possible, the index arrays of the result are built from the links of the selected entries (`links.py`), without
another pass over the entries. Links have pointers and new coordinates for each chain of levels: a compressed level and
the singleton levels below it. The result stores these arrays without positions that have no selected entry below them.
Dense levels store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.formats import Format, Level, Pattern
from jsparse.formats.build import index_dtype
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON, LevelKind
from jsparse.formats.relayout import relayout_to
from jsparse.ops.indexing.gathered import Positions, as_array
from jsparse.ops.indexing.links import DenseBlock, select_pointers
from jsparse.ops.indexing.matches import is_small, joint_keys, matches
from jsparse.ops.indexing.selection import Listed, Selection, Selector, Strided
from jsparse.ops.indexing.static_entries import SelectedEntries, select_entries
from jsparse.ops.relocation.formats import remaining_format


def select_static(pattern: Pattern, selection: Selection) -> tuple[Pattern, Positions]:
    """Return the pattern of the selected entries, and for each of its slots the slot in `pattern` (-1 for a gap)."""
    format = remaining_format(pattern.format, selection.parts, selection.tables)
    tree = _tree_format(pattern, selection)
    if tree is not None:
        target, slots = select_static(relayout_to(pattern, tree).target, selection)
        return relayout_to(target, format).target, slots
    # Slices, integers and a single index table select at once. The new coordinate in the dimension of the table is the
    # row-major offset in it. Several tables are joined afterwards, so their dimensions keep all coordinates here.
    selectors: dict[int, Selector] = {**selection.strided}
    selectors.update({dim: Strided.whole(pattern.shape[dim]) for dim in selection.tables})
    if len(selection.tables) == 1:
        (dim,), (listed,) = selection.tables, selection.table_vectors()
        selectors[dim] = Listed(listed, pattern.shape[dim])
    entries = select_entries(pattern, selectors, selection.dropped)
    if len(selection.tables) > 1:
        slots, by_dim, is_grouped = _join_points(entries, selection)
        axes = [n for n, (kind, _) in enumerate(selection.labels) if kind == "table"]
        stored = [dim for dim in _order(pattern.format, selection) if dim not in axes]
        return _build_pattern(slots, by_dim, selection, format, [*axes, *stored] if is_grouped else None)
    arrays = _index_arrays(entries, format)
    if arrays is None:
        order = _order(pattern.format, selection) if entries.in_order else None
        return _build_pattern(entries.slots, entries.rows(), selection, format, order)
    return Pattern._of_valid(selection.shape, format, tuple(map(_own, arrays))), entries.slots


def _build_pattern(
    slots: Positions,
    by_dim: Mapping[int, np.ndarray],
    selection: Selection,
    format: Format,
    order: Sequence[int] | None,
) -> tuple[Pattern, Positions]:
    """Build the pattern of entries that have the old slots `slots` and the new coordinates `by_dim`.

    `order`: the dimensions of the result by which the entries are already sorted; None if they are not sorted.

    Returns the new pattern, and the old slot for each of its slots (-1 for a gap).
    """
    rows: list[np.ndarray] = []
    for dim, number in enumerate(selection.parts):
        if number:
            rows += np.unravel_index(by_dim[dim], selection.table_shape) if number > 1 else [by_dim[dim]]
    target, built = Pattern.from_rows([_own(row) for row in rows], selection.shape, format, order)
    if not built.is_identity:
        gather, old = built.gather(), as_array(slots, np.int64 if isinstance(slots, slice) else slots.dtype)
        slots = old[gather] if built.group_slots is None else np.where(gather < 0, -1, old[gather])
    return target, slots


def _tree_format(pattern: Pattern, selection: Selection) -> Format | None:
    """The format with segments in place of chains, if an index table lists coordinates of a chain in another order.

    Segments are taken in the order of the table, while entries of a chain would have to be sorted. Both formats have
    the same slots.
    """
    levels = pattern.format.levels
    for chain in pattern.format.chains if len(selection.tables) == 1 else ():
        (dim,), (listed,) = selection.tables, selection.table_vectors()
        if len(chain) == 1 or dim not in {levels[n].dim for n in chain}:
            continue
        if not Listed(listed, pattern.shape[dim]).increases:
            return Format(tuple(Level(COMPRESSED if n in chain else x.kind, x.stores) for n, x in enumerate(levels)))
    return None


def _order(format: Format, selection: Selection) -> list[int]:
    """The dimensions of the result, in the order in which a tensor of this format stores them."""
    first = [0, *accumulate(selection.parts)]
    return [first[dim] + n for dim in format.order for n in range(selection.parts[dim])]


def _join_points(entries: SelectedEntries, selection: Selection) -> tuple[Positions, Mapping[int, np.ndarray], bool]:
    """Return the slots and coordinates of the entries at the points of several index tables.

    An entry is repeated for each point that has its coordinates. The third result says whether the entries are sorted
    by points first, then in storage order.
    """
    dims, rows = sorted(selection.tables), entries.rows()
    keys, points, extent = joint_keys(
        [rows[dim] for dim in dims], selection.table_vectors(), [selection.extents[dim] for dim in dims]
    )
    is_grouped = entries.in_order and is_small(extent, keys, points) and extent + len(points) < 2**31
    if is_grouped:  # the entries with the key of each point, one point after the other
        dtype = index_dtype([extent], [len(keys)])
        pointers, _, numbers = _native.transpose(narrow := keys.astype(dtype), extent, narrow, False)
        pointers, kept, _ = _native.take_segments(pointers, numbers, points.astype(dtype))
        new = np.repeat(np.arange(len(points), dtype=dtype), np.diff(pointers))
    else:
        kept, new = matches(keys, points, extent)
    del keys, points
    others = {dim: row[kept] for dim, row in rows.items() if dim not in dims}
    slots = entries.slots[kept] if isinstance(entries.slots, np.ndarray) else kept + entries.slots.start
    return slots, {**others, dims[0]: new}, is_grouped


def _own(array: np.ndarray) -> np.ndarray:
    """Return the array, or a copy if the array is a view: a view would keep its base array alive."""
    return array.copy() if isinstance(array.base, np.ndarray) else array


@dataclass(frozen=True, eq=False)
class _Chain:
    """A chain of the result: a compressed level and the singleton levels below it, which have the same positions.

    Attributes:
        pointers: where the positions below each position of the level above begin, and the end of the last ones.
        columns: the coordinates of the chain's positions, for each of its levels.
        blocks: how many positions the dense levels between the chain above and this chain have, below each position of
            the chain above.
    """

    pointers: np.ndarray
    columns: list[np.ndarray]
    blocks: int


def _index_arrays(entries: SelectedEntries, format: Format) -> tuple[np.ndarray, ...] | None:
    """Return the index arrays of entries, or None if the arrays have to be built from coordinates: the entries are not
    sorted by their coordinates, or `format` does not have the levels that the selection keeps."""
    chains_and_block = _chains(entries, format) if entries.in_order else None
    if chains_and_block is None:
        return None
    chains, below = chains_and_block
    arrays: list[np.ndarray] = []
    kept = None if below else np.zeros(0, np.intp)  # the positions of a chain that have entries; None: all of them
    for n in reversed(range(len(chains))):
        pointers, columns = chains[n].pointers, chains[n].columns
        if kept is not None:
            pointers, columns = select_pointers(pointers, kept), [column.take(kept) for column in columns]
        if n:
            pointers, kept = _without_empty(pointers, len(chains[n - 1].columns[0]), chains[n].blocks)
        arrays[:0] = [pointers, *columns]
    return tuple(arrays)


def _chains(entries: SelectedEntries, format: Format) -> tuple[list[_Chain], int] | None:
    """Return the chains of the result, and the number of dense positions below each position of the innermost chain.

    Returns None unless the levels of the format are exactly these chains and dense levels.
    """
    chains: list[_Chain] = []
    kinds: list[LevelKind] = []
    through: np.ndarray | None = None  # pointers through chains that were dropped whole, with at most one position each
    blocks = 1
    for link in entries.links:
        if isinstance(link, DenseBlock):
            if link.dim not in entries.dropped:
                if through is not None:
                    return None  # a block is stored below each position that is left, not below each position above
                kinds.append(DENSE)
                blocks *= link.size
            continue
        pointers = link.pointers if through is None else link.pointers[through]
        columns = [column for dim, column in link.columns.items() if dim not in entries.dropped]
        through = None if columns else pointers
        if columns:
            kinds += [COMPRESSED, *[SINGLETON] * (len(columns) - 1)]
            chains.append(_Chain(pointers, columns, blocks))
            blocks = 1
    if through is not None or kinds != [level.kind for level in format.levels]:
        return None
    return chains, blocks


def _without_empty(pointers: np.ndarray, above: int, blocks: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Remove parents that have no entries. Returns the other parents' pointers and numbers (None: all parents).

    `above` is the number of parents. Each parent has `blocks` segments.
    """
    filled: np.ndarray = pointers[1:] > pointers[:-1]
    if blocks != 1:
        filled = np.any(filled.reshape(above, blocks), axis=1)
    kept = np.flatnonzero(filled)
    if len(kept) == above:
        return pointers, None
    starts = pointers[:-1].reshape(above, blocks).take(kept, axis=0)
    return np.append(starts.reshape(-1), pointers[-1:]), kept
