"""Storage of tensors: formats, patterns, and relayouts of values between patterns. This package does not use JAX."""

import sys

from jsparse.formats import levels
from jsparse.formats.dynamic import PatternType
from jsparse.formats.format import Format, default_format
from jsparse.formats.levels import Level, LevelKind
from jsparse.formats.pattern import Pattern
from jsparse.formats.relayout import Relayout, find_determined_levels, index_format

# Pickles of version 0.1.0 look up levels and their kinds by these names.
_MOVED = ("level", "levels.compressed", "levels.dense", "levels.range", "levels.singleton")
sys.modules.update({f"{__name__}.{moved}": levels for moved in _MOVED})
