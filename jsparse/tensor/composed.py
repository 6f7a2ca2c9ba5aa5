"""Composed tensors: values in slots of their own, and plain patterns that say where the slots belong.

See `formats.composed` for the form. A tensor has its composition in the place of a pattern. A composition is not a
pattern: code that reads the levels of a pattern does not find any, and code that has no rule for compositions converts
the tensor first.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from hashlib import sha256
from itertools import accumulate
from math import prod
from operator import and_
from typing import Any, ClassVar, TypeVar

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import Owned, Owning
from jsparse.errors import PatternError, describe_type
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.composed import ComposedFormat, Decomposed, find_format
from jsparse.formats.format import digit_format, outer_format, permutation
from jsparse.formats.serialized import format_values, pattern_bytes, read_format, read_pattern, read_type, type_bytes
from jsparse.formats.set_operators import SetOperators
from jsparse.formats.validate import sizes_of
from jsparse.tensor.dynamic_pattern import DigestKey, DynamicPattern
from jsparse.tensor.pickled_arrays import pack_leaf, unpack_leaf
from jsparse.tensor.pytree import add_to_flax, register_for_export
from jsparse.tensor.sparse_tensor import SparseTensor, convert_values

A = TypeVar("A", np.ndarray, jax.Array)


@dataclass(frozen=True, eq=False)
class Part:
    """Entries of a composition that share a format.

    Attributes:
        format: the digits that are stored, and the rule of slots.
        pattern: the outer pattern. Its dimension n has the digits of level n. If slots are not its entries in their
            order, one more level stores the number of each entry's slot. Only the type of a dynamic pattern is left in
            the static metadata of a pytree.
        inner: the sizes of a slot's axes, which are the dense levels at the end.
        slots: the number of slots.
    """

    format: ComposedFormat
    pattern: Pattern | DynamicPattern | PatternType
    inner: tuple[int, ...]
    slots: int

    @staticmethod
    def of(
        format: ComposedFormat, pattern: Pattern | DynamicPattern | PatternType, slots: int, shape: Sequence[int]
    ) -> Part:
        """Make a part of a tensor of this shape. Raises PatternError for a pattern of another format."""
        sizes, outer, stored = format.blocks.sizes(shape), len(format.blocks.outer), outer_format(format)
        expected = sizes[:outer] if format.rule is None else (*sizes[:outer], slots)
        is_whole = format.rule is not None or slots == pattern.nse
        if tuple(pattern.shape) != expected or pattern.format != stored or not is_whole:
            raise PatternError(
                f"Expected an outer pattern of shape {expected} in {stored.notation} with {slots:,} slots for "
                f"{format.name}, but got {pattern!r}."
            )
        return Part(format, pattern, tuple(sizes[outer:]), slots)

    @property
    def nse(self) -> int:
        """The number of values in all slots."""
        return self.slots * prod(self.inner)

    @property
    def has_slots(self) -> bool:
        """Whether the outer pattern stores the numbers of slots."""
        return len(self.pattern.shape) > len(self.format.blocks.outer)

    @cached_property
    def core(self) -> Pattern | DynamicPattern:
        """The outer pattern without the numbers of slots."""
        outer = self.pattern
        assert not isinstance(outer, PatternType)
        if not self.has_slots:
            return outer
        format, shape, arrays = digit_format(self.format.blocks.outer), outer.shape[:-1], outer.arrays[:-1]
        if isinstance(outer, Pattern):
            return Pattern._of_valid(shape, format, arrays)
        return DynamicPattern(PatternType(shape, format, outer.nse), arrays)

    @cached_property
    def digest(self) -> str:
        """A digest of the metadata and of a static pattern's index arrays."""
        text = f"{self.format.blocks} {self.format.rule} {self.inner} {self.slots} {self.pattern.digest}"
        return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Owning, SetOperators):
    """The coordinates to which the values of a composed tensor belong. The values of its parts follow one another.

    Static compositions are compared and hashed by content, dynamic ones by identity. It is a pytree, whose leaves are
    the index arrays of dynamic patterns. Set operators and indexing act on the pattern in csr.
    """

    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    lead: ClassVar[tuple[()]] = ()
    padding: ClassVar[None] = None  # the values of padding are between other values (`without_padding`)

    @staticmethod
    def of_blocks(outer: Pattern | DynamicPattern, rows: int, columns: int) -> Composition:
        """The matrix in bsr with blocks at the entries of a matrix in csr."""
        format, shape = find_format("bsr", f"({rows}, {columns})", 2), (outer.shape[0] * rows, outer.shape[1] * columns)
        assert format is not None
        return Composition(shape, (Part.of(format, outer, outer.nse, shape),))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @cached_property
    def nse(self) -> int:
        """The number of values, those in padding included."""
        return sum(part.nse for part in self.parts)

    @property
    def nnz(self) -> jax.Array | int:
        """The number of values in slots that have an entry, the fill of blocks included, padding not."""
        return sum(_entry_count(part, self.shape) for part in self.parts)

    @property
    def format(self) -> ComposedFormat | Decomposed:
        """The format of the only part, or the formats of several."""
        formats = [part.format for part in self.parts]
        return formats[0] if len(formats) == 1 else Decomposed(tuple(formats))

    @cached_property
    def on_levels(self) -> Pattern | DynamicPattern | None:
        """The pattern on which the values are stored in their order: dimension n has the digits of level n.

        None for several parts, and where the outer pattern has the numbers of slots.
        """
        part, *others = self.parts
        return None if others or part.has_slots else part.core.extended(part.inner)

    @property
    def as_blocks(self) -> Pattern | DynamicPattern | None:
        """The pattern of whole blocks, such as (n / b, m / c, b, c), on which the values are stored in their order.

        None unless this composition follows from that pattern: its levels are the leading digits of all dimensions,
        then the other digits, and blocks fill the shape.
        """
        blocks = self.parts[0].format.blocks
        is_like = blocks.are_blocks(range(self.ndim)) and not blocks.is_ragged(self.shape)
        return self.on_levels if is_like else None

    @property
    def is_dynamic(self) -> bool:
        """Whether the pattern of a part is dynamic."""
        return any(not isinstance(part.pattern, Pattern) for part in self.parts)

    @cached_property
    def digest(self) -> str:
        """A digest of the shape and of all parts, which does not depend on the process."""
        return sha256(f"{self.shape} {' '.join(part.digest for part in self.parts)}".encode()).hexdigest()

    def list_owned(self) -> tuple[Owned, ...]:
        """The static patterns, as memos ask for them."""
        return tuple(part.pattern for part in self.parts if isinstance(part.pattern, Pattern))

    def transposed(self, axes: Sequence[int]) -> Composition:
        """The composition of the logically transposed tensor, over the same arrays. Its dimension d is `axes[d]`."""
        axes = permutation(axes, self.ndim)
        parts = (replace(part, format=part.format.transposed(axes)) for part in self.parts)
        return Composition(tuple(self.shape[axis] for axis in axes), tuple(parts))

    def split(self, values: A) -> list[A]:
        """Split the values into one array for each part."""
        if len(self.parts) == 1:
            return [values]
        ends = accumulate(part.nse for part in self.parts)
        return [values[end - part.nse : end] for part, end in zip(self.parts, ends, strict=True)]

    def ordinary(self) -> Composition:
        """This composition without the marks of a gradient."""
        patterns, static = _flatten(self)
        return static.with_patterns(map(DynamicPattern.ordinary, patterns))

    def common(self, operands: Iterable[Any]) -> Composition:
        """This composition, for a result of these operands."""
        return self

    def of_gradient(self) -> Composition:
        """Mark the dynamic patterns as patterns of a gradient (see `DynamicPattern.of_gradient`)."""
        patterns, static = _flatten(self)
        return static.with_patterns(map(DynamicPattern.of_gradient, patterns))

    def with_patterns(self, patterns: Iterable[DynamicPattern]) -> Composition:
        """Put dynamic patterns in the places of their types."""
        left = list(patterns)
        if not left:
            return self
        return _with_outer(self, [left.pop(0) if isinstance(p.pattern, PatternType) else p.pattern for p in self.parts])

    def static_part(self) -> Composition:
        """The composition with the types of dynamic patterns in their places, as pytrees hold it."""
        return _flatten(self)[1]

    def arrays(self) -> list[Array]:
        """The index arrays of all parts."""
        patterns = (part.pattern for part in self.parts)
        return [array for p in patterns if isinstance(p, Pattern | DynamicPattern) for array in p.arrays]

    def operands(self) -> list[Any]:
        """The index arrays of dynamic patterns, as `DynamicPattern.operands` has them."""
        return [array for pattern in dynamic_patterns(self) for array in pattern.operands()]

    def validate(self) -> None:
        """Check the index arrays of dynamic patterns, as `DynamicPattern.validate` does."""
        for pattern in dynamic_patterns(self):
            pattern.validate()

    def nbytes(self) -> int:
        """The size of the index arrays in bytes."""
        return sum(int(array.nbytes) for array in self.arrays())

    def _is_known(self) -> bool:
        return not any(isinstance(part.pattern, DynamicPattern) for part in self.parts)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Composition):
            return self is other
        return self._is_known() and other._is_known() and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest) if self._is_known() else id(self)

    def __repr__(self) -> str:
        shape = "\N{MULTIPLICATION SIGN}".join(map(str, self.shape)) or "()"
        return f"Composition({self.format.name}, {shape}, nse={self.nse:,})"


def _flatten(x: Composition) -> tuple[tuple[DynamicPattern, ...], Composition]:
    """Split a composition into its dynamic patterns, and the composition with their types in their places."""
    dynamic = tuple(part.pattern for part in x.parts if isinstance(part.pattern, DynamicPattern))
    if not dynamic:
        return (), x
    types = [p.type if isinstance(p := part.pattern, DynamicPattern) else p for part in x.parts]
    return dynamic, _with_outer(x, types)


def _with_outer(x: Composition, outer: Sequence[Pattern | DynamicPattern | PatternType]) -> Composition:
    parts = (replace(part, pattern=pattern) for part, pattern in zip(x.parts, outer, strict=True))
    return Composition(x.shape, tuple(parts))


jax.tree_util.register_pytree_node(Composition, _flatten, Composition.with_patterns)


def dynamic_patterns(pattern: Pattern | DynamicPattern | Composition) -> tuple[DynamicPattern, ...]:
    """The dynamic pattern, or the dynamic patterns of the parts of a composition; () if there are none."""
    if isinstance(pattern, Composition):
        return _flatten(pattern)[0]
    return (pattern,) if isinstance(pattern, DynamicPattern) else ()


def join_values(values: Sequence[jax.Array]) -> jax.Array:
    """Put the values of parts one after another, as `Composition.split` takes them."""
    return values[0] if len(values) == 1 else jnp.concatenate(values)


class ComposedTensor(SparseTensor):
    """A sparse tensor whose `values` are in slots of their own, on a composition in place of a pattern.

        >>> A = jsparse.asarray(np.eye(8, dtype=np.float32), format="bsr(2, 2)")

    The values are one vector of shape (nse,): all slots of all parts, in the order of the composition. It is a pytree
    as any SparseTensor is.

    Raises ShapeError if `values` is not an array of shape (nse,), DTypeError if it holds no numbers, PatternError if
    `pattern` is not a composition.
    """

    __slots__ = ()
    pattern: Composition  # type: ignore[assignment]

    def __init__(self, values: ArrayLike, pattern: Composition) -> None:
        if not isinstance(pattern, Composition):
            raise PatternError(f"Expected the pattern of a composed tensor, but got {describe_type(pattern)}.")
        self._set(convert_values(values, pattern.nse, pattern), pattern)

    @classmethod
    def _wrap(cls, values: Array, pattern: Composition) -> ComposedTensor:  # type: ignore[override]
        tensor = object.__new__(cls)
        tensor._set(values, pattern)
        return tensor

    def _set(self, values: Array, pattern: Composition) -> None:  # type: ignore[override]
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "pattern", pattern)
        owned = pattern.list_owned() if isinstance(pattern, Composition) else ()
        object.__setattr__(self, "_owner", tuple(x.owner() for x in owned))

    @property
    def is_dynamic(self) -> bool:
        return self.pattern.is_dynamic

    @property
    def nnz(self) -> jax.Array | int:
        """The number of values in slots that have an entry, the fill of blocks included, padding not.

        An int for static patterns, else an integer array.
        """
        return self.pattern.nnz

    @property
    def parts(self) -> tuple[SparseTensor, ...]:
        """The tensors whose sum this tensor is, on slices of the values (see `jsparse.decompose`).

            >>> A = jsparse.asarray(np.eye(8, dtype=np.float32), format="bsr(2, 2)")
            >>> [part.format.name for part in A.parts]
            ['bsr(2, 2)']

        A static part in a plain format is a plain tensor.
        """
        pairs = zip(self.pattern.split(self.values), self.pattern.parts, strict=True)
        return tuple(_of_part(values, part, self.shape) for values, part in pairs)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (pack_leaf(self.values), self.pattern)

    def __repr__(self) -> str:
        dtype = getattr(self.values, "dtype", type(self.values).__name__)
        format = self.pattern.format.name + (", dynamic" if self.is_dynamic else "")
        return f"SparseTensor(shape={self.shape}, dtype={dtype}, nse={self.nse:,}, format={format})"


def _of_part(values: Array, part: Part, shape: tuple[int, ...]) -> SparseTensor:
    blocks = part.format.blocks
    if not blocks.is_plain or part.has_slots or not isinstance(part.pattern, Pattern):
        return ComposedTensor._wrap(values, Composition(shape, (part,)))
    return SparseTensor._wrap(values, Pattern._of_valid(shape, Format(blocks.plain_levels), part.pattern.arrays))


def _restored(values: Any, pattern: Composition) -> ComposedTensor:
    return ComposedTensor(unpack_leaf(values), pattern)


def _entry_count(part: Part, shape: tuple[int, ...]) -> jax.Array | int:
    """The number of values of a part that belong to an entry and lie within the shape."""
    if not isinstance(part.pattern, Pattern):
        return part.pattern.count * prod(part.inner) if isinstance(part.pattern, DynamicPattern) else 0
    if not part.format.blocks.is_ragged(shape):
        return part.pattern.nse * prod(part.inner)
    return int(np.count_nonzero(within(part.format, part.pattern.rows(), part.inner, shape)))


def within(
    format: ComposedFormat, rows: Sequence[np.ndarray], inner: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """Whether each value of each entry lies within the shape: an array of bools (entries, *inner).

    `rows` are the digits of the entries of the outer pattern, one array for each of its levels.
    """
    of_entries = [row.reshape(-1, *[1] * len(inner)) for row in rows[: len(format.blocks.outer)]]
    in_blocks = [axis[None].astype(rows[0].dtype) for axis in np.ix_(*map(np.arange, inner))]
    coordinates = format.blocks.join([*of_entries, *in_blocks], shape)
    return reduce(and_, [row < size for row, size in zip(coordinates, shape, strict=True)])


def _flatten_tensor(tensor: ComposedTensor) -> tuple[tuple[Any, ...], Composition]:
    patterns, static = _flatten(tensor.pattern)
    return (tensor.values, *patterns), static


def _flatten_tensor_with_keys(tensor: ComposedTensor) -> tuple[tuple[tuple[Any, Any], ...], Composition]:
    (values, *patterns), static = _flatten_tensor(tensor)
    keyed = [(jax.tree_util.SequenceKey(n), pattern) for n, pattern in enumerate(patterns)]
    return ((DigestKey.of("values", static.digest), values), *keyed), static


def _unflatten_tensor(static: Composition, children: Iterable[Any]) -> ComposedTensor:
    values, *patterns = children
    return ComposedTensor._wrap(values, static.with_patterns(patterns))


jax.tree_util.register_pytree_with_keys(ComposedTensor, _flatten_tensor_with_keys, _unflatten_tensor, _flatten_tensor)
add_to_flax(ComposedTensor)


def _bytes(static: Composition) -> bytes:
    """Convert a composition, with the types of dynamic patterns, to bytes."""
    parts = []
    for part in static.parts:
        pattern = part.pattern
        is_static = isinstance(pattern, Pattern)
        data = pattern_bytes(pattern) if isinstance(pattern, Pattern) else type_bytes(pattern)  # type: ignore[arg-type]
        values = {"static": is_static, "pattern": b64encode(data).decode(), "slots": part.slots}
        parts.append({**format_values(part.format), **values})
    return json.dumps({"shape": static.shape, "parts": parts}).encode()


def _read(data: bytes) -> Composition:
    """Read a composition from bytes that `_bytes` wrote. Raises PatternError if they are damaged."""
    header = json.loads(data)
    shape, parts = sizes_of(header["shape"]), list[Part]()
    for values in header["parts"]:
        read = read_pattern if values["static"] else read_type
        pattern = read(b64decode(values["pattern"]))
        parts.append(Part.of(read_format(values, len(shape)), pattern, int(values["slots"]), shape))
    return Composition(shape, tuple(parts))


register_for_export(ComposedTensor, _bytes, _read, _unflatten_tensor)
register_for_export(Composition, _bytes, _read, Composition.with_patterns)
