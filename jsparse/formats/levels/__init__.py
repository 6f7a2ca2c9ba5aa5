"""The kinds of levels, one file each: the index arrays and the properties of a kind.

Every `LevelKind` that a file of this folder defines is found automatically: there is no list of kinds.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

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


def _defined_here() -> Iterator[LevelKind]:
    for file in iter_modules(__path__):
        constants = vars(import_module(f"{__name__}.{file.name}")).values()
        yield from (kind for kind in constants if isinstance(kind, LevelKind))


KINDS: dict[str, LevelKind] = {kind.name: kind for kind in sorted(_defined_here(), key=lambda kind: kind.code)}
_BY_CODE = {kind.code: kind for kind in KINDS.values()}


def kind_of_code(code: int) -> LevelKind | None:
    """The kind with this number in the extension; None if there is none."""
    return _BY_CODE.get(code)


def kind_words() -> str:
    """The names of all kinds, for messages: "dense, compressed, singleton or range"."""
    *others, last = KINDS
    return f"{', '.join(others)} or {last}"
