"""The parser of one access.

    access := name ["[" index ("," index)* "]"]
    index  := name | access

As an index, a name without brackets is an index variable, and an access reads from a tensor of integers.
"""

from __future__ import annotations

from collections.abc import Iterator

from jsparse.base.dataclass import dataclass
from jsparse.notation.assignment import Access, Index
from jsparse.notation.tokens import Reader, Token

MAX_DEPTH = 50  # nested accesses

_OPERATORS = ("+", "-", "*", "/", "**", "//")


@dataclass(frozen=True, slots=True)
class ParsedAccess:
    """An access with the tokens from which it was read.

    Attributes:
        access: the access.
        token: the name of the tensor.
        variables: the indices that are index variables.
        nested: the indices that are accesses.
    """

    access: Access
    token: Token
    variables: tuple[Token, ...]
    nested: tuple[ParsedAccess, ...]

    def every(self) -> Iterator[ParsedAccess]:
        """Yield this access, and all accesses that are nested in its indices."""
        yield self
        for inner in self.nested:
            yield from inner.every()


def read_access(reader: Reader, depth: int = 0) -> ParsedAccess:
    """Read an access. The next token has to be a name."""
    token = reader.next()
    indices: list[Index] = []
    variables: list[Token] = []
    nested: list[ParsedAccess] = []
    separator = reader.take("[")
    if separator and depth > MAX_DEPTH:
        message = f"Expected at most {MAX_DEPTH} accesses inside one another: read an index in a statement of its own"
        raise reader.not_yet(token, message)
    while separator and separator.text != "]":
        _check_index(reader)
        if reader.peek(1).text == "[":
            nested.append(read_access(reader, depth + 1))
            indices.append(nested[-1].access)
        else:
            variables.append(reader.next())
            indices.append(variables[-1].text)
        separator = reader.take(",", "]") or _raise_unclosed(reader)
    return ParsedAccess(Access(token.text, tuple(indices)), token, tuple(variables), tuple(nested))


def _check_index(reader: Reader) -> None:
    before, token = reader.previous(), reader.peek()
    if token.kind != "name":
        message = f"Expected an index variable behind {before}, but got {token}"
        raise reader.error(token, message + _advice(before, token))


def _advice(before: Token, token: Token) -> str:
    if token.kind == "number":
        return "; slice the tensor before the statement"
    if token.text in _OPERATORS:
        return "; indices are variables, without arithmetic"
    return "; a tensor of order 0 has no brackets" if (before.text, token.text) == ("[", "]") else ""


def _raise_unclosed(reader: Reader) -> Token:
    before, token = reader.previous(), reader.peek()
    message = f"Expected ',' or ']' behind the index {before}, but got {token}"
    raise reader.error(token, message + _advice(before, token) * (token.text in _OPERATORS))
