"""What to write instead of a token behind a complete factor that continues no rule."""

from jsparse.errors import SubscriptError
from jsparse.notation.tokens import Reader

__all__ = ["unexpected"]

_INSTEAD = {
    "[": "Expected all indices of a tensor in one pair of brackets, as in A[i, j]",
    "(": "Expected an operator before '('; indices stand in brackets, as in A[i]",
    "]": "Expected no ']', for no '[' is open",
    ")": "Expected no ')', for no '(' is open",
    ",": "Expected ',' between indices in brackets only",
    "=": "Expected one '=' only, behind the target",
    "**": "Expected '*' instead of '**': a square is written A[i] * A[i]",
    "//": "Expected '/' instead of '//': quotients are not rounded",
}


def unexpected(reader: Reader, wanted: str) -> SubscriptError:
    """The error that points at the token that comes, where `wanted` could stand."""
    token = reader.peek()
    advice = "; products are written with '*'" if token.kind in ("name", "number") else ""
    return reader.error(token, _INSTEAD.get(token.text, f"Expected {wanted}, but got {token}{advice}"))
