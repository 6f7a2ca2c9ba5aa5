"""`A.regrow`: adds stored entries of value 0 to a tensor, where scores are largest."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, host_array
from jsparse.base.limits import parse_nse
from jsparse.convert.conversion import with_index_of
from jsparse.convert.dynamic_creation import assemble_tensor
from jsparse.errors import DTypeError, PatternError, ShapeError, short_repr
from jsparse.formats import Format, Pattern
from jsparse.formats.build import index_dtype
from jsparse.ops.surgery.restrict import restrict
from jsparse.ops.surgery.selection import capacity_for, in_capacity, is_traced, parse_count, slots_in_use
from jsparse.primitives.host import on_device
from jsparse.primitives.routine import nonzero
from jsparse.primitives.segments import largest
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width, dynamic_type
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def regrow(self: SparseTensor, scores: TensorLike, k: jax.Array | int, *, nse: int | None = None) -> SparseTensor:
    """Add `k` entries of value 0 where the scores are largest, at coordinates that are not stored yet.

        >>> W = W.prune(keep=W.nse - k).regrow(abs(gradient), k)  # RigL's step inside jit, at a constant W.nse

    This step is from Evci et al., "Rigging the lottery: making all tickets winners" (2020).

    The result is static if the patterns are static and the scores are known, else dynamic: one program serves all
    contents. Among equal scores the first ones are taken, in row-major order, or in the storage order of sparse scores.
    Scores of NaN and -inf are never taken, so fewer than `k` entries are added if fewer than `k` scores remain. The
    result is differentiable in the values of this tensor.

    Args:
        scores: real numbers. An array of this tensor's shape has scores for all coordinates, a SparseTensor for some.
        k: how many entries to add. It may be traced if `nse` is given: one program serves every `k`, such as the
            numbers of a schedule. A traced `k` larger than `nse` counts as `nse`.
        nse: the capacity of a dynamic result. The default has room for `k` new entries. For a static result `nse` is
            an upper bound that is checked.

    Raises ShapeError for scores of another shape, for a k that is not an integer >= 0, and for a traced k without
    `nse`,
    DTypeError for complex scores, PatternError if the entries exceed `nse`, or if a dynamic result in a format with
    runs has no `nse`.
    """
    check_leaves(self, "A in A.regrow")
    scores = _as_scores(scores, self.shape)
    nse = parse_nse(nse, "A.regrow")
    k, most = _count(k, nse, scores.nse if isinstance(scores, SparseTensor) else scores.size)
    if self.format.is_dense:  # everything is stored
        return self
    patterns = [x.pattern for x in (self, scores) if isinstance(x, SparseTensor)]
    values = scores.values if isinstance(scores, SparseTensor) else scores
    if all(isinstance(pattern, Pattern) for pattern in patterns) and not is_traced(self.values, values, k):
        return in_capacity(_of_static(self, scores, k), nse)
    base = self.dynamic()
    assert isinstance(base.pattern, DynamicPattern)
    more = capacity_for(most, base.pattern) if nse is None else 0
    if more is None:
        raise PatternError(
            f"Expected nse= for A.regrow in {base.format.name}, because its runs may grow by any number of slots. Pass "
            "the capacity of the result, or use a format with coordinates, A.asformat('csr')."
        )
    type_ = dynamic_type(base.shape, base.format, base.nse + more if nse is None else nse)
    coords, entries = _with_new(base, scores, k, most)
    grown = assemble_tensor(coords, entries, type_, base.pattern)
    grown = grown._propagate_overflow(*patterns[1:])
    return with_index_of(grown, base.pattern)


@partial(jax.jit, static_argnames="most", inline=True)
def _with_new(
    base: SparseTensor, scores: SparseTensor | jax.Array, k: jax.Array, most: int
) -> tuple[jax.Array, jax.Array]:
    """Return the coordinates and values of the tensor's entries, followed by k new entries of value 0.

    `most` is a known upper bound on k. Columns that hold no entry have coordinates out of range.
    """
    coords = jnp.asarray(base.pattern.to_coords())
    new = _new_entries(base, scores, k, most).astype(coords.dtype)
    values = jnp.concatenate([base.values, jnp.zeros(new.shape[1], base.dtype)])
    return jnp.concatenate([coords, new], axis=1), values


def _new_entries(base: SparseTensor, scores: SparseTensor | jax.Array, k: jax.Array, most: int) -> Array:
    """Return the coordinates of the new entries, shape (ndim, n)."""
    ones = SparseTensor._wrap(base.pattern.in_use(jnp.ones(base.nse, np.bool_)), base.pattern)
    if isinstance(scores, SparseTensor):
        free = jnp.asarray(slots_in_use(scores.pattern)) & ~restrict(ones, scores).values
        coords = jnp.asarray(scores.pattern.to_coords())
        outside = np.array(scores.shape, coords.dtype)[:, None]
        return jnp.where(_mask_of_largest(scores.values, free, k), coords, outside)
    free = ~ones.todense()
    type_ = dynamic_type(scores.shape, Format.of("coo", scores.ndim), most)
    mask = _mask_of_largest(scores.reshape(-1), free.reshape(-1), k).reshape(scores.shape)
    return DynamicPattern(type_, nonzero(mask, type_)).to_coords()


def _mask_of_largest(scores: Array, free: Array, k: Array | int) -> Array:
    """Return the mask of the k largest scores among the scores that `free` marks."""
    if not isinstance(scores, np.ndarray):
        scores = jax.lax.stop_gradient(scores)
    if scores.dtype.kind not in "iub":
        free = free & (scores > -np.inf)  # false for NaN, too
    return largest(scores, k, valid=free)


def _of_static(tensor: SparseTensor, scores: SparseTensor | Array, k: jax.Array | int) -> SparseTensor:
    """Build the static result on the host, because XLA would compile a program for each pattern."""
    pattern = tensor.pattern
    assert isinstance(pattern, Pattern)
    rows = pattern.rows()
    if isinstance(scores, SparseTensor):
        assert isinstance(scores.pattern, Pattern)
        scored = scores.pattern.rows()
        chosen = _mask_of_largest(np.asarray(scores.values), ~_is_stored(rows, scored, tensor.shape), k)
        new = [row[chosen] for row in scored]
    else:
        free = np.ones(scores.shape, np.bool_)
        free[tuple(rows)] = False
        chosen = _mask_of_largest(np.asarray(scores).reshape(-1), free.reshape(-1), k)
        new = list(np.unravel_index(np.flatnonzero(chosen), scores.shape))
    every = [np.concatenate(pair) for pair in zip(rows, new, strict=True)]
    values = np.asarray(tensor.values)
    values = np.concatenate([values, np.zeros(len(new[0]), values.dtype)])
    target, summed = Pattern.of_entries(every, values, tensor.shape, pattern.format)
    return SparseTensor._wrap(on_device([summed], [tensor.values])[0], target)


def _is_stored(rows: list[np.ndarray], given: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return the mask that tells which `given` coordinates are among the coordinates `rows`."""
    every = [np.concatenate(pair) for pair in zip(rows, given, strict=True)]
    _, built = Pattern.from_rows(every, shape, Format.of("coo", len(shape)))
    slots, stored = built.slots(), np.zeros(built.nse, np.bool_)
    stored[slots[: len(rows[0])]] = True
    return stored[slots[len(rows[0]) :]]


def _as_scores(scores: TensorLike, shape: tuple[int, ...]) -> SparseTensor | Array:
    expected = "scores of A.regrow to be an array of real numbers or a SparseTensor"
    if isinstance(scores, SparseTensor):
        check_leaves(scores, "scores in A.regrow")
    elif not isinstance(scores, jax.Array):
        scores = host_array(scores, expected)
    if scores.shape != shape:
        raise ShapeError(
            f"Expected scores of A.regrow to have the shape of A, {shape}, but got {scores.shape}. To score only some "
            "coordinates, pass a SparseTensor of that shape."
        )
    if jnp.issubdtype(scores.dtype, jnp.complexfloating):
        raise DTypeError(f"Expected real scores of A.regrow, but got {scores.dtype}. Write abs(scores).")
    size = scores.nse if isinstance(scores, SparseTensor) else scores.size
    check_width(index_dtype([], [size]), f"regrow from {size:,} scores")
    return scores


def _count(k: Any, nse: int | None, size: int) -> tuple[Any, int]:
    """Convert k to the number of new entries. Also return an upper bound: k if it is known, `nse` if k is traced."""
    count, known = parse_count(k)
    if count is None:
        raise ShapeError(f"Expected k of A.regrow to be a number of entries, an integer >= 0, but got {short_repr(k)}.")
    if known is not None:
        return np.int64(min(known, size)), known
    if nse is None:
        raise ShapeError(
            "Expected nse= of A.regrow, the capacity of the result, because the number of new entries is traced: "
            f"{short_repr(k)}. Pass nse=, or k as a Python integer, from which the capacity follows."
        )
    return jnp.minimum(count, nse), nse
