"""Selections by index tables that are traced, or from a dynamic pattern: einsums with index relations.

`A[rows]` is Σ_i S(n, i) · A(i, j) with S(n, rows[n]) = 1: the statement `C[n, j] = A[rows[n], j]`. So derivatives,
batches and overflow work as in einsums, and an index out of range contributes nothing. The index tables are operands of
a compiled program, which serves all tables of their shape.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from jsparse.errors import PatternError
from jsparse.formats import Format, Pattern, default_format
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.matches import joint_keys
from jsparse.ops.indexing.segment import longest_segment, select_segment
from jsparse.ops.indexing.selection import Selection
from jsparse.ops.relocation.formats import remaining_format
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, dense_levels


def select_by_tables(tensor: SparseTensor, selection: Selection, nse: int | None) -> SparseTensor:
    """The selected entries of a tensor, on a dynamic pattern with a capacity of `nse`.

    All dimensions without an index table are whole. Raises PatternError if `nse` is None and nothing bounds the number
    of entries.
    """
    format = remaining_format(tensor.format, selection.parts, selection.tables)
    arrays = {f"t{dim}": table if table.ndim else table[None] for dim, table in selection.tables.items()}
    values: object = tensor.values  # None for a pattern, which is selected as a tensor without values
    if format.is_dense and values is None:
        format = default_format(len(selection.shape))  # a pattern of dense levels alone cannot lack entries
    if format.is_dense:
        return dense_levels(_taken(tensor, arrays, text=_statement(selection), format="dense", nse=None), format)
    capacity = _bound(tensor, selection) if nse is None else nse
    segment = select_segment(tensor, selection, format, capacity)
    if segment is not None:
        return segment
    made: SparseTensor = _taken(tensor, arrays, text=_statement(selection), format=format, nse=capacity)
    return made


@partial(jax.jit, static_argnames=("text", "format", "nse"))
def _taken(
    tensor: SparseTensor, arrays: dict[str, Any], text: str, format: Format | str, nse: int | None
) -> SparseTensor | jax.Array:
    operand = tensor.pattern if tensor.values is None else tensor
    made = evaluate(text, A=operand, **arrays, out_format=format, nse=nse)
    if isinstance(made, SparseTensor) and not made.is_dynamic:  # it is known to be empty
        return made.dynamic(nse)
    return made


def _statement(selection: Selection) -> str:
    """The statement of a selection. An index table of rank 0 has one axis, which is summed."""
    axes = ", ".join(f"n{axis}" for axis in range(max(len(selection.table_shape), 1)))
    source = [f"t{d}[{axes}]" if d in selection.tables else f"i{d}" for d in range(len(selection.extents))]
    target = [f"n{n}" if kind == "table" else f"i{n}" for kind, n in selection.labels]
    return f"C[{', '.join(target)}] = A[{', '.join(source)}]"


def _bound(tensor: SparseTensor, selection: Selection) -> int:
    """The most slots that can be selected. Raises PatternError if nothing bounds them."""
    if not selection.strided:
        return selection.points
    if selection.points <= 1:
        return tensor.nse if tensor.is_dynamic else _longest(tensor, selection)
    if selection.is_known and tensor.is_dynamic and _is_distinct(selection):
        return tensor.nse
    why = "are traced" if not selection.is_known else "repeat coordinates of a tensor with a dynamic pattern"
    raise PatternError(
        f"Expected nse=, the capacity of the result, for a selection from {named(tensor)} by arrays of indices that "
        f"{why}, since its number of entries is known at run time only. Write A.take(indices, axis, nse=...)."
    )


def _is_distinct(selection: Selection) -> bool:
    """Whether known index tables select no point twice."""
    listed = selection.listed()
    keys = joint_keys(listed, listed, [selection.extents[dim] for dim in sorted(selection.tables)])[0]
    return len(np.unique(keys)) == len(keys)


def _longest(tensor: SparseTensor, selection: Selection) -> int:
    """The most slots of a static pattern that share a coordinate: the least such number over the indexed dimensions."""
    assert isinstance(tensor.pattern, Pattern)
    segment = longest_segment(tensor.pattern, selection)
    if segment is not None:
        return segment
    rows, nse = tensor.pattern.rows(), tensor.nse
    counts = [
        np.bincount(rows[dim]) if tensor.shape[dim] <= 4 * nse + 64 else np.unique(rows[dim], return_counts=True)[1]
        for dim in selection.tables
    ]
    return min(int(count.max(initial=0)) for count in counts)


def named(tensor: SparseTensor) -> str:
    """A tensor in a message; its pattern, if it stands for that alone."""
    return repr(tensor.pattern if tensor.values is None else tensor)


def check_capacity(made: SparseTensor, source: SparseTensor) -> None:
    """Raise PatternError if a known result has more entries than its capacity, unless its source overflowed already."""
    if not isinstance(made.pattern, DynamicPattern):
        return
    overflowed = made.pattern.overflowed
    if isinstance(overflowed, jax.core.Tracer) or not np.any(overflowed) or np.any(source.overflowed):
        return
    count = int(np.max(made.pattern.count))
    raise PatternError(
        f"Expected at most nse={made.nse:,} entries in a selection from {named(source)}, but there are {count:,}. Pass "
        f"nse={count} or more."
    )
