"""Names of the arrays that are bound to a call. A name states the pattern from which an array is derived, and how.

    name   := digest [":" digest "." size] ["@" format] "/" role
    format := (kind dim ["_" stride ["_" size]])*
    kind   := d | c | n | s | m | r
    role   := index in Pattern.arrays | "gather" | "scatter"

The first `digest` names a pattern. `:digest.size` stands for the same entries in blocks of `size` rows, and its digest
names the pattern that gives the row of each entry (`schedule.row_blocks`). `@d1c0` stands for the same entries in
another format (here csc); the letters of kinds are `LevelKind.letters`. Levels of digits are written with the stride
and the size of each digit, as in `@d0_4c1_4d0_1_4d1_1_4` (here bsr(4, 4)). The array `gather` permutes values from the
pattern to the other format, and `scatter` permutes them back. A process that has the patterns can make these arrays.

An exported program carries the patterns: their index arrays are the last operands of each call, and a text describes
these operands.

    carried := number of these operands (" " digest "/" shape "/" format)*
    shape   := "" | size ("x" size)*

Names and recipes come with a program, and anybody can edit them. So a pattern is bound with all of its arrays, and only
if the pattern agrees with the recipe: kernels trust the index arrays of static patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.search.row_blocks import in_row_blocks
from jsparse.errors import PatternError, short_repr
from jsparse.formats import Format, Pattern
from jsparse.formats.digits import Blocks, DigitLevel
from jsparse.formats.levels import KINDS
from jsparse.formats.pattern import find_pattern
from jsparse.formats.relayout import Relayout, relayout_to

OPERAND = "-"  # stands in the place of a name for an index array that is an operand

_KINDS = {letter: (kind, not at) for kind in KINDS.values() for at, letter in enumerate(kind.letters)}
_LEVEL = rf"([{''.join(_KINDS)}])(\d+)(?:_([1-9]\d*)(?:_([1-9]\d*))?)?"
_DIGEST = "[0-9a-f]{64}"
_BLOCKS = rf"(:(?P<rows>{_DIGEST})\.(?P<size>\d+))?"
_NAME = re.compile(rf"(?P<digest>{_DIGEST}){_BLOCKS}(@(?P<format>({_LEVEL})*))?/(?P<role>\d+|gather|scatter)")

_CARRIED = re.compile(rf"(?P<digest>{_DIGEST})/(?P<shape>(\d+(x\d+)*)?)/(?P<format>({_LEVEL})*)")


def array_names(pattern: Pattern, source: Pattern, blocks: tuple[Pattern, int] | None = None) -> tuple[str, ...]:
    """The names of the index arrays of `pattern`, which is `source` or the same entries in another format.

    Args:
        blocks: the table of rows and the size of blocks, if `pattern` has the entries of `source` in blocks of rows.
    """
    by = "" if blocks is None else f":{blocks[0].digest}.{blocks[1]}"
    return tuple(f"{_stem(pattern, source, by)}/{n}" for n in range(len(pattern.arrays)))


def permutation_name(relayout: Relayout, inverse: bool) -> str:
    """The name of the array by which a relayout permutes values. With `inverse`, it permutes them back."""
    source, target, digits = relayout.source, relayout.target, relayout.digits
    stem = _stem(target, source) if digits is None else f"{source.digest}@{_write_levels(digits.levels)}"
    return f"{stem}/{'scatter' if inverse else 'gather'}"


def _stem(pattern: Pattern, source: Pattern, blocks: str = "") -> str:
    if pattern is source or pattern == source:
        return source.digest
    return f"{source.digest}{blocks}@{_write_format(pattern.format)}"


def find_array(name: str) -> np.ndarray:
    """Find or make the array called `name`. Raises PatternError if this process does not have the array's pattern."""
    relayout, role = _find(name)
    if role.isdigit() and int(role) >= len(relayout.target.arrays):
        raise PatternError(f"Expected one of the index arrays of {relayout.target!r}, but got number {role}.")
    if role.isdigit():
        return relayout.target.arrays[int(role)]
    return relayout.gather if role == "gather" else relayout.scatter


def arrays_of_patterns(problem: Problem, names: Sequence[str]) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the bound index arrays of each pattern of a problem: an empty tuple if the pattern's arrays are operands.

    Args:
        names: the name of each index array of all patterns, or `OPERAND`.

    Raises PatternError if index arrays of a static pattern are operands, if index arrays of a dynamic pattern are
    bound, or if a bound pattern does not have the levels, the dtype, the sizes and the entries that the problem states.
    """
    every_name = iter(names)
    for n, stated in enumerate(problem.patterns):
        bound = list(islice(every_name, sum(len(level.kind.arrays) for level in stated.levels)))
        if bound == [OPERAND] * len(bound) and (stated.dynamic or not bound):
            yield ()
            continue
        stems = {name.rpartition("/")[0] for name in bound}
        if len(stems) != 1 or OPERAND in bound or bound != [f"{min(stems)}/{m}" for m in range(len(bound))]:
            place = "are operands" if stated.dynamic else "are bound"
            raise PatternError(f"Expected all index arrays of pattern {n}, {stated}, which {place}, but got {bound}.")
        pattern, constants = _find(bound[0])[0].target, stated.constant_indices
        sizes = tuple(problem.size[var] for var in problem.level_variables[n])
        is_stated = (
            storage_type(pattern) == replace(stated, constant_indices=())
            and tuple(pattern.shape[dim] for dim in pattern.format.order[: len(sizes)]) == sizes
            and (not constants or constants == tuple(tuple(array.tolist()) for array in pattern.arrays))
        )
        if not is_stated:
            raise PatternError(f"Expected a pattern {stated} of sizes {sizes}, but {bound[0]} is of {pattern!r}.")
        yield pattern.arrays


def _find(name: str) -> tuple[Relayout, str]:
    """Find the relayout that converts the named pattern to the named format. Also returns the array's role."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise PatternError(f"Expected the name of an index array, but got {short_repr(name)}.")
    pattern = _require_pattern(parts["digest"])
    if parts["rows"] is not None:
        pattern = in_row_blocks(pattern, _require_pattern(parts["rows"]), int(parts["size"]))
    target = pattern.format if parts["format"] is None else _read_blocks(parts["format"])
    return relayout_to(pattern, target), parts["role"]


def pattern_named(name: str) -> Pattern | None:
    """Find the pattern that has the named index array, in the format that the name states.

    The result is None for `OPERAND`, or if this process does not have the pattern any more.
    """
    if name == OPERAND:
        return None
    try:
        return _find(name)[0].target
    except PatternError:
        return None


def patterns_named_in(bound: str) -> tuple[Pattern, ...]:
    """The distinct patterns that the names in `bound` mention. Raises PatternError as `find_array` does."""
    named = [parts for name in bound.split() if (parts := _NAME.fullmatch(name))]
    digests = (digest for parts in named for digest in (parts["digest"], parts["rows"]) if digest is not None)
    return tuple(map(_require_pattern, dict.fromkeys(digests)))


def write_carried(patterns: Sequence[Pattern]) -> str:
    """Write the text that describes the patterns whose index arrays are the last operands of an exported call."""
    described = (f"{p.digest}/{'x'.join(map(str, p.shape))}/{_write_format(p.format)}" for p in patterns)
    return " ".join((str(sum(len(p.arrays) for p in patterns)), *described))


def read_carried(text: str, arrays: Sequence[np.ndarray] | None) -> tuple[Pattern, ...] | None:
    """The patterns that an exported call carries. A pattern that this process lacks is built from copies of `arrays`.

    Before the program runs, `arrays` is None. In that case the result is None if this process lacks a pattern.

    Raises PatternError if arrays are invalid or do not match the digests.
    """
    patterns, at = [], 0
    for part in text.split()[1:]:
        read = _CARRIED.fullmatch(part)
        if read is None:
            raise PatternError(f"Expected the description of a pattern, but got {part!r}.")
        format = Format(_read_blocks(read["format"]).plain_levels)
        carried, at = None if arrays is None else arrays[at : at + len(format.arrays)], at + len(format.arrays)
        pattern, digest = find_pattern(read["digest"]), read["digest"]
        if pattern is None and carried is None:
            return None
        if pattern is None:
            shape = tuple(map(int, read["shape"].split("x"))) if read["shape"] else ()
            pattern = Pattern(shape, format, carried or ())
            if pattern.digest != digest:
                raise PatternError(
                    f"Expected the index arrays of the sparse pattern {digest[:12]}… in this exported program, but got "
                    f"the index arrays of {pattern!r}: the program was changed or damaged. Export it again."
                )
        patterns.append(pattern)
    return tuple(patterns)


def _require_pattern(digest: str) -> Pattern:
    pattern = find_pattern(digest)
    if pattern is None:
        raise PatternError(
            f"Expected the sparse pattern {digest[:12]}… that this program was compiled for to exist in this process, "
            "but it does not. Make or unpickle the SparseTensor before you load the program, or pass it as an "
            "argument."
        )
    return pattern


def _write_format(format: Format) -> str:
    return _write_levels(Blocks.of_levels(format.levels).levels)


def _write_levels(levels: Sequence[DigitLevel]) -> str:
    texts = []
    for level in levels:
        size = "" if level.size is None else f"_{level.size}"
        digit = "" if level.is_whole else f"_{level.stride}{size}"
        texts.append(f"{level.kind.letters[not level.unique]}{level.dim}{digit}")
    return "".join(texts)


def _read_blocks(text: str) -> Blocks:
    read = ((*_KINDS[letter], *numbers) for letter, *numbers in re.findall(_LEVEL, text))
    levels = (
        DigitLevel(kind, int(dim), int(stride or 1), int(size) if size else None, unique)
        for kind, unique, dim, stride, size in read
    )
    return Blocks(tuple(levels))
