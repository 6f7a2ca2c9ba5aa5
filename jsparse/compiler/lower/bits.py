"""Sets of coordinates as bits, in words of 64."""

from __future__ import annotations

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import const

__all__ = ["bit_of", "has_bit", "mask_of", "set_bit", "word_of"]

WORD = 6  # a word has 2⁶ bits


def word_of(number: ir.Expr) -> ir.Expr:
    """The number of the word that holds a bit."""
    if isinstance(number, ir.Const):
        return const(int(number.value) >> WORD)
    return ir.Binary(">>", number, const(WORD))


def set_bit(buffer: ir.Buffer, word: ir.Expr, number: ir.Expr) -> ir.Stmt:
    """Set the bit of a number, which lies in `word`."""
    return ir.Store(buffer, word, ir.Binary("|", ir.Load(buffer, word), mask_of(number)))


def has_bit(buffer: ir.Buffer, word: ir.Expr, number: ir.Expr) -> ir.Expr:
    """Whether the bit of a number, which lies in `word`, is set."""
    return ir.Compare("!=", ir.Binary("&", ir.Load(buffer, word), mask_of(number)), const(0))


def bit_of(buffer: ir.Buffer, number: ir.Expr) -> ir.Expr:
    """The bit of a number: 1 if it is set, else 0."""
    shifted = ir.Binary(">>", ir.Load(buffer, word_of(number)), ir.Binary("&", number, const(63)))
    return ir.Binary("&", shifted, const(1))


def mask_of(number: ir.Expr) -> ir.Expr:
    """A word that has the bit of a number only."""
    return ir.Binary("<<", const(1), ir.Binary("&", number, const(63)))
