"""Sharding rules: which axes of an operation's operands and results devices may divide, and what a device computes.

A rule gives each axis a label, or None if each device needs all of that axis. Axes with the same label are divided
alike. So a rule describes an operation as an einsum's subscripts describe a product, as in Shardy's sharding rules:

    Y[i, k] = A[i, j] * X[j, k]      values (None,), X (None, 'k')  →  Y (None, 'k')

A label that results lack is summed over, or reduced by a minimum or a maximum: the devices' results are reduced, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import jax

from jsparse.base.dataclass import dataclass
from jsparse.primitives.spec import Operands

Params: TypeAlias = Mapping[str, Any]
"""The parameters of a primitive."""
Label: TypeAlias = Hashable
Labels: TypeAlias = tuple[Label | None, ...]
"""The label of each axis of an array; None for an axis that is whole on each device."""

REDUCTIONS: Mapping[str, Callable[..., Any]] = {"+": jax.lax.psum, "min": jax.lax.pmin, "max": jax.lax.pmax}
"""The reductions over devices. A label that is reduced by any other operator is whole."""


@dataclass(frozen=True, slots=True)
class Division:
    """The mesh axes over which each label is divided.

    Attributes:
        axes: the names of mesh axes by label. Labels that are not divided may be absent.
        sizes: the number of devices along each mesh axis.
    """

    axes: Mapping[Label, tuple[str, ...]]
    sizes: Mapping[str, int]

    def of(self, label: Label | None) -> tuple[str, ...]:
        """The mesh axes that divide a label."""
        return () if label is None else self.axes.get(label, ())

    def count(self, label: Label | None) -> int:
        """The number of parts of a label."""
        return prod(self.sizes[name] for name in self.of(label))

    def part(self, size: int, label: Label | None) -> int:
        """The size of a device's part of an axis."""
        return size // self.count(label)

    def shape(self, shape: Sequence[int], labels: Labels) -> tuple[int, ...]:
        """The shape of a device's shard of an array."""
        return tuple(map(self.part, shape, labels))

    def spec(self, labels: Labels) -> jax.sharding.PartitionSpec:
        """The partition of an array."""
        entries = (self.of(label) for label in labels)
        return jax.sharding.PartitionSpec(*(None if not e else e[0] if len(e) == 1 else e for e in entries))

    def reduce_parts(self, x: jax.Array, labels: Iterable[Label], add: str) -> jax.Array:
        """Reduce the results of devices that have different parts of some labels."""
        names = tuple(name for label in labels for name in self.of(label))
        return REDUCTIONS[add](x, names) if names else x

    def under(self, labels: Mapping[Label, Label | None]) -> Division:
        """The division of other labels: each is divided as the label that it is mapped to."""
        return Division({label: self.of(other) for label, other in labels.items()}, self.sizes)


Local: TypeAlias = Callable[[Operands, Division], Operands]
"""A function that computes a device's shards of the results from its shards of the operands."""


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """The labels of the axes of an operation's operands and results, and what a device computes.

    Attributes:
        steps: the labels that are used together, in each step of an operation of several. Labels of one step are
            divided over different mesh axes. None if there is one step.
        inner: labels with the sizes of axes inside of the operation, which devices have to divide evenly, too.
    """

    operands: tuple[Labels, ...]
    results: tuple[Labels, ...]
    local: Local
    steps: tuple[frozenset[Label], ...] | None = None
    inner: tuple[tuple[Label, int], ...] = ()

    @property
    def labels(self) -> frozenset[Label]:
        """All labels of operands and results."""
        return frozenset(label for own in (*self.operands, *self.results) for label in own if label is not None)

    def clashes(self, a: Label, b: Label) -> bool:
        """Whether two labels may not be divided over the same mesh axis."""
        return a != b and any(a in step and b in step for step in self.steps or (self.labels,))

    def is_even(self, label: Label, count: int, shapes: Sequence[Sequence[int]] = ()) -> bool:
        """Whether `count` devices divide a label evenly: inside, and in operands and results of these shapes."""
        pairs = zip((*self.operands, *self.results), shapes, strict=False)
        outer = (pair for labels, shape in pairs for pair in zip(labels, shape, strict=True))
        return all(size % count == 0 for own, size in (*outer, *self.inner) if own == label)


Rule: TypeAlias = Callable[[Operands, Operands, Params], ShardingRule]
"""A function of the types of a primitive's operands and results, and of its parameters."""


class Classes:
    """Labels that belong together, as sets that are merged (union-find). One set has the labels that are whole."""

    def __init__(self) -> None:
        self._parent: dict[Label, Label] = {}

    def find(self, label: Label | None) -> Label | None:
        """The representative of a label's set; None if the label is whole."""
        while label in self._parent:
            label = self._parent[label]
        return label

    def merge(self, a: Label | None, b: Label | None) -> None:
        """Divide two labels alike. A label that is merged with None is whole."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a is None:
            a, b = b, a
        self._parent[a] = b

    def merge_all(self, a: Labels, b: Labels) -> None:
        """Divide two arrays alike, axis by axis."""
        for x, y in zip(a, b, strict=True):
            self.merge(x, y)

    def labels(self, labels: Labels) -> Labels:
        """The representatives of the labels of an array's axes."""
        return tuple(map(self.find, labels))

    def separate(self, labels: Labels) -> None:
        """Make labels whole that belong to several axes of one array: a device would need other parts of it, too."""
        representatives = [x for x in self.labels(labels) if x is not None]
        for label in representatives:
            if representatives.count(label) > 1:
                self.merge(label, None)
