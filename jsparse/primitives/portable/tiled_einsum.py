"""Einsums over one static pattern, computed on its tiles.

Index variables i and j of the pattern's rows and columns become axes of each bucket of tile rows:

    i → (tile row, row of a tile)        j → (tile row, columns of all tiles of that row)

so a product with a dense array X[j, …] is a product of matrices for each tile row, whose tiles of X are gathered. What
a tile has beside the entries is masked out of the sums. There, a factor that is NaN must not count, but 0 · NaN is NaN.
So while the program runs, it checks whether factors are finite; if they are not, it masks each single product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import accumulator
from jsparse.primitives.portable.summed import Machine, combine, reduce_axes
from jsparse.primitives.portable.tiles import SIDE, Tiling
from jsparse.primitives.spec import Spec

ROW, LANE, COLUMN = TILE = ("tile row", "row of a tile", "columns of all tiles")
"""The labels of the axes that a bucket has beside index variables."""


class NotTiledError(Exception):
    """Why a chain is evaluated entry by entry."""


@dataclass(frozen=True, eq=False)
class OnTiles:
    """Values on the pattern: for each bucket an array (…, rows, SIDE, tiles · SIDE), whose last axes may have size 1.

    Elements that the pattern does not store are any numbers.
    """

    parts: tuple[jax.Array, ...]


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array, and the label of each axis: an index variable, or one of `TILE`."""

    array: jax.Array
    labels: tuple[str, ...]

    def align(self, order: Sequence[str]) -> jax.Array:
        """Return the array with an axis for each label of `order`, of size 1 for those that it lacks."""
        kept = [v for v in order if v in self.labels]
        moved = jnp.transpose(self.array, [self.labels.index(v) for v in kept])
        return jnp.expand_dims(moved, [n for n, v in enumerate(order) if v not in self.labels])

    def column(self, number: jax.Array) -> Labelled:
        """Return the array at one of the columns of all tiles; the array itself if it has no such axis."""
        if COLUMN not in self.labels:
            return self
        axis = self.labels.index(COLUMN)
        taken = jax.lax.dynamic_index_in_dim(self.array, number, axis, keepdims=False)
        return Labelled(taken, self.labels[:axis] + self.labels[axis + 1 :])


@dataclass(frozen=True, eq=False)
class Tiled:
    """The tiles of a pattern in a program: what several einsums need of them is computed once.

    Attributes:
        tiling: the tiles.
        machine: the characteristics of the platform.
    """

    tiling: Tiling
    machine: Machine
    _masks: dict[int, jax.Array] = field(default_factory=dict)
    _taken: dict[tuple[int, int, bool, int], tuple[Any, jax.Array]] = field(default_factory=dict)

    @cached_property
    def bits(self) -> jax.Array:
        """The different masks: (masks, SIDE, SIDE)."""
        return jnp.unpackbits(jnp.asarray(self.tiling.masks), axis=-1).astype(bool)

    def mask(self, number: int) -> jax.Array:
        """Which elements of a bucket are stored: (rows, SIDE, tiles · SIDE)."""
        if number not in self._masks:
            bucket = self.tiling.buckets[number]
            masks = jnp.moveaxis(jnp.take(self.bits, bucket.masks, axis=0), 1, 2)
            self._masks[number] = masks.reshape(len(bucket.rows), SIDE, -1)
        return self._masks[number]

    def take(self, x: jax.Array, axis: int, is_column: bool, number: int) -> jax.Array:
        """Return the tiles of an axis that a bucket reads: (…, rows, SIDE, …), or (…, rows, tiles · SIDE, …)."""
        key = id(x), axis, is_column, number
        if key not in self._taken:
            bucket = self.tiling.buckets[number]
            tiles = _take_tiles(x, axis, bucket.columns if is_column else bucket.rows)
            if is_column:
                tiles = tiles.reshape(*x.shape[:axis], len(bucket.rows), -1, *x.shape[axis + 1 :])
            self._taken[key] = x, tiles  # x lives as long as its id is a key
        return self._taken[key][1]


def compute_on_tiles(spec: Spec, factors: Sequence[Any], tiled: Tiled) -> OnTiles | jax.Array:
    """Compute an einsum over the pattern of `tiled`. Factors on the pattern are `OnTiles`.

    Raises NotTiledError for what has no rule: factors and results that have both i and j, other dtypes than real
    floats, conditions, and semirings other than plus-times with several factors.
    """
    return _TiledEinsum(spec, tuple(factors), tiled).compute()


@dataclass(frozen=True, eq=False)
class _TiledEinsum:
    spec: Spec
    factors: tuple[Any, ...]
    tiles: Tiled

    def compute(self) -> OnTiles | jax.Array:
        self.check()
        numbers = range(len(self.tiles.tiling.buckets))
        if self.spec.result.on is not None:
            return OnTiles(tuple(map(self.values, numbers)))
        sums = list(map(self.sums, numbers))
        before = self.spec.result.before
        if self.i in before:
            result = self.assemble_rows(sums, before.index(self.i))
        elif self.j in before:
            result = self.assemble_columns(sums, before.index(self.j))
        else:
            result = reduce(lambda x, y: combine(self.spec.semiring.add, x, y), sums)
        return result.astype(self.dtype)

    def check(self) -> None:
        (walk,) = self.spec.walks
        terms = (*self.spec.factors, self.spec.result)
        if walk.lead or self.spec.mask is not None or self.i == self.j or any(term.behind for term in terms):
            raise NotTiledError("a batch of patterns, a condition, a diagonal, or dense levels")
        for term in terms:
            if {self.i, self.j} <= set(term.before) or len(set(term.before)) < len(term.before):
                raise NotTiledError("an array over rows and columns, or a diagonal")
        dtypes = [self.dtype, *(x.parts[0].dtype if isinstance(x, OnTiles) else x.dtype for x in self.factors)]
        if not all(jnp.issubdtype(dtype, np.floating) for dtype in dtypes):
            raise NotTiledError("other numbers than real floats")
        for x, term in zip(self.factors, self.spec.factors, strict=True):
            if isinstance(x, OnTiles) != (term.on is not None):
                raise NotTiledError("values of entries that are an operand of the chain")
        if not self.spec.semiring.is_linear and (len(self.factors) != 1 or self.dense):
            raise NotTiledError("a semiring")

    # ---- what the spec says

    @property
    def i(self) -> str:
        return self.variable(0)

    @property
    def j(self) -> str:
        return self.variable(1)

    def variable(self, dimension: int) -> str:
        """The index variable of a dimension of the pattern."""
        (walk,) = self.spec.walks
        levels = walk.pattern.format.levels
        return next(v for v, level in zip(walk.indices, levels, strict=True) if level.dim == dimension)

    @property
    def dtype(self) -> np.dtype:
        arrays = [x.parts[0] if isinstance(x, OnTiles) else x for x in self.factors]
        return self.spec.dtype_of(arrays)

    @property
    def compute_dtype(self) -> np.dtype:
        return np.dtype(accumulator(self.dtype.name))

    @property
    def dense(self) -> list[tuple[Any, tuple[str, ...]]]:
        """The dense factors, with their index variables."""
        pairs = zip(self.factors, self.spec.factors, strict=True)
        return [(x, term.before) for x, term in pairs if not isinstance(x, OnTiles)]

    # ---- factors in a bucket

    def tiled(self, number: int) -> list[Labelled]:
        """The factors on the pattern, in a bucket."""
        pairs = zip(self.factors, self.spec.factors, strict=True)
        return [Labelled(x.parts[number], (*t.before, *TILE)) for x, t in pairs if isinstance(x, OnTiles)]

    def gathered(self, number: int) -> list[Labelled]:
        """The dense factors, with the tiles that a bucket reads."""
        out = list[Labelled]()
        for x, labels in self.dense:
            for v, axes in ((self.i, (ROW, LANE)), (self.j, (ROW, COLUMN))):
                if v in labels:
                    n = labels.index(v)
                    taken = self.tiles.take(x, n, v == self.j, number)
                    out.append(Labelled(taken, (*labels[:n], *axes, *labels[n + 1 :])))
            if self.i not in labels and self.j not in labels:
                out.append(Labelled(x, labels))
        return out

    # ---- results on the pattern

    def values(self, number: int) -> jax.Array:
        """The products of a bucket, summed over the index variables that the result lacks."""
        order = (*self.spec.result.before, *TILE)
        factors, dense = self.tiled(number), self.gathered(number)
        summed = {v for one in (*factors, *dense) for v in one.labels} - set(order)
        if any(not summed.isdisjoint(one.labels) for one in factors):
            raise NotTiledError("a sum of values over a batch")
        if summed:
            labels = tuple(v for v in order if any(v in one.labels for one in dense))
            dense = [Labelled(self.contract(dense, labels), labels)]
        product = reduce(jnp.multiply, [one.align(order).astype(self.compute_dtype) for one in (*factors, *dense)])
        sizes = dict(self.spec.sizes)
        lead = [sizes[v] for v in self.spec.result.before]
        return jnp.broadcast_to(product, (*lead, *product.shape[len(lead) :])).astype(self.dtype)

    def contract(self, factors: Sequence[Labelled], labels: Sequence[str]) -> jax.Array:
        """The einsum of arrays, in the dtype of sums.

        By default, some platforms round the factors of products of float32, which products of entries never do. So they
        do it only if the user has set `jax_default_matmul_precision`.
        """
        numbers = {v: n for n, v in enumerate(dict.fromkeys(v for one in factors for v in one.labels))}
        operands = list[Any]()
        for one in factors:
            operands += [one.array, [numbers[v] for v in one.labels]]
        is_set = jax.config.jax_default_matmul_precision is not None  # type: ignore[attr-defined]
        precision = None if is_set else jax.lax.Precision.HIGHEST
        out = [numbers[v] for v in labels]
        return jnp.einsum(*operands, out, precision=precision, preferred_element_type=self.compute_dtype)

    # ---- dense results

    def sums(self, number: int) -> jax.Array:
        """The sums of a bucket over its entries, with the axes of its tiles in place of the result's i or j."""
        add, before = self.spec.semiring.add, self.spec.result.before
        own = {self.i: (ROW, LANE), self.j: (ROW, COLUMN)}
        out = tuple(label for v in before for label in own.get(v, (v,)))
        factors, dense, mask = self.tiled(number), self.gathered(number), self.tiles.mask(number)
        lead = tuple(dict.fromkeys(v for one in factors for v in one.labels if v not in TILE))
        order = (*lead, *TILE)
        arrays = [one.align(order).astype(self.compute_dtype) for one in factors]
        product = reduce(jnp.multiply, arrays) if arrays else jnp.ones((), self.compute_dtype)
        values = Labelled(jnp.where(mask, product, self.zero), order)
        if not dense:
            kept = [v for v in order if v in out]
            summed = [n for n, v in enumerate(order) if v not in out]
            return Labelled(reduce_axes(values.array, summed, add, self.tiles.machine), tuple(kept)).align(out)
        return jax.lax.cond(
            reduce(jnp.logical_and, [jnp.isfinite(one.array).all() for one in dense]),
            lambda: self.contract([values, *dense], out),
            lambda: self.sums_one_by_one(values, dense, mask, out),
        )

    def sums_one_by_one(
        self, values: Labelled, dense: Sequence[Labelled], mask: jax.Array, out: tuple[str, ...]
    ) -> jax.Array:
        """The sums of products that are masked before they are added: a column of the tiles at a time."""
        known = dict.fromkeys(v for one in (*dense, values) for v in one.labels if v != COLUMN)
        order = (*(v for v in out if v in known), *(v for v in known if v not in out))
        summed = tuple(n for n, v in enumerate(order) if v not in out)
        stored = Labelled(mask, TILE)

        def sums_of_column(number: jax.Array) -> jax.Array:
            aligned = [one.column(number).align(order).astype(self.compute_dtype) for one in (values, *dense)]
            product = jnp.where(stored.column(number).align(order), reduce(jnp.multiply, aligned), self.zero)
            return product.sum(summed)

        columns = np.arange(mask.shape[-1], dtype=np.int32)
        if COLUMN in out:
            return jnp.moveaxis(jax.lax.map(sums_of_column, columns), 0, out.index(COLUMN))
        start = jax.eval_shape(sums_of_column, columns[0])
        add = lambda total, number: (total + sums_of_column(number), None)  # noqa: E731
        return jax.lax.scan(add, jnp.zeros(start.shape, start.dtype), columns)[0]

    @property
    def zero(self) -> np.ndarray:
        return np.asarray(self.spec.semiring.zero(self.dtype.name)).astype(self.compute_dtype)

    def assemble_rows(self, sums: Sequence[jax.Array], axis: int) -> jax.Array:
        """Put the tile rows of all buckets in order."""
        return self.put_in_order(jnp.concatenate(sums, axis), self.tiles.tiling.row_order, axis, self.i)

    def assemble_columns(self, sums: Sequence[jax.Array], axis: int) -> jax.Array:
        """Add what all tile rows contribute to each tile column."""
        tiles = [x.reshape(*x.shape[:axis], -1, SIDE, *x.shape[axis + 2 :]) for x in sums]
        whole, (groups, order) = jnp.concatenate(tiles, axis), self.tiles.tiling.by_column
        columns = [
            reduce_axes(self.take(whole, index, axis), (axis + 1,), self.spec.semiring.add, self.tiles.machine)
            for index in groups
        ]
        return self.put_in_order(jnp.concatenate(columns, axis), order, axis, self.j)

    def put_in_order(self, tiles: jax.Array, order: np.ndarray, axis: int, v: str) -> jax.Array:
        ordered = self.take(tiles, order, axis)
        whole = ordered.reshape(*ordered.shape[:axis], -1, *ordered.shape[axis + 2 :])
        return jax.lax.slice_in_dim(whole, 0, dict(self.spec.sizes)[v], axis=axis)

    def take(self, tiles: jax.Array, index: np.ndarray, axis: int) -> jax.Array:
        """The tiles at an index; zeros of the semiring past their end."""
        return jnp.take(tiles, index, axis=axis, mode="fill", fill_value=float(self.zero))


def _take_tiles(x: jax.Array, axis: int, tiles: np.ndarray) -> jax.Array:
    """Divide an axis into tiles, and take some of them: (…, *tiles.shape, SIDE, …)."""
    count = -(-x.shape[axis] // SIDE)
    widths = [(0, count * SIDE - x.shape[axis] if n == axis else 0) for n in range(x.ndim)]
    divided = jnp.pad(x, widths).reshape(*x.shape[:axis], count, SIDE, *x.shape[axis + 1 :])
    return jnp.take(divided, tiles, axis=axis, mode="clip")
