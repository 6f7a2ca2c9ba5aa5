"""Index variables of a chain: which axes of which arrays run over the same coordinates.

Axes are nodes of a union-find forest (Tarjan, 1975). Two nodes are united if their axes run over the same coordinates.
Axes that one equation names by different letters are never united. A node may run over the slots of a pattern: then it
consists of the nodes of the pattern's levels and of the dense axes after them. A node may be *divided* if an array is
reshaped: it runs over all tuples of coordinates of its parts, the last part fastest. In the end its parts replace it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod
from typing import TypeAlias

from jsparse.base.dataclass import dataclass

Node: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a pattern: the number of its walk, the nodes of its levels, and the dense axes after the levels."""

    walk: int
    levels: tuple[Node, ...]
    behind: tuple[Node, ...] = ()


class Variables:
    """The union-find forest of a chain's nodes. It also knows which nodes must stay different."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._parents: list[Node] = []
        self._slots: dict[Node, Slots] = {}
        self._parts: dict[Node, tuple[Node, ...]] = {}
        self._different: set[frozenset[Node]] = set()
        self._coordinates: set[Node] = set()

    def copy(self) -> Variables:
        """A copy that can grow independently of the original."""
        other = Variables()
        other.__dict__ = {name: part.copy() for name, part in vars(self).items()}
        return other

    def new(self, size: int, slots: Slots | None = None) -> Node:
        """A new node, which runs over `size` coordinates or slots."""
        node = len(self.sizes)
        self.sizes.append(size)
        self._parents.append(node)
        if slots is not None:
            self._slots[node] = slots
        return node

    def merge(self, parts: Sequence[Node]) -> Node:
        """Make a new node that consists of the nodes `parts`."""
        node = self.new(prod(self.sizes[part] for part in parts))
        self._parts[node] = tuple(parts)
        return node

    def divide(self, node: Node, sizes: Sequence[int]) -> tuple[Node, ...] | None:
        """Divide a node into new nodes of these sizes, and return them; None if that is impossible."""
        parts = tuple(map(self.new, sizes))
        self.separate(parts)
        return parts if self.unite([(node, self.merge(parts))]) else None

    def leaves_of(self, node: Node) -> tuple[Node, ...]:
        """Divide a node into its parts, and these into their parts, until no part is divided further.

        Returns the representatives of the last parts. If the node is not divided, that is its own representative.
        """
        node = self.find(node)
        return tuple(n for part in self._parts[node] for n in self.leaves_of(part)) if node in self._parts else (node,)

    def find(self, node: Node) -> Node:
        """The representative of the nodes that are united with this one."""
        while self._parents[node] != node:
            node = self._parents[node]
        return node

    def slots(self, node: Node) -> Slots | None:
        """Return the slots over which a node runs, or None for a node that does not run over slots."""
        return self._slots.get(self.find(node))

    def separate(self, nodes: Iterable[Node]) -> None:
        """State that the nodes are different variables."""
        self._different.update(frozenset(pair) for pair in combinations(nodes, 2))

    def walk(self, nodes: Iterable[Node]) -> None:
        """State that the nodes run over the coordinates of a pattern's levels.

        None of them may run over the slots of another pattern. The coordinates of a level may be numbers of slots, as
        in an index relation of stored entries, but the level need not store the numbers of all slots.
        """
        self._coordinates.update(nodes)

    def unite(self, pairs: Sequence[tuple[Node, Node]]) -> bool:
        """Unite the nodes of each pair. If one pair cannot be united, change nothing and return False."""
        parents, slots, parts = list(self._parents), dict(self._slots), dict(self._parts)
        if all(self._unite(a, b) for a, b in pairs) and not self._contradicts():
            return True
        self._parents, self._slots, self._parts = parents, slots, parts
        return False

    def _unite(self, first: Node, second: Node) -> bool:
        a, b = self.find(first), self.find(second)
        if a == b:
            return True
        if self.sizes[a] != self.sizes[b]:
            return False
        inner, other = self._slots.get(a), self._slots.get(b)
        parts, others = self._parts.get(a), self._parts.get(b)
        if (parts or others) and (inner or other):
            return False
        self._parents[b] = a
        if parts and others:
            return len(parts) == len(others) and all(self._unite(x, y) for x, y in zip(parts, others, strict=True))
        if others:
            self._parts[a] = others
        if other is None:
            return True
        self._slots[a] = other
        if inner is None:
            return True
        if inner.walk != other.walk or len(inner.behind) != len(other.behind):
            return False
        return all(self._unite(x, y) for x, y in zip(inner.behind, other.behind, strict=True))

    def _contradicts(self) -> bool:
        if self._slots and any(self.find(node) in self._slots for node in self._coordinates):
            return True
        if self._parts:
            return any(not {*self.leaves_of(a)}.isdisjoint(self.leaves_of(b)) for a, b in self._different)
        return any(len({self.find(node) for node in pair}) < 2 for pair in self._different)
