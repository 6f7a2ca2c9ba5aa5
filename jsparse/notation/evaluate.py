"""Tensor index notation, read into a `Statement`.

    statement := access "=" sum                             access: `access.py`, sum: `expression.py`

Names are ASCII identifiers. One outside brackets is a tensor's, one inside an index's, whatever it is elsewhere.
"""

from __future__ import annotations

from jsparse.errors import SubscriptError
from jsparse.notation.access import read_access
from jsparse.notation.assignment import Access
from jsparse.notation.expression import Expression
from jsparse.notation.statement import Statement
from jsparse.notation.terms import as_products
from jsparse.notation.tokens import Reader, Token
from jsparse.notation.unexpected import unexpected

__all__ = ["parse_statement"]

_EXAMPLE = "'y[i] = b[i] - A[i, j] * x[j]'"


def parse_statement(text: str) -> Statement:
    """Read one statement, such as "y[i] = b[i] - A[i, j] * x[j]". Products are distributed over sums, like terms stay.

    Raises:
        SubscriptError: text outside the grammar; an index of the target that stands in it twice, or in no term; a
            tensor of two ranks, or on both sides. The message points at the place.
        NotYetSupportedError: `+=`, `min=`, `max=`, an access as an index, too many terms, factors or parentheses.
    """
    if not isinstance(text, str):
        raise SubscriptError(
            f"Expected a statement as text such as {_EXAMPLE}, but it is of type {type(text).__name__}."
        )
    reader = Reader(text)
    target, places = _target(reader)
    _assign(reader)
    expression = Expression(reader, target.tensor)
    terms = expression.sum()
    if reader.peek().kind != "end":
        raise unexpected(reader, "an operator or the end")
    for place in places:
        if place.text not in expression.carried:
            raise reader.error(place, f"Expected each index of the target in some term, but {place} stands in none")
    return Statement(target, as_products(terms))


def _target(reader: Reader) -> tuple[Access, tuple[Token, ...]]:
    token = reader.peek()
    if token.kind != "name":
        raise reader.error(token, f"Expected a statement such as {_EXAMPLE}, its target first, but got {token}")
    target, places = read_access(reader)
    seen: set[str] = set()
    for place in places:
        if place.text in seen:
            message = f"Expected each index of the target once, but {place} comes again; only terms have diagonals"
            raise reader.error(place, message)
        seen.add(place.text)
    return target, places


def _assign(reader: Reader) -> None:
    token = reader.peek()
    if token.text == "+=" or (token.text in ("min", "max") and reader.peek(1).text == "="):
        message = "Expected '=', for other assignments are not supported yet; combine with the old values afterwards"
        raise reader.not_yet(token, message)
    if reader.take("=") is None:
        raise reader.error(token, f"Expected '=' behind the target, as in {_EXAMPLE}, but got {token}")
