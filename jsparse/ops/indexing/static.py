"""Selections from a static pattern by slices, integers and known index tables, made on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from jsparse.formats import Format, Pattern
from jsparse.ops.indexing.assembled import index_arrays
from jsparse.ops.indexing.entries import Entries, selected_entries
from jsparse.ops.indexing.gathered import gathered
from jsparse.ops.indexing.matches import joint_keys, matches
from jsparse.ops.indexing.positions import Positions, as_array
from jsparse.ops.indexing.selection import Selection
from jsparse.ops.indexing.selector import Listed, Selector, Strided
from jsparse.ops.relocation.remaining_format import remaining_format
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["select_static"]


def select_static(tensor: SparseTensor, pattern: Pattern, selection: Selection) -> SparseTensor:
    """Select entries of a tensor with a static pattern. The result has a static pattern of its own."""
    format = remaining_format(pattern.format, selection.parts, selection.tables)
    entries = _entries(pattern, selection)
    if len(selection.tables) > 1:
        return _sorted(tensor, *_joined(entries, selection), selection, format, None)
    arrays = index_arrays(entries, format)
    if arrays is None:
        order = _order(pattern.format, selection) if entries.in_order else None
        return _sorted(tensor, entries.slots, entries.rows(), selection, format, order)
    target = Pattern._trusted(selection.shape, format, tuple(map(_own, arrays)))
    return SparseTensor._unchecked(gathered(tensor.values, entries.slots), target)


def _sorted(
    tensor: SparseTensor,
    slots: Positions,
    by_dim: Mapping[int, np.ndarray],
    selection: Selection,
    format: Format,
    order: Sequence[int] | None,
) -> SparseTensor:
    """The tensor of the entries in these slots, which have the new coordinates `by_dim`.

    `order`: the dimensions of the result by which the entries are already sorted; None if they are not.
    """
    target, built = Pattern.from_rows(_rows(by_dim, selection), selection.shape, format, order)
    if not built.is_identity:
        gather = built.gather()
        slots = np.where(gather < 0, -1, as_array(slots)[gather])
    return SparseTensor._unchecked(gathered(tensor.values, slots), target)


def _order(format: Format, selection: Selection) -> list[int]:
    """The dimensions of the result, in the order in which a tensor of this format stores them."""
    first = [0, *accumulate(selection.parts)]
    return [first[dim] + n for dim in format.order for n in range(selection.parts[dim])]


def _entries(pattern: Pattern, selection: Selection) -> Entries:
    """The entries that slices, integers and a single index table select. Several tables leave their dimensions whole.

    The new coordinate of the index table is an offset in it, in row-major order.
    """
    selectors: dict[int, Selector] = {**selection.strided}
    if len(selection.tables) == 1:
        (dim,), (listed,) = selection.tables, selection.listed()
        selectors[dim] = Listed(listed, pattern.shape[dim])
    else:
        selectors.update({dim: Strided.whole(pattern.shape[dim]) for dim in selection.tables})
    return selected_entries(pattern, selectors, selection.dropped)


def _joined(entries: Entries, selection: Selection) -> tuple[Positions, Mapping[int, np.ndarray]]:
    """The slots and coordinates of the entries at the points that several index tables list, as often as listed."""
    dims, rows = sorted(selection.tables), entries.rows()
    own = [rows[dim] for dim in dims]
    kept, new = matches(*joint_keys(own, selection.listed(), [selection.extents[dim] for dim in dims]))
    return as_array(entries.slots)[kept], {**{dim: row[kept] for dim, row in rows.items()}, dims[0]: new}


def _rows(by_dim: Mapping[int, np.ndarray], selection: Selection) -> list[np.ndarray]:
    """The coordinates of the entries, for each dimension of the result."""
    rows: list[np.ndarray] = []
    for dim, count in enumerate(selection.parts):
        if not count:
            continue
        row = by_dim[dim]
        rows += np.unravel_index(row, selection.table_shape) if count > 1 else [row]
    return [_own(row) for row in rows]


def _own(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy if it is a view: a view would keep its whole base array alive."""
    return array.copy() if isinstance(array.base, np.ndarray) else array
