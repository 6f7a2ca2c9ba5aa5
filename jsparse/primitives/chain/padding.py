"""Padding of dynamic patterns in chains.

A kernel visits no padding, and leaves 0 there in its results. An operation that XLA runs computes padding, too: einsums
and maps of entries put 0 there, but `1 + values` does not. So a chain may write values on a dynamic pattern only if the
operations would give 0 in padding as well, and a map only where loops walk the pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce

import numpy as np

from jsparse.compiler.operations import meaning_of
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.formats import DynamicType
from jsparse.notation import Access
from jsparse.notation.background import ABSENT, UNKNOWN, Background, background, is_zero
from jsparse.primitives.chain.drafts import ChainError, Draft, Drafts

__all__ = ["check_padding", "vanishes"]


def vanishes(value: Scalar, zeros: Collection[str]) -> bool:
    """Whether an expression is 0 wherever the tensors and local names `zeros` are, as far as its form tells."""
    return is_zero(_background(value, dict.fromkeys(zeros, ABSENT)))


def _background(value: Scalar, known: Mapping[str, Background]) -> Background:
    """The value of an expression where the tensors and local names have known values."""
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
    """Raise ChainError if padding of a result or a map would differ from what the separate operations compute."""
    for draft in statements:
        walks = [s.walk for s in map(drafts.variables.slots, draft.nodes) if s is not None]
        if draft.tensor in drafts.maps and not walks:
            raise ChainError("a function of values in padding")
        padded = any(isinstance(drafts.walks[n].access.pattern, DynamicType) for n in walks)
        if padded and draft.tensor in written and draft.tensor not in drafts.zeros:
            raise ChainError("a result need not be 0 in padding")
