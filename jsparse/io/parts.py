"""The parts of composed tensors as entries of an archive.

The entry `parts` is their number. Part n has the entries `part_n_levels`, the notation of its levels, `part_n_rule` and
`part_n_numbers`, its rule for slots, if there is one, and the rule's numbers (0 for a number that is left open),
`part_n_slots`, the number of slots, and the outer pattern: `part_n_pattern` ("static" or "dynamic"), `part_n_nse` and
the index arrays `part_n_index_0`, … Shapes and formats of outer patterns follow from the levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.errors import FileFormatError, shorten
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.composed import RULES, ComposedFormat, SlotRule
from jsparse.formats.format import blocks_of, digit_format, outer_format
from jsparse.formats.validate import parse_shape
from jsparse.io.entries import check_index, number, text
from jsparse.tensor.composed import Composition, Part
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width, dynamic_type

KINDS = ("static", "dynamic")


def part_entries(composition: Composition) -> dict[str, Array]:
    """Return the entries of all parts."""
    entries: dict[str, Array] = {"parts": np.array(len(composition.parts), np.int64)}
    for n, part in enumerate(composition.parts):
        outer, rule = part.pattern, part.format.rule
        assert not isinstance(outer, PatternType)
        of_part: dict[str, Array] = {
            "levels": np.array(part.format.blocks.notation),
            "slots": np.array(part.slots, np.int64),
            "pattern": np.array("static" if isinstance(outer, Pattern) else "dynamic"),
            "nse": np.array(outer.nse, np.int64),
        }
        if rule is not None:
            of_part["rule"] = np.array(rule.name)
            of_part["numbers"] = np.array([x or 0 for x in rule.numbers], np.int64)
        of_part |= {f"index_{m}": array for m, array in enumerate(outer.arrays)}
        entries |= {f"part_{n}_{name}": array for name, array in of_part.items()}
    return entries


def read_parts(shape: tuple[int, ...], entries: Mapping[str, np.ndarray]) -> Composition:
    """Read the parts of a tensor of this shape.

    Raises FileFormatError or PatternError for the first fault, ShapeError if a dynamic pattern does not fit the memory,
    DTypeError if it needs 64 bits and JAX has 64 bits switched off.
    """
    count = number(entries, "parts")
    if count < 1:
        raise FileFormatError(f"It has {count:,} parts, but a tensor has one or more.")
    return Composition(shape, tuple(_part(shape, entries, f"part_{n}_") for n in range(count)))


def _part(shape: tuple[int, ...], entries: Mapping[str, np.ndarray], at: str) -> Part:
    """Read the part whose entries have names that begin with `at`."""
    blocks = blocks_of(Format.of(text(entries, f"{at}levels"), len(shape)))
    format = ComposedFormat(blocks, _rule(entries, at) if f"{at}rule" in entries else None)
    outer, slots = format.blocks.outer, number(entries, f"{at}slots")
    sizes, layout = format.blocks.sizes(shape)[: len(outer)], digit_format(outer)
    kind, nse = text(entries, f"{at}pattern"), number(entries, f"{at}nse")
    if kind not in KINDS:
        raise FileFormatError(f"Its {at}pattern is {shorten(kind)!r}, but a part is {' or '.join(KINDS)}.")
    type_ = dynamic_type(sizes, layout, nse) if kind == "dynamic" else None
    if format.rule is not None:
        layout = outer_format(format)
        sizes = parse_shape((*sizes, slots), layout)
        layout.check_storable()
        type_ = None if type_ is None else PatternType(sizes, layout, type_.nse)
    arrays = [entries[f"{at}index_{n}"] for n in range(len(layout.arrays))]
    pattern = Pattern.of_arrays(sizes, layout, arrays) if type_ is None else _dynamic(type_, arrays, at)
    check_index(f"{at}pattern", pattern, nse, arrays)
    part = Part.of(format, pattern, slots, shape)
    if part.has_slots and not (isinstance(pattern, DynamicPattern) and pattern.has_overflowed):
        # Each entry is stored once, in its own slot.
        static = pattern if isinstance(pattern, Pattern) else pattern.to_static()
        *index, slots_of_entries = static.arrays
        Pattern.of_arrays(static.shape[:-1], Format(static.format.levels[:-1]), index)
        ordered = np.sort(slots_of_entries)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(repeated):
            raise FileFormatError(
                f"Its {at}pattern puts several entries into slot {repeated[0]}, but each entry must have its own slot."
            )
    return part


def _rule(entries: Mapping[str, np.ndarray], at: str) -> SlotRule:
    name, numbers = text(entries, f"{at}rule"), entries[f"{at}numbers"]
    rule = RULES.get(name)
    if rule is None:
        raise FileFormatError(f"Its {at}rule is {shorten(name)!r}, but this jsparse reads {', '.join(RULES)}.")
    count = len(rule().numbers)
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,) or (numbers < 0).any():
        raise FileFormatError(
            f"Its {at}numbers are {numbers.dtype} of shape {shorten(numbers.shape)}: {shorten(numbers.tolist())}. The "
            f"rule {name} has {count}, which are integers of at least 0."
        )
    rule_of_slots = rule(*[n or None for n in numbers.tolist()])
    if not rule_of_slots.column_parts:
        raise FileFormatError(
            f"Its {at}numbers divide the columns into {numbers[0]} parts, but there must be at least one."
        )
    return rule_of_slots


def _dynamic(type_: PatternType, arrays: Sequence[np.ndarray], at: str) -> DynamicPattern:
    """Make a dynamic pattern. After an overflow, only the lengths and dtypes of its arrays are checked."""
    check_width(type_.index_dtype, f"the pattern of {at[:-1]}, of shape {type_.shape},")
    for array, (what, length, dtype) in zip(arrays, type_.index_leaves, strict=True):
        if array.shape != (length,) or array.dtype != dtype:
            raise FileFormatError(
                f"Its {what} in {at}pattern are {array.dtype} of shape {array.shape}, not {dtype} of shape "
                f"({length},), as nse={type_.nse:,} asks."
            )
    pattern = DynamicPattern(type_, tuple(map(jnp.asarray, arrays)))
    if not pattern.has_overflowed:
        pattern.validate()
    return pattern
