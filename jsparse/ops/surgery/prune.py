"""`A.prune` and `A.drop_zeros`, which drop stored entries of a tensor."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, jax_array
from jsparse.base.limits import parse_nse
from jsparse.convert.composed import to_plain
from jsparse.errors import DTypeError, PatternError, ShapeError, short_repr
from jsparse.formats import Pattern
from jsparse.ops.surgery.restrict import restrict
from jsparse.ops.surgery.selection import capacity_for, is_traced, parse_count, select_slots, slots_in_use
from jsparse.primitives.segments import largest
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def prune(
    self: SparseTensor,
    keep: ArrayLike | None = None,
    *,
    mask: TensorLike | None = None,
    threshold: ArrayLike | None = None,
    nse: int | None = None,
) -> SparseTensor:
    """Drop stored entries, except those of largest magnitude, those in a mask, or those that reach a threshold.

        >>> A.prune(keep=1000)  # the 1,000 entries of largest magnitude
        >>> A.prune(threshold=1e-3)
        >>> A.prune(mask=A.values > 0)

    Pruning by magnitude is from Han et al., "Learning both weights and connections for efficient neural networks"
    (2015).

    If the pattern and the entries to keep are known, the result is static and stores exactly these entries. If the
    entries to keep depend on traced values, or the tensor is dynamic, the result is dynamic: one program serves all
    contents. Formats with blocks or runs keep entire blocks and runs, in which the entries that are not kept become 0.
    The result is differentiable in the values of the entries that stay.

    Args:
        keep: how many entries stay; the number may be traced. Among entries of equal magnitude, the first ones in
            storage order stay. NaN counts as the largest.
        mask: the entries that stay: bools of shape (nse,), one for each slot, or a SparseTensor of bools.
        threshold: entries stay if their magnitude is NaN, or at least this number, which may be traced.
        nse: the capacity of a dynamic result. The default is enough for `keep` entries if this number is known, else it
            is the capacity of this tensor. For a static result `nse` is an upper bound that is checked.

    Raises PatternError if not exactly one of keep, mask and threshold is given, or if the entries exceed `nse`;
    ShapeError or DTypeError if an argument does not have the shape or dtype named above.
    """
    if isinstance(self, ComposedTensor):
        if mask is not None and not isinstance(mask, SparseTensor):
            slots = jax_array(mask, "a mask of bools for A.prune")  # one for each slot, as the values have
            mask = to_plain(ComposedTensor(slots, self.pattern)).values
        return to_plain(self).prune(keep, mask=mask, threshold=threshold, nse=nse)
    check_leaves(self, "A in A.prune")
    nse = parse_nse(nse, "A.prune")
    if sum(choice is not None for choice in (keep, mask, threshold)) != 1:
        raise PatternError(
            "Expected exactly one of keep=, mask= and threshold= in A.prune, to say which entries stay, but got "
            f"keep={short_repr(keep, 20)}, mask={short_repr(mask, 20)} and threshold={short_repr(threshold, 20)}."
        )
    capacity = self.nse
    if mask is not None:
        kept = _of_mask(self, mask)
    elif threshold is not None:
        kept = _of_threshold(self, threshold)
    else:
        count, known = _count(keep, self.nse)
        bound = capacity_for(known, self.pattern)
        capacity = capacity if bound is None else min(capacity, bound)
        used = None if isinstance(self.pattern, Pattern) else slots_in_use(self.pattern)
        kept = largest(self.values, count, valid=used, by_magnitude=True)
    return select_slots(self, kept, nse, capacity)


def drop_zeros(self: SparseTensor, *, nse: int | None = None) -> SparseTensor:
    """Drop stored entries whose value is 0. NaN stays.

        >>> A.drop_zeros()

    The result is static if the pattern is static and the values are known, else dynamic with the capacity `nse`, by
    default the capacity of this tensor. A block or run of a format stays if it has an entry other than 0.

    Shape and dtype stay the same. Raises PatternError if the entries exceed `nse`.
    """
    check_leaves(self, "A in A.drop_zeros")
    return select_slots(self, _stop_gradient(self.values) != 0, parse_nse(nse, "A.drop_zeros"), self.nse)


def _stop_gradient(values: jax.Array) -> Any:
    """Return the values without derivatives. Values that are not traced go to the host, where nothing is compiled."""
    return jax.lax.stop_gradient(values) if is_traced(values) else np.asarray(values)


def _count(keep: Any, nse: int) -> tuple[Any, int]:
    """Return the number of entries that stay, limited to `nse`, and a known upper bound on that number."""
    count, known = parse_count(keep)
    if count is None:
        raise ShapeError(
            f"Expected keep= of A.prune to be a number of entries, an integer >= 0, but got {short_repr(keep)}. To "
            "keep a fraction of the entries, write keep=int(0.9 * A.nse)."
        )
    if known is None:
        return jnp.minimum(count, nse), nse
    return np.int64(min(known, nse)), min(known, nse)


def _of_mask(tensor: SparseTensor, mask: TensorLike) -> Array:
    if isinstance(mask, SparseTensor):
        _check_bools(mask)
        mask = restrict(mask, tensor).values
    mask = mask if isinstance(mask, np.ndarray) else jax_array(mask, "a mask of bools for A.prune")
    _check_bools(mask)
    if mask.shape != (tensor.nse,):
        raise ShapeError(
            f"Expected mask= of A.prune to have shape ({tensor.nse},), one bool for each slot of {tensor!r}, but got "
            f"{mask.shape}. Pass a SparseTensor of bools to name entries by coordinates."
        )
    return mask


def _check_bools(mask: SparseTensor | Array) -> None:
    if mask.dtype != np.bool_:
        raise DTypeError(f"Expected mask= of A.prune to hold bools, but got {mask.dtype}. Write mask=(m != 0).")


def _of_threshold(tensor: SparseTensor, threshold: Any) -> Any:
    least = jax_array(threshold, "a number as threshold= of A.prune")
    if least.shape or jnp.issubdtype(least.dtype, jnp.complexfloating):
        raise ShapeError(
            f"Expected threshold= of A.prune to be one real number, but got {least.dtype} of shape {least.shape}. To "
            "pass a number for each entry, write mask=(abs(A.values) >= t)."
        )
    values, least = _stop_gradient(tensor.values), _stop_gradient(least)
    absolute = jnp.abs(values) if is_traced(values, least) else np.abs(values)
    # The magnitude of the smallest integer is negative, abs(int8(-128)) == -128, and NaN is not >= 0: both stay.
    return ~((absolute >= 0) & (absolute < least))
