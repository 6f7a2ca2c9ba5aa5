"""Inlining: a statement becomes part of the statement that reads its target, so that no array holds the target.

    S[i, j] = A[i, j] - m[i]
    E[i, j] = exp(S[i, j])        →        E[i, j] = exp(A[i, j] - m[i])

The statement must compute each element at one point of its iteration space, and have one reader. If the reader sums
over index variables that the statement lacks, it would compute each element many times. Then it keeps reading the
array. A copy, such as the elements of a dense array at stored entries, becomes part of all of its readers, and so does
a condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.operations import OPERATIONS
from jsparse.compiler.scalar import (
    Apply,
    Let,
    Local,
    Number,
    Scalar,
    accesses_of,
    factors_of,
    operations_of,
    parts_of,
    product_of,
    replace_accesses,
    rewrite,
)
from jsparse.notation import Access
from jsparse.primitives.chain.drafts import ChainError, Draft, Drafts, node_of
from jsparse.primitives.chain.variables import Node

MOST = 100
"""The largest depth of an expression. Lowering an expression is recursive."""


def inline_statements(drafts: Drafts, results: Sequence[str]) -> list[Draft]:
    """Inline statements into their readers, and return the remaining ones. `results` are the tensors to write."""
    left = {draft.tensor: _Statement.of(drafts, draft) for draft in drafts.statements}
    _check_ranks(drafts, left)
    readers: dict[str, set[str]] = {name: set() for name in left}
    for name, statement in left.items():
        for tensor in statement.tensors & left.keys():
            readers[tensor].add(name)
    for name, inlined in list(left.items()):
        if name in results or not inlined.is_pointwise(drafts):
            continue
        reading = [left[n] for n in left if n in readers[name]]
        is_free = inlined.draft.dtype == "bool" or isinstance(inlined.draft.value, Access)
        if any(statement.stays_apart(drafts) for statement in (inlined, *reading)):
            continue
        if (len(reading) == 1 or is_free) and all(inlined.fits(reader) for reader in reading):
            for reader in reading:
                reader.put(inlined)
            del left[name]
            for tensor in inlined.tensors & left.keys():
                readers[tensor] = readers[tensor] - {name} | readers[name]
    # A statement stays if results depend on it, directly or through other statements.
    needed, live = set(results), list[Draft]()
    for name, statement in reversed(left.items()):
        if name in needed:
            live.insert(0, statement.draft)
            needed |= statement.tensors
    return live


def parts_of_node(drafts: Drafts, node: Node) -> tuple[Node, ...]:
    """The nodes of index variables for which a node stands.

    A node over slots stands for the index variables of the pattern's levels and of the dense axes after them.
    """
    slots = drafts.variables.slots(node)
    return (node,) if slots is None else (*drafts.walks[slots.walk].levels, *slots.behind)


def _check_ranks(drafts: Drafts, statements: Mapping[str, _Statement]) -> None:
    """Raise ChainError if the statements that write and read a tensor divide an axis of it into different parts."""

    def sizes(nodes: Iterable[Node]) -> list[int]:
        return [drafts.variables.sizes[node] for node in nodes]

    for reader in statements.values():
        for access in reader.uses:
            writer = statements.get(access.tensor)
            if writer is not None and sizes(map(node_of, access.indices)) != sizes(writer.draft.nodes):
                raise ChainError("an axis is reshaped, and read at other coordinates")


@dataclass
class _Statement:
    """A draft in which each node is replaced by the representative of its united nodes.

    The draft's walks include every pattern whose slots are an index in the draft.

    Attributes:
        uses: how often each access occurs in the draft's value.
        points: the nodes of all index variables over which the statement loops.
        depth: the depth of the draft's value.
    """

    draft: Draft
    uses: Counter[Access]
    points: frozenset[Node]
    depth: int

    @staticmethod
    def of(drafts: Drafts, draft: Draft) -> _Statement:
        variables = drafts.variables
        uses, new = Counter[Access](), dict[Access, Scalar]()
        for access in accesses_of(draft.value):
            leaves = (node for index in access.indices for node in variables.leaves_of(node_of(index)))
            settled = Access(access.tensor, tuple(map(str, leaves)))
            uses[settled] += 1
            new[access] = settled
        nodes = tuple(leaf for node in draft.nodes for leaf in variables.leaves_of(node))
        every = [*nodes, *(node_of(index) for access in uses for index in access.indices)]
        looped, walks = set[Node](), dict.fromkeys(draft.walks)
        for node in every:
            slots = variables.slots(node)
            looped.update((node,) if slots is None else slots.behind)
            walks |= {} if slots is None else {slots.walk: None}
        for number in walks:
            looped.update((*drafts.walks[number].levels, *drafts.walks[number].lead))
        points = frozenset(n for n in map(variables.find, looped) if variables.sizes[n] > 1)
        value = replace_accesses(draft.value, new)
        settled_draft = Draft(draft.tensor, nodes, value, draft.dtype, draft.add, tuple(walks))
        return _Statement(settled_draft, uses, points, _depth(value))

    @property
    def tensors(self) -> set[str]:
        """The tensors that the statement reads."""
        return {access.tensor for access in self.uses}

    def is_pointwise(self, drafts: Drafts) -> bool:
        """Return whether the statement computes each element at one point only."""
        variables = drafts.variables
        target_points = {n for node in self.draft.nodes for n in parts_of_node(drafts, node)}
        return self.points == frozenset(n for n in map(variables.find, target_points) if variables.sizes[n] > 1)

    def stays_apart(self, drafts: Drafts) -> bool:
        """Return whether the statement takes no part in inlining.

        It takes no part if it calls a function that kernels compute only in float32, in a chain that also has float64.
        """
        names = operations_of(self.draft.value)
        return "float64" in drafts.dtypes and any(OPERATIONS[name].is_narrow for name in names)

    def fits(self, reader: _Statement) -> bool:
        """Return whether the statement can become part of the reader.

        The reader must read the element that the statement computes at the same point, and compute in a dtype that
        loses nothing. It must walk all patterns of the statement, or else it also reads zeros between the entries of a
        dense target. The two must have the same points, unless the statement is a copy or both are products.
        """
        draft, other = self.draft, reader.draft
        alike = all(access == draft.access for access in reader.uses if access.tensor == draft.tensor)
        keeps = alike and set(draft.walks).issubset(other.walks) and _keeps(draft.dtype, other.dtype)
        if not keeps or self.depth + reader.depth > MOST:
            return False
        if isinstance(draft.value, Access):
            return True
        # In a sum of products the scheduler hoists factors out of the sum: none is multiplied again for each term.
        both = other.add == "+" and _is_product(draft.value) and _is_product(other.value)
        return both or self.points == reader.points

    def put(self, other: _Statement) -> None:
        """Replace each access to another statement's target by that statement's value, computed once."""
        old, access = self.draft.value, other.draft.access
        count = self.uses.pop(access)
        if _is_product(old) and _is_product(other.draft.value):
            inner = factors_of(other.draft.value) or ()
            value = product_of("*", tuple(f for x in factors_of(old) or () for f in (inner if x == access else (x,))))
            self.uses.update({x: uses * count for x, uses in other.uses.items()})
        else:
            name, inlined = other.draft.tensor, other.draft.value
            body = replace_accesses(old, {access: Local(name)})
            value = _replace_access(old, access, inlined) if count == 1 else Let(name, inlined, body)
            self.uses.update(other.uses)
            self.depth += other.depth
        self.draft = self.draft.with_value(value)


def _depth(value: Scalar) -> int:
    return 1 + max(map(_depth, parts_of(value)), default=0)


def _is_product(value: Scalar) -> bool:
    is_product = isinstance(value, Apply) and value.operation == "*"
    return isinstance(value, Access) or (is_product and factors_of(value) is not None)


def _keeps(first: str, second: str) -> bool:
    """Return whether the second dtype represents all results of arithmetic in the first; True if either is "bool"."""
    if "bool" in (first, second):
        return True
    a, b = (np.dtype(accumulator(x)) for x in (first, second))
    return a.kind == b.kind and a.itemsize <= b.itemsize


def _replace_access(value: Scalar, access: Access, new: Scalar) -> Scalar:
    """Replace an access in an expression by `new`.

    The value of a bool is the number `select(c, 1, 0)` for a condition c. If the expression tests this number by
    `x != 0`, c replaces the test.
    """

    def replacement(value: Scalar) -> Scalar | None:
        match value, new:
            case Apply("!=", (Access() as x, zero)), Apply("select", (c, yes, no)) if (
                x == access and yes == Number(1.0) and no == zero == Number(0.0)
            ):
                return c
        return new if value == access else None

    return rewrite(value, replacement)
