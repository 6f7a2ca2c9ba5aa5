"""The level functions of each kind of level, one file each: how loops and interpreters walk it."""

from jsparse.compiler.levels.compressed import CompressedFunctions
from jsparse.compiler.levels.dense import DenseFunctions
from jsparse.compiler.levels.functions import LevelFunctions, LevelView, PositionRange, Segment
from jsparse.compiler.levels.range import RangeFunctions
from jsparse.compiler.levels.singleton import SingletonFunctions
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, SINGLETON, LevelKind

__all__ = ["LevelFunctions", "LevelView", "PositionRange", "Segment", "functions_of"]

_FUNCTIONS: dict[LevelKind, LevelFunctions] = {
    DENSE: DenseFunctions(),
    COMPRESSED: CompressedFunctions(),
    SINGLETON: SingletonFunctions(),
    RANGE: RangeFunctions(),
}


def functions_of(kind: LevelKind) -> LevelFunctions:
    """The functions of levels of that kind."""
    return _FUNCTIONS[kind]
