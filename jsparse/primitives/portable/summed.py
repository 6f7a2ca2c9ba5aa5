"""Sums over the rows of a stream, in chunks: gather, evaluate, add into the result.

    R[t(r)] ⊕= ⊗ₙ Xₙ[…]        for each live row r

A row is one combination of stored entries. Its factors are arrays over the *dense* index variables, which no pattern
has. The number of rows in a chunk is chosen so that the factors gathered for it take a stated number of bytes. No array
has an element for each row of all chunks and each dense variable.

How a chunk is added depends on the result. If the rows are the slots of the result's pattern, in order, the chunk is a
slice of the result. If the result has no index variable of a pattern, the chunk is reduced. Otherwise the rows are
scattered.

Sums of many float32 numbers are made in float64, where the platform has it: a scatter adds one row after the other, so
a running sum of ones would stop growing at 2²⁴. On other platforms they are made in two levels: the rows of a chunk are
summed first, then the sums of the chunks. Rows that are not live, such as padding, are dropped. They are not multiplied
by 0, because 0 times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import accumulator, is_complex
from jsparse.compiler.semiring import Add
from jsparse.notation import IndexVar
from jsparse.primitives.permute_values import gather_clamped
from jsparse.primitives.portable.stream import Stream
from jsparse.primitives.spec import ArrayAccess, Spec

SHORT = 64
"""The number of terms up to which float32 numbers are added up in float32, as kernels do."""

LONG = 1 << 10
"""The same where there is no float64. Longer sums are made in two levels, which takes several times as long."""

COUNTED = 8
"""The least elements of a row that pay for counting the rows of each element, to know whether float32 is enough."""

MOST_KEPT = 1 << 10
"""The most elements of a row for which rows are said to be sorted. XLA keeps the sum of sorted rows in the registers of
32 threads, and unrolls it: with 2¹⁷ elements, it was still compiling after two minutes."""

_WIDE = {np.dtype("float32"): np.dtype("float64"), np.dtype("complex64"): np.dtype("complex128")}

Label = IndexVar | int
"""An axis that rows index: an index variable of a pattern, or the positions of the pattern with that index."""

_ADD: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "+": (jnp.add, jnp.sum, jax.lax.scatter_add),
    "*": (jnp.multiply, jnp.prod, jax.lax.scatter_mul),
    "min": (jnp.minimum, jnp.min, jax.lax.scatter_min),
    "max": (jnp.maximum, jnp.max, jax.lax.scatter_max),
}
_MULTIPLY: dict[str, Callable[..., Any]] = {"*": jnp.multiply, "+": jnp.add, "&": jnp.bitwise_and}


@dataclass(frozen=True)
class Machine:
    """The performance characteristics of a platform.

    Attributes:
        chunk: the bytes of the factors that are gathered at a time.
        sums_by_products: whether a sum over the last axis takes longer than a product with a vector of ones.
        uses_order: whether rows are added faster if it is known that they are sorted.
        has_float64: whether additions in float64 are instructions of the processor.
        tile_speed: the number of elements of tiles that take as long as one stored entry, whose factors are gathered.
            On a CPU, 4 with 16 numbers an element, and 7 with 64. It has not been measured elsewhere, and is not used.
    """

    chunk: int
    sums_by_products: bool
    uses_order: bool
    has_float64: bool = True
    tile_speed: float = 5.0

    @property
    def longest(self) -> int:
        """The number of terms up to which float32 numbers are added up one after the other in float32."""
        return SHORT if self.has_float64 else LONG


CPU = Machine(2 << 20, sums_by_products=True, uses_order=False)
"""A chunk lies in the cache. XLA does not vectorize sums of float numbers over the last axis."""

GPU = Machine(4 << 30, sums_by_products=False, uses_order=True)
"""XLA fuses gathers with the sums of their rows, but not in a loop over chunks. Sums of sorted rows are kept in
registers, while sums of other rows need atomic additions."""

ACCELERATOR = replace(GPU, has_float64=False)
"""Any other platform, such as a TPU."""


@dataclass(frozen=True)
class AxisOrder:
    """An order for the axes of an array: first the axes in which a row of a stream has an index, then the others.

    The array has an axis for each index variable, and one for the slots if it holds values on a pattern.

    Attributes:
        indexed: the labels of the axes in which rows have indices.
        dense: the index variables of the other axes.
        axes: for each axis in this order, its index in the array.
    """

    indexed: tuple[Label, ...]
    dense: tuple[IndexVar, ...]
    axes: tuple[int, ...]

    @staticmethod
    def of(term: ArrayAccess, sparse: frozenset[IndexVar]) -> AxisOrder:
        """Return the order for an array. `sparse` are the index variables in which rows have coordinates."""
        labels = _labels(term)
        first = [n for n, label in enumerate(labels) if isinstance(label, int) or label in sparse]
        others = [n for n in range(len(labels)) if n not in first]
        return AxisOrder(tuple(labels[n] for n in first), tuple(str(labels[n]) for n in others), (*first, *others))

    @property
    def distinct(self) -> AxisOrder:
        """The order for the diagonal of axes that have one dense index variable."""
        outer, first = len(self.indexed), [self.dense.index(v) for v in dict.fromkeys(self.dense)]
        axes = (*self.axes[:outer], *(self.axes[outer + n] for n in first))
        return AxisOrder(self.indexed, tuple(self.dense[n] for n in first), axes)


def _labels(term: ArrayAccess) -> tuple[Label, ...]:
    """Return the label of each axis of an array: an index variable, or the number of the pattern for the slots."""
    slots: tuple[Label, ...] = () if term.on is None else (term.on,)
    return (*term.before, *slots, *term.behind)


def _on_diagonals(x: jax.Array, labels: Sequence[Label], dense: Sequence[IndexVar], outside: np.ndarray) -> jax.Array:
    """Give an array another axis for each repeated label of `dense`. Elements off the diagonals are `outside`."""
    for n, label in enumerate(labels):
        if label in dense and label in labels[:n]:
            x = jnp.expand_dims(x, n)
            shape = (*x.shape[:n], x.shape[labels.index(label)], *x.shape[n + 1 :])
            row, column = (jax.lax.broadcasted_iota(np.int32, shape, axis) for axis in (labels.index(label), n))
            x = jnp.where(row == column, x, outside)
    return x


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor of a product, with the axes of its array in the order `layout`."""

    array: Any
    layout: AxisOrder

    def of_rows(self, rows: Stream) -> Any:
        """Return the factor's elements for each row: shape (rows, dense…), or (dense…) if all rows have the same."""
        labels = self.layout.indexed
        if not labels:
            return self.array
        if isinstance(labels[0], int) and len(labels) == 1 and rows.positions[labels[0]] is None:
            return jax.lax.dynamic_slice_in_dim(self.array, rows.start, rows.rows)
        return gather_clamped(self.array, [_index(rows, label) for label in labels])


def _index(rows: Stream, label: Label) -> Array:
    return rows.position(label) if isinstance(label, int) else rows.coordinates[label]


@dataclass(frozen=True, eq=False)
class StreamSum:
    """A sum of products over the rows of streams.

    Attributes:
        spec: the einsum that is computed.
        factors: the factors.
        target: the order of the result's axes while rows are added.
        dtype: the result's dtype.
        dense: all index variables for which rows have no coordinates.
        in_order: whether the rows of the stream are the slots of the result's pattern, in order.
        may_be_long: whether more than `Machine.longest` rows may be added to one element of the result.
        machine: the characteristics of the platform.
    """

    spec: Spec
    factors: tuple[Factor, ...]
    target: AxisOrder
    dtype: np.dtype
    dense: tuple[IndexVar, ...]
    in_order: bool
    may_be_long: bool
    machine: Machine

    @cached_property
    def sizes(self) -> dict[IndexVar, int]:
        """The size of each index variable."""
        return dict(self.spec.sizes)

    @cached_property
    def compute_dtype(self) -> np.dtype:
        """The dtype in which products and sums are computed."""
        dtypes = [self.dtype, *(factor.array.dtype for factor in self.factors)]
        if any(map(is_complex, dtypes)):
            return np.dtype(jnp.result_type(*dtypes))
        return np.dtype(accumulator(*(np.dtype(dtype).name for dtype in dtypes)))

    @cached_property
    def is_long(self) -> bool:
        """Whether rows may not be added one after the other in the dtype of products: float32 or complex64."""
        return self.may_be_long and self.spec.semiring.add == "+" and self.compute_dtype in _WIDE

    @property
    def pays_to_count(self) -> bool:
        """Whether counting the rows of each element takes less time than what short sums save in float32."""
        return not self.machine.has_float64 or prod(self.sizes[v] for v in self.target.dense) >= COUNTED

    @cached_property
    def total(self) -> np.dtype:
        """The dtype in which rows are added up."""
        return _WIDE[self.compute_dtype] if self.is_long and self.machine.has_float64 else self.compute_dtype

    @cached_property
    def zero(self) -> np.ndarray:
        """The value of a sum without rows."""
        return np.asarray(self.spec.semiring.zero(self.dtype.name)).astype(self.compute_dtype)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result in the layout of `target`."""
        walks = self.spec.walks
        indexed = (walks[x].pattern.nse if isinstance(x, int) else self.sizes[x] for x in self.target.indexed)
        return (*indexed, *(self.sizes[v] for v in self.target.dense))

    def rows_at_once(self) -> int:
        """The number of rows of a chunk."""
        arrays = [prod(self.sizes[v] for v in factor.layout.dense) for factor in self.factors if factor.layout.indexed]
        whole = self._is_broadcast or (self._is_contraction and len(self.factors) > 2)
        product = prod(self.sizes[v] for v in (self.dense if whole else self.target.dense))
        return max(self.machine.chunk // (self.compute_dtype.itemsize * (sum(arrays) + product)), 1)

    @property
    def _is_broadcast(self) -> bool:
        return self.spec.mask is not None or not self.spec.semiring.is_linear

    def longest(self, rows: Stream) -> jax.Array:
        """Return the largest number of rows that are added to one element of the result."""
        index = self._elements(rows)
        counts = jnp.zeros(self.shape[: len(index)], np.int32)
        return _scatter(jax.lax.scatter_add, counts, index, jnp.ones(rows.rows, np.int32)).max()

    def start(self) -> jax.Array:
        """The result before any row is added."""
        return jnp.full(self.shape, self.zero, self.compute_dtype)

    def sum_from(self, start: jax.Array, visited: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return `visited(start)`, in which `visited` adds rows by `add`, in the dtype of products. `start` is, too."""
        return jax.lax.convert_element_type(visited(widen(start, self.total)), self.compute_dtype)

    def add(self, total: jax.Array, stream: Stream) -> jax.Array:
        """Add the rows of a stream, chunk by chunk."""
        return stream.in_parts(self.rows_at_once(), self._add_chunk, total, may_repeat=self.in_order)

    def _add_chunk(self, total: jax.Array, rows: Stream) -> jax.Array:
        products = self._products(rows)
        if self.target.indexed and not self.in_order:
            return self._scatter_products(total, products, rows)
        products = self._zero_unless_live(products, rows)
        if self.in_order:
            return jax.lax.dynamic_update_slice_in_dim(total, products, rows.start, 0)
        sums = reduce_axes(products, (0,), self.spec.semiring.add, self.machine)
        if self.total == self.compute_dtype:
            return combine(self.spec.semiring.add, total, sums)
        with jax.enable_x64(True):
            return jax.lax.add(total, widen(sums, self.total))

    # ---- products

    def _products(self, rows: Stream) -> jax.Array:
        """The product of each row, summed over the dense index variables that the result lacks."""
        arrays, mask = [factor.of_rows(rows) for factor in self.factors], self.spec.mask
        multiplied = range(self.spec.compared, len(arrays))
        if self._is_contraction:
            products = self._contract(arrays, rows)
        else:
            products = self._multiply(arrays, multiplied, self.spec.semiring.multiply, rows)
            if self.spec.semiring.is_selective and self.dtype != self.compute_dtype:
                products = products.astype(self.dtype).astype(self.compute_dtype)
            if mask is not None:
                product = self._multiply(arrays, range(mask.count), mask.multiply, rows)
                attained = self._align_axes(arrays[mask.count], mask.count, rows)
                products = jnp.where(product.astype(attained.dtype) == attained, products, self.zero)
            products = jnp.broadcast_to(products, (rows.rows, *(self.sizes[v] for v in self.dense)))
            summed = [n for n, v in enumerate(self.dense, 1) if v not in self.target.dense]
            products = reduce_axes(products, summed, self.spec.semiring.add, self.machine)
        kept = [v for v in self.dense if v in self.target.dense]
        order = [1 + kept.index(v) for v in self.target.dense]
        return jnp.transpose(products, (0, *order)) if order != sorted(order) else products

    @cached_property
    def _is_contraction(self) -> bool:
        """Whether the product of a row is a product of matrices, for which some platforms have special units.

        This holds if two factors share a summed dense variable, and at least one of them has another dense variable."""
        if self._is_broadcast:
            return False
        for v in self.dense:
            having = [factor.layout.dense for factor in self.factors if v in factor.layout.dense]
            if v not in self.target.dense and len(having) > 1 and any(len(set(dense)) > 1 for dense in having):
                return True
        return False

    def _contract(self, arrays: Sequence[Any], rows: Stream) -> jax.Array:
        letters = {v: n for n, v in enumerate(self.dense, 1)}
        operands = list[Any]()
        for x, factor in zip(arrays, self.factors, strict=True):
            outer = [0] if factor.layout.indexed else []
            operands += [x.astype(self.compute_dtype), [*outer, *(letters[v] for v in factor.layout.dense)]]
        of_rows = any(factor.layout.indexed for factor in self.factors)
        kept = [letters[v] for v in self.dense if v in self.target.dense]
        products = jnp.einsum(*operands, [0, *kept] if of_rows else kept, preferred_element_type=self.compute_dtype)
        return products if of_rows else jnp.broadcast_to(products, (rows.rows, *products.shape))

    def _multiply(self, arrays: Sequence[Any], numbers: Sequence[int], multiply: str, rows: Stream) -> jax.Array:
        aligned = [self._align_axes(arrays[n], n, rows).astype(self.compute_dtype) for n in numbers]
        one = np.asarray(self.spec.semiring.one(self.dtype.name)).astype(self.compute_dtype)
        return reduce(_MULTIPLY[multiply], aligned) if aligned else jnp.full([1] * (1 + len(self.dense)), one)

    def _align_axes(self, x: Any, number: int, rows: Stream) -> Any:
        """Return factor `number` with axes for the rows and for each dense index variable; missing axes have size 1."""
        layout = self.factors[number].layout
        x = x if layout.indexed else x[None]
        names = sorted(layout.dense, key=self.dense.index)
        x = jnp.transpose(x, (0, *(1 + layout.dense.index(v) for v in names)))
        return jnp.expand_dims(x, [n for n, v in enumerate(self.dense, 1) if v not in names])

    # ---- sums

    def _zero_unless_live(self, products: jax.Array, rows: Stream) -> jax.Array:
        if rows.live is None:
            return products
        return jnp.where(rows.live.reshape(-1, *[1] * (products.ndim - 1)), products, self.zero)

    def _scatter_products(self, total: jax.Array, products: jax.Array, rows: Stream) -> jax.Array:
        add = self.spec.semiring.add
        if self.total == self.compute_dtype and (self.is_long or add == "|"):
            return self._in_two_levels(total, products, self._elements(rows))
        is_sorted = self.machine.uses_order and self.target.indexed == rows.order[: len(self.target.indexed)]
        is_sorted &= prod(self.shape[len(self.target.indexed) :]) <= MOST_KEPT
        if rows.live is not None and is_sorted and len(self.target.indexed) == 1:
            # Absent rows add nothing to the target of the last row that counts, so the order stays.
            products = self._zero_unless_live(products, rows)
            column = jnp.asarray(_index(rows, self.target.indexed[0]))
            index = [column if rows.increases else jax.lax.cummax(jnp.where(rows.live, column, 0))]
        else:
            index, is_sorted = self._elements(rows), is_sorted and rows.live is None
        return _scatter(_ADD[add][2], total, index, products, is_sorted)

    def _elements(self, rows: Stream) -> list[jax.Array]:
        """Return the coordinates at which each row is added to the result: out of range if the row is not live."""
        index = [jnp.asarray(_index(rows, label)) for label in self.target.indexed]
        if rows.live is not None:
            index[0] = jnp.where(rows.live, index[0], self.shape[0])  # beyond the result, so it is dropped
        return index

    def _in_two_levels(self, total: jax.Array, products: jax.Array, index: Sequence[Any]) -> jax.Array:
        """Add a chunk to the total after its rows are combined for each element of the result.

        The rows are sorted by their elements, and combined by a segmented scan.
        """
        *keys, order = jax.lax.sort([*index, jnp.arange(len(products), dtype=np.int32)], num_keys=len(index))
        changes = reduce(jnp.logical_or, (key[1:] != key[:-1] for key in keys))
        begins = jnp.concatenate([jnp.ones(1, bool), changes])
        ends = jnp.concatenate([changes, jnp.ones(1, bool)])

        def combine_segments(a: Any, b: Any) -> Any:
            (sums_a, new_a), (sums_b, new_b) = a, b
            new = new_b.reshape(-1, *[1] * (products.ndim - 1))
            return jnp.where(new, sums_b, combine(self.spec.semiring.add, sums_a, sums_b)), new_a | new_b

        sums, _ = jax.lax.associative_scan(combine_segments, (gather_clamped(products, [order]), begins))
        keys[0] = jnp.where(ends, keys[0], self.shape[0])
        before = gather_clamped(total, keys)
        return _scatter(jax.lax.scatter, total, keys, combine(self.spec.semiring.add, before, sums))

    def result(self, total: jax.Array, used: Array | None) -> jax.Array:
        """Convert a total to the result of the einsum. `used` marks the slots of the result's pattern with an entry."""
        labels, axes = _labels(self.spec.result), self.target.axes
        out = jnp.transpose(total, sorted(range(len(axes)), key=axes.__getitem__))
        out = _on_diagonals(out, labels, self.target.dense, self.zero)
        if used is not None:
            shape = [-1 if label == self.spec.result.on else 1 for label in labels]
            out = jnp.where(used.reshape(shape), out, np.zeros((), out.dtype))
        if is_complex(out.dtype) and not is_complex(self.dtype):  # the cotangent of a real factor
            out = out.real
        return out.astype(self.dtype).reshape(self.spec.shape(self.spec.result))


def _scatter(
    how: Callable[..., Any], total: jax.Array, index: Sequence[Any], updates: Any, is_sorted: bool = False
) -> jax.Array:
    indexed, places = tuple(range(len(index))), jnp.stack(index, -1)
    window = tuple(range(1, 1 + total.ndim - len(index)))
    numbers = jax.lax.ScatterDimensionNumbers(
        update_window_dims=window, inserted_window_dims=indexed, scatter_dims_to_operand_dims=indexed
    )
    mode = jax.lax.GatherScatterMode.FILL_OR_DROP
    with jax.enable_x64(total.dtype.itemsize > updates.dtype.itemsize or jax.config.read("jax_enable_x64")):
        updates = widen(updates, total.dtype)
        return how(total, places, updates, numbers, indices_are_sorted=is_sorted, mode=mode)


def widen(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Convert an array to a dtype. It may be one of 64 bits, even if JAX makes none."""
    if x.dtype == dtype:
        return x
    with jax.enable_x64(True):
        return jax.lax.convert_element_type(x, dtype)


def combine(add: Add, a: Any, b: Any) -> Any:
    """Compute a ⊕ b for each element."""
    return jnp.bitwise_or(a, b) if add == "|" else _ADD[add][0](a, b)


def reduce_axes(x: jax.Array, axes: Sequence[int], add: Add, machine: Machine) -> jax.Array:
    """Reduce an array by ⊕ over some axes, in the dtype of the array."""
    if not axes:
        return x
    if add == "|":
        return jax.lax.reduce(x, np.zeros((), x.dtype), jax.lax.bitwise_or, tuple(axes))
    behind = x.ndim - len(axes)
    is_float_sum = add == "+" and np.dtype(x.dtype).kind == "f"
    if machine.sums_by_products and is_float_sum and tuple(axes) == tuple(range(behind, x.ndim)):
        flat = x.reshape(*x.shape[:behind], prod(x.shape[behind:]))
        return jnp.matmul(flat, jnp.ones(flat.shape[-1], flat.dtype), precision=jax.lax.Precision.HIGHEST)
    return _ADD[add][1](x, axis=tuple(axes)).astype(x.dtype)  # numpy's rules would widen integers


def unflatten_slots(x: Any, term: ArrayAccess, spec: Spec) -> Any:
    """Reshape a term's array to have one axis for the slots and one for each dense level after them."""
    if term.on is None:
        return x
    sizes = dict(spec.sizes)
    return x.reshape(*x.shape[:-1], spec.walks[term.on].pattern.nse, *(sizes[v] for v in term.behind))


def sum_of(
    spec: Spec,
    arrays: Sequence[Any],
    machine: Machine,
    in_order: bool = False,
    may_be_long: bool = False,
    rows: frozenset[IndexVar] = frozenset(),
) -> StreamSum:
    """Return the sum that a spec describes, for the factors `arrays`.

    Rows have coordinates in the index variables `rows` and in the index variables of all patterns.
    """
    sparse = rows.union(*(walk.indices for walk in spec.walks))
    factors = tuple(_factor(x, term, spec, sparse) for x, term in zip(arrays, spec.factors, strict=True))
    used = {v for term in (*spec.factors, spec.result) for v in (*term.before, *term.behind)}
    named = [v for v, _ in spec.sizes if v not in sparse and v in used]
    target = AxisOrder.of(spec.result, sparse).distinct
    return StreamSum(spec, factors, target, spec.dtype_of(arrays), tuple(named), in_order, may_be_long, machine)


def _factor(x: Any, term: ArrayAccess, spec: Spec, sparse: frozenset[IndexVar]) -> Factor:
    layout = AxisOrder.of(term, sparse)
    x = jnp.transpose(unflatten_slots(x, term, spec), layout.axes)
    if len(set(layout.dense)) < len(layout.dense):  # a diagonal
        letters, outer = {v: n for n, v in enumerate(layout.dense)}, len(layout.indexed)
        front, kept = [100 + n for n in range(outer)], layout.distinct
        x = jnp.einsum(x, [*front, *(letters[v] for v in layout.dense)], [*front, *(letters[v] for v in kept.dense)])
        layout = kept
    return Factor(x, layout)
