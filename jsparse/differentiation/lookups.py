"""Rules of the primitives that look up rows of a table, and of the primitives that act on each row separately.

A rule does not know the place of a row, its index in `table.rows`. It asks the `RowReader` of the table. Each of the
two passes has its own reader, so the same rules serve both passes. The first pass records which rows of the complete
table are read. The second pass evaluates the function on these rows only, and there a row's place is its index among
the recorded rows. Places increase with row indices, so sorted and distinct coordinates remain sorted and distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Never

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import same_varying
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.differentiation.table import RowReader, Table, Value
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.dynamic import pad
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.elementwise_function import ELEMENTWISE
from jsparse.primitives.rows import rows_at
from jsparse.primitives.spec import PatternAccess, Spec
from jsparse.primitives.sums import Sum, in_own_shapes
from jsparse.sparsification.equation import Equation


def whole(equation: Equation, *_: object) -> Never:
    """Raise NotYetSupportedError for an operation that reads a table in another way than by looking up rows."""
    raise equation.not_supported(
        "reads a table whose gradient should have rows, but does not look up rows",
        "Look up rows with table[ids], or leave the table out of rows=, so that its gradient is an array.",
    )


def gather_rows(equation: Equation, reader: RowReader, table: Value, indices: Value) -> jax.Array:
    """Take rows at an array of indices: complete rows, or some elements of each row."""
    params = equation.params
    numbers, modes = params["dimension_numbers"], jax.lax.GatherScatterMode
    is_lookup = 0 in numbers.start_index_map and params["slice_sizes"][0] == 1
    if not isinstance(table, Table) or isinstance(indices, Table) or not is_lookup:
        whole(equation)
    column, is_clipped = numbers.start_index_map.index(0), params["mode"] in (modes.CLIP, modes.PROMISE_IN_BOUNDS)
    ids = jnp.asarray(indices)[..., column]
    places = reader.places(table, ids, is_clipped=is_clipped)
    starts = [places if n == column else indices[..., n] for n in range(indices.shape[-1])]
    windows = _windows(equation, table.rows, starts, is_clipped).astype(table.dtype)
    if params["mode"] == modes.PROMISE_IN_BOUNDS:  # JAX reads the nearest row where that is broken, and drops its slope
        is_kept = jnp.expand_dims((ids >= 0) & (ids < table.size), numbers.offset_dims)
        windows = jnp.where(is_kept, windows, jax.lax.stop_gradient(windows))
    return windows


def _windows(equation: Equation, array: jax.Array, starts: Sequence[jax.Array], is_clipped: bool) -> jax.Array:
    """Gather windows of an array as the equation says, at `starts`, one array for each dimension of its start indices.

    The derivative adds up the cotangents of a repeated row as accurately as all sums of this package. XLA's scatter,
    which is the derivative of its gather, adds them one after the other.
    """
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    of_batch = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    located = sorted((*numbers.start_index_map, *of_batch))
    others = [dim for dim in range(array.ndim) if dim not in located]
    batch, windows = starts[0].shape, [sizes[dim] for dim in located]
    inside, columns = jnp.ones(batch, bool), list[jax.Array]()
    for n, dim in enumerate(located):
        if dim in of_batch:
            start = jax.lax.broadcasted_iota(jnp.int32, batch, of_batch[dim])
        else:
            start, last = starts[numbers.start_index_map.index(dim)], array.shape[dim] - sizes[dim]
            start = jnp.clip(start, 0, last) if is_clipped else start
            inside &= (start >= 0) & (start <= last)
        within = jax.lax.broadcasted_iota(start.dtype, (*batch, *windows), len(batch) + n)
        columns.append(jnp.expand_dims(start, range(len(batch), len(batch) + len(windows))) + within)
    kept = jnp.broadcast_to(jnp.expand_dims(inside, range(len(batch), len(batch) + len(windows))), (*batch, *windows))
    flat = [jnp.where(kept, column, -1).reshape(-1) for column in columns]
    first = jax.lax.slice(array, [0] * array.ndim, [n if d in located else sizes[d] for d, n in enumerate(array.shape)])
    windowed = rows_at(jnp.transpose(first, (*located, *others)), flat)
    windowed = windowed.reshape(*batch, *windows, *(sizes[dim] for dim in others))
    if not is_clipped:
        kept = jnp.expand_dims(inside, range(len(batch), windowed.ndim))
        windowed = jnp.where(kept, windowed, equation.fill_value(array.dtype))
    # `windowed` has the axes of the batch, then one for each of `dims`. A gather orders them in another way.
    dims, outer = [*located, *others], len(batch)
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    of_windows = iter(outer + dims.index(dim) for dim in range(len(dims)) if dim not in dropped)
    of_batch_axes, rank = iter(range(outer)), windowed.ndim - len(dropped)
    order = [next(of_windows) if axis in numbers.offset_dims else next(of_batch_axes) for axis in range(rank)]
    ones = [outer + dims.index(dim) for dim in dropped]
    return jnp.squeeze(jnp.transpose(windowed, (*order, *ones)), tuple(range(rank, windowed.ndim)))


def take_row(equation: Equation, reader: RowReader, table: Value, *starts: Value) -> jax.Array:
    """Take one row, or a part of one row. The index is clipped to the table."""
    first, *others = starts
    if not isinstance(table, Table) or isinstance(first, Table) or equation.params["slice_sizes"][0] != 1:
        whole(equation)
    place = reader.places(table, first, is_clipped=True)
    of_columns = [jnp.asarray(start, place.dtype) for start in others]
    return equation.bind(table.rows, place, *of_columns).astype(table.dtype)


def slice_rows(equation: Equation, reader: RowReader, table: Table) -> Table | jax.Array:
    """Take a range of rows, or a range of the elements of each row."""
    params, count = equation.params, len(table.rows)
    first, *starts = params["start_indices"]
    limit, *limits = params["limit_indices"]
    step, *steps = params["strides"] or [1] * table.rows.ndim
    parts = jax.lax.slice(table.rows, (0, *starts), (count, *limits), (1, *steps))
    numbers = range(first, limit, step)
    if numbers == range(table.size):
        return table.with_rows(parts.astype(table.dtype))
    places = reader.places(table, np.asarray(numbers))
    return rows_at(parts, [places]).astype(table.dtype)


def of_each_row(equation: Equation, _: RowReader, *inputs: Value) -> Table:
    """Apply an elementwise function of a table and scalars to each row. Such a function commutes with lookups."""
    tables = [x for x in inputs if isinstance(x, Table)]
    if any(not isinstance(x, Table) and np.ndim(x) for x in inputs) or len({x.number for x in tables}) > 1:
        whole(equation)
    return tables[0].with_rows(equation.bind(*(x.rows_in_dtype if isinstance(x, Table) else x for x in inputs)))


def reshape_rows(equation: Equation, _: RowReader, table: Table) -> Table:
    """Reshape each row."""
    if not equation.shape or equation.shape[0] != table.size:
        whole(equation)
    return table.with_rows(table.rows_in_dtype.reshape(len(table.rows), *equation.shape[1:]))


def multiply_by_rows(equation: Equation, reader: RowReader, *inputs: Value) -> jax.Array:
    """Compute an einsum in which the coordinates of a pattern select rows of a table.

    Examples are embedding bags, indirect accesses, and products of a sparse matrix and a table.
    """
    return _product(equation, reader, equation.params["spec"], inputs, equation.dtype)


def add_products_of_rows(equation: Equation, reader: RowReader, *inputs: Value) -> jax.Array:
    """Compute a sum of einsums that look up rows of a table."""
    work: Sum = equation.params["work"]
    wide = np.dtype(arithmetic_dtype(work.dtype))
    products = (_product(equation, reader, spec, values, wide) for spec, values in work.terms(inputs))
    return reduce(add, (x.reshape(work.shape) for x in products)).astype(work.dtype)


def _product(equation: Equation, reader: RowReader, spec: Spec, inputs: Sequence[Value], dtype: np.dtype) -> jax.Array:
    factors, arrays = map(list, spec.split(inputs))
    for n, table in enumerate(factors):
        if isinstance(table, Table):
            if spec.factors[n].on is not None:
                whole(equation)
            row, *features = spec.factors[n].before
            others = [
                v for m, term in enumerate((*spec.factors, spec.result)) if m != n for v in (*term.before, *term.behind)
            ]
            walks = [number for number, walk in enumerate(spec.walks) if row in (*walk.indices, *walk.lead)]
            is_seen_in_rows = dict(spec.sizes)[row] == table.size
            if row in (*features, *others) or not walks or not is_seen_in_rows:
                whole(equation)
            changed = list(spec.walks)
            for number in walks:
                changed[number], arrays[number] = _walk_of_places(
                    equation, reader, changed[number], row, table, arrays[number]
                )
            sizes = tuple((v, len(table.rows) if v == row else size) for v, size in spec.sizes)
            spec = replace(spec, walks=tuple(changed), sizes=sizes)
            # Derivatives of a maximum compare a product with it, so both have to be rounded alike.
            factors[n] = table.rows if spec.semiring.is_linear and spec.mask is None else table.rows_in_dtype
    spec = spec.with_dtype(dtype, [x.dtype for x in factors])
    operands = in_own_shapes(spec, (*factors, *(array for part in arrays for array in part)))
    return einsum_p.bind(*same_varying(operands), spec=spec)


def _walk_of_places(
    equation: Equation, reader: RowReader, walk: PatternAccess, row: str, table: Table, arrays: Sequence[jax.Array]
) -> tuple[PatternAccess, list[jax.Array]]:
    """Replace the coordinates of the variable `row` in a pattern by indices in `table.rows`.

    Returns the new access and its arrays.
    """
    pattern, format = walk.pattern, walk.pattern.format
    of_rows = [
        n for n, (level, role) in enumerate(format.arrays) if walk.indices[level] == row and role == "coordinates"
    ]
    if len(of_rows) != walk.indices.count(row) or row in walk.lead:
        whole(equation)  # a dense level of rows has positions for all of them
    if isinstance(pattern, Pattern):
        arrays = [jnp.asarray(array) for array in pad(pattern, pattern.nse)]
    shape = list(pattern.shape)
    changed = list(arrays[: len(format.arrays)])
    for n in of_rows:
        ids = changed[n] if isinstance(pattern, Pattern) else _without_padding(format, arrays, n)
        changed[n] = reader.places(table, ids).astype(changed[n].dtype)
        shape[format.levels[format.arrays[n][0]].dim] = len(table.rows)
    pattern = PatternType(tuple(shape), format, pattern.nse)
    return PatternAccess(walk.indices, pattern, lead=walk.lead), changed


def _without_padding(format: Format, arrays: Sequence[jax.Array], n: int) -> jax.Array:
    """Return the n-th index array of a dynamic pattern: the coordinates of a level, with -1 in padding."""
    level = format.arrays[n][0]
    above = [m for m, (other, role) in enumerate(format.arrays) if role == "pointers" and other <= level]
    if not above:  # a position for each coordinate of the levels above: there is no padding
        return arrays[n]
    pointers = arrays[above[-1]]
    slots = jnp.arange(arrays[n].shape[-1], dtype=pointers.dtype)
    return jnp.where(slots < pointers[..., -1:], arrays[n], -1)


Rule = Callable[..., Value]
"""`rule(equation, reader, *inputs)` returns the result, an array or a table."""

_OF_SHAPES = {"broadcast_in_dim", "reshape", "squeeze", "optimization_barrier"}

RULES: dict[str, Rule] = {
    **dict.fromkeys(sorted(ELEMENTWISE - _OF_SHAPES), of_each_row),
    **dict.fromkeys(("reshape", "squeeze"), reshape_rows),
    "gather": gather_rows,
    "dynamic_slice": take_row,
    "slice": slice_rows,
    "jsparse_einsum": multiply_by_rows,
    "jsparse_sum": add_products_of_rows,
}
"""The rule of each primitive with a table among its inputs, by name."""
