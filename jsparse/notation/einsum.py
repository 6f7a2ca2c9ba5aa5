"""The parsers of numpy's two forms of einsum.

Subscripts make an `Assignment`:

    subscripts := term ("," term)* ["->" term]        term := letter* ["..." letter*]

Operands are called A, B, C, …, and the result takes the next letter. Without an arrow the result carries the dimensions
of `...`, then the indices that appear exactly once, in alphabetical order (numpy's rule).

In the other form a list of integers follows each operand: its indices. The last list is the result's:

    einsum(A, [0, 1], x, [1], [0])      is      einsum("ab,b->a", A, x)
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_letters, ascii_lowercase
from types import EllipsisType
from typing import Any, TypeAlias

from jsparse.errors import NotYetSupportedError, ShapeError, SubscriptError, describe_type, point_at, shorten
from jsparse.notation.assignment import Access, Assignment
from jsparse.notation.ellipsis import ELLIPSIS, with_own_ones, without_ellipsis

_Entry: TypeAlias = int | EllipsisType
_SHOWN = "einsum(A, [0, 1], x, [1], [0])"


def read_sublists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Convert operands and lists of integers to subscripts as text, and the operands alone.

    The order of the letters is the order of the integers, so that implicit results have numpy's order.

    Raises:
        SubscriptError: no list after an operand, or a list with elements other than integers >= 0 and Ellipsis.
        NotYetSupportedError: more integers than there are letters.
    """
    if not any(_is_list(argument) for argument in arguments[1:2]):
        raise no_text(arguments[0] if arguments else None)
    count, result = divmod(len(arguments), 2)
    lists = [_entries(x, 2 * n + 1, f"the indices of operand {n}") for n, x in enumerate(arguments[1::2])]
    if result:
        role = "the indices of the result (an operand's list follows it)"
        lists.append(_entries(arguments[-1], len(arguments) - 1, role))
    numbers = sorted({entry for entries in lists for entry in entries if not isinstance(entry, EllipsisType)})
    if len(numbers) > len(ascii_letters):
        raise NotYetSupportedError(
            f"einsum has at most {len(ascii_letters)} different indices, one for each letter, but its lists have "
            f"{len(numbers)}. Contract some of the operands first."
        )
    alphabet = ascii_lowercase if len(numbers) <= len(ascii_lowercase) else sorted(ascii_letters)
    letters: dict[_Entry, str] = {Ellipsis: "...", **dict(zip(numbers, alphabet, strict=False))}
    terms = ["".join(letters[entry] for entry in entries) for entries in lists]
    return ",".join(terms[:count]) + (f"->{terms[-1]}" if result else ""), tuple(arguments[: 2 * count : 2])


def no_text(first: Any) -> SubscriptError:
    """Return the error for an einsum that begins neither with text nor with an operand and its list of indices."""
    return SubscriptError(
        "Expected einsum's subscripts as text such as 'ij,jk->ik' before the operands, or a list of indices after "
        f"each operand as in {_SHOWN}, but the first argument is of type {type(first).__name__}."
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
        shown = repr(entry) if isinstance(entry, bool | int | float | str) else describe_type(entry)
        raise SubscriptError(
            f"Expected argument {index} of einsum, {role}, to hold integers >= 0 and at most one Ellipsis, but it "
            f"holds {shown}. Number the indices 0, 1, 2, and so on."
        )
    return number


_TOKEN = re.compile(r"\.\.\.|->|.", re.DOTALL)


def operand_name(position: int) -> str:
    """The name of the operand at `position`. The position after the last operand stands for the result."""
    return chr(ord("A") + position)


def parse_einsum(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> Assignment:
    """Return the assignment that `subscripts` state for operands of the given shapes.

    Sizes are checked to broadcast only for the dimensions of `...`. The caller has to compare the sizes of letters.

    Raises:
        SubscriptError: the text is outside the grammar, and the message points at the error; or the numbers of terms
            and operands differ.
        ShapeError: a term does not fit its operand's rank, or dimensions of `...` do not broadcast.
        NotYetSupportedError: `...` needs more letters than there are.
    """
    if not isinstance(subscripts, str):
        raise no_text(subscripts)
    text = subscripts.replace(" ", "")
    _check_characters(text)
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    check_count(subscripts, len(shapes))
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        letters, rank = term.replace(ELLIPSIS, ""), len(shape)
        if rank != len(letters) and (rank < len(letters) or letters == term):
            least = "" if letters == term else "at least "
            raise ShapeError(
                f"Expected operand {operand_name(position)} of '{shorten(subscripts)}' to have rank {least}"
                f"{len(letters)}, one dimension for each index of '{shorten(term)}', but it has rank {rank}."
            )
    result = right if arrow else _implicit_result(left)
    shown = shorten(subscripts)
    for letter, count in Counter(result.replace(ELLIPSIS, "")).items():
        if count > 1:
            raise SubscriptError(
                f"Expected each index once after '->', but '{letter}' appears {count} times in '{shown}'. Use two "
                "letters."
            )
        if letter not in left:
            raise SubscriptError(
                f"Expected every index after '->' to belong to an operand, but '{letter}' of '{shown}' does not. "
                "jsparse.evaluate repeats a result along other indices if you pass shape=."
            )
    if ELLIPSIS in text:
        terms, result = without_ellipsis(text, terms, result, shapes)
    if any(1 in shape for shape in shapes):
        terms = with_own_ones(text, terms, shapes)
    factors = tuple(Access(operand_name(n), tuple(term)) for n, term in enumerate(terms))
    return Assignment(Access(operand_name(len(terms)), tuple(result)), factors)


def check_count(subscripts: str, count: int) -> None:
    """Raise SubscriptError if the number of terms in the subscripts is not `count`, the number of operands."""
    terms = subscripts.partition("->")[0].count(",") + 1
    if terms != count:
        raise SubscriptError(
            f"Expected an operand for each of the terms of '{shorten(subscripts)}', {terms} in number, but got "
            f"{count}. Write one term for each operand, separated by ','."
        )


def _implicit_result(left: str) -> str:
    counts = Counter(left.replace(",", "").replace(ELLIPSIS, ""))
    once = sorted(letter for letter, count in counts.items() if count == 1)
    return ELLIPSIS * (ELLIPSIS in left) + "".join(once)


def _check_characters(text: str) -> None:
    arrows, ellipses, in_result = text.count("->"), 0, False
    for match in _TOKEN.finditer(text):
        token, offset = match.group(), match.start()
        ellipses = 0 if token in (",", "->") else ellipses + (token == ELLIPSIS)
        letter = token.isascii() and token.isalpha()
        legal = letter or (token == "," and not in_result) or (token == "->" and arrows == 1)
        if not (legal or (token == ELLIPSIS and ellipses == 1)):
            raise SubscriptError(
                "Expected subscripts such as 'ij,jk->ik' (letters, at most one '...' in a term, ',' between operands, "
                f"at most one '->'), but {token[0]!r} is at position {offset}:\n{point_at(text, offset)}"
            )
        in_result |= token == "->"
