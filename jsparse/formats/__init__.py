"""Storage of tensors: formats, patterns, and relayouts of values between patterns. This package does not use JAX."""

from jsparse.formats.dynamic import DynamicType
from jsparse.formats.format import Format, default_format
from jsparse.formats.level import Level
from jsparse.formats.levels import LevelKind
from jsparse.formats.pattern import Pattern
from jsparse.formats.relayout import Relayout, derived_format

__all__ = [
    "DynamicType",
    "Format",
    "Level",
    "LevelKind",
    "Pattern",
    "Relayout",
    "default_format",
    "derived_format",
]
