"""The parser of numpy's other form of einsum: each operand is followed by a list of integers, its indices.

The last list is the result's:

einsum(A, [0, 1], x, [1], [0])      is      einsum("ab,b->a", A, x)
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from string import ascii_letters, ascii_lowercase
from types import EllipsisType
from typing import Any, TypeAlias

from jsparse.errors import NotYetSupportedError, SubscriptError

__all__ = ["no_text", "read_sublists"]

_Entry: TypeAlias = int | EllipsisType
_SHOWN = "einsum(A, [0, 1], x, [1], [0])"


def read_sublists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The subscripts as text, and the operands.

    Letters take the order of the integers, so that implicit results have numpy's order.

    Raises:
        SubscriptError: no list after an operand, or a list of anything but integers from 0 and Ellipsis.
        NotYetSupportedError: more integers than there are letters.
    """
    if not any(_is_list(argument) for argument in arguments[1:2]):
        raise no_text(arguments[0] if arguments else None)
    count, result = divmod(len(arguments), 2)
    lists = [_entries(x, 2 * n + 1, f"the indices of operand {n}") for n, x in enumerate(arguments[1::2])]
    if result:
        role = "the indices of the result (an operand's list follows it)"
        lists.append(_entries(arguments[-1], len(arguments) - 1, role))
    letters = _letters(entry for entries in lists for entry in entries)
    terms = ["".join(letters[entry] for entry in entries) for entries in lists]
    return ",".join(terms[:count]) + (f"->{terms[-1]}" if result else ""), tuple(arguments[: 2 * count : 2])


def no_text(first: Any) -> SubscriptError:
    """The error for an einsum whose first arguments are neither text nor an operand and its list."""
    return SubscriptError(
        f"Expected einsum's subscripts as text such as 'ij,jk->ik' in front of the operands, or a list of indices "
        f"after each as in {_SHOWN}, but the first argument is of type {type(first).__name__}."
    )


def _is_list(argument: Any) -> bool:
    return isinstance(argument, list | tuple | range)


def _entries(argument: Any, index: int, role: str) -> list[_Entry]:
    if not _is_list(argument):
        raise SubscriptError(
            f"Expected argument {index} of einsum to be {role}, a list as in {_SHOWN}, but it is of type "
            f"{type(argument).__name__}."
        )
    return [_entry(entry, index, role) for entry in argument]


def _entry(entry: Any, index: int, role: str) -> _Entry:
    if entry is Ellipsis:
        return entry
    try:
        number = -1 if isinstance(entry, bool) else operator.index(entry)
    except TypeError:
        number = -1
    if number < 0:
        shown = repr(entry) if isinstance(entry, bool | int | float | str) else f"a {type(entry).__name__}"
        raise SubscriptError(
            f"Expected argument {index} of einsum, {role}, to hold integers from 0 and at most one Ellipsis, but it "
            f"holds {shown}. Number the indices 0, 1, 2, and so on."
        )
    return number


def _letters(entries: Iterable[_Entry]) -> dict[_Entry, str]:
    numbers = sorted({entry for entry in entries if not isinstance(entry, EllipsisType)})
    if len(numbers) > len(ascii_letters):
        raise NotYetSupportedError(
            f"einsum has at most {len(ascii_letters)} different indices, one for each letter, but its lists have "
            f"{len(numbers)}. Contract some of the operands first."
        )
    alphabet = ascii_lowercase if len(numbers) <= len(ascii_lowercase) else sorted(ascii_letters)
    return {Ellipsis: "...", **dict(zip(numbers, alphabet, strict=False))}
