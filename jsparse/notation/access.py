"""The parser of one access.

    access := name ["[" index ("," index)* "]"]
    index  := name | access

As an index, a name without brackets is an index variable, and an access reads from a tensor of integers.
"""

from __future__ import annotations

from collections.abc import Iterator

from jsparse.base.dataclass import dataclass
from jsparse.base.tokens import Reader, Token
from jsparse.notation.assignment import Access, Index

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
        message = f"Expected at most {MAX_DEPTH} nested accesses: read an index in a separate statement"
        raise reader.not_yet(token, message)
    while separator and separator.text != "]":
        before, after = reader.previous(), reader.peek()
        if after.kind != "name":
            message = f"Expected an index variable after {before}, but got {after}"
            raise reader.error(after, message + _advice(before, after))
        if reader.peek(1).text == "[":
            nested.append(read_access(reader, depth + 1))
            indices.append(nested[-1].access)
        else:
            variables.append(reader.next())
            indices.append(variables[-1].text)
        before, after = reader.previous(), reader.peek()
        separator = reader.take(",", "]")
        if separator is None:
            message = f"Expected ',' or ']' after the index {before}, but got {after}"
            raise reader.error(after, message + _advice(before, after) * (after.text in _OPERATORS))
    return ParsedAccess(Access(token.text, tuple(indices)), token, tuple(variables), tuple(nested))


def _advice(before: Token, token: Token) -> str:
    if token.kind == "number":
        return "; slice the tensor before the statement"
    if token.text in _OPERATORS:
        return "; indices are variables, without arithmetic"
    return "; a tensor of order 0 has no brackets" if (before.text, token.text) == ("[", "]") else ""
