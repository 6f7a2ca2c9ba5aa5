"""Gradients of rows: gradients of tables, with a compressed level for rows and dense levels for other dimensions.

The cotangent of an array has its shape. So the loss is traced to a jaxpr, which `interpret` evaluates twice. There, a
table is a special kind of value (`table.Table`), and `lookups` has a rule for each primitive that looks up its rows.
The first pass notes the numbers of the rows, and computes only the values on which these numbers depend. The numbers
are sorted, without repetitions, by the routine that assembles patterns, and these rows are gathered. In the second pass
a table has only these rows, and the number of a row is replaced by its place among them: JAX differentiates with
respect to the rows. Places are in the order of numbers, so an einsum on a pattern whose coordinates name rows is the
same einsum on the pattern of places. Loops and branches return the numbers from their bodies as additional results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.differentiation.interpret import arrays, interpret
from jsparse.differentiation.table import PlaceReader, RowReader, Table
from jsparse.formats import Format, Pattern
from jsparse.ops.evaluate import evaluate
from jsparse.primitives.routine import assemble
from jsparse.primitives.rows import row_sums
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor


def is_of_rows(pattern: Pattern | DynamicPattern) -> bool:
    """Whether a dynamic pattern stores complete rows, each row once, in ascending order."""
    return isinstance(pattern, DynamicPattern) and pattern.format == _format(pattern.ndim)


def _format(ndim: int) -> Format:
    return Format.of("coo", 1).with_dense(ndim - 1)


def pattern_of_rows(ids: Sequence[jax.Array], shape: Sequence[int]) -> DynamicPattern:
    """Build the pattern of the rows `ids` of a tensor with the given shape.

    Args:
        ids: arrays of row indices, of any shape. A repeated index adds one row, an index out of range adds no row.

    The pattern has a capacity for one row per index, but at most for all rows of the tensor.
    """
    size, *features = shape
    if 0 in shape:
        return DynamicPattern.empty(dynamic_type(shape, _format(len(shape)), 0))
    flat = [x.reshape(-1) for x in ids] or [jnp.full(1, -1, jnp.int32)]  # -1 is none
    widest = max((x.dtype for x in flat), key=lambda dtype: dtype.itemsize)
    numbers = jnp.concatenate([x.astype(widest) for x in flat])
    core = dynamic_type((size,), _format(1), min(max(len(numbers), 1), size))
    return DynamicPattern(core.extended(features), tuple(assemble(numbers[None], core).arrays))


def numbers_of_rows(pattern: DynamicPattern) -> jax.Array:
    """Return the sorted indices (capacity,) of the rows that a pattern stores; in padding, the number of all rows."""
    pointers, numbers = pattern.arrays
    return jnp.where(jnp.arange(len(numbers), dtype=pointers.dtype) < pointers[-1], numbers, pattern.shape[0])


def rows_at(array: jax.Array, numbers: jax.Array) -> jax.Array:
    """Return the rows (capacity, ...) of an array at the sorted indices `numbers`. In padding, they are 0."""
    flat = array.reshape(len(array), prod(array.shape[1:]))
    rows = evaluate("out[p,f] = table[ids[p],f]", table=flat, ids=numbers)
    return rows.reshape(len(numbers), *array.shape[1:])


def rows_of(tensor: SparseTensor) -> jax.Array:
    """Return the rows (capacity, ...) that a tensor stores. In padding, they are 0."""
    features = tensor.shape[1:]
    return tensor.values.reshape(tensor.nse // max(prod(features), 1), *features)


def value_and_grad_of_rows(
    function: Callable[..., Any], is_table: Sequence[bool], has_aux: bool, is_mean: bool = False, **options: Any
) -> Callable[..., Any]:
    """Differentiate a function in all arguments, which are pytrees with tables, as `jax.value_and_grad` does.

    `is_table` tells for each leaf whether it is a table. The gradient of a table is the SparseTensor of the rows that
    the function looks up. First these rows are found; then the function is differentiated as a function of these rows.
    With `is_mean`, the gradient of a row is divided by the number of its lookups.
    """

    def differentiate(*arguments: Any) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(arguments)
        traced, out = jax.make_jaxpr(function, return_shape=True)(*arguments)
        closed = _compat.without_dead_equations(traced)
        places = [n for n, flag in enumerate(is_table) if flag and np.size(leaves[n])]
        ids = _ids(closed, leaves, places)
        patterns = [pattern_of_rows(of_table, leaves[at].shape) for of_table, at in zip(ids, places, strict=True)]
        known, tables = [numbers_of_rows(pattern) for pattern in patterns], dict[int, Table]()
        for n, at in enumerate(places):
            table = jnp.asarray(leaves[at])
            tables[at] = Table.of(n, len(table), rows_at(table, known[n]))
        arguments_of_rows = [tables[n].rows if n in tables else x for n, x in enumerate(leaves)]

        def of_rows(*inputs: Any) -> Any:
            values = [replace(tables[n], rows=x) if n in tables else x for n, x in enumerate(inputs)]
            results = arrays(interpret(closed, values, PlaceReader(known)), "the function")
            return jax.tree.unflatten(jax.tree.structure(out), results)

        numbers = tuple(range(len(leaves)))
        value, slopes = jax.value_and_grad(of_rows, argnums=numbers, has_aux=has_aux, **options)(*arguments_of_rows)
        gradients = list(slopes)
        for n in (n for n, flag in enumerate(is_table) if flag):
            pattern = patterns[places.index(n)] if n in places else pattern_of_rows((), np.shape(leaves[n]))
            slope = slopes[n]
            if is_mean and n in places:
                counts = _counts(ids[places.index(n)], known[places.index(n)], len(leaves[n]))
                slope = slope / counts.astype(slope.dtype).reshape(-1, *(1,) * (slope.ndim - 1))
            values = slope.astype(jnp.asarray(leaves[n]).dtype).reshape(-1)
            gradients[n] = SparseTensor._wrap(pattern.in_use(values), pattern.of_gradient())
        return value, jax.tree.unflatten(structure, gradients)

    return differentiate


def _counts(ids: Sequence[jax.Array], known: jax.Array, size: int) -> jax.Array:
    """Return how often each of the rows `known` is among the ids of all lookups; 1 in padding."""
    at = [jnp.where((x >= 0) & (x < size), jnp.searchsorted(known, x.astype(known.dtype)), -1) for x in ids]
    places = jnp.concatenate([x.reshape(-1) for x in at] or [jnp.zeros(0, jnp.int32)])
    return jnp.maximum(row_sums(jnp.ones(len(places), jnp.int32), [places], (len(known),)), 1)


def _ids(closed: Any, leaves: Sequence[Any], places: Sequence[int]) -> list[list[jax.Array]]:
    """Return for each table the indices of the rows that each lookup of a jaxpr reads.

    `places` are the tables' indices in `leaves`. The row indices are computed, but not the results of the jaxpr.
    """

    def read(*inputs: Any) -> list[list[jax.Array]]:
        reader, values = RowReader(), list(inputs)
        for number, at in enumerate(places):
            values[at] = Table(number, len(inputs[at]), inputs[at], inputs[at].dtype)
        interpret(closed, values, reader)
        return [reader.ids_of(number) for number in range(len(places))]

    traced, structure = jax.make_jaxpr(read, return_shape=True)(*leaves)
    ids = _compat.evaluate_jaxpr(_compat.without_dead_equations(traced), leaves)
    return jax.tree.unflatten(jax.tree.structure(structure), ids)
