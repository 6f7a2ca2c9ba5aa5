"""Selections from a static pattern by slices, integers and known index tables. Their pattern is made on the host."""

from __future__ import annotations

import numpy as np

from jsparse.formats import Pattern
from jsparse.ops.indexing.entries import Entries, as_array, selected_entries
from jsparse.ops.indexing.gathered import gathered
from jsparse.ops.indexing.matches import joint_keys, matches
from jsparse.ops.indexing.selection import Selection
from jsparse.ops.indexing.selector import Listed, Selector, Strided
from jsparse.ops.relocation.remaining_format import remaining_format
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["select_static"]


def select_static(tensor: SparseTensor, pattern: Pattern, selection: Selection) -> SparseTensor:
    """The selected entries of a tensor on a static pattern, on a static pattern of their own."""
    entries = _entries(pattern, selection)
    format = remaining_format(pattern.format, selection.parts, selection.tables)
    in_order = format.order if entries.in_order else None
    target, built = Pattern.from_rows(_rows(entries, selection), selection.shape, format, in_order)
    slots = entries.slots
    if not built.is_identity:
        gather = built.gather()
        slots = np.where(gather < 0, -1, as_array(slots)[gather])
    return SparseTensor._unchecked(gathered(tensor.values, slots), target)


def _entries(pattern: Pattern, selection: Selection) -> Entries:
    """The selected entries. The new coordinate of index tables is an offset in them, in row-major order."""
    selectors: dict[int, Selector] = {**selection.strided}
    if len(selection.tables) == 1:
        (dim,), (listed,) = selection.tables, selection.listed()
        selectors[dim] = Listed(listed, pattern.shape[dim])
        return selected_entries(pattern, selectors, selection.dropped)
    selectors.update({dim: Strided.whole(pattern.shape[dim]) for dim in selection.tables})
    entries = selected_entries(pattern, selectors, selection.dropped)
    return _joined(entries, selection) if selection.tables else entries


def _joined(entries: Entries, selection: Selection) -> Entries:
    """Keep the entries at the points that several index tables list, as often as they list them."""
    dims = sorted(selection.tables)
    own = [entries.rows[dim] for dim in dims]
    kept, new = matches(*joint_keys(own, selection.listed(), [selection.extents[dim] for dim in dims]))
    rows = {dim: row[kept] for dim, row in entries.rows.items()}
    return Entries(as_array(entries.slots)[kept], {**rows, dims[0]: new}, in_order=False)


def _rows(entries: Entries, selection: Selection) -> list[np.ndarray]:
    """The coordinates of the entries, for each dimension of the result."""
    rows: list[np.ndarray] = []
    for dim, count in enumerate(selection.parts):
        if not count:
            continue
        row = entries.rows[dim]
        rows += np.unravel_index(row, selection.table_shape) if count > 1 else [row]
    return [row if row.base is None else row.copy() for row in rows]  # a view would keep all of its array alive
