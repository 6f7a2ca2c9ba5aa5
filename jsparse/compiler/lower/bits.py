"""Sets of coordinates as bits, in words of 64."""

from __future__ import annotations

from jsparse.compiler.kernel.algebra import const
from jsparse.compiler.kernel.nodes import Binary, Buffer, Compare, Const, Expr, Load, Stmt, Store

__all__ = ["bit_of", "has_bit", "mask_of", "set_bit", "word_of"]

WORD = 6  # a word has 2⁶ bits


def word_of(number: Expr) -> Expr:
    """The number of the word that holds a bit."""
    if isinstance(number, Const):
        return const(int(number.value) >> WORD)
    return Binary(">>", number, const(WORD))


def set_bit(buffer: Buffer, word: Expr, number: Expr) -> Stmt:
    """Set the bit of a number, which lies in `word`."""
    return Store(buffer, word, Binary("|", Load(buffer, word), mask_of(number)))


def has_bit(buffer: Buffer, word: Expr, number: Expr) -> Expr:
    """Whether the bit of a number, which lies in `word`, is set."""
    return Compare("!=", Binary("&", Load(buffer, word), mask_of(number)), const(0))


def bit_of(buffer: Buffer, number: Expr) -> Expr:
    """The bit of a number: 1 if it is set, else 0."""
    shifted = Binary(">>", Load(buffer, word_of(number)), Binary("&", number, const(63)))
    return Binary("&", shifted, const(1))


def mask_of(number: Expr) -> Expr:
    """A word that has the bit of a number only."""
    return Binary("<<", const(1), Binary("&", number, const(63)))
