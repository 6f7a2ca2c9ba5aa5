"""Index variables of a chain: which axes of which arrays run over the same coordinates.

Axes are nodes of a union-find forest (Tarjan, 1975). An equation names its axes by letters; different letters of one
equation stay different variables, even if arrays that they index would unite them. A node may run over the slots of a
pattern: then it consists of the nodes of the pattern's levels, and of those behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

__all__ = ["Node", "Slots", "Variables"]

Node: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a pattern that is walked: the number of the walk, and the axes behind each stored entry."""

    walk: int
    levels: tuple[Node, ...]
    behind: tuple[Node, ...] = ()


class Variables:
    """The nodes of a chain."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._parents: list[Node] = []
        self._slots: dict[Node, Slots] = {}
        self._different: set[frozenset[Node]] = set()

    def copy(self) -> Variables:
        """The same nodes, to which others are added apart."""
        found = Variables()
        found.sizes, found._parents = list(self.sizes), list(self._parents)
        found._slots, found._different = dict(self._slots), set(self._different)
        return found

    def new(self, size: int, slots: Slots | None = None) -> Node:
        """A new node, which runs over `size` coordinates or slots."""
        node = len(self.sizes)
        self.sizes.append(size)
        self._parents.append(node)
        if slots is not None:
            self._slots[node] = slots
        return node

    def find(self, node: Node) -> Node:
        """The representative of the nodes that are united with this one."""
        while self._parents[node] != node:
            node = self._parents[node]
        return node

    def slots(self, node: Node) -> Slots | None:
        """What a node consists of, if it runs over slots."""
        return self._slots.get(self.find(node))

    def separate(self, nodes: Iterable[Node]) -> None:
        """State that the nodes are different variables."""
        self._different.update(frozenset(pair) for pair in combinations(nodes, 2))

    def unite(self, pairs: Sequence[tuple[Node, Node]]) -> bool:
        """Unite the nodes of each pair, if all of that is possible; else change nothing."""
        parents, slots = list(self._parents), dict(self._slots)
        if all(self._united(a, b) for a, b in pairs) and not self._contradicts():
            return True
        self._parents, self._slots = parents, slots
        return False

    def _united(self, first: Node, second: Node) -> bool:
        a, b = self.find(first), self.find(second)
        if a == b:
            return True
        if self.sizes[a] != self.sizes[b]:
            return False
        inner, other = self._slots.get(a), self._slots.get(b)
        self._parents[b] = a
        if other is None:
            return True
        self._slots[a] = other
        if inner is None:
            return True
        if inner.walk != other.walk or len(inner.behind) != len(other.behind):
            return False
        return all(self._united(x, y) for x, y in zip(inner.behind, other.behind, strict=True))

    def _contradicts(self) -> bool:
        return any(len({self.find(node) for node in pair}) < 2 for pair in self._different)
