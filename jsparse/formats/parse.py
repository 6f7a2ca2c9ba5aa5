"""Parsers of the texts that denote formats: short names, and MLIR's sparse-tensor notation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from jsparse.base.tokens import Reader, Token
from jsparse.errors import FormatError, shorten
from jsparse.formats.digits import DigitLevel, radix_fault
from jsparse.formats.levels import (
    COMPRESSED,
    DENSE,
    KINDS,
    MOST_DIMENSIONS,
    SINGLETON,
    Level,
    LevelKind,
    check_dimensions,
    kind_words,
)

NAMES = ("csr", "csc", "dcsr", "dcsc", "coo", "csf")
_MATRICES = {
    "csr": (Level(DENSE, 0), Level(COMPRESSED, 1)),
    "csc": (Level(DENSE, 1), Level(COMPRESSED, 0)),
    "dcsr": (Level(COMPRESSED, 0), Level(COMPRESSED, 1)),
    "dcsc": (Level(COMPRESSED, 1), Level(COMPRESSED, 0)),
}


def has_name(name: str, ndim: int) -> bool:
    """Whether a short name denotes a format for `ndim` dimensions."""
    return ndim == 2 if name in _MATRICES else ndim >= 1


def levels_of_name(name: str, ndim: int) -> tuple[Level, ...]:
    """The levels of the format with a short name, such as "csr" or "dense".

    Raises FormatError if the name has no format for `ndim` dimensions.
    """
    check_dimensions(ndim)
    if name == "dense":
        return tuple(Level(DENSE, dim) for dim in range(ndim))
    if name in _MATRICES:
        if ndim != 2:
            raise FormatError(
                f"Expected a matrix for the format {name}, but the tensor has {ndim} dimensions. "
                "Use coo, csf or a notation such as '(i, j, k) -> (i : dense, j : compressed, k : dense)'."
            )
        return _MATRICES[name]
    if ndim < 1:
        raise FormatError(
            f"Expected at least 1 dimension for the format {name}, but the tensor has none. Leave out the format."
        )
    if name != "coo" or ndim == 1:
        return _all_compressed(ndim)
    inner = (Level(SINGLETON, dim, unique=False) for dim in range(1, ndim - 1))
    return (Level(COMPRESSED, 0, unique=False), *inner, Level(SINGLETON, ndim - 1))


def short_name(levels: tuple[Level, ...]) -> str | None:
    """The short name of the format with these levels, one for each dimension; None if it has none."""
    ndim = len(levels)
    return next((name for name in NAMES if has_name(name, ndim) and levels_of_name(name, ndim) == levels), None)


def default_levels(ndim: int) -> tuple[Level, ...]:
    """The levels of the default format for `ndim` dimensions: csr for a matrix, else all levels compressed.

    Raises FormatError if there are too many dimensions.
    """
    check_dimensions(ndim)
    return _MATRICES["csr"] if ndim == 2 else _all_compressed(ndim)


def _all_compressed(ndim: int) -> tuple[Level, ...]:
    return tuple(Level(COMPRESSED, dim) for dim in range(ndim))


_T = TypeVar("_T")
_LATER_WORDS = {"batch", "loose_compressed", "structured", "nonordered", "soa", "high"}
_TOKEN = re.compile(r"->|[A-Za-z_]\w*|\d+|\S")


def read_levels(text: str) -> tuple[DigitLevel, ...]:
    """Read the levels of a notation such as '(i, j) -> (j : dense, i : compressed)', and of one with digits, such as
    '(i, j) -> (i floordiv 4 : dense, j : compressed, i mod 4 : dense)'.

    Raises SubscriptError for wrong grammar, with carets below the wrong word; FormatError for too many dimensions;
    NotYetSupportedError for levels that this version does not support yet.
    """
    return _Notation(text, _TOKEN).read()


class _Token(Token):
    def __str__(self) -> str:
        return shorten(self.text) or "the end"


class _Notation(Reader):
    """A reader of '(i, j) -> (j : dense, i : compressed(nonunique))', one method per rule of its grammar.

    digit := name ["floordiv" number] ["mod" number]
    """

    token = _Token

    def read(self) -> tuple[DigitLevel, ...]:
        names = [token.text for token in self.sequence(self.new_name())]
        self.expect("->", "'->' between the dimensions and the levels")
        places: list[Token] = []
        levels = self.sequence(lambda: self.level(names, places))
        if self.peek().text:
            raise self.error(self.peek(), "Expected the notation to end here")
        for n, level in enumerate(levels):
            if level.is_whole and any(x.is_whole and x.dim == level.dim for x in levels[:n]):
                raise self.error(places[n], f"Expected one level for each dimension, but {places[n]} has two")
        stored = {level.dim for level in levels}
        if missing := [name for dim, name in enumerate(names) if dim not in stored]:
            raise self.error(
                self.tokens[-1], f"Expected a level for each dimension, but {shorten(', '.join(missing))} has none"
            )
        fault = radix_fault(levels, names)
        if fault is not None:
            raise self.error(places[fault[0]], fault[1])
        return tuple(levels)

    def sequence(self, item: Callable[[], _T]) -> list[_T]:
        self.expect("(", "'('")
        items: list[_T] = []
        while self.peek().text != ")":
            if items:
                self.expect(",", "',' or ')'")
            items.append(item())
        self.expect(")", "')'")
        return items

    def new_name(self) -> Callable[[], Token]:
        seen: set[str] = set()

        def read() -> Token:
            token = self.name("the name of a dimension")
            if len(seen) == MOST_DIMENSIONS:
                raise FormatError(self.point_at(token, f"Expected at most {MOST_DIMENSIONS} dimensions"))
            if token.text in seen:
                raise self.error(token, f"Expected each dimension to be named once, but {token} is named twice")
            seen.add(token.text)
            return token

        return read

    def level(self, names: list[str], places: list[Token]) -> DigitLevel:
        variable = self.name("the name of a dimension")
        if variable.text not in names:
            raise self.error(
                variable, f"Expected one of the dimensions {shorten(', '.join(names))}, but got {variable}"
            )
        places.append(variable)
        stride, size = self.number_after("floordiv"), self.number_after("mod")
        self.expect(":", "':' between the dimension and its level")
        kind = self.kind()
        return DigitLevel(kind, names.index(variable.text), stride or 1, size, unique=not self.nonunique(kind))

    def number_after(self, word: str) -> int | None:
        if self.take(word) is None:
            return None
        token = self.next()
        if not token.text.isdecimal() or not 0 < int(token.text) < 2**31:
            raise self.error(token, f"Expected an integer from 1 to 2**31 - 1 after {word}, but got {token}")
        return int(token.text)

    def kind(self) -> LevelKind:
        token = self.name(kind_words())
        self.refuse_later(token)
        if token.text not in KINDS:
            raise self.error(token, f"Expected {kind_words()}, but got {token}")
        return KINDS[token.text]

    def nonunique(self, kind: LevelKind) -> bool:
        if self.take("(") is None:
            return False
        word = self.name("nonunique")
        self.refuse_later(word)
        if word.text != "nonunique":
            raise self.error(word, f"Expected nonunique, but got {word}")
        if not kind.may_repeat:
            raise self.error(
                word, f"Expected a {kind} level without nonunique, because it has each coordinate at most once"
            )
        self.expect(")", "')'")
        return True

    def refuse_later(self, token: Token) -> None:
        if token.text in _LATER_WORDS:
            message = f"{token.text} is not supported yet: use {kind_words()}, or nonunique"
            raise self.not_yet(token, message)

    def name(self, what: str) -> Token:
        token = self.next()
        if not token.text.isidentifier():
            raise self.error(token, f"Expected {what}, but got {token}")
        return token

    def expect(self, text: str, what: str) -> None:
        token = self.next()
        if token.text != text:
            raise self.error(token, f"Expected {what}, but got {token}")
