"""The tokens of tensor index notation."""

from __future__ import annotations

import re
import unicodedata

from jsparse.base.tokens import Reader

# ASCII only: Unicode letters that look alike would silently name different tensors.
_TOKEN = re.compile(
    r"""(?P<number> (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
      | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
      | (?P<symbol> \*\* | // | [-+*/=<>!]= | [-+*/=<>,()\[\]] )
      | (?P<other>  [^ \t\r\n] )""",
    re.VERBOSE,
)


def read_tokens(text: str) -> Reader:
    """Return a reader of the tokens of a statement. Raises SubscriptError if a character begins no token."""
    reader = Reader(text, _TOKEN)
    for token in reader.tokens:
        if token.kind == "other":
            name = unicodedata.name(token.text, f"U+{ord(token.text):04X}")
            message = "Expected ASCII letters, digits, '_' and the symbols + - * / = < > , ( ) [ ], but got"
            raise reader.error(token, f"{message} {token.text!a} ({name})")
    return reader
