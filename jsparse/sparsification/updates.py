"""Rules for updates, `A.at[rows, columns].set(x)`, and for combining rows in segments, `jax.ops.segment_sum`.

JAX computes both by a *scatter*. A scatter writes each element of `updates` to a place in the first operand: the start
of a window, from an array of indices, plus the element's offset in the window. The windows of `.at[rows]` are complete
rows, and the windows of `.at[rows, columns]` are single elements.

To update a tensor, the rules first add the updated places to its pattern; then JAX updates the stored values. If the
updates are a tensor, they are written entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.formats import Pattern
from jsparse.ops.building.random import numpy_unless_traced
from jsparse.ops.indexing.at_coords import locate
from jsparse.sparsification.deferred import dense, uniform_number
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, check_background, elements_at_slots, whole
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []

UPDATES: dict[str, tuple[str, Any]] = {
    "scatter": ("set", lambda x, y: y),
    "scatter-add": ("add", jnp.add),
    "scatter-sub": ("subtract", jnp.subtract),
    "scatter-mul": ("multiply", jnp.multiply),
    "scatter-min": ("min", jnp.minimum),
    "scatter-max": ("max", jnp.maximum),
}


@sparse_rule(*UPDATES)
def update_tensor(equation: Equation, x: Value, indices: Value, updates: Value) -> Value:
    """Update a tensor, or an array by a tensor."""
    method, function = UPDATES[equation.name]
    if isinstance(indices, SparseValue) or (method == "set" and equation.params["update_jaxpr"] is not None):
        raise equation.not_supported(
            "updates at indices that are a SparseTensor, or by a function",
            "Write A.at[i].set(f(A[i])), with arrays as indices.",
        )
    windows = Windows(equation, x.shape, updates.shape, numpy_unless_traced(dense(indices)))
    if not isinstance(x, SparseValue):
        return _of_array(equation, dense(x), windows, updates)
    x = whole(x)
    if isinstance(updates, SparseValue):
        check_background(updates, equation)
        changes = whole(updates).tensor
        if method == "set" and x.background.is_zero:  # elements that `changes` does not store are written as 0
            hit = windows.hits(x.tensor)
            if hit is not None:
                x = x.with_tensor(x.tensor.with_values(jnp.where(hit, 0, x.tensor.values)), x.background)
                method = "add"
        if method not in ("add", "subtract"):
            raise equation.not_supported(
                f"would {method} elements of another SparseTensor",
                "Use .add, or .set at known, different coordinates of a static pattern, or update with an array.",
            )
        return _write_updates(x, windows, changes.coords, method, changes.values)
    number, stays = uniform_number(updates), False
    if number is not None and (background := x.background.value) is not None:
        with jax.ensure_compile_time_eval():  # whether the elements that are not stored stay unchanged
            after = function(jnp.asarray(background, x.dtype), jnp.asarray(number, x.dtype))
            stays = bool(after == background)
    if stays:
        hit = windows.hits(x.tensor)
        if hit is not None:
            updated = function(x.tensor.values, jnp.asarray(number, x.dtype))
            return x.with_tensor(x.tensor.with_values(jnp.where(hit, updated, x.tensor.values)), x.background)
    at = _every_index(updates.shape)
    return _write_updates(x, windows, at, method, dense(updates).reshape(-1))


@dataclass(frozen=True)
class Windows:
    """The places that a scatter writes.

    Attributes:
        equation: the scatter.
        shape: the shape of the scatter's first operand.
        updates: the shape of the updates.
        indices: the starts of the windows, a numpy array of integers if they are known.
    """

    equation: Equation
    shape: tuple[int, ...]
    updates: tuple[int, ...]
    indices: Any

    @property
    def numbers(self) -> jax.lax.ScatterDimensionNumbers:
        """The dimensions of operand, indices and updates that correspond to each other."""
        return self.equation.params["dimension_numbers"]

    @property
    def are_known(self) -> bool:
        """Whether all places are known while tracing."""
        return isinstance(self.indices, np.ndarray)

    def own_dim(self) -> dict[int, int]:
        """Map each dimension of the first operand along which windows extend to the same dimension of the updates."""
        left_out = {*self.numbers.inserted_window_dims, *self.numbers.operand_batching_dims}
        spanned = [dim for dim in range(len(self.shape)) if dim not in left_out]
        return dict(zip(spanned, self.numbers.update_window_dims, strict=True))

    def places(self, at: Sequence[Array], count: int) -> tuple[list[Array], Array]:
        """Return the coordinates to which elements of the updates are written, and whether each element is written.

        The coordinates are an array (count,) for each dimension.

        Args:
            at: the coordinates of the elements in the updates, (count,) for each dimension. Elements whose coordinates
                are out of range, in the padding of a tensor, are not written.
        """
        numbers, of_updates = self.numbers, self.own_dim()
        xnp: Any = np if self.are_known and all(isinstance(x, np.ndarray) for x in at) else jnp
        batch = [x for dim, x in enumerate(at) if dim not in numbers.update_window_dims]
        starts = xnp.asarray(self.indices)[tuple(xnp.minimum(x, n - 1) for x, n in zip(batch, self.indices.shape))]  # noqa: B905
        rows: list[Any] = [at[of_updates[dim]] if dim in of_updates else 0 for dim in range(len(self.shape))]
        inside = xnp.ones(count, bool)
        for x, size in zip(at, self.updates, strict=True):
            inside = inside & (x < size)
        for n, dim in enumerate(numbers.scatter_dims_to_operand_dims):
            start, last = starts[..., n], self.shape[dim] - (self.updates[of_updates[dim]] if dim in of_updates else 1)
            if self.equation.params["mode"] == jax.lax.GatherScatterMode.CLIP:
                start = xnp.clip(start, 0, last)
            inside = inside & (start >= 0) & (start <= last)
            rows[dim] = rows[dim] + start
        for dim, other in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            rows[dim] = batch[other]
        return [xnp.broadcast_to(x, (count,)) for x in rows], inside

    def spans(self) -> tuple[list[int], list[Array], Array]:
        """Return the dimensions that windows do not span completely, and the places of the updates in these dimensions.

        Also return whether each of these places is written: a place outside of the operand is not.
        """
        whole_dims = {dim: n for dim, n in self.own_dim().items() if self.updates[n] == self.shape[dim]}
        sizes = [1 if n in whole_dims.values() else size for n, size in enumerate(self.updates)]
        coords, inside = self.places(_every_index(sizes), prod(sizes))
        dims = [dim for dim in range(len(self.shape)) if dim not in whole_dims]
        return dims, [coords[dim] for dim in dims], inside

    def hits(self, tensor: SparseTensor) -> np.ndarray | None:
        """Find the stored entries that are written; None if this is not known, or if a place is written twice."""
        if not self.are_known or not isinstance(tensor.pattern, Pattern):
            return None
        dims, coords, inside = self.spans()
        if not dims:
            return np.ones(tensor.nse, bool)
        sizes, rows = [self.shape[dim] for dim in dims], tensor.pattern.rows()
        if prod(sizes) > np.iinfo(np.int64).max:
            return None
        written = np.ravel_multi_index([x[inside] for x in coords], sizes)
        is_once = len(np.unique(written)) == len(written)
        return np.isin(np.ravel_multi_index([rows[dim] for dim in dims], sizes), written) if is_once else None


def _every_index(shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return the coordinates of all elements of an array in row-major order. Raises ShapeError for too large arrays."""
    check_bytes(
        (len(shape), prod(shape)), np.int64, "the places of an update", "Update fewer elements, or update them with 0."
    )
    return np.unravel_index(np.arange(prod(shape)), tuple(shape)) if shape else ()


def _write_updates(x: SparseValue, windows: Windows, at: Sequence[Array], method: str, values: Array) -> SparseValue:
    """Write the updates to a tensor. The result stores all entries of the tensor and all places that are written."""
    coords, inside = windows.places(at, len(values))
    nowhere = x.tensor.nse + prod(windows.updates) + np.arange(len(values))  # beyond all slots, and different
    if isinstance(x.tensor.pattern, Pattern) and isinstance(inside, np.ndarray):
        written = np.stack([row[inside] for row in coords])
        new = SparseTensor.from_coords(written, np.ones(written.shape[1], np.float32), x.shape).pattern
        pattern: Any = x.tensor.pattern | new
        target = SparseTensor._wrap(jnp.zeros(pattern.nse, x.dtype), pattern)
        slots: Any = np.where(inside, locate(pattern, [np.asarray(row) for row in coords]), nowhere)
    else:
        outside = [jnp.where(inside, row, size) for row, size in zip(coords, x.shape, strict=True)]
        added = SparseTensor.from_coords(jnp.stack(outside), jnp.ones(len(values), jnp.float32), x.shape)
        target = x.tensor.with_values(jnp.ones(x.tensor.nse, jnp.float32)) + added
        numbered = target.with_values(jnp.arange(1, target.nse + 1))
        slots = numbered.at_coords(jnp.stack(outside)) - 1
        slots = jnp.where(slots >= 0, slots, nowhere)
    options = {"mode": "drop", "unique_indices": windows.equation.params["unique_indices"]}
    updated = getattr(jnp.asarray(elements_at_slots(x, target)).at[slots], method)(values, **options)
    return x.with_tensor(SparseTensor._wrap(updated, target.pattern), x.background)


def _of_array(equation: Equation, x: jax.Array, windows: Windows, updates: Value) -> jax.Array:
    """Update an array by a tensor. An element that the tensor does not store updates its place by 0."""
    assert isinstance(updates, SparseValue)
    check_background(updates, equation)
    tensor, (method, function) = whole(updates).tensor, UPDATES[equation.name]
    coords, inside = windows.places(tensor.coords, tensor.nse)
    where = tuple(jnp.where(inside, row, size) for row, size in zip(coords, x.shape, strict=True))
    if method not in ("add", "subtract"):
        dims, starts, valid = windows.spans()
        sizes = [x.shape[dim] for dim in dims]
        check_bytes(sizes, np.int32, "the number of updates of each row", "Pass A.todense().")
        rows = tuple(jnp.where(valid, row, size) for row, size in zip(starts, sizes, strict=True))
        total = jnp.zeros(sizes, jnp.int32).at[rows].add(1, mode="drop") if dims else jnp.int32(1)
        total = total.reshape([size if dim in dims else 1 for dim, size in enumerate(x.shape)])
        stored = jnp.zeros(x.shape, jnp.int32).at[where].add(1, mode="drop")
        x = jnp.where(stored < total, function(x, jnp.zeros((), x.dtype)), x)
    return getattr(x.at[where], method)(tensor.values, mode="drop")
