"""Composed formats: values in separate slots, and a plain pattern that says where the slots belong.

    A[b·I + a, c·J + e] = Σ_s K(I, J, s) · V[s, a, e]

I and a are the digits of a row, J and e the digits of a column. The outer pattern K is a plain pattern of the leading
digits, and V has a slot of b · c numbers for each of its entries. If slots are not the entries of K in their order, K
has one more level, which stores the number of each entry's slot. A slot that no entry has is padding, and nothing reads
it.

A format consists of its blocks, which define the digits, and of a rule for slots. SparseTIR's composable formats (Ye et
al., 2023) and the formats of fixed length of Insum (Won et al., 2026) are of this form.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import lru_cache
from math import ceil, log2, sqrt
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.errors import FormatError, PatternError, short_repr, shorten
from jsparse.formats.digits import Blocks, DigitLevel
from jsparse.formats.levels import COMPRESSED, DENSE
from jsparse.formats.parse import default_levels, short_name


@dataclass(frozen=True, slots=True)
class SlotRule(ABC):
    """The rule by which the entries below each parent of the innermost level get slots.

    The entry with the rank r among those below its parent has the slot `starts[parent] + r`.
    """

    name: ClassVar[str]
    """The name of the format with this rule on csr."""

    @property
    def column_parts(self) -> int:
        """Into how many ranges the innermost dimension is divided. Each part of a row is a separate row."""
        return 1

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """The arguments of the rule's class. The last one is None if it is left open."""
        return astuple(self)

    def resolve(self, lengths: np.ndarray) -> SlotRule:
        """Choose the number that the rule leaves open, by the number of entries below each parent."""
        *others, number = self.numbers
        return RULES[self.name](*others, number or self._choose(lengths))

    def starts(self, lengths: Array) -> tuple[Array, int | jax.Array]:
        """Return the first slot of each parent, which has `lengths` entries, and the number of all slots.

        Both arrays have the shape (parents,). Starts of known lengths are int64, because there may be more slots than
        an index dtype counts. If lengths are traced, so is the number, which exceeds all slots if entries do not fit.
        Raises PatternError for known entries that do not fit.
        """
        number = self.numbers[-1] or self._choose(np.asarray(lengths))
        return self._starts(lengths.astype(np.int64) if isinstance(lengths, np.ndarray) else lengths, number)

    @abstractmethod
    def _choose(self, lengths: np.ndarray) -> int:
        """Choose the number that may be left open."""

    @abstractmethod
    def _starts(self, lengths: Array, number: int) -> tuple[Array, int | jax.Array]:
        """Return what `starts` does, for this number."""


@dataclass(frozen=True, slots=True)
class Width(SlotRule):
    """The same number of slots for each parent: the format ell. By default, as many as the longest needs."""

    name = "ell"
    width: int | None = None

    def _choose(self, lengths: np.ndarray) -> int:
        return int(lengths.max(initial=1))

    def _starts(self, lengths: Array, width: int) -> tuple[Array, int | jax.Array]:
        total = len(lengths) * width
        if not isinstance(lengths, np.ndarray):
            return jnp.arange(len(lengths)) * width, total + (lengths > width).any()
        too_long = np.flatnonzero(lengths > width)
        if len(too_long):
            row, longest = int(too_long[0]), int(lengths.max())
            raise PatternError(
                f"Expected at most {width:,} entries in each row for the format ell({width}), but row {row:,} has "
                f"{int(lengths[row]):,}. Use ell({longest}), or hyb or group_coo, whose rows may differ in length."
            )
        return np.arange(len(lengths), dtype=np.int64) * width, total


@dataclass(frozen=True, slots=True)
class Groups(SlotRule):
    """Whole groups of `size` slots for each parent, filled up at its end: the format group_coo.

    By default the size is the next power of two above sqrt(entries / parents with entries). It balances the slots that
    are filled up against the number of groups (Won et al., 2026).
    """

    name = "group_coo"
    size: int | None = None

    def _choose(self, lengths: np.ndarray) -> int:
        return _power_of_two(sqrt(_mean_length(lengths)))

    def _starts(self, lengths: Array, size: int) -> tuple[Array, int | jax.Array]:
        return _one_after_the_other(-(-lengths // size) * size)


@dataclass(frozen=True, slots=True)
class Buckets(SlotRule):
    """Buckets of 1, 2, 4, … slots for each parent: the format hyb of SparseTIR.

    A parent has the least bucket that holds its entries. The last bucket is for at least the mean number of entries,
    and a parent with more entries takes several of its places.

    Attributes:
        last: the slots of the last bucket.
    """

    name = "hyb"
    column_parts: int = 1
    last: int | None = None

    def _choose(self, lengths: np.ndarray) -> int:
        return _power_of_two(_mean_length(lengths))

    def _starts(self, lengths: Array, last: int) -> tuple[Array, int | jax.Array]:
        where = np.where if isinstance(lengths, np.ndarray) else jnp.where
        total: int | jax.Array = 0
        starts, width, least = lengths * 0, 1, 0
        while width <= last:
            is_here = (lengths > least) & ((lengths <= width) | (width == last))
            first, count = _one_after_the_other(where(is_here, -(-lengths // width) * width, 0))
            starts = where(is_here, total + first, starts)
            total, least, width = total + count, width, 2 * width
        return starts, total


RULES: dict[str, Callable[..., SlotRule]] = {rule.name: rule for rule in (Width, Groups, Buckets)}
"""The rules of slots by name."""


def _mean_length(lengths: np.ndarray) -> float:
    """The mean number of entries of the parents that have entries; 0 if none has any."""
    return int(lengths.sum()) / max(int(np.count_nonzero(lengths)), 1)


def _power_of_two(least: float) -> int:
    """The least power of two from `least` on."""
    return 1 << max(ceil(log2(least)), 0) if least else 1


def _one_after_the_other(counts: Array) -> tuple[Array, int | jax.Array]:
    if not len(counts):
        return counts, 0
    ends = counts.cumsum()
    return ends - counts, int(ends[-1]) if isinstance(counts, np.ndarray) else ends[-1]


@dataclass(frozen=True, slots=True, repr=False)
class ComposedFormat:
    """A format of slots: the digits of coordinates that are stored, and the rule that gives the entries their slots.

        >>> jsparse.Format.of("bsr(2, 4)", 2)
        Format.of('bsr(2, 4)', 2)

    Attributes:
        blocks: the levels.
        rule: the rule of slots. None if the slots are the entries of the outer pattern in their order.

    Raises FormatError if all levels are dense.
    """

    blocks: Blocks
    rule: SlotRule | None = None

    def __post_init__(self) -> None:
        if not self.blocks.outer:
            raise FormatError(
                f"Expected a level that stores coordinates, but all levels of {self.blocks.notation} are dense. Write "
                "compressed for one of them, or store the array as 'dense'."
            )

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> jsparse.Format.of("bsr(2, 4)", 2).ndim
        2
        """
        return self.blocks.ndim

    @property
    def full_dims(self) -> frozenset[int]:
        """The dimensions in which every coordinate has a position.

        >>> sorted(jsparse.Format.of("bsr(2, 4)", 2).full_dims)
        [0]
        """
        stored = {level.dim for level in self.blocks.levels if not level.kind.is_full}
        return frozenset(range(self.ndim)) - stored

    @property
    def name(self) -> str:
        """The name with its arguments, such as "bsr(2, 4)", or the notation of the levels.

        >>> jsparse.Format.of("bsr(2, 4)", 2).name
        'bsr(2, 4)'
        """
        return _name(self)

    def resolve(self, lengths: np.ndarray) -> ComposedFormat:
        """Choose the numbers that the rule leaves open, by the number of entries below each parent."""
        return self if self.rule is None else replace(self, rule=self.rule.resolve(lengths))

    def transposed(self, axes: Sequence[int]) -> ComposedFormat:
        """The format of the transposed tensor, over the same arrays. Its dimension d is `axes[d]` in this format."""
        return replace(self, blocks=self.blocks.transposed(axes))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Format.of({self.name!r}, {self.ndim})"


@dataclass(frozen=True, slots=True, repr=False)
class Decomposed:
    """The formats of a tensor's parts, whose sum is the tensor."""

    parts: tuple[ComposedFormat, ...]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.parts[0].ndim

    @property
    def name(self) -> str:
        """The names of all parts: "bsr(16, 16) + csr"."""
        return " + ".join(part.name for part in self.parts)

    def __repr__(self) -> str:
        return self.name


@lru_cache(maxsize=256)
def _name(format: ComposedFormat) -> str:
    blocks, rule = format.blocks, format.rule
    if rule is None and blocks.is_plain:
        return short_name(blocks.plain_levels) or blocks.notation
    sizes = [level.size for level in blocks.inner]
    is_matrix_of_blocks = format.ndim == 2 and len(sizes) == 2 and None not in sizes
    texts = [f"{name}({sizes[0]}, {sizes[1]})" for name in ("bsr", "dbsr")] if is_matrix_of_blocks else []
    match rule:
        case Width(width):
            texts = ["ell" if width is None else f"ell({width})"]
        case Groups(size) if texts:
            texts = [f"block_group_coo({size}, {sizes[0]}, {sizes[1]})"]
        case Groups(size):
            texts = ["group_coo" if size is None else f"group_coo({size})"]
        case Buckets(parts):
            texts = ["hyb" if parts == 1 else f"hyb({parts})"]
    for text in texts:
        name, bracket, arguments = text.partition("(")
        candidate = find_format(name, bracket + arguments or None, format.ndim)
        if candidate is not None and candidate.blocks == blocks:
            return text
    return blocks.notation if rule is None else f"{texts[0]} on {blocks.notation}"


FORMS = ("bsr(b, c)", "dbsr(b, c)", "ell", "ell(w)", "group_coo", "group_coo(g)", "block_group_coo(g, b, c)", "hyb",
         "hyb(column_parts)")  # fmt: skip
"""The composed formats that have names. Letters are integers of at least 1."""

_COUNTS = {"bsr": (2,), "dbsr": (2,), "ell": (0, 1), "group_coo": (0, 1), "block_group_coo": (3,), "hyb": (0, 1)}


def is_composed(spec: object) -> bool:
    """Whether a format, or a text that denotes one, is composed."""
    if not isinstance(spec, str):
        return isinstance(spec, ComposedFormat)
    name = re.match(r"\s*(\w+)", spec)
    return (name is not None and name.group(1) in _COUNTS) or re.search(r"\b(floordiv|mod)\b", spec) is not None


@lru_cache(maxsize=256)
def find_format(name: str, arguments: str | None, ndim: int) -> ComposedFormat | None:
    """The composed format with a name and arguments, such as "bsr" and "(4, 4)"; None if no format has that name.

    Raises FormatError for arguments that do not fit, and for a number of dimensions that the format does not have.
    """
    if name not in _COUNTS:
        return None
    numbers = _numbers(name, arguments)
    rule, blocks = RULES.get(name.removeprefix("block_")), name in ("bsr", "dbsr", "block_group_coo")
    if blocks and ndim != 2:
        raise FormatError(
            f"Expected a matrix for the format {name}, but the tensor has {ndim} dimensions. Write its digits, such as "
            "'(i, j, k) -> (i : dense, j floordiv 4 : compressed, k : compressed, j mod 4 : dense)'."
        )
    if ndim < 2:
        raise FormatError(f"Expected two dimensions or more for the format {name}, but the tensor has {ndim}.")
    if not blocks:
        assert rule is not None
        return ComposedFormat(Blocks.of_levels(default_levels(ndim)), rule(*numbers))
    (b, c), rows = numbers[-2:], DENSE if name != "dbsr" else COMPRESSED
    outer = DigitLevel(rows, 0, b), DigitLevel(COMPRESSED, 1, c)
    levels = (*outer, DigitLevel(DENSE, 0, 1, b), DigitLevel(DENSE, 1, 1, c))
    return ComposedFormat(Blocks(levels), None if rule is None else rule(numbers[0]))


def _numbers(name: str, arguments: str | None) -> tuple[int, ...]:
    """Read the arguments of a format. Raises FormatError unless they are as many integers as the format takes."""
    forms = " or ".join(form for form in FORMS if form.partition("(")[0] == name)
    written = f"{name}{shorten(arguments or '')}"
    texts = [text.strip() for text in (arguments or "()")[1:-1].split(",")]
    texts = [] if texts == [""] else texts
    if len(texts) not in _COUNTS[name]:
        raise FormatError(f"Expected {forms}, but got {written}.")
    for text in texts:
        if not re.fullmatch(r"[0-9]{1,10}", text) or not 0 < int(text) < 2**31:
            raise FormatError(
                f"Expected integers from 1 to 2**31 - 1 in {forms}, but got {short_repr(text)} in {written}."
            )
    return tuple(map(int, texts))
