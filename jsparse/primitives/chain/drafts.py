"""Drafts: statements of a chain, and the arrays that statements read and write. Index variables are nodes.

A kernel visits no padding of dynamic patterns, and leaves 0 there in its results. An operation that XLA runs computes
padding, too: einsums and maps of entries put 0 there, but `1 + values` does not. So a chain may write values on a
dynamic pattern only if the operations would give 0 in padding as well. It may compute a map only where loops walk the
pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial, reduce

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.operations import meaning_of
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.compiler.semiring import Add
from jsparse.formats import DynamicType
from jsparse.notation import Access
from jsparse.notation.background import ABSENT, UNKNOWN, Background, background, is_zero
from jsparse.primitives.chain.variables import Node, Variables
from jsparse.primitives.spec import PatternAccess


class ChainError(Exception):
    """The reason why an equation cannot be part of a chain."""


@dataclass(frozen=True, slots=True)
class View:
    """An array of a chain, described by the axes of the tensor that holds the array's elements.

    Attributes:
        tensor: the name of the tensor.
        home: the node of each axis of the tensor, without axes of size 1. None for an operand, since each access may
            read it by other variables.
        axes: for each axis of the array, the index of the tensor's axis; None for an axis along which elements repeat.
        shape: the shape of the array.
    """

    tensor: str
    home: tuple[Node, ...] | None
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """A pattern with the nodes of its levels.

    Attributes:
        access: the pattern.
        index: the names of the operands that are the index arrays of a dynamic pattern.
        levels, lead: the nodes of its levels, and of its leading batch axes.
    """

    access: PatternAccess
    index: tuple[str, ...]
    levels: tuple[Node, ...]
    lead: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """The statement `tensor[nodes] ⊕= value` over the entries of some walks. Indices of accesses are nodes, as text.

    Attributes:
        dtype: the tensor's dtype.
    """

    tensor: str
    nodes: tuple[Node, ...]
    value: Scalar
    dtype: str
    add: Add = "+"
    walks: tuple[int, ...] = ()

    @property
    def access(self) -> Access:
        """The access to which the statement assigns."""
        return Access(self.tensor, tuple(map(str, self.nodes)))

    def with_value(self, value: Scalar) -> Draft:
        """Return a copy of the draft with this value."""
        return replace(self, value=value)


@dataclass
class Drafts:
    """The statements of a chain so far.

    Attributes:
        variables: the index variables.
        walks: the patterns that are walked.
        statements: the statements, in order.
        operands: for each operand, the view of all its elements.
        operand_nodes: operand name → the nodes of each access to it.
        zeros: the tensors that are 0 in the padding of dynamic patterns when XLA runs the operations.
        maps: the tensors that are functions of the entries of a dynamic pattern.
        dtypes: the dtypes of all arrays.
    """

    variables: Variables = field(default_factory=Variables)
    walks: list[Walk] = field(default_factory=list)
    statements: list[Draft] = field(default_factory=list)
    operands: dict[str, View] = field(default_factory=dict)
    operand_nodes: dict[str, list[tuple[Node, ...]]] = field(default_factory=dict)
    zeros: set[str] = field(default_factory=set)
    maps: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)

    def copy(self) -> Drafts:
        """A copy that can grow independently of the original."""
        nodes = {name: list(of) for name, of in self.operand_nodes.items()}
        return Drafts(
            self.variables.copy(),
            [*self.walks],
            [*self.statements],
            dict(self.operands),
            nodes,
            {*self.zeros},
            {*self.maps},
            {*self.dtypes},
        )

    def fresh(self) -> str:
        """A name for a new tensor."""
        return f"T{len(self.statements)}"

    def walk(
        self, access: PatternAccess, index: tuple[str, ...], levels: tuple[Node, ...], lead: tuple[Node, ...]
    ) -> int:
        """Return the index of the walk over a pattern by these nodes: an existing walk if one fits, else a new one."""
        for number, known in enumerate(self.walks):
            alike = known.access.pattern == access.pattern and known.index == index and len(known.lead) == len(lead)
            pairs = list(zip((*known.lead, *known.levels), (*lead, *levels), strict=True)) if alike else []
            if alike and self.variables.unite(pairs):
                return number
        self.variables.walk((*lead, *levels))
        self.walks.append(Walk(access, index, levels, lead))
        return len(self.walks) - 1


def read(drafts: Drafts, view: View, nodes: tuple[Node | None, ...]) -> Access:
    """Return the access to an array by an equation's nodes. Unite them with its home nodes if possible.

    Raises ChainError if slots of a pattern are not read at the entries at which they were written, or if only a part
    of an array is read.
    """
    variables, count = drafts.variables, sum(axis is not None for axis in view.axes)
    index: list[Node | None] = [None] * (len(view.home) if view.home is not None else count)
    for axis, node in zip(view.axes, nodes, strict=True):
        if axis is None:
            continue
        assert node is not None
        index[axis] = node
        if view.home is None:
            continue
        if not variables.unite([(view.home[axis], node)]):
            if variables.slots(view.home[axis]) is not None or variables.slots(node) is not None:
                raise ChainError("values on a pattern are read at other entries than they are computed at")
        else:
            index[axis] = view.home[axis]
    if any(node is None for node in index):
        raise ChainError("part of an array is read")
    found = tuple(node for node in index if node is not None)
    if view.home is None:
        drafts.operand_nodes.setdefault(view.tensor, []).append(found)
    return Access(view.tensor, tuple(map(str, found)))


def node_of(index: object) -> Node:
    """Convert an index of an access, which is a node as text, to the node."""
    return int(str(index))


def vanishes(value: Scalar, zeros: Collection[str]) -> bool:
    """Return whether the form of an expression makes it 0 wherever the tensors and local names `zeros` are 0."""
    return is_zero(_background(value, dict.fromkeys(zeros, ABSENT)))


def _background(value: Scalar, known: Mapping[str, Background]) -> Background:
    """Evaluate an expression, given known values of tensors and local names."""
    match value:
        case Number(value=number):
            return number or ABSENT
        case Access(tensor=name) | Local(name=name):
            return known.get(name, UNKNOWN)
        case Rounded(value=inner):
            return _background(inner, known)
        case Let(name=name, value=inner, body=body):
            return _background(body, {**known, name: _background(inner, known)})
        case Apply(operation=operation, arguments=arguments):
            return background(operation, [_background(x, known) for x in arguments], partial(_computed, operation))


def _computed(operation: str, numbers: Sequence[complex]) -> complex:
    meaning, number = meaning_of(operation), int if operation in ("&", "|") else np.float64
    given = [number(x.real) for x in numbers]  # expressions are of real numbers
    with np.errstate(all="ignore"):
        return complex(reduce(meaning, given) if len(given) > 1 else meaning(*given))


def check_padding(drafts: Drafts, statements: Sequence[Draft], written: Collection[str]) -> None:
    """Raise ChainError if a chain and its separate operations would differ in padding of a result or a map."""
    for draft in statements:
        walks = [s.walk for s in map(drafts.variables.slots, draft.nodes) if s is not None]
        if draft.tensor in drafts.maps and not walks:
            raise ChainError("a function of values in padding")
        padded = any(isinstance(drafts.walks[n].access.pattern, DynamicType) for n in walks)
        if padded and draft.tensor in written and draft.tensor not in drafts.zeros:
            raise ChainError("a result need not be 0 in padding")
