"""Drafts: statements of a chain, and the arrays that statements read and write.

The index variables of a draft have no names yet: each is a node, a number in a union-find forest (`variables`).

A kernel visits no padding of dynamic patterns, and leaves 0 there in its results. An operation that XLA runs computes
padding, too: the primitives `einsum` and `map` put 0 there, but `1 + values` does not. So a chain may write values on a
dynamic pattern only if its operations, run by XLA, would also give 0 in padding. It may compute a `map` only in a
statement that loops over the entries of the pattern.
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
from jsparse.formats import PatternType
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
        home: the node (index variable) of each axis of the tensor, without axes of size 1. None for an operand, because
            each access may read it with different index variables.
        axes: for each axis of the array, the index of the tensor's axis; None for an axis along which elements repeat.
        shape: the shape of the array.
    """

    tensor: str
    home: tuple[Node, ...] | None
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """A pattern that a chain walks, and the nodes (index variables) of its levels.

    Attributes:
        access: the pattern.
        index: the names of the operands that are the index arrays of a dynamic pattern.
        levels, lead: the nodes of the pattern's levels, and of the leading batch axes of its index arrays.
    """

    access: PatternAccess
    index: tuple[str, ...]
    levels: tuple[Node, ...]
    lead: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """The statement `tensor[nodes] ⊕= value`, computed for the entries of the patterns that `walks` lists by number.

    Nodes are index variables that have no names yet. As an index of an access in `value`, a node is its number as text.

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
        operands: for each operand, the view of the whole operand.
        zeros: the tensors that are 0 in the padding of dynamic patterns if XLA computes them.
        maps: the tensors that the primitive `map` computes on a dynamic pattern.
        dtypes: the dtypes of all arrays.
    """

    variables: Variables = field(default_factory=Variables)
    walks: list[Walk] = field(default_factory=list)
    statements: list[Draft] = field(default_factory=list)
    operands: dict[str, View] = field(default_factory=dict)
    zeros: set[str] = field(default_factory=set)
    maps: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)

    def copy(self) -> Drafts:
        """A copy that can grow independently of the original."""
        return Drafts(*(part.copy() for part in vars(self).values()))

    def fresh(self) -> str:
        """A name for a new tensor."""
        return f"T{len(self.statements)}"

    def walk(
        self, access: PatternAccess, index: tuple[str, ...], levels: tuple[Node, ...], lead: tuple[Node, ...]
    ) -> int:
        """Return the index of a walk over a pattern whose levels have these nodes (index variables).

        An existing walk over the pattern is taken if its nodes can be united with these nodes. Else a walk is added.
        """
        for number, known in enumerate(self.walks):
            alike = known.access.pattern == access.pattern and known.index == index and len(known.lead) == len(lead)
            pairs = list(zip((*known.lead, *known.levels), (*lead, *levels), strict=True)) if alike else []
            if alike and self.variables.unite(pairs):
                return number
        self.variables.walk((*lead, *levels))
        self.walks.append(Walk(access, index, levels, lead))
        return len(self.walks) - 1


def read(drafts: Drafts, view: View, nodes: tuple[Node | None, ...]) -> Access:
    """Return the access to an array that has an equation's nodes as indices.

    If possible, these nodes are united with the nodes of the axes of the array's tensor (`View.home`).

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
                raise ChainError("values on a pattern are read at entries other than those at which they are computed")
        else:
            index[axis] = view.home[axis]
    if any(node is None for node in index):
        raise ChainError("part of an array is read")
    return Access(view.tensor, tuple(map(str, index)))


def node_of(index: object) -> Node:
    """Convert an index of an access to a node. The index is the number of the node as text."""
    return int(str(index))


def vanishes(value: Scalar, zeros: Collection[str]) -> bool:
    """Return whether an expression is known to be 0 wherever the tensors and local names `zeros` are 0."""
    return is_zero(_background(value, dict.fromkeys(zeros, ABSENT)))


def _background(value: Scalar, known: Mapping[str, Background]) -> Background:
    """Evaluate an expression as far as `known` tells the values of tensors and local names."""
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
            return background(operation, [_background(x, known) for x in arguments], partial(_evaluate, operation))


def _evaluate(operation: str, numbers: Sequence[complex]) -> complex:
    meaning, number = meaning_of(operation), int if operation in ("&", "|") else np.float64
    reals = [number(x.real) for x in numbers]  # expressions are of real numbers
    with np.errstate(all="ignore"):
        return complex(reduce(meaning, reals) if len(reals) > 1 else meaning(*reals))


def check_padding(drafts: Drafts, statements: Sequence[Draft], written: Collection[str]) -> None:
    """Raise ChainError if a chain would not give the same numbers in padding as its operations do when XLA runs them.

    A result on a dynamic pattern has to be 0 in padding in both cases. A `map` must be computed for entries only.
    """
    for draft in statements:
        walks = [s.walk for s in map(drafts.variables.slots, draft.nodes) if s is not None]
        if draft.tensor in drafts.maps and not walks:
            raise ChainError("a function of values in padding")
        padded = any(isinstance(drafts.walks[n].access.pattern, PatternType) for n in walks)
        if padded and draft.tensor in written and draft.tensor not in drafts.zeros:
            raise ChainError("a result may differ from 0 in padding")
