"""Reads one access.

    access := name ["[" index ("," index)* "]"]
    index  := name

Every index variable is a name; an access as an index is recognised, and refused.
"""

from __future__ import annotations

from jsparse.notation.assignment import Access, Index
from jsparse.notation.tokens import Reader, Token

__all__ = ["read_access"]

_OPERATORS = ("+", "-", "*", "/", "**", "//")


def read_access(reader: Reader) -> tuple[Access, tuple[Token, ...]]:
    """The access that comes, and where each of its indices stands. The token that comes is a name."""
    name = reader.next()
    indices: list[Index] = []
    places: list[Token] = []
    separator = reader.take("[")
    while separator and separator.text != "]":
        places.append(reader.peek())
        indices.append(_index(reader))
        separator = reader.take(",", "]") or _unclosed(reader)
    return Access(name.text, tuple(indices)), tuple(places)


def _index(reader: Reader) -> Index:
    before, token = reader.passed(), reader.next()
    if token.kind != "name":
        message = f"Expected an index variable behind {before}, but got {token}"
        raise reader.error(token, message + _advice(before, token))
    if reader.peek().text == "[":
        message = f"Expected an index variable, for an access such as {token.text}[p] is no index yet"
        raise reader.not_yet(token, f"{message}; index by {token.text} outside the statement")
    return token.text


def _advice(before: Token, token: Token) -> str:
    if token.kind == "number":
        return "; slice the tensor before the statement"
    if token.text in _OPERATORS:
        return "; indices are variables, without arithmetic"
    return "; a tensor of order 0 has no brackets" if (before.text, token.text) == ("[", "]") else ""


def _unclosed(reader: Reader) -> Token:
    before, token = reader.passed(), reader.peek()
    message = f"Expected ',' or ']' behind the index {before}, but got {token}"
    raise reader.error(token, message + _advice(before, token) * (token.text in _OPERATORS))
