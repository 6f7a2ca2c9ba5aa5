"""A search, in random order, for pairs (row, column) that a matrix does not store."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

ROUNDS = 12  # of the permutation: with 8 the pairs of a 5 x 3 matrix are not equally likely
MOST = np.uint32(2**32 - 1)
TURNS = 1024  # about the maximum number of turns that are needed, even if the graph has nearly all edges

State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The state of a search: each block's next candidate, each block's number of found pairs, and all found pairs."""


class PairBlocks(NamedTuple):
    """Blocks of a matrix, and the number of pairs to draw in each block. Attributes are arrays (blocks,)."""

    first_row: jax.Array
    rows: jax.Array
    first_column: jax.Array
    columns: jax.Array
    wanted: jax.Array


class _Domain(NamedTuple):
    """The pairs (row, column) of blocks, in a random order.

    Attributes are uint32 arrays with one element for each block, or with one element for each candidate pair, which
    describes the block of that pair.

    A Feistel network permutes pairs of an outer and an inner number. It mixes well if the numbers have similar ranges,
    so the longer side of a block is cut into parts: the outer number encodes a coordinate of the shorter side and a
    part, and the inner number is a position in the part.
    """

    rows: jax.Array
    columns: jax.Array
    parts: jax.Array
    inner: jax.Array

    @staticmethod
    def of(blocks: PairBlocks) -> _Domain:
        rows, columns = (size.astype(np.uint32) for size in (blocks.rows, blocks.columns))
        short, long = jnp.minimum(rows, columns), jnp.maximum(jnp.maximum(rows, columns), 1)
        parts = jnp.sqrt(long / jnp.maximum(short, 1).astype(np.float32)).round().astype(np.uint32)
        return _Domain(rows, columns, parts, (long + parts - 1) // parts)

    @property
    def outer(self) -> jax.Array:
        """The number of values that the outer number may have, which is 0 in a block without pairs."""
        return jnp.minimum(self.rows, self.columns) * self.parts

    def pair_at(self, at: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the row and the column at a position in the random order, and whether the block has a pair there."""
        outer = jnp.maximum(self.outer, 1)

        def rounds(n: int, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            first, second = pair
            first = (first + _hash_bits(second + keys[2 * n]) % outer) % outer
            return first, (second + _hash_bits(first + keys[2 * n + 1]) % self.inner) % self.inner

        start = at // self.inner % outer, at % self.inner
        first, second = jax.lax.fori_loop(0, ROUNDS // 2, rounds, start)
        short, long = first // self.parts, first % self.parts * self.inner + second
        wide = self.rows <= self.columns
        exists = (at // self.inner < self.outer) & (long < jnp.maximum(self.rows, self.columns))
        return jnp.where(wide, short, long), jnp.where(wide, long, short), exists


@partial(jax.jit, static_argnames=("count", "triangle"))
def absent_pairs(
    key: jax.Array, pointers: jax.Array, columns: jax.Array, blocks: PairBlocks, *, count: int, triangle: bool
) -> jax.Array:
    """Find pairs that are not stored, as an array (2, count) of rows and columns. Pairs that a block lacks are -1.

    A candidate is a position in a random order of the pairs; some positions have no pair. Each iteration of the loop
    takes the next candidates of each block, a few more than are wanted, and keeps the pairs there. With `triangle`,
    only pairs whose row is greater than their column are found. Then the stored entries have to be symmetric and
    contain the diagonal.
    """
    spare = max(len(columns) // (TURNS * len(blocks.wanted)), 16)
    width = jnp.where(blocks.wanted > 0, blocks.wanted * (1 + triangle) + blocks.wanted // 8 + spare, 0)
    width, candidates = width.astype(np.uint32), count * (1 + triangle) + count // 8 + spare * len(width)
    ends = jnp.cumsum(width.astype(np.int32))
    begins, candidate = ends - width.astype(np.int32), jnp.arange(candidates, dtype=np.int32)
    block = jnp.cumsum(jnp.zeros(candidates, np.int32).at[ends[:-1]].add(1, mode="drop"))
    number = jnp.where(candidate < ends[-1], candidate - begins[block], 0).astype(np.uint32)
    domain = _Domain.of(blocks)
    keys = _hash_bits(jax.random.bits(key, (ROUNDS, 1), np.uint32) + jnp.arange(len(width), dtype=np.uint32))
    offsets = jnp.cumsum(blocks.wanted) - blocks.wanted
    # The pairs of each block that are not stored, or `MOST` for a block of about 2³² pairs.
    is_small = blocks.rows.astype(np.float32) * blocks.columns.astype(np.float32) < 4.29e9
    stored = pointers[blocks.first_row + blocks.rows] - pointers[blocks.first_row]
    size = blocks.rows.astype(np.uint32) * blocks.columns.astype(np.uint32)  # exact modulo 2³²
    free = jnp.where(is_small, size - stored.astype(np.uint32), MOST)
    limit = jnp.minimum(blocks.wanted.astype(np.uint32), free // (1 + triangle))

    def is_left(begin: jax.Array) -> jax.Array:
        """For each block, whether it has candidates at or after position `begin` whose positions fit uint32."""
        return (begin // domain.inner < domain.outer) & (begin <= MOST - width)

    def goes_on(state: State) -> jax.Array:
        begin, counts, _ = state
        return (is_left(begin) & (counts.astype(np.uint32) < limit)).any()

    def turn(state: State) -> State:
        begin, counts, pairs = state
        at, domain_of_candidate = begin[block] + number, jax.tree.map(lambda one: one[block], domain)
        row, rank, is_pair = domain_of_candidate.pair_at(at, keys[:, block])
        is_pair &= (candidate < ends[-1]) & is_left(begin)[block]
        row = row.astype(np.int32) + blocks.first_row[block]
        column, exists = absent(pointers, columns, row, rank, blocks.first_column[block], blocks.columns[block])
        is_pair &= exists
        if triangle:
            is_pair &= row > column
        total = jnp.cumsum(is_pair, dtype=np.int32)
        before = jnp.where(begins > 0, total[begins - 1], 0)
        place = counts[block] + total - 1 - before[block]
        slot = jnp.where(is_pair & (place < blocks.wanted[block]), offsets[block] + place, count)
        pairs = pairs.at[:, slot].set(jnp.stack([row, column]), mode="drop")
        new = jnp.where(width > 0, total[jnp.maximum(ends - 1, 0)] - before, 0)
        return jnp.where(is_left(begin), begin + width, begin), counts + new, pairs

    start = jnp.zeros_like(width), jnp.zeros_like(blocks.wanted), jnp.full((2, count), -1, np.int32)
    return jax.lax.while_loop(goes_on, turn, start)[2]


def _hash_bits(x: jax.Array) -> jax.Array:
    """Hash uint32 numbers by the last step of MurmurHash3."""
    x = (x ^ x >> 16) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> 13) * np.uint32(0xC2B2AE35)
    return x ^ x >> 16


def absent(
    pointers: jax.Array,
    columns: jax.Array,
    row: jax.Array,
    rank: jax.Array,
    first: jax.Array | int,
    size: jax.Array | int,
) -> tuple[jax.Array, jax.Array]:
    """Find, in each row, the column with index `rank` among the columns that are not stored, and whether it exists.

    There are `size` columns, starting at `first`. If a row stores the columns c[0] < c[1] < ..., then c[p] - p columns
    before c[p] are not stored. Bisection finds how many stored columns precede the result.
    """
    begin, count = pointers[row], pointers[row + 1] - pointers[row]
    rank = rank.astype(columns.dtype)
    if not len(columns):  # JAX gathers nothing from an empty array
        return (first + rank).astype(np.int32), rank < size

    def halve_bounds(bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        before = columns.at[begin + middle].get(mode="fill", fill_value=0) - first - middle
        precedes = (before <= rank) & (low < high)
        return jnp.where(precedes, middle + 1, low), jnp.where(precedes, high, jnp.minimum(middle, high))

    low, _ = jax.lax.while_loop(
        lambda bounds: (bounds[0] < bounds[1]).any(), halve_bounds, (jnp.zeros_like(count), count)
    )
    return (first + rank + low).astype(np.int32), rank < size - count
