"""Tokens of tensor index notation, and errors that point at one of them."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.errors import NotYetSupportedError, SubscriptError, point_at, shorten

Kind: TypeAlias = Literal["number", "name", "symbol", "end"]

# ASCII only: Unicode letters that look alike would silently name different tensors.
_TOKEN = re.compile(
    r"""(?P<number> (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
      | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
      | (?P<symbol> \*\* | // | [-+*/=<>!]= | [-+*/=<>,()\[\]] )
      | (?P<other>  [^ \t\r\n] )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text and its offset. The last token of a text is of kind "end"."""

    kind: Kind
    text: str
    start: int

    def __str__(self) -> str:
        return f"'{shorten(self.text)}'" if self.text else "the end"


class Reader:
    """A reader of the tokens of a text, one by one. Raises SubscriptError if a character begins no token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [self._token(found) for found in _TOKEN.finditer(text)]
        self.tokens.append(Token("end", "", len(text.rstrip(" \t\r\n"))))
        self.at = 0

    def _token(self, found: re.Match[str]) -> Token:
        character, start = found.group(), found.start()
        match found.lastgroup:
            case "number" | "name" | "symbol" as kind:
                return Token(kind, character, start)
        name = unicodedata.name(character, f"U+{ord(character):04X}")
        raise self.error(
            Token("symbol", character, start),
            f"Expected ASCII letters, digits, '_' and the symbols + - * / = < > , ( ) [ ], but got {character!a} "
            f"({name})",
        )

    def peek(self, ahead: int = 0) -> Token:
        """Return the next token, or the token `ahead` positions after the next token. No token is consumed."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def previous(self) -> Token:
        """The last token that was consumed."""
        return self.tokens[self.at - 1]

    def next(self) -> Token:
        """Consume and return the next token. The end is never consumed."""
        token = self.peek()
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def take(self, *texts: str) -> Token | None:
        """Consume and return the next token if it is one of `texts`; else return None."""
        return self.next() if self.peek().text in texts else None

    def error(self, token: Token, message: str) -> SubscriptError:
        """The error that says `message` and points at `token`."""
        return SubscriptError(self._point_at(token, message))

    def not_yet(self, token: Token, message: str) -> NotYetSupportedError:
        """The error for text that is not supported yet; it points at `token`."""
        return NotYetSupportedError(self._point_at(token, message))

    def _point_at(self, token: Token, message: str) -> str:
        return f"{message}.\n{point_at(self.text, token.start, len(token.text))}"
