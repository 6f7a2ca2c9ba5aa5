"""Padding of dynamic patterns in chains.

A kernel visits no padding, and leaves 0 there in its results. An operation that XLA runs computes padding, too: einsums
and maps of entries put 0 there, but `1 + values` does not. So a chain may write values on a dynamic pattern only if the
operations would give 0 in padding as well, and a map only where loops walk the pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.formats import DynamicType
from jsparse.notation import Access
from jsparse.primitives.chain.drafts import ChainError, Draft, Drafts

__all__ = ["check_padding", "vanishes"]

AT_ZEROS = (
    "+",
    "-",
    "neg",
    "abs",
    "sign",
    "sqrt",
    "cbrt",
    "tanh",
    "erf",
    "expm1",
    "log1p",
    "floor",
    "ceil",
    "max",
    "min",
)
"""The operations that give 0 if all arguments are 0."""


def vanishes(value: Scalar, zeros: Collection[str]) -> bool:
    """Whether an expression is 0 wherever the tensors and local names `zeros` are, as far as its form tells."""
    match value:
        case Number(value=number):
            return number == 0
        case Access(tensor=name) | Local(name=name):
            return name in zeros
        case Rounded(value=inner):
            return vanishes(inner, zeros)
        case Let(name=name, value=inner, body=body):
            others = set(zeros) - {name}
            return vanishes(body, others | {name} if vanishes(inner, zeros) else others)
        case Apply(operation="*", arguments=arguments):
            return any(vanishes(x, zeros) for x in arguments)
        case Apply(operation="/", arguments=arguments):
            return vanishes(arguments[0], zeros)
        case Apply(operation="select", arguments=arguments):
            return all(vanishes(x, zeros) for x in arguments[1:])
        case Apply(operation=operation, arguments=arguments):
            return operation in AT_ZEROS and all(vanishes(x, zeros) for x in arguments)


def check_padding(drafts: Drafts, statements: Sequence[Draft], written: Collection[str]) -> None:
    """Raise ChainError if the padding of a result, or of a map, would not be that of the operations."""
    for draft in statements:
        walks = [s.walk for s in map(drafts.variables.slots, draft.nodes) if s is not None]
        if draft.tensor in drafts.maps and not walks:
            raise ChainError("a function of values in padding")
        padded = any(isinstance(drafts.walks[n].access.pattern, DynamicType) for n in walks)
        if padded and draft.tensor in written and draft.tensor not in drafts.zeros:
            raise ChainError("a result need not be 0 in padding")
