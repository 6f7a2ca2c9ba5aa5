"""Tokens of a text that a parser reads one by one, and errors that point at one of them."""

from __future__ import annotations

import re

from jsparse.base.dataclass import dataclass
from jsparse.errors import NotYetSupportedError, SubscriptError, point_at, shorten


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text and its offset.

    `kind` is the group of the reader's pattern that matched it. The last token of a text is of kind "end".
    """

    kind: str | None
    text: str
    start: int

    def __str__(self) -> str:
        return f"'{shorten(self.text)}'" if self.text else "the end"


class Reader:
    """A reader of the tokens of a text: the matches of a pattern. Text that no match covers is skipped."""

    token = Token

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self.text = text
        self.tokens = [
            self.token(match.lastgroup, match.group(match.lastgroup or 0), match.start(match.lastgroup or 0))
            for match in pattern.finditer(text)
        ]
        self.tokens.append(self.token("end", "", len(text.rstrip())))
        self.at = 0

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
        return SubscriptError(self.point_at(token, message))

    def not_yet(self, token: Token, message: str) -> NotYetSupportedError:
        """The error for text that is not supported yet; it points at `token`."""
        return NotYetSupportedError(self.point_at(token, message))

    def point_at(self, token: Token, message: str) -> str:
        """The message, the text, and carets below the token."""
        return f"{message}.\n{point_at(self.text, token.start, len(token.text))}"
