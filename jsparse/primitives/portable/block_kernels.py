"""Pallas kernels for products of blocks: one for GPUs, which Triton compiles, and one for TPUs, which Mosaic compiles.

    R[t, n, m] = Σ X[s(e), n, k] · V[e, k, m]        summed over k, and over the entries e of target t

The source of an entry e is s(e). On a GPU each program computes a tile of R, and loops over the entries of its target
and the tiles of k. On a TPU one program takes the entries one after the other. The numbers of their sources and slots
are loaded before it starts, so it knows the next tiles and fetches them while it multiplies. Both kernels keep sums in
float32, and round them once.

This module imports Pallas, so it is imported only on demand. Each kernel imports its own backend of Pallas, because a
release of JAX may lack one of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache, partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from jsparse import _compat
from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.primitives.portable.blocks import BlockOperands, BlockProduct, block_product
from jsparse.primitives.spec import Spec

GPU_DTYPES = ("float16", "bfloat16", "float32")
TPU_DTYPES = ("bfloat16", "float32")

MOST_SCALARS = 1 << 16
"""The most pointers, slots, sources and targets of a TPU kernel. They are kept in a memory of one megabyte."""


class Ref(Protocol):
    """An array in the memory of a kernel."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __getitem__(self, index: object) -> jax.Array: ...

    def __setitem__(self, index: object, value: jax.Array) -> None: ...


def multiply_on_gpu(
    spec: Spec, factors: Sequence[Array], index: Sequence[Sequence[Array]], interpret: bool = False
) -> jax.Array | None:
    """Compute the einsum by the kernel for GPUs. Return None unless the einsum is a product of blocks.

    Block sizes have to be powers of two, at least 16: Triton has no other arrays, and no smaller products."""
    product = _of_floats(spec, factors, GPU_DTYPES)
    if product is None or any(k < 16 or k & (k - 1) for k in _block(product)) or not _has_triton():
        return None
    return product.result(_by_triton(product.operands(factors, index[0]), interpret))


def multiply_on_tpu(
    spec: Spec, factors: Sequence[Array], index: Sequence[Sequence[Array]], interpret: bool = False
) -> jax.Array | None:
    """Compute the einsum by the kernel for TPUs. Return None unless the einsum is a product of not too many blocks.

    Block sizes have to be multiples of 128, as the matrix unit requires."""
    product = _of_floats(spec, factors, TPU_DTYPES)
    if product is None or any(k % 128 for k in _block(product)):
        return None
    if 3 * spec.walks[0].pattern.nse + product.size(product.targets) >= MOST_SCALARS:
        return None
    return product.result(_by_mosaic(product.operands(factors, index[0]), interpret))


def _of_floats(spec: Spec, factors: Sequence[Array], dtypes: Sequence[str]) -> BlockProduct | None:
    """Return the einsum as a product of blocks. None if it is not such a product, is empty, or has other dtypes."""
    product = block_product(spec)
    names = {np.dtype(dtype).name for dtype in (spec.dtype_of(factors), *(x.dtype for x in factors))}
    return None if product is None or product.is_empty(factors) or not names.issubset(dtypes) else product


def _block(product: BlockProduct) -> tuple[int, int]:
    return product.size(product.summed), product.size(product.kept)


# ---- GPU


@cache
def _has_triton() -> bool:
    """Whether Pallas has its backend for Triton. Warn if it has not, once."""
    try:
        from jax.experimental.pallas import triton  # noqa: F401, PLC0415
    except ImportError:
        warnings.warn(
            f"jsparse.config.blocks is 'pallas', but Pallas of JAX {jax.__version__} has no backend for Triton, so "
            f"programs for GPUs have XLA operations. Set jsparse.config.blocks = 'xla', or install another JAX.",
            stacklevel=2,
        )
        return False
    return True


def _by_triton(blocks: BlockOperands, interpret: bool) -> jax.Array:
    from jax.experimental.pallas import triton  # noqa: PLC0415

    (targets, n, k, m), entries = blocks.sizes, blocks.entries
    tiles = (min(64, max(16, pl.next_power_of_2(n))), min(64, k), min(64, m))
    operands = _operands(blocks, (entries.pointers, entries.slots, entries.sources), tiles[0])
    padded = operands[-2].shape[1]
    out = pl.pallas_call(
        partial(_sum_of_a_tile, tiles=tiles, steps=k // tiles[1], is_transposed=blocks.is_transposed),
        out_shape=_compat.varying_like(operands[0], (targets, padded, m), blocks.dtype),
        grid=(targets, padded // tiles[0], m // tiles[2]),
        out_specs=pl.BlockSpec((None, tiles[0], tiles[2]), lambda t, n, m: (t, n, m)),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="jsparse_blocks",
    )(*operands)
    return out[:, :n]


def _sum_of_a_tile(
    pointers: Ref,
    slots: Ref,
    sources: Ref,
    x: Ref,
    values: Ref,
    out: Ref,
    *,
    tiles: tuple[int, int, int],
    steps: int,
    is_transposed: bool,
) -> None:
    """Compute one tile of the result. Tiles have `tiles` elements along n, k and m. There are `steps` tiles along k."""
    target, n, m = (pl.program_id(axis) for axis in range(3))

    def add_product(step: jax.Array, total: jax.Array) -> jax.Array:
        entry, k = jax.lax.div(step, np.int32(steps)), jax.lax.rem(step, np.int32(steps))
        at_n, at_k, at_m = (pl.ds(at * size, size) for at, size in zip((n, k, m), tiles, strict=True))
        block = (at_m, at_k) if is_transposed else (at_k, at_m)
        return total + _multiply_tiles(x[sources[entry], at_n, at_k], values[(slots[entry], *block)], is_transposed)

    first, end = pointers[target] * np.int32(steps), pointers[target + 1] * np.int32(steps)
    total = jax.lax.fori_loop(first, end, add_product, jnp.zeros((tiles[0], tiles[2]), jnp.float32))
    out[...] = total.astype(out.dtype)


# ---- TPU


def _by_mosaic(blocks: BlockOperands, interpret: bool) -> jax.Array:
    from jax.experimental.pallas import tpu  # noqa: PLC0415

    (targets, n, k, m), entries = blocks.sizes, blocks.entries
    tile_n, tile_k, tile_m = min(256, pl.cdiv(n, 16) * 16), _tile(k), _tile(m)
    block = (tile_m, tile_k) if blocks.is_transposed else (tile_k, tile_m)
    operands = _operands(blocks, (entries.pointers, entries.slots, entries.sources, entries.targets), tile_n)
    padded, steps = operands[-2].shape[1], k // tile_k
    places = _TileIndices(steps, blocks.is_transposed)
    grid_spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=4,
        grid=(padded // tile_n, m // tile_m, len(blocks.values), steps),
        in_specs=[pl.BlockSpec((None, tile_n, tile_k), places.x), pl.BlockSpec((None, *block), places.values)],
        out_specs=pl.BlockSpec((None, tile_n, tile_m), places.result),
        scratch_shapes=[tpu.VMEM((tile_n, tile_m), jnp.float32)],
    )
    out = pl.pallas_call(
        partial(_step, steps=steps, is_transposed=blocks.is_transposed),
        out_shape=_compat.varying_like(operands[0], (targets, padded, m), blocks.dtype),
        grid_spec=grid_spec,
        compiler_params=tpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary", "arbitrary")),
        interpret=interpret,
        name="jsparse_blocks",
    )(*operands)
    is_written = operands[0][1:] > operands[0][:-1]
    return jnp.where(is_written[:, None, None], out[:, :n], np.zeros((), blocks.dtype))


@dataclass(frozen=True)
class _TileIndices:
    """The indices of the tiles that each step of the kernel accesses: of X, of the blocks and of the result.

    A step is numbered by (tile of n, tile of m, entry, tile of k). Steps after the last stored entry, in padding, name
    the last tiles of that entry again, so they fetch nothing.

    Attributes:
        steps: the number of tiles of k.
        is_transposed: whether the blocks are transposed.
    """

    steps: int
    is_transposed: bool

    def _within(self, entry: jax.Array, k: jax.Array, pointers: Ref) -> tuple[jax.Array, jax.Array]:
        last = pointers[pointers.shape[0] - 1] - np.int32(1)
        return jnp.minimum(entry, jnp.maximum(last, np.int32(0))), jnp.where(entry > last, np.int32(self.steps - 1), k)

    def x(self, n: jax.Array, m: jax.Array, entry: jax.Array, k: jax.Array, *numbers: Ref) -> tuple[jax.Array, ...]:
        pointers, _, sources, _ = numbers
        entry, k = self._within(entry, k, pointers)
        return sources[entry], n, k

    def values(
        self, n: jax.Array, m: jax.Array, entry: jax.Array, k: jax.Array, *numbers: Ref
    ) -> tuple[jax.Array, ...]:
        pointers, slots, _, _ = numbers
        entry, k = self._within(entry, k, pointers)
        return (slots[entry], m, k) if self.is_transposed else (slots[entry], k, m)

    def result(
        self, n: jax.Array, m: jax.Array, entry: jax.Array, k: jax.Array, *numbers: Ref
    ) -> tuple[jax.Array, ...]:
        pointers, _, _, targets = numbers
        entry, _ = self._within(entry, k, pointers)
        return targets[entry], n, m


def _step(
    pointers: Ref,
    slots: Ref,
    sources: Ref,
    targets: Ref,
    x: Ref,
    values: Ref,
    out: Ref,
    total: Ref,
    *,
    steps: int,
    is_transposed: bool,
) -> None:
    """Add the product of a tile of X and a tile of one entry's block to the sum of the entry's target.

    The step after which the sum is complete writes it to `out`.
    """
    entry, k = pl.program_id(2), pl.program_id(3)
    target = targets[entry]

    @pl.when(entry < pointers[pointers.shape[0] - 1])
    def _() -> None:
        @pl.when((entry == pointers[target]) & (k == 0))
        def _() -> None:
            total[...] = jnp.zeros(total.shape, total.dtype)

        total[...] += _multiply_tiles(x[...], values[...], is_transposed)

        @pl.when((entry + 1 == pointers[target + 1]) & (k == steps - 1))
        def _() -> None:
            out[...] = total[...].astype(out.dtype)


# ---- both


def _tile(size: int) -> int:
    """The size of a tile of an axis whose size is a multiple of 128."""
    return next(tile for tile in (512, 256, 128) if size % tile == 0)


def _operands(blocks: BlockOperands, numbers: Sequence[Array], tile: int) -> tuple[jax.Array, ...]:
    """Return a kernel's operands: `numbers`, the dense factor, and the blocks.

    Axis 1 of the dense factor is padded to a multiple of `tile`.
    """
    x = jnp.pad(blocks.x, ((0, 0), (0, -blocks.x.shape[1] % tile), (0, 0)))
    return _compat.same_varying((*map(jnp.asarray, numbers), x, blocks.values))


def _multiply_tiles(x: jax.Array, block: jax.Array, is_transposed: bool) -> jax.Array:
    """The product of a tile of X and a tile of a block, in float32: there, products of two narrow floats are exact."""
    if x.dtype != block.dtype:
        x, block = x.astype(jnp.float32), block.astype(jnp.float32)
    contracted = ((1,), (1 if is_transposed else 0,))
    return jax.lax.dot_general(x, block, (contracted, ((), ())), preferred_element_type=jnp.float32)
