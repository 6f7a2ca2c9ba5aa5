"""Text files with a row of numbers in each line: reading and writing whole tables, and the line of a fault."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

import jax.numpy as jnp
import numpy as np

from jsparse.errors import FileFormatError, shortened

__all__ = ["Text", "read_text", "write_table"]

ROWS = 1 << 16  # the rows that are formatted together
LEVEL = 5  # of compression; the highest takes four times as long, for files that are 1% smaller


@dataclass(frozen=True)
class Text:
    """A text file, or the rest of one.

    Attributes:
        path: the file.
        content: its text from line `first` on.
        comment: the character that a comment begins with, up to the end of its line.
        first: the number of the first line, from 1.
    """

    path: Path
    content: str
    comment: str
    first: int = 1

    def lines(self) -> Iterator[tuple[int, str]]:
        """The number and the text of each line with more than a comment."""
        for number, line in enumerate(io.StringIO(self.content), self.first):
            stripped = line.partition(self.comment)[0].strip()
            if stripped:
                yield number, stripped

    def behind(self, number: int) -> Text:
        """The rest of the file after that line."""
        at = -1
        for _ in range(self.first, number + 1):
            at = self.content.find("\n", at + 1)
            if at < 0:
                return Text(self.path, "", self.comment, number + 1)
        return Text(self.path, self.content[at + 1 :], self.comment, number + 1)

    def line_of(self, row: int) -> int:
        """The number of the line with row `row` of the table, from 0. Behind the last row it is the last line."""
        last = self.first - 1
        for n, (number, _) in enumerate(self.lines()):
            last = number
            if n == row:
                break
        return last

    def fail(self, number: int | None, what: str) -> Never:
        """Raise FileFormatError for a line, or for the whole file."""
        where = f"{self.path}" if number is None else f"line {number:,} of {self.path}"
        raise FileFormatError(f"{what[0].upper()}{what[1:]}, in {shortened(where, 200)}.")

    def table(self, kinds: Sequence[type]) -> list[np.ndarray]:
        """The columns of all rows: int64 (uint64 if one is too large for that) where `kinds` has int, else float64.

        Raises FileFormatError, with the line, unless each row has that many numbers of these kinds.
        """
        for integer in ("i8", "u8"):
            dtype = np.dtype([(f"c{n}", integer if kind is int else "f8") for n, kind in enumerate(kinds)])
            try:
                rows = self._parsed(dtype)
            except (ValueError, OverflowError) as error:
                fault = error
            else:
                return [np.ascontiguousarray(rows[name]) for name in dtype.names or ()]
        for number, line in self.lines():
            self._check_row(number, line.split(), kinds)
        return self.fail(None, f"expected rows of {_numbers(len(kinds))}, but got {shortened(fault)}")

    def _parsed(self, dtype: np.dtype) -> np.ndarray:
        if not any(True for _ in self.lines()):  # np.loadtxt would warn
            return np.zeros(0, dtype)
        return np.loadtxt(io.StringIO(self.content), dtype, comments=self.comment, ndmin=1)

    def _check_row(self, number: int, words: Sequence[str], kinds: Sequence[type]) -> None:
        if len(words) != len(kinds):
            self.fail(number, f"expected a row of {_numbers(len(kinds))}, but got {shortened(' '.join(words))!r}")
        for word, kind in zip(words, kinds, strict=True):
            try:
                valid = _parse(word, kind)
            except ValueError:
                valid = False
            if not valid:
                kept = "an integer of 64 bits" if kind is int else "a number"
                self.fail(number, f"expected {kept}, but got {shortened(word)!r}")


def _numbers(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"


def _parse(word: str, kind: Callable[[str], Any]) -> bool:
    """Whether a word is a number of that kind. Raises ValueError if Python does not read it."""
    number = kind(word)
    return word.isascii() and "_" not in word and (kind is not int or -(2**63) <= number < 2**64)


def read_text(path: Path, comment: str) -> Text:
    """The text of a file, which is decompressed if its name ends in .gz. Bytes that are no ASCII stay as they are."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise FileFormatError(f"Expected a gzip file, but {path} is damaged: {shortened(error)}.") from error
    return Text(path, content.decode("latin-1"), comment)


def write_table(path: Path, header: str, coords: np.ndarray, columns: Sequence[np.ndarray]) -> None:
    """Write a header, and a row for each entry: its coordinates, which count from 1, and its number in each column.

    Floats have as many digits as their dtype needs to be read again exactly.
    """
    row = " ".join(["%d"] * len(coords) + [_specifier(column.dtype) for column in columns]) + "\n"
    with gzip.GzipFile(path, "wb", LEVEL, mtime=0) if path.suffix == ".gz" else path.open("wb") as file:
        file.write(header.encode())
        for start in range(0, coords.shape[1], ROWS):
            part = slice(start, start + ROWS)
            lists = [*((x[part].astype(np.int64) + 1).tolist() for x in coords), *(x[part].tolist() for x in columns)]
            file.write("".join(map(row.__mod__, zip(*lists, strict=True))).encode())


def _specifier(dtype: np.dtype) -> str:
    if not jnp.issubdtype(dtype, jnp.inexact):
        return "%d"
    return f"%.{int(np.ceil(1 + (jnp.finfo(dtype).nmant + 1) * np.log10(2)))}g"
