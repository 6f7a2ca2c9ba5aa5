"""Constants that are defined both in the extension and in Python."""

from jsparse.base import _native
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.formats.levels import KINDS


def test_chunks() -> None:
    assert _native.MAX_CHUNKS == MAX_CHUNKS


def test_level_kinds() -> None:
    assert {name: kind.code for name, kind in KINDS.items()} == _native.LEVEL_KINDS
