"""Text files with a row of numbers in each line: reading and writing of tables, and the line number of a fault."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, Never

import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.progress import working
from jsparse.errors import FileFormatError, shorten
from jsparse.io.limit import Limit

BLOCK = 1 << 20  # the bytes that are read, and parsed, together
LONGEST = 1 << 20  # the maximum number of characters of a line
ROWS = 1 << 16  # the rows that are formatted together
LEVEL = 5  # of compression; the highest takes four times as long, for files that are 1% smaller
WORK = 4  # the bytes in use at the peak of reading for each byte of a table


class _FaultError(Exception):
    """An error that carries the number of a line that is not a row of the table."""


@dataclass(frozen=True)
class Text:
    """A text file, or the rest of a text file after some line. A file is decompressed if its name ends in .gz.

    The text is read in blocks of lines. Bytes that are not ASCII become characters of Latin-1.

    Attributes:
        limit: the file, and the memory that reading it may take.
        comment: the character that begins a comment, which extends to the end of its line.
        behind: the number, from 1, of the last line before the rest; 0 for the entire file.
    """

    limit: Limit
    comment: str
    behind: int = 0

    def all_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line."""
        for first, block in self._blocks():
            yield from enumerate(block.split("\n"), first)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the content of each line that is neither blank nor only a comment."""
        return ((number, stripped) for number, line in self.all_lines() if (stripped := self.content(line)))

    def content(self, line: str) -> str:
        """Return a line without its comment and without surrounding white space."""
        return line.partition(self.comment)[0].strip()

    def line_of(self, row: int) -> int:
        """Return the line number of row `row` (from 0) of the table, or the last line number for a row past the end."""
        last = self.behind
        for n, (number, _) in enumerate(self.lines()):
            last = number
            if n == row:
                break
        return last

    def fail(self, number: int | None, what: str) -> Never:
        """Raise FileFormatError for a line, or for the whole file."""
        path = self.limit.path
        where = f"{path}" if number is None else f"line {number:,} of {path}"
        raise FileFormatError(f"{what[0].upper()}{what[1:]}, in {shorten(where, 200)}.")

    def check_rows(self, fault: np.ndarray | np.bool_, expected: Callable[[int], str]) -> None:
        """Raise FileFormatError for the first row of the table that has a fault. `expected` is given its number."""
        if fault.any():
            row = int(np.argmax(fault))
            self.fail(self.line_of(row), f"expected {expected(row)}")

    def table(self, kinds: Sequence[type], count: int | None = None, copies: int = 1) -> list[np.ndarray]:
        """Read the columns of the table: int64 (or uint64 for large numbers) for the kind int, float64 for other kinds.

        Raises FileFormatError if a row is not one number of each of these kinds, if there are not `count` rows, or if
        `copies` copies of the table take too many bytes. The message names the line.
        """
        faults = []
        for integer in ("i8", "u8"):
            dtype = np.dtype([(f"c{n}", integer if kind is int else "f8") for n, kind in enumerate(kinds)])
            try:
                return self._columns(dtype, count, copies)
            except _FaultError as fault:
                faults.append(fault.args[0])
        number = max(faults)  # the lines before it are right for one of the dtypes
        line = next(line for at, line in self.lines() if at == number)
        words = line.split()
        if len(words) != len(kinds):
            self.fail(number, f"expected a row of {_numbers(len(kinds))}, but got {shorten(' '.join(words))!r}")
        for word, kind in zip(words, kinds, strict=True):
            try:
                value = kind(word)
            except ValueError:
                value = None
            # Python reads underscores, other digits than ASCII's, and integers of any length.
            plain = value is not None and word.isascii() and "_" not in word
            if not plain or (kind is int and not -(2**63) <= value < 2**64):
                expected = "an integer of 64 bits" if kind is int else "a number"
                self.fail(number, f"expected {expected}, but got {shorten(word)!r}")
        rows = f"rows of {_numbers(len(kinds))}, with integers that all fit int64 or all fit uint64"
        return self.fail(number, f"expected {rows}, but got {shorten(line)!r}")

    def _columns(self, dtype: np.dtype, count: int | None, copies: int) -> list[np.ndarray]:
        """Read the columns of a table in a structured dtype. Raises _FaultError for a line that numpy refuses."""
        parts, total = [np.zeros(0, dtype)], 0
        for first, block in self._blocks():
            rows = self._parse_block(first, block, dtype)
            total += len(rows)
            if count is not None and total > count:
                self.fail(self.line_of(count), f"expected {count:,} rows, but got more")
            self.limit.check(copies * WORK * total * dtype.itemsize, f"{total:,} rows of it take")
            parts.append(rows)
        if count is not None and total < count:
            self.fail(self.line_of(count), f"expected {count:,} rows, but got {total:,}")
        return [np.concatenate([part[name] for part in parts]) for name in dtype.names or ()]

    def _parse_block(self, first: int, block: str, dtype: np.dtype) -> np.ndarray:
        lines = block.split("\n")
        if "\r" in block:  # numpy takes each for the end of a line
            lines = [line.strip() for line in lines]
        if not any(map(self.content, lines)):  # np.loadtxt would warn
            return np.zeros(0, dtype)
        try:
            rows = np.loadtxt(lines, dtype, comments=self.comment, ndmin=1)
        except (ValueError, OverflowError) as error:
            if len(lines) == 1:
                raise _FaultError(first) from error
            half = len(lines) // 2  # the fault is in one of the halves
            parts = (first, lines[:half]), (first + half, lines[half:])
            for number, part in parts:
                self._parse_block(number, "\n".join(part), dtype)
            raise _FaultError(first) from error
        self._check_range(first, lines, rows)
        return rows

    def _check_range(self, first: int, lines: Sequence[str], rows: np.ndarray) -> None:
        """Raise FileFormatError if a number of the text is finite, but too large for float64."""
        infinite = [np.isinf(rows[name]) for name in rows.dtype.names or () if rows.dtype[name].kind == "f"]
        if not infinite or not (marked := np.logical_or.reduce(infinite)).any():
            return
        full = [(number, words) for number, line in enumerate(lines, first) if (words := self.content(line).split())]
        for at in np.flatnonzero(marked):
            number, words = full[at]
            if any(word.strip("+-")[:1].isdigit() and np.isinf(float(word)) for word in words):
                self.fail(number, f"expected numbers that float64 holds, but got {shorten(' '.join(words))!r}")

    def _blocks(self) -> Iterator[tuple[int, str]]:
        """Yield blocks of complete lines, each with the number of its first line."""
        number, last_line = 1, ""  # a line that is not complete yet
        for piece in self._read():
            lines, newline, last_line = (last_line + piece).rpartition("\n")
            if newline:
                yield from self._cut(number, lines)
                number += lines.count("\n") + 1
            if len(last_line) > LONGEST:
                self.fail(number, f"expected lines of at most {LONGEST:,} characters")
        if last_line:
            yield from self._cut(number, last_line)

    def _cut(self, number: int, text: str) -> Iterator[tuple[int, str]]:
        """Yield the lines of `text` after line `behind`. The first line of `text` has the number `number`."""
        dropped = max(self.behind + 1 - number, 0)
        lines = text.split("\n", dropped)
        if len(lines) > dropped:
            yield number + dropped, lines[dropped]

    def _read(self) -> Iterator[str]:
        """Yield the text in pieces. Raises FileFormatError if it exceeds the limit, or if the gzip file is damaged."""
        path, total = self.limit.path, 0
        with path.open("rb") as raw:
            packed = path.suffix == ".gz"
            opened: Any = gzip.GzipFile(fileobj=raw) if packed else nullcontext(raw)
            with opened as file, working(f"reading {path.name}", path.stat().st_size) as step:
                while more := _piece(file, path):
                    total += len(more)
                    self.limit.check(total, "its text takes at least")
                    step(raw.tell())
                    yield more.decode("latin-1")


def _piece(file: IO[bytes], path: Path) -> bytes:
    try:
        return file.read(BLOCK)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        damaged = f"{shorten(str(path), 200)} is damaged: {shorten(error)}"
        raise FileFormatError(f"Expected a gzip file, but {damaged}.") from error


def _numbers(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"


def write_table(path: Path, header: str, coords: np.ndarray, columns: Sequence[np.ndarray]) -> None:
    """Write a header, and a row for each entry: the coordinates, which begin at 1, then a number of each column.

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
