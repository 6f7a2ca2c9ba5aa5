"""The kinds of levels, one file each: what a level of that kind stores (`compiler.levels`: how loops walk it)."""

from jsparse.formats.levels.compressed import COMPRESSED
from jsparse.formats.levels.dense import DENSE
from jsparse.formats.levels.kind import LevelKind, array_length
from jsparse.formats.levels.range import RANGE
from jsparse.formats.levels.singleton import SINGLETON

__all__ = [
    "COMPRESSED",
    "DENSE",
    "KINDS",
    "RANGE",
    "SINGLETON",
    "LevelKind",
    "array_length",
    "kind_of_code",
    "kind_words",
]

KINDS: dict[str, LevelKind] = {kind.name: kind for kind in (DENSE, COMPRESSED, SINGLETON, RANGE)}
_BY_CODE = {kind.code: kind for kind in KINDS.values()}


def kind_of_code(code: int) -> LevelKind | None:
    """The kind that the extension knows by this number; None if there is none."""
    return _BY_CODE.get(code)


def kind_words() -> str:
    """The names of all kinds, for messages: "dense, compressed, singleton or range"."""
    *others, last = KINDS
    return f"{', '.join(others)} or {last}"
