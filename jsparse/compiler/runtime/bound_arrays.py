"""Names of the arrays that are bound to a call. A name says which pattern an array is derived from, and how.

    name   := digest [":" digest "." size] ["@" format] "/" role
    format := (kind dim)*
    kind   := d | c | n | s | m | r
    role   := number in Pattern.arrays | "gather" | "scatter"

`digest` names a pattern, `:digest.size` the same in blocks of that many rows of another one (`formats.row_blocks`), and
`@d1c0` the same entries in another format (here csc); letters of kinds are `LevelKind.letters`. `gather` and `scatter`
permute values from the pattern to that format and back. A process that has the
patterns can make any of these arrays.
"""

from __future__ import annotations

import re

import numpy as np

from jsparse.errors import PatternError
from jsparse.formats import Format, Level, Pattern
from jsparse.formats.levels import KINDS
from jsparse.formats.pattern import find_pattern
from jsparse.formats.relayout import relayout_to
from jsparse.formats.row_blocks import in_row_blocks

__all__ = ["array_names", "find_array", "permutation_name"]

_KINDS = {letter: (kind, not at) for kind in KINDS.values() for at, letter in enumerate(kind.letters)}
_LEVEL = rf"([{''.join(_KINDS)}])(\d+)"
_DIGEST = "[0-9a-f]{64}"
_BLOCKS = rf"(:(?P<rows>{_DIGEST})\.(?P<size>\d+))?"
_NAME = re.compile(rf"(?P<digest>{_DIGEST}){_BLOCKS}(@(?P<format>({_LEVEL})*))?/(?P<role>\d+|gather|scatter)")


def array_names(pattern: Pattern, source: Pattern, blocks: tuple[Pattern, int] | None = None) -> tuple[str, ...]:
    """The names of the index arrays of `pattern`, which is `source` or the same entries in another format.

    Args:
        blocks: the table of rows and the size, if they are entries of `source` in blocks of rows.
    """
    by = "" if blocks is None else f":{blocks[0].digest}.{blocks[1]}"
    return tuple(f"{_stem(pattern, source, by)}/{n}" for n in range(len(pattern.arrays)))


def permutation_name(source: Pattern, target: Pattern, inverse: bool) -> str:
    """The name of the array that permutes values from `source` to `target`, the same entries in another format.

    With `inverse` it is the array that permutes them back.
    """
    return f"{_stem(target, source)}/{'scatter' if inverse else 'gather'}"


def _stem(pattern: Pattern, source: Pattern, blocks: str = "") -> str:
    if pattern is source or pattern == source:
        return source.digest
    levels = (f"{level.kind.letters[not level.unique]}{level.dim}" for level in pattern.format.levels)
    return f"{source.digest}{blocks}@{''.join(levels)}"


def find_array(name: str) -> np.ndarray:
    """Find or make the array of that name. Raises PatternError if this process does not have its pattern."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise PatternError(f"Expected the name of an index array, but got {name!r}.")
    pattern = _found(parts["digest"])
    if parts["rows"] is not None:
        pattern = in_row_blocks(pattern, _found(parts["rows"]), int(parts["size"]))
    relayout = relayout_to(pattern, pattern.format if parts["format"] is None else _read_format(parts["format"]))
    if parts["role"].isdigit():
        return relayout.target.arrays[int(parts["role"])]
    return relayout.gather if parts["role"] == "gather" else relayout.scatter


def _found(digest: str) -> Pattern:
    pattern = find_pattern(digest)
    if pattern is None:
        raise PatternError(
            f"Expected the sparse pattern {digest[:12]}… that this program was compiled for to exist in this process, "
            f"but it does not. Make the SparseTensor (or unpickle it) before the program is loaded, or pass it as an "
            f"argument."
        )
    return pattern


def _read_format(text: str) -> Format:
    read = re.findall(_LEVEL, text)
    return Format(tuple(Level(_KINDS[letter][0], int(dim), _KINDS[letter][1]) for letter, dim in read))
