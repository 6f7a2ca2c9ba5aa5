"""Formats: which levels store a tensor, and in which order."""

import functools
import operator
import re
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any, Literal, TypeAlias, overload

from jsparse.base.dataclass import dataclass
from jsparse.errors import FormatError, NotYetSupportedError, describe_type, short_repr, shorten
from jsparse.formats.composed import FORMS, ComposedFormat, find_format
from jsparse.formats.digits import Blocks, DigitLevel
from jsparse.formats.levels import DENSE, SINGLETON, Level, check_dimensions, dimension_name
from jsparse.formats.parse import NAMES, default_levels, levels_of_name, read_levels, short_name

PlainName: TypeAlias = Literal["csr", "csc", "coo", "dcsr", "dcsc", "csf", "dense"]
"""The names of plain formats."""

AUTO = "auto"  # stands for the format that is chosen by the entries of a tensor
_KNOWN = f"{', '.join((*NAMES, *FORMS))}, or a notation such as '(i, j) -> (j : dense, i : compressed)'"


_once = functools.lru_cache(maxsize=1024)  # one result for all equal formats, because eager calls make new ones


@dataclass(frozen=True, slots=True, repr=False)
class Format:
    """The levels of a tensor in storage order. Each dimension is stored by exactly one of them.

    Formats made of levels are from Chou et al., "Format abstraction for sparse tensor algebra compilers" (2018).

        >>> csc = jsparse.Format.of("csc", 2)
        >>> csc.notation
        '(i, j) -> (j : dense, i : compressed)'
        >>> csc == jsparse.Format.of("(i, j) -> (j : dense, i : compressed)", 2)
        True

    A Format may have a singleton below a dense level: it then stores one entry at every coordinate of the dense level.
    Such formats are for tables of integers, which have the entry table[p] at each coordinate p. They are not for
    tensors in general, which may have no entry at some coordinates (see `check_storable`).

    Raises FormatError if a dimension is missing or stored twice, if there are more than `MOST_DIMENSIONS`, or if a
    singleton is outermost.
    """

    levels: tuple[Level, ...]
    _hash: int | None = field(default=None, init=False, compare=False)  # made once: eager calls ask for it often

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _intern_levels(tuple(self.levels)))
        check_dimensions(self.ndim)
        order = [level.dim for level in self.levels]
        if sorted(order) != list(range(self.ndim)):
            raise FormatError(
                f"Expected {self.ndim} levels to store each of the dimensions 0 to {self.ndim - 1} exactly once, "
                f"but they store {shorten(', '.join(map(str, order)))}."
            )
        if self.levels and self.levels[0].kind.is_branchless:
            raise FormatError(_orphan(None, self.levels[0]))

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(self.levels))
        return self._hash  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        return Format, (self.levels,)  # without the hash, which another process computes differently

    def __setstate__(self, state: Sequence[Any]) -> None:
        """Restore a format from the pickle of an earlier version of jsparse, which is the list of its fields."""
        object.__setattr__(self, "levels", state[0])
        object.__setattr__(self, "_hash", None)

    def check_storable(self) -> None:
        """Raise FormatError if a singleton is below a level with gaps: such a format cannot store every set of entries.

        >>> jsparse.Format.of("coo", 3).check_storable()
        """
        for parent, child in pairwise(self.levels):
            if child.kind.is_branchless and parent.kind.has_gaps:
                raise FormatError(_orphan(parent, child))

    @overload
    @staticmethod
    def of(spec: "Format | PlainName", ndim: int) -> "Format": ...
    @overload
    @staticmethod
    def of(spec: "Format | ComposedFormat | str", ndim: int) -> "Format | ComposedFormat": ...
    @staticmethod
    def of(spec: "Format | ComposedFormat | str", ndim: int) -> "Format | ComposedFormat":
        """The format that `spec` (a format, a name or a notation) denotes for tensors of `ndim` dimensions.

            >>> jsparse.Format.of("csr", 2).notation
            '(i, j) -> (i : dense, j : compressed)'
            >>> jsparse.Format.of("bsr(4, 4)", 2)
            Format.of('bsr(4, 4)', 2)

        Returns a ComposedFormat for names of composed formats and for notations with `floordiv` and `mod`.

        Raises FormatError for an unknown name or a format of another rank, SubscriptError for text that does not follow
        the notation's grammar, and NotYetSupportedError for formats that this version does not support yet.
        """
        if isinstance(spec, Format):
            return _of_rank(spec, ndim)
        if isinstance(spec, str):
            return _of_text(spec, ndim)
        if not isinstance(spec, ComposedFormat):
            raise FormatError(f"Expected a format to be {_KNOWN}, or a Format, but got {describe_type(spec)}.")
        return _of_rank(spec, ndim)

    @staticmethod
    def plain(spec: "Format | ComposedFormat | str", ndim: int) -> "Format":
        """The format that `spec` denotes, as `of` does, for operations that do not make composed tensors.

            >>> jsparse.Format.plain("csr", 2) == jsparse.Format.of("csr", 2)
            True

        Raises NotYetSupportedError for a composed format, and the errors of `of`.
        """
        format = Format.of(spec, ndim)
        if isinstance(format, ComposedFormat):
            raise NotYetSupportedError(
                f"The format {format.name} is not supported here yet. Use one of {_KNOWN}, and convert the tensor: "
                f"A.asformat({format.name!r})."
            )
        return format

    @staticmethod
    def dense(ndim: int, order: Sequence[int] | None = None) -> "Format":
        """The format whose levels are all dense, with the dimensions in `order` (by default C order).

        >>> jsparse.Format.dense(2, order=(1, 0)).notation
        '(i, j) -> (j : dense, i : dense)'

        Raises FormatError if `order` is not a permutation.
        """
        return Format(tuple(Level(DENSE, dim) for dim in (range(ndim) if order is None else order)))

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> jsparse.Format.of("csr", 2).ndim
        2
        """
        return len(self.levels)

    @property
    @_once
    def order(self) -> tuple[int, ...]:
        """The dimensions in storage order.

        >>> jsparse.Format.of("csc", 2).order
        (1, 0)
        """
        return tuple(level.dim for level in self.levels)

    @property
    def is_dense(self) -> bool:
        """Whether every level is dense.

        >>> jsparse.Format.of("csr", 2).is_dense
        False
        """
        return all(level.kind.is_full for level in self.levels)

    @property
    def full_dims(self) -> frozenset[int]:
        """The dimensions in which every coordinate has a position.

        >>> sorted(jsparse.Format.of("csr", 2).full_dims)
        [0]
        """
        return frozenset(level.dim for level in self.levels if level.kind.is_full)

    @property
    def trailing_dims(self) -> tuple[int, ...]:
        """The dimensions of the dense levels at the end, in storage order.

        >>> jsparse.Format.of("csr", 2).with_dense(1).trailing_dims
        (2,)
        """
        return self.order[self.ndim - self.trailing_dense :]

    @property
    @_once
    def trailing_dense(self) -> int:
        """The number of dense levels at the end.

        >>> jsparse.Format.of("csr", 2).with_dense(2).trailing_dense
        2
        """
        sparse = [index for index, level in enumerate(self.levels) if not level.kind.is_full]
        return self.ndim - 1 - sparse[-1] if sparse else self.ndim

    @property
    def appends(self) -> bool:
        """Whether an assembly can append entries one after the other, in storage order.

        >>> jsparse.Format.of("csr", 2).appends
        True
        >>> jsparse.Format.of("(i, j) -> (i : dense, j : range)", 2).appends
        False
        """
        return all(level.kind.appends for level in self.levels)

    @property
    @_once
    def arrays(self) -> tuple[tuple[int, str], ...]:
        """A pair (level, role) for each index array, outermost level first. Roles: "pointers", "coordinates", "starts".

        >>> jsparse.Format.of("csr", 2).arrays
        ((1, 'pointers'), (1, 'coordinates'))
        """
        return tuple((index, role) for index, level in enumerate(self.levels) for role in level.kind.arrays)

    @property
    @_once
    def chains(self) -> tuple[range, ...]:
        """The chains of levels that share positions: each is a level and the singletons below it.

        >>> jsparse.Format.of("coo", 3).chains
        (range(0, 3),)
        """
        starts = [index for index, level in enumerate(self.levels) if not level.kind.is_branchless]
        return tuple(map(range, starts, [*starts[1:], self.ndim]))

    @property
    @_once
    def notation(self) -> str:
        """The format in MLIR's notation: "(i, j) -> (j : dense, i : compressed)".

        >>> jsparse.Format.of("dcsr", 2).notation
        '(i, j) -> (i : compressed, j : compressed)'
        """
        names = [dimension_name(dim, self.ndim) for dim in range(self.ndim)]
        levels = ", ".join(f"{names[level.dim]} : {level}" for level in self.levels)
        return f"({', '.join(names)}) -> ({levels})"

    @property
    def name(self) -> str:
        """The short name if the format is one of csr, csc, coo, dcsr, dcsc, csf; otherwise its notation.

        >>> jsparse.Format.of("(i, j) -> (i : dense, j : compressed)", 2).name
        'csr'
        """
        return _short_name(self) or self.notation

    def repeats(self, level: int) -> bool:
        """Whether coordinates may repeat in `level`: the level is nonunique, and a singleton is below it.

        >>> [jsparse.Format.of("coo", 2).repeats(level) for level in (0, 1)]
        [True, False]
        """
        followed = level + 1 < self.ndim and self.levels[level + 1].kind.is_branchless
        return followed and not self.levels[level].unique

    def transposed(self, axes: Sequence[int]) -> "Format":
        """The format of the transposed tensor, over the same arrays. Its dimension d is `axes[d]` in this format.

        >>> jsparse.Format.of("csr", 2).transposed((1, 0)).name
        'csc'

        Raises FormatError if `axes` is not a permutation.
        """
        return _transposed(self, permutation(axes, self.ndim))

    def restricted(self, dims: Sequence[int]) -> "Format":
        """The format of the levels that store `dims`. These dimensions are renumbered from 0, in ascending order.

        >>> jsparse.Format.of("csc", 2).with_dense(1).restricted((1, 2)).notation
        '(i, j) -> (i : dense, j : dense)'

        Raises FormatError if the outermost level that is kept is a singleton.
        """
        kept = sorted(dims)
        levels = (level for level in self.levels if level.dim in kept)
        return Format(tuple(Level(level.kind, kept.index(level.dim), level.unique) for level in levels))

    def with_dense(self, dim_count: int) -> "Format":
        """This format with a dense level for each of `dim_count` added trailing dimensions.

        >>> jsparse.Format.of("csr", 2).with_dense(1).notation
        '(i, j, k) -> (i : dense, j : compressed, k : dense)'

        Raises FormatError if there are too many dimensions.
        """
        added = range(self.ndim, self.ndim + dim_count)
        return Format(self.levels + tuple(Level(DENSE, dim) for dim in added))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Format.of({self.name!r}, {self.ndim})"


@functools.lru_cache(maxsize=128)
def default_format(ndim: int) -> Format:
    """The default format of a tensor of `ndim` dimensions: csr for a matrix, else all levels compressed.

    Raises FormatError if there are too many dimensions.
    """
    return Format(default_levels(ndim))


def is_auto(spec: object) -> bool:
    """Whether an argument asks for the format that is chosen by the entries of a tensor."""
    return isinstance(spec, str) and spec == AUTO


@functools.lru_cache(maxsize=256)
def _of_text(text: str, ndim: int) -> Format | ComposedFormat:
    name = re.fullmatch(r"\s*([A-Za-z_][\w-]*)\s*(\([^()]*\))?\s*", text)
    if name is not None:
        return _by_name(name.group(1), name.group(2), ndim)
    blocks = Blocks(read_levels(text))
    return _of_rank(Format(blocks.plain_levels) if blocks.is_plain else ComposedFormat(blocks), ndim)


def _by_name(name: str, arguments: str | None, ndim: int) -> Format | ComposedFormat:
    if name == AUTO:
        raise FormatError(
            "Expected a format, but got auto, which looks at the entries of a tensor to choose one. Write "
            "A.asformat('auto'), "
            "jsparse.asarray(x, format='auto'), or out_format='auto' in einsum and evaluate."
        )
    composed = find_format(name, arguments, ndim)
    if composed is not None:
        return composed
    if name != "dense" and name not in NAMES:
        raise FormatError(f"Expected a format to be one of {_KNOWN}, but got {short_repr(name)}.")
    if arguments is not None:
        raise FormatError(f"Expected the format {name} without arguments, but got {name}{shorten(arguments)}.")
    return Format(levels_of_name(name, ndim))


def _of_rank(format: Format | ComposedFormat, ndim: int) -> Format | ComposedFormat:
    if format.ndim != ndim:
        raise FormatError(
            f"Expected a format with {ndim} dimensions, like the tensor, but {shorten(format)} has {format.ndim}."
        )
    if isinstance(format, ComposedFormat):
        digit_format(format.blocks.levels).check_storable()
    else:
        format.check_storable()
    return format


def digit_format(levels: Sequence[DigitLevel | Level]) -> Format:
    """The plain format of the space of levels, whose dimension n has the digits, or coordinates, of level n."""
    return Format(tuple(Level(level.kind, n, level.unique) for n, level in enumerate(levels)))


def outer_format(format: ComposedFormat) -> Format:
    """The format of outer patterns: the levels above blocks and, under a rule, the number of each entry's slot."""
    levels = digit_format(format.blocks.outer).levels
    return Format(levels if format.rule is None else (*levels, Level(SINGLETON, len(levels))))


def blocks_of(format: Format | ComposedFormat) -> Blocks:
    """The levels of a format with the digits that they store. In a plain format every digit is a whole coordinate."""
    return format.blocks if isinstance(format, ComposedFormat) else Blocks.of_levels(format.levels)


def permutation(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Convert `axes` to a tuple of non-negative ints. Raises FormatError if they do not permute `ndim` dimensions."""
    try:
        dims = tuple(operator.index(axis) for axis in axes)
    except TypeError as error:
        raise FormatError(
            f"Expected a permutation of the dimensions 0 to {ndim - 1}, but got {short_repr(axes)}."
        ) from error
    wrapped = tuple(axis + ndim if -ndim <= axis < 0 else axis for axis in dims)
    if sorted(wrapped) != list(range(ndim)):
        raise FormatError(f"Expected a permutation of the dimensions 0 to {ndim - 1}, but got {shorten(dims)}.")
    return wrapped


@functools.lru_cache(maxsize=1024)
def _intern_levels(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Return the first tuple that equals this one, so that equal formats are compared by identity."""
    return levels


@functools.lru_cache(maxsize=1024)
def _transposed(format: Format, axes: tuple[int, ...]) -> Format:
    new_dim = {old: new for new, old in enumerate(axes)}
    return Format(tuple(Level(level.kind, new_dim[level.dim], level.unique) for level in format.levels))


@functools.lru_cache(maxsize=1024)
def _short_name(format: Format) -> str | None:
    return short_name(format.levels)


def _orphan(parent: Level | None, child: Level) -> str:
    above = "nothing is above it" if parent is None else f"dimension {parent.dim} above it is {parent}"
    return (
        f"Expected a compressed or singleton level above the singleton level of dimension {child.dim}, but {above}. "
        "A singleton shares the positions of stored coordinates. Make it compressed."
    )
