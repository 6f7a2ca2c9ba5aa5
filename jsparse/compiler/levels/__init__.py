"""The level functions of each kind of level, by which loops and interpreters walk it.

The functions of a kind are `FUNCTIONS` in the file that has the kind's name.
"""

from importlib import import_module

from jsparse.compiler.levels.functions import LevelFunctions, LevelView, PositionRange, Segment
from jsparse.formats.levels import KINDS, LevelKind

__all__ = ["LevelFunctions", "LevelView", "PositionRange", "Segment", "functions_of"]

_FUNCTIONS: dict[LevelKind, LevelFunctions] = {
    kind: import_module(f"{__name__}.{name}").FUNCTIONS for name, kind in KINDS.items()
}


def functions_of(kind: LevelKind) -> LevelFunctions:
    """The functions of levels of that kind."""
    return _FUNCTIONS[kind]
