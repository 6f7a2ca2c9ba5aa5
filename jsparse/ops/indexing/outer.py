"""Several index tables on static patterns: tables that vary together, and groups with no shared axis, as from `np.ix_`.

The groups select one after the other: rows, then columns. First every group selects its distinct points, which leaves
at most the entries of the pattern. Then points that a group lists several times are repeated, which leaves at most the
entries of the result. So no array has an element for each combination of points, except a result that is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.ops.indexing.gathered import Positions, gather_values
from jsparse.ops.indexing.matches import joint_keys
from jsparse.ops.indexing.selection import Group, Label, Selection, Strided
from jsparse.ops.indexing.static import select_static
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.sparse_tensor import SparseTensor


@dataclass(frozen=True, eq=False)
class OuterPoints:
    """The points that known index tables of one group list.

    Attributes:
        group: the dimensions and the axes of the tables.
        shape: the sizes of these axes.
        distinct: for each dimension, the coordinates of the distinct points.
        numbers: for each element of the tables, in row-major order, the number of its distinct point. None if the
            tables list the distinct points in their order.
    """

    group: Group
    shape: tuple[int, ...]
    distinct: tuple[np.ndarray, ...]
    numbers: np.ndarray | None

    @staticmethod
    def of(selection: Selection, group: Group) -> OuterPoints:
        """Find the distinct points of a group of the selection."""
        tables = [selection.table_of(dim, group.axes) for dim in group.dims]
        listed = tuple(np.ascontiguousarray(table).reshape(-1) for table in tables)
        keys = joint_keys(listed, listed, [selection.extents[dim] for dim in group.dims])[0]
        if not (keys[1:] > keys[:-1]).all():
            _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
            if len(first) < len(keys):
                return OuterPoints(group, tables[0].shape, tuple(row[first] for row in listed), numbers.reshape(-1))
        return OuterPoints(group, tables[0].shape, listed, None)


def select_outer(pattern: Pattern, selection: Selection) -> tuple[Pattern, Positions]:
    """Return the pattern of the selected entries, and for each of its slots the slot in `pattern` (-1 for a gap)."""
    steps = _Steps(pattern, selection)
    for label in [label for label in steps.labels if label[0] == "group"]:
        points = steps.points[label[1]]
        assert points.numbers is not None
        steps.select([steps.labels.index(label)], [points.numbers], points.shape, _axes(points))
    axes = [steps.labels.index(label) for label in selection.labels]
    return steps.pattern.transposed(axes), steps.slots


def outer_elements(tensor: SparseTensor, pattern: Pattern, selection: Selection) -> jax.Array:
    """Return the elements at all combinations of points, an array of the shape of the index tables.

    Every dimension has an index table. `pattern` is the tensor's pattern. A tensor without values is a tensor of ones.
    """
    steps = _Steps(pattern, selection)
    labels = sorted(steps.labels, key=lambda label: _axes_of(steps, label))
    target = steps.pattern.transposed([steps.labels.index(label) for label in labels])
    values: Any = tensor.values
    values = np.ones(target.nse, bool) if values is None else gather_values(values, steps.slots)
    elements: Any = SparseTensor._wrap(jnp.asarray(values), target).todense()
    axes: list[int] = []
    for label in labels:
        if label[0] == "group":
            points = steps.points[label[1]]
            assert points.numbers is not None
            numbers = points.numbers.reshape(points.shape)
            if is_on_host(elements):  # without XLA, which would compile a program for each shape
                elements = on_device([np.asarray(elements).take(numbers, len(axes))], [elements])[0]
            else:
                elements = jnp.take(elements, numbers, len(axes))
        axes += _axes_of(steps, label)
    return elements if axes == sorted(axes) else jnp.transpose(elements, np.argsort(axes).tolist())


class _Steps:
    """The selection of slices, integers and distinct points, one group after the other.

    Attributes:
        points: the points of each group.
        pattern: the pattern of the selected entries.
        slots: their slots in the given pattern.
        labels: the dimensions of `pattern`. For the points of a group that lists points several times there is a
            dimension ("group", number of the group).
    """

    def __init__(self, pattern: Pattern, selection: Selection) -> None:
        order = pattern.format.order
        groups = sorted(selection.groups, key=lambda group: min(map(order.index, group.dims)))
        self.points = [OuterPoints.of(selection, group) for group in groups]
        self.pattern, self.slots = pattern, slice(0, pattern.nse)
        self.labels: list[Label] = [("slice", dim) for dim in range(pattern.ndim)]
        slices = selection.of_slices()
        if not slices.is_whole:
            self._compose(*select_static(pattern, slices))
            self.labels = [label for label in self.labels if label[1] not in selection.dropped]
        for number, points in enumerate(self.points):
            dims = [self.labels.index(("slice", dim)) for dim in points.group.dims]
            if points.numbers is None:
                self.select(dims, points.distinct, points.shape, _axes(points))
            else:
                self.select(dims, points.distinct, (len(points.distinct[0]),), [("group", number)])

    slots: Positions

    def select(
        self, dims: Sequence[int], tables: Sequence[np.ndarray], shape: tuple[int, ...], labels: Sequence[Label]
    ) -> None:
        """Select by index tables of this shape. The dimensions `labels` replace the first one of `dims`."""
        extents = self.pattern.shape
        strided = {dim: Strided.whole(extents[dim]) for dim in range(len(extents)) if dim not in dims}
        shaped = {dim: table.reshape(shape) for dim, table in zip(dims, tables, strict=True)}
        self._compose(*select_static(self.pattern, Selection(extents, strided, frozenset(), shaped, shape)))
        kept = [[label] if dim not in dims else [] for dim, label in enumerate(self.labels)]
        kept[min(dims)] = list(labels)
        self.labels = [label for part in kept for label in part]

    def _compose(self, pattern: Pattern, slots: Positions) -> None:
        self.pattern, self.slots = pattern, _compose_positions(self.slots, slots)


def _axes(points: OuterPoints) -> list[Label]:
    return [("table", axis) for axis in points.group.axes]


def _axes_of(steps: _Steps, label: Label) -> tuple[int, ...]:
    """The axes of index tables that a dimension stands for."""
    return steps.points[label[1]].group.axes if label[0] == "group" else (label[1],)


def _compose_positions(slots: Positions, selected: Positions) -> Positions:
    """Return the slots at the selected positions of `slots`, and -1 for the position -1."""
    if isinstance(selected, slice):
        if isinstance(slots, slice):
            return slice(slots.start + selected.start, slots.start + selected.stop)
        return slots[selected]
    if isinstance(slots, slice):
        return np.where(selected < 0, -1, selected + slots.start) if slots.start else selected
    if not len(slots):
        return np.full(len(selected), -1)
    composed = _native.take(np.ascontiguousarray(slots), np.ascontiguousarray(selected))  # 0 for the position -1
    composed[selected < 0] = -1
    return composed
