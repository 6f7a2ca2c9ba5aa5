"""numpy's einsum grammar, read into an `Assignment`.

    subscripts := term ("," term)* ["->" term]        term := letter*

Operands are called A, B, C, …; the result takes the next letter. Without an arrow the result carries, in alphabetical
order, the indices that appear exactly once (numpy's rule).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jsparse.errors import NotYetSupportedError, ShapeError, SubscriptError
from jsparse.notation.assignment import Access, Assignment

__all__ = ["operand_name", "parse_einsum"]


def operand_name(position: int) -> str:
    """The name of the operand at `position`; the result's when `position` is the number of operands."""
    return chr(ord("A") + position)


def parse_einsum(subscripts: str, ranks: Sequence[int]) -> Assignment:
    """Read `subscripts` for operands of the given ranks.

    Raises:
        SubscriptError: text outside the grammar; the message points at the place.
        ShapeError: a term's length is not its operand's rank, or the number of terms is not that of operands.
        NotYetSupportedError: `...`.
    """
    if not isinstance(subscripts, str):
        raise SubscriptError(
            f"Expected einsum's subscripts as text such as 'ij,jk->ik' in front of the operands, but the first "
            f"argument is of type {type(subscripts).__name__}."
        )
    text = subscripts.replace(" ", "")
    if "." in text:
        raise NotYetSupportedError(
            f"einsum does not read '...' yet, but '{subscripts}' has it. Write the broadcast indices as letters."
        )
    left, arrow, right = text.partition("->")
    _check_letters(text, left, right)
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(
            f"Expected as many operands as terms, but '{subscripts}' has {len(terms)} terms and {len(ranks)} operands "
            f"came."
        )
    for position, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        if len(term) != rank:
            raise ShapeError(
                f"Expected operand {operand_name(position)} of '{subscripts}' to have rank {len(term)}, one dimension "
                f"an index of '{term}', but it has rank {rank}."
            )
    result = right if arrow else _implicit_result(left)
    _check_result(subscripts, left, result)
    factors = tuple(Access(operand_name(n), tuple(term)) for n, term in enumerate(terms))
    return Assignment(Access(operand_name(len(terms)), tuple(result)), factors)


def _implicit_result(left: str) -> str:
    counts = Counter(left.replace(",", ""))
    return "".join(sorted(letter for letter, count in counts.items() if count == 1))


def _check_letters(text: str, left: str, right: str) -> None:
    for offset, character in enumerate(text):
        in_arrow = text[offset : offset + 2] == "->" or text[max(offset - 1, 0) : offset + 1] == "->"
        legal = (character.isascii() and character.isalpha()) or (character == "," and offset < len(left)) or in_arrow
        if not legal or (in_arrow and "->" in right):
            raise SubscriptError(
                f"Expected subscripts such as 'ij,jk->ik' (letters, ',' between operands, at most one '->'), but "
                f"{character!r} stands at position {offset}:\n    {text}\n    {' ' * offset}^"
            )


def _check_result(subscripts: str, left: str, result: str) -> None:
    for letter, count in Counter(result).items():
        if count > 1:
            raise SubscriptError(
                f"Expected each index once after '->', but '{letter}' stands {count} times in '{subscripts}'."
            )
        if letter not in left:
            raise SubscriptError(
                f"Expected every index after '->' to belong to an operand, but '{letter}' of '{subscripts}' does not."
            )
