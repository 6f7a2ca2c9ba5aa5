"""Conversions of tensors to the format that the caller of `load` asks for, within the limit of memory."""

from __future__ import annotations

from math import prod

import numpy as np

from jsparse.convert.composed import to_plain
from jsparse.convert.dynamic_composed import plain_format_of
from jsparse.convert.slots import to_slots
from jsparse.errors import FileFormatError, NotYetSupportedError, PatternError, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.composed import ComposedFormat, Width
from jsparse.formats.format import digit_format
from jsparse.io.limit import Limit, most_bytes, most_positions
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.sparse_tensor import SparseTensor

PARENT = 40  # the bytes in use for each parent of the innermost level while its entries get their slots


def in_format(limit: Limit, tensor: SparseTensor, layout: Format | ComposedFormat, held: int = 0) -> SparseTensor:
    """Convert the tensor of a file. `held` bytes are allocated besides.

    Raises FileFormatError if that takes too many bytes, or if entries do not fit the format or the capacity.
    """
    if layout == tensor.format:
        return tensor
    if isinstance(tensor, ComposedTensor):
        # There may be many more rows than rows of blocks in the file.
        if len({isinstance(part.pattern, Pattern) for part in tensor.pattern.parts}) > 1:
            raise NotYetSupportedError(
                f"Expected parts that are all static or all dynamic, to convert {tensor!r}. Load it without format=."
            )
        taken = 0
        for part in tensor.pattern.parts:
            plain, count = plain_format_of(part.format.blocks), part.core.nse * prod(part.inner)
            taken += most_bytes(tensor.shape, plain, tensor.dtype.itemsize, count)
        limit.check(taken, "its entries in csr or csf, from which other formats are made, take")
        tensor = to_plain(tensor)
        if layout == tensor.format:
            return tensor
    rows = None if tensor.is_dynamic else lambda: list(np.asarray(tensor.to_coords()[0]))
    limit.check_tensor(tensor.shape, layout, tensor.dtype, tensor.nse, rows, held)
    path = shorten(str(limit.path), 200)
    try:
        if isinstance(layout, ComposedFormat):
            check_slots(limit, tensor, layout, held)
        return tensor.asformat(layout)
    except PatternError as error:
        if isinstance(layout, ComposedFormat):
            raise FileFormatError(
                f"Expected the entries of {path} to fit {shorten(layout)}. {shorten(str(error), 250)} Or load it "
                "without format=, then use A.asformat(format, nse=)."
            ) from error
        raise FileFormatError(  # gaps that the format stores are more than the capacity
            f"Expected the entries of {path} to fit {shorten(layout)} in the capacity nse={tensor.nse:,}, but they do "
            "not. Load it without format=, then use A.asformat(format, nse=)."
        ) from error


def check_slots(limit: Limit, tensor: SparseTensor, layout: ComposedFormat, held: int) -> None:
    """Raise FileFormatError if a plain tensor has too many slots in a composed format, free ones included.

    Raises PatternError for entries that do not fit the format.
    """
    rule, outer, pattern = layout.rule, layout.blocks.outer, tensor.pattern
    if rule is None:
        return
    sizes = layout.blocks.sizes(tensor.shape)
    parents = most_positions(sizes, digit_format(outer[:-1]), tensor.nse)[-1]
    limit.check(held + PARENT * parents * rule.column_parts, f"giving slots in {layout.name} takes")
    if isinstance(pattern, Pattern):
        count = to_slots(pattern, layout).place.nse
    else:
        width = rule.width if isinstance(rule, Width) else None  # all others need the argument nse=
        count = parents * (width or 0) * prod(sizes[len(outer) :])
    limit.check(held + count * tensor.dtype.itemsize, f"its slots in {layout.name} take")
