"""Numbers that stand in the extension's sources as well as in Python's."""

from jsparse import _native
from jsparse.compiler.lower.chunks import MAX_CHUNKS
from jsparse.compiler.runtime import routine
from jsparse.formats import LevelKind, build


def test_chunks() -> None:
    assert _native.MAX_CHUNKS == MAX_CHUNKS


def test_level_kinds() -> None:
    assert _native.LEVEL_KINDS == {"dense": 0, "compressed": 1, "singleton": 2, "range": 3}
    for codes in (build._KINDS, routine._KINDS):
        assert {kind.value: code for kind, code in codes.items()}.items() <= _native.LEVEL_KINDS.items()
        assert set(codes) == set(LevelKind)
