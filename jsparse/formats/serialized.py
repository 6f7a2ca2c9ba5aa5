"""Static patterns, types of dynamic patterns and composed formats as bytes or JSON values that contain no code."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from itertools import accumulate, pairwise

import numpy as np

from jsparse.errors import FormatError, JsparseError, PatternError, shorten
from jsparse.formats.composed import RULES, ComposedFormat
from jsparse.formats.dynamic import PatternType
from jsparse.formats.format import Format, blocks_of
from jsparse.formats.pattern import Pattern
from jsparse.formats.validate import sizes_of

_FAULTS = (JsparseError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, zlib.error)
"""The errors that damaged bytes may cause."""


def pattern_bytes(pattern: Pattern) -> bytes:
    """Convert a pattern to bytes, which include its digest."""
    header = {
        "shape": pattern.shape,
        "format": pattern.format.notation,
        "dtype": pattern.index_dtype.name,
        "lengths": [len(array) for array in pattern.arrays],
        "digest": pattern.digest,
    }
    arrays = b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in pattern.arrays)
    return json.dumps(header).encode() + b"\n" + zlib.compress(arrays)


def read_pattern(data: bytes) -> Pattern:
    """Read a pattern from bytes that `pattern_bytes` wrote. Its arrays are checked in full.

    Raises PatternError if the bytes are damaged.
    """
    try:
        head, _, body = data.partition(b"\n")
        header = json.loads(head)
        shape = sizes_of(header["shape"])
        joined = np.frombuffer(zlib.decompress(body), np.dtype(header["dtype"]).newbyteorder("<"))
        bounds = [0, *accumulate(header["lengths"])]
        arrays = [joined[start:end].astype(header["dtype"]) for start, end in pairwise(bounds)]
        pattern = Pattern.of_arrays(shape, Format.plain(header["format"], len(shape)), arrays)
        if pattern.digest != header["digest"]:
            raise PatternError("the index arrays do not match the digest")
    except _FAULTS as error:
        raise _damage_error(error) from error
    return pattern


def type_bytes(type_: PatternType) -> bytes:
    """Convert a type of dynamic patterns to bytes."""
    return json.dumps({"shape": type_.shape, "format": type_.format.notation, "nse": type_.nse}).encode()


def read_type(data: bytes) -> PatternType:
    """Read a type from bytes that `type_bytes` wrote. Raises PatternError if the bytes are damaged."""
    try:
        header = json.loads(data)
        shape = sizes_of(header["shape"])
        return PatternType(shape, Format.plain(header["format"], len(shape)), int(header["nse"]))
    except _FAULTS as error:
        raise _damage_error(error) from error


def format_values(format: ComposedFormat) -> dict[str, str | list[int | None] | None]:
    """Convert a composed format to JSON values: the notation of its levels, and the name and numbers of its rule."""
    rule = format.rule
    numbers = None if rule is None else list(rule.numbers)
    return {"levels": format.blocks.notation, "rule": None if rule is None else rule.name, "numbers": numbers}


def read_format(values: Mapping[str, object], ndim: int) -> ComposedFormat:
    """Read a composed format from values that `format_values` made. Raises PatternError if they are damaged."""
    try:
        blocks = blocks_of(Format.of(str(values["levels"]), ndim))
        name, numbers = values["rule"], values["numbers"]
        if name is None:
            return ComposedFormat(blocks)
        rule = RULES[str(name)]
        is_read = isinstance(numbers, list) and all(n is None or (type(n) is int and n > 0) for n in numbers)
        if not isinstance(numbers, list) or not is_read or None in numbers[:-1]:
            raise FormatError(f"Expected numbers of at least 1 for the rule {name}, but got {shorten(numbers)}.")
        return ComposedFormat(blocks, rule(*numbers))
    except _FAULTS as error:
        raise _damage_error(error) from error


def _damage_error(error: Exception) -> PatternError:
    return PatternError(
        f"Expected a pattern that jsparse wrote, but these bytes are damaged: {shorten(error)}. Serialize it again."
    )
