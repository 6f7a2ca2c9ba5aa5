"""Lines of text, made of words."""

from __future__ import annotations

import re
import shlex
from functools import lru_cache

from jsparse.errors import ScheduleError, represented

__all__ = ["line", "pattern_numbers", "words"]

PLAIN = re.compile(r"[\w.]+")
PATTERN = re.compile(r"P(\d+)(?:\.(\d+))?", re.ASCII)


def line(*parts: object) -> str:
    """A line of words. Words with other characters than letters, digits, dots and underscores are quoted."""
    return " ".join(word if PLAIN.fullmatch(word) else shlex.quote(word) for word in map(str, parts))


@lru_cache(maxsize=256)
def pattern_numbers(word: str) -> tuple[int, ...]:
    """The number of a pattern in `P0`, or the numbers of a pattern and one of its levels in `P0.1`; else nothing."""
    found = PATTERN.fullmatch(word)
    return () if found is None else tuple(int(number) for number in found.groups() if number is not None)


def words(text: str) -> list[str]:
    """The words of a line. Quoted words may contain blanks, as names of index variables that are read from a table do.

    Raises ScheduleError if a quotation has no end.
    """
    if "'" not in text and '"' not in text:
        return text.split()
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ScheduleError(f"Expected a line of a schedule, but got {represented(text)}: {error}.") from error
