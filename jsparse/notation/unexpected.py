"""Advice for a token after a complete factor that no rule of the grammar continues with."""

from jsparse.errors import SubscriptError
from jsparse.notation.functions import COMPARISONS
from jsparse.notation.tokens import Reader

__all__ = ["unexpected"]

_ONE_COMPARISON = "Expected one comparison only: write that both hold as a product, (A[i] > 0) * (A[i] < 1)"

_INSTEAD = {
    "[": "Expected all indices of a tensor in one pair of brackets, as in A[i, j]",
    "(": "Expected an operator before '('; indices stand in brackets, as in A[i]",
    "]": "Expected no ']', for no '[' is open",
    ")": "Expected no ')', for no '(' is open",
    ",": "Expected ',' between indices in brackets and between arguments of functions only",
    "=": "Expected one '=' only, behind the target",
    "**": "Expected one exponent only: write the power of a power as one number",
    "//": "Expected '/' instead of '//': quotients are not rounded",
    **dict.fromkeys(COMPARISONS, _ONE_COMPARISON),
}


def unexpected(reader: Reader, expected: str) -> SubscriptError:
    """The error that points at the next token, and says what was `expected` there."""
    token = reader.peek()
    advice = "; products are written with '*'" if token.kind in ("name", "number") else ""
    return reader.error(token, _INSTEAD.get(token.text, f"Expected {expected}, but got {token}{advice}"))
