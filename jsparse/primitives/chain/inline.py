"""Inlining: statements that compute one element at each point become part of the only statement that reads them there.

    S[i, j] = A[i, j] - m[i]
    E[i, j] = exp(S[i, j])        →        E[i, j] = exp(A[i, j] - m[i])

A statement that sums over further variables would compute the element again and again, so it keeps the array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.scalar import (
    Apply,
    Let,
    Local,
    Number,
    Rounded,
    Scalar,
    accesses_of,
    factors_of,
    product_of,
    replaced,
)
from jsparse.notation import Access
from jsparse.primitives.chain.drafts import Draft, Drafts, node_of
from jsparse.primitives.chain.variables import Node

__all__ = ["inlined", "points"]


def inlined(drafts: Drafts, results: Sequence[str]) -> list[Draft]:
    """The statements that are left. `results` are the tensors that have to be written."""
    left = [_settled(drafts, draft) for draft in drafts.statements]
    for draft in list(left):
        if draft.tensor in results or not _is_pointwise(drafts, draft):
            continue
        number = next(n for n, other in enumerate(left) if other.tensor == draft.tensor)
        draft = left[number]
        readers = [n for n, other in enumerate(left) if _reads(other, draft)]
        is_condition = draft.dtype == "bool"
        if (len(readers) == 1 or is_condition) and all(_fits(drafts, draft, left[n]) for n in readers):
            for n in readers:
                left[n] = left[n].with_value(_put(left[n].value, draft))
            del left[number]
    return _live(left, results)


def _is_pointwise(drafts: Drafts, draft: Draft) -> bool:
    """Whether each element is computed at one point."""
    variables = drafts.variables
    found = {n for node in draft.nodes for n in _parts(drafts, node)}
    return points(drafts, draft) == frozenset(n for n in map(variables.find, found) if variables.sizes[n] > 1)


def _parts(drafts: Drafts, node: Node) -> tuple[Node, ...]:
    slots = drafts.variables.slots(node)
    return (node,) if slots is None else (*drafts.walks[slots.walk].levels, *slots.behind)


def _settled(drafts: Drafts, draft: Draft) -> Draft:
    """The draft with the representatives of all nodes, and with the walks of the slots that it runs over."""
    find = drafts.variables.find
    value = draft.value
    for access in dict.fromkeys(accesses_of(value)):
        settled = Access(access.tensor, tuple(str(find(node_of(index))) for index in access.indices))
        value = replaced(value, access, settled)
    nodes = tuple(map(find, draft.nodes))
    every = [*nodes, *(node_of(index) for access in accesses_of(value) for index in access.indices)]
    own = [slots.walk for node in every if (slots := drafts.variables.slots(node)) is not None]
    walks = tuple(dict.fromkeys((*draft.walks, *own)))
    return Draft(draft.tensor, nodes, value, draft.dtype, draft.add, walks)


def points(drafts: Drafts, draft: Draft) -> frozenset[Node]:
    """The nodes of all index variables that a statement loops over."""
    variables = drafts.variables
    found: set[Node] = set()
    for node in (*draft.nodes, *(node_of(index) for access in accesses_of(draft.value) for index in access.indices)):
        slots = variables.slots(node)
        found.update((node,) if slots is None else slots.behind)
    for number in draft.walks:
        found.update((*drafts.walks[number].levels, *drafts.walks[number].lead))
    return frozenset(n for n in map(variables.find, found) if variables.sizes[n] > 1)


def _reads(reader: Draft, draft: Draft) -> bool:
    return any(access.tensor == draft.tensor for access in accesses_of(reader.value))


def _fits(drafts: Drafts, draft: Draft, reader: Draft) -> bool:
    """Whether the reader computes at the same points, in a dtype that loses nothing, and reads the element there.

    A statement that walks no pattern, or another one, also reads the zeros between the entries of a dense target.
    """
    alike = all(access == draft.access for access in accesses_of(reader.value) if access.tensor == draft.tensor)
    if not (alike and set(draft.walks).issubset(reader.walks) and _keeps(draft.dtype, reader.dtype)):
        return False
    # Of a product the scheduler takes factors out of the sum, and multiplies no factor anew for each term.
    both = reader.add == "+" and _is_product(draft.value) and _is_product(reader.value)
    return both or points(drafts, draft) == points(drafts, reader)


def _is_product(value: Scalar) -> bool:
    is_product = isinstance(value, Apply) and value.operation == "*"
    return isinstance(value, Access) or (is_product and factors_of(value) is not None)


def _keeps(first: str, second: str) -> bool:
    """Whether arithmetic in the second dtype keeps what is computed in the first. Conditions have no dtype."""
    if "bool" in (first, second):
        return True
    a, b = (np.dtype(accumulator(x)) for x in (first, second))
    return a.kind == b.kind and a.itemsize <= b.itemsize


def _put(value: Scalar, draft: Draft) -> Scalar:
    """The expression with the statement's value in place of its element, computed once."""
    if _is_product(value) and _is_product(draft.value):
        own = factors_of(draft.value) or ()
        return product_of("*", tuple(f for x in factors_of(value) or () for f in (own if x == draft.access else (x,))))
    if accesses_of(value).count(draft.access) == 1:
        return _with_conditions(replaced(value, draft.access, draft.value))
    return Let(draft.tensor, draft.value, replaced(value, draft.access, Local(draft.tensor)))


def _with_conditions(value: Scalar) -> Scalar:
    """The expression with `c` in place of `select(c, 1, 0) != 0`: a bool that became part of it is a condition."""
    match value:
        case Apply(operation="!=", arguments=(Apply(operation="select", arguments=(c, yes, no)), zero)) if (
            yes == Number(1.0) and no == zero == Number(0.0)
        ):
            return _with_conditions(c)
        case Apply(operation=operation, arguments=arguments):
            return Apply(operation, tuple(map(_with_conditions, arguments)))
        case Rounded(value=inner, dtype=dtype):
            return Rounded(_with_conditions(inner), dtype)
        case Let(name=name, value=inner, body=body):
            return Let(name, _with_conditions(inner), _with_conditions(body))
    return value


def _live(left: Sequence[Draft], results: Sequence[str]) -> list[Draft]:
    """The statements whose targets are results, or are read by one of them."""
    wanted, found = set(results), list[Draft]()
    for draft in reversed(left):
        if draft.tensor in wanted:
            found.insert(0, draft)
            wanted.update(access.tensor for access in accesses_of(draft.value))
    return found
