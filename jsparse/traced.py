"""Dynamic tensors made and converted where nothing of their entries is known yet: inside jit, or for one later."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import same_varying
from jsparse.contraction import SUPPORTED_DTYPES
from jsparse.dynamic import Derived, DynamicPattern
from jsparse.errors import NotYetSupportedError, PatternError, ShapeError
from jsparse.formats import DynamicType, Format, derived_format
from jsparse.formats.retype import core_type
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.routine import Assembled, assemble, expand, nonzero
from jsparse.primitives.spec import Spec, Term
from jsparse.tensor import SparseTensor

__all__ = ["converted", "dynamic_type", "from_traced_coords", "from_traced_dense", "with_derived"]


def dynamic_type(shape: Sequence[int], format: Format, nse: int) -> DynamicType:
    """The type with room for `nse` slots: whole blocks of trailing dense levels, no more than there are positions."""
    if nse < 0:
        raise ShapeError(f"Expected nse >= 0, but got {nse}.")
    if not format.levels or format.is_dense:
        raise NotYetSupportedError(
            f"A dynamic pattern needs a level that stores coordinates, but {format.name} has none. Use a static tensor."
        )
    sizes = tuple(int(size) for size in shape)
    trailing = prod(sizes[level.dim] for level in format.levels[format.ndim - format.trailing_dense :])
    core = min(-(-nse // max(trailing, 1)), prod(sizes) // max(trailing, 1))
    return DynamicType(sizes, format, core * trailing)


def from_traced_coords(coords: Any, values: Any, type_: DynamicType) -> SparseTensor:
    """The tensor of that type with `values` (n,) at `coords` (ndim, n), sorted and summed; differentiable in values.

    Coordinates out of range are padding. Float values are NaN if there was no room; a concrete call raises instead.
    """
    coords = jnp.asarray(coords)
    if not jnp.issubdtype(coords.dtype, jnp.integer):
        raise PatternError(f"Expected integer coordinates, but got dtype {coords.dtype}.")
    if coords.ndim != 2 or coords.shape[0] != len(type_.shape):
        raise PatternError(
            f"Expected coordinates of shape ({len(type_.shape)}, n), a row for each dimension of the shape "
            f"{type_.shape}, but got {coords.shape}."
        )
    if coords.dtype.itemsize < 4 or jnp.issubdtype(coords.dtype, jnp.unsignedinteger):
        coords = coords.astype(jnp.int64 if coords.dtype.itemsize == 8 else jnp.int32)
    values = jnp.asarray(values)
    if values.shape != coords.shape[1:]:
        raise ShapeError(
            f"Expected values of shape {coords.shape[1:]}, one for each column of the coordinates, but got "
            f"{values.shape}."
        )
    made = assemble(coords, type_)
    return _checked(_gather_sums(values, made, type_.nse), DynamicPattern(type_, made.arrays))


def from_traced_dense(x: Any, type_: DynamicType) -> SparseTensor:
    """The tensor of that type that stores what of `x` is not zero; differentiable on that pattern."""
    pattern = DynamicPattern(type_, nonzero(x, type_))
    letters = "abcdefghijklmnopqrstuvwxyz"[: x.ndim]
    if x.dtype.name in SUPPORTED_DTYPES:
        from jsparse.einsum import einsum  # which is built on tensors

        like = SparseTensor._unchecked(jnp.zeros(type_.nse, x.dtype), pattern)
        values = cast(SparseTensor, einsum(f"{letters}->{letters}", x, out_format=like)).values
    else:
        values = x.at[tuple(expand(pattern.arrays, type_))].get(mode="fill", fill_value=0)
    return _checked(values, pattern)


def converted(tensor: SparseTensor, type_: DynamicType) -> SparseTensor:
    """A dynamic tensor in another format, or with other room."""
    assert isinstance(tensor.pattern, DynamicPattern)
    coords = expand(tensor.pattern.arrays, tensor.pattern.type)
    made = assemble(coords, type_)
    pattern = DynamicPattern(type_, made.arrays)
    return _checked(_gather_sums(tensor.values, made, type_.nse), pattern, tensor.pattern.overflowed)


def with_derived(pattern: DynamicPattern) -> DynamicPattern:
    """The pattern with its transposed index: the entries of its core in the reverse order of levels."""
    if pattern.derived:
        return pattern
    core = core_type(pattern.type)
    order = tuple(reversed(core.format.order))
    if order == core.format.order:
        return pattern
    type_ = DynamicType(core.shape, derived_format(cast(Any, core), order), core.nse)
    made = assemble(expand(pattern.arrays, core), type_)
    return DynamicPattern(pattern.type, pattern.arrays, (Derived(type_, made.arrays, made.order, made.slots),))


def _gather_sums(values: Any, made: Assembled, nse: int) -> Any:
    """(nse,) the sum of each slot's values: the product of the matrix that says which input goes to which slot with
    the inputs. Its transposed index, by which cotangents come back, is `slots`: a row of one entry for each input."""
    inputs = values.shape[0]
    if values.dtype.name not in SUPPORTED_DTYPES:
        return jnp.zeros(nse, values.dtype).at[jnp.where(made.slots < 0, nse, made.slots)].add(values, mode="drop")
    shape = (nse, inputs)
    matrix, transposed = (DynamicType(shape, Format.of(name, 2), inputs) for name in ("csr", "csc"))
    sizes = (("q", nse), ("k", inputs))
    spec = Spec((Term(("k",)),), Term(("q",)), ("q", "k"), matrix, sizes, (transposed,))
    ones = jnp.arange(inputs + 1, dtype=made.slots.dtype)
    operands = (values, made.starts, made.order, ones, made.slots, made.slots, made.slots)
    return einsum_p.bind(*same_varying(operands), spec=spec)


def _checked(values: Any, pattern: DynamicPattern, already: Any = False) -> SparseTensor:
    """The tensor; after an overflow its float values are NaN, and concrete ones are refused."""
    overflowed = pattern.overflowed
    if not isinstance(overflowed, jax.core.Tracer) and bool(np.any(overflowed)):
        raise PatternError(
            f"Expected at most nse={pattern.nse:,} entries in a {pattern.format.name} tensor of shape {pattern.shape}, "
            f"but there are {int(pattern.count):,}. Pass nse={int(pattern.count)} or more."
        )
    if jnp.issubdtype(values.dtype, jnp.inexact):
        values = jnp.where(jnp.logical_or(overflowed, already), jnp.nan, values)
    return SparseTensor._unchecked(values, pattern)
