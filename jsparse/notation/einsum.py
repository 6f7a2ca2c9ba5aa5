"""The parser of numpy's einsum grammar. It makes an `Assignment`.

    subscripts := term ("," term)* ["->" term]        term := letter* ["..." letter*]

Operands are called A, B, C, …, and the result takes the next letter. Without an arrow the result carries the dimensions
of `...`, then the indices that appear exactly once, in alphabetical order (numpy's rule).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from jsparse.errors import ShapeError, SubscriptError, pointed, shortened
from jsparse.notation.assignment import Access, Assignment
from jsparse.notation.ellipsis import ELLIPSIS, with_own_ones, without_ellipsis
from jsparse.notation.sublists import no_text

__all__ = ["check_count", "operand_name", "parse_einsum"]

_TOKEN = re.compile(r"\.\.\.|->|.", re.DOTALL)


def operand_name(position: int) -> str:
    """The name of the operand number `position`. The number of operands stands for the result."""
    return chr(ord("A") + position)


def parse_einsum(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> Assignment:
    """Read `subscripts` for operands of the given shapes. Sizes other than 1 are compared only for `...`.

    Raises:
        SubscriptError: text outside the grammar; the message points at the error. Or the numbers of terms and operands
            differ.
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
        _check_rank(subscripts, position, term, len(shape))
    result = right if arrow else _implicit_result(left)
    _check_result(subscripts, left, result)
    if ELLIPSIS in text:
        terms, result = without_ellipsis(text, terms, result, shapes)
    if any(1 in shape for shape in shapes):
        terms = with_own_ones(text, terms, shapes)
    factors = tuple(Access(operand_name(n), tuple(term)) for n, term in enumerate(terms))
    return Assignment(Access(operand_name(len(terms)), tuple(result)), factors)


def check_count(subscripts: str, count: int) -> None:
    """Raise SubscriptError unless the subscripts have a term for each of `count` operands."""
    terms = subscripts.partition("->")[0].count(",") + 1
    if terms != count:
        raise SubscriptError(
            f"Expected as many operands as terms, but '{shortened(subscripts)}' has {terms} terms and {count} operands "
            f"were passed. Write one term for each operand, separated by ','."
        )


def _implicit_result(left: str) -> str:
    counts = Counter(left.replace(",", "").replace(ELLIPSIS, ""))
    once = sorted(letter for letter, count in counts.items() if count == 1)
    return ELLIPSIS * (ELLIPSIS in left) + "".join(once)


def _check_characters(text: str) -> None:
    arrows, ellipses, in_result = text.count("->"), 0, False
    for found in _TOKEN.finditer(text):
        token, offset = found.group(), found.start()
        ellipses = 0 if token in (",", "->") else ellipses + (token == ELLIPSIS)
        letter = token.isascii() and token.isalpha()
        legal = letter or (token == "," and not in_result) or (token == "->" and arrows == 1)
        if not (legal or (token == ELLIPSIS and ellipses == 1)):
            raise SubscriptError(
                f"Expected subscripts such as 'ij,jk->ik' (letters, at most one '...' a term, ',' between operands, at "
                f"most one '->'), but {token[0]!r} stands at position {offset}:\n{pointed(text, offset)}"
            )
        in_result |= token == "->"


def _check_rank(subscripts: str, position: int, term: str, rank: int) -> None:
    letters = term.replace(ELLIPSIS, "")
    if rank != len(letters) and (rank < len(letters) or letters == term):
        least = "" if letters == term else "at least "
        raise ShapeError(
            f"Expected operand {operand_name(position)} of '{shortened(subscripts)}' to have rank {least}"
            f"{len(letters)}, one dimension for each index of '{shortened(term)}', but it has rank {rank}."
        )


def _check_result(subscripts: str, left: str, result: str) -> None:
    shown = shortened(subscripts)
    for letter, count in Counter(result.replace(ELLIPSIS, "")).items():
        if count > 1:
            raise SubscriptError(
                f"Expected each index once after '->', but '{letter}' stands {count} times in '{shown}'. Use two "
                f"letters."
            )
        if letter not in left:
            raise SubscriptError(
                f"Expected every index after '->' to belong to an operand, but '{letter}' of '{shown}' does not. "
                f"jsparse.evaluate repeats a result along further indices, given shape=."
            )
