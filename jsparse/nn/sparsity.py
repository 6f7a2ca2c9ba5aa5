"""Pruning of weights: a schedule of the fraction of zeros, and N:M patterns."""

from __future__ import annotations

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import jax_array
from jsparse.convert.creation import asarray
from jsparse.errors import ShapeError, short_repr
from jsparse.formats import Format, PatternType
from jsparse.ops.surgery.selection import capacity_for, is_traced
from jsparse.primitives.segments import largest
from jsparse.tensor.sparse_tensor import SparseTensor


def gradual_sparsity(step: ArrayLike, *, begin: int, end: int, final: float, initial: float = 0.0) -> jax.Array:
    """Return the fraction of zeros at a step of gradual pruning. It grows fast at first and slowly at the end.

        s(t) = final + (initial - final) (1 - (t - begin) / (end - begin))³    from begin to end

        >>> [round(float(jsparse.nn.gradual_sparsity(t, begin=0, end=100, final=0.9)), 4) for t in (0, 50, 200)]
        [0.0, 0.7875, 0.9]

    Zhu and Gupta, "To prune, or not to prune", 2017.

    Args:
        step: the step, a number or a traced integer.
        begin, end: the steps between which the fraction grows.
        final, initial: the fractions at the end and before the beginning, from 0 to 1.

    Raises ShapeError for fractions out of range, or an end that is not after the beginning.
    """
    if not (0 <= initial <= 1 and 0 <= final <= 1 and begin < end):
        raise ShapeError(
            f"Expected fractions from 0 to 1 and begin < end in gradual_sparsity, but got initial={initial}, "
            f"final={final}, begin={begin}, end={end}."
        )
    left = 1 - jnp.clip((step - begin) / (end - begin), 0, 1)
    return final + (initial - final) * left**3


def n_of_m(weight: ArrayLike, n: int, m: int, *, axis: int = 0, format: str | Format = "csr") -> SparseTensor:
    """Keep the n largest magnitudes in each group of m consecutive elements. Among equal magnitudes the first stay.

        >>> W = jsparse.nn.n_of_m(jnp.arange(16.0).reshape(8, 2), 2, 4)
        >>> W.nse
        8

    N:M sparsity (Mishra et al., "Accelerating sparse deep neural networks", 2021). NaN is the largest magnitude, as in
    `A.prune`. The result is differentiable in the weight.

    Args:
        weight: an array (in, out) of any numbers or bools.
        n, m: n of m elements are kept; m divides the size of the axis.
        axis: the axis along which elements are consecutive; by default the axis of inputs.
        format: the format of the result.

    Returns a SparseTensor of the dtype of `weight`, with n / m of the elements; in a format with blocks, the other
    elements of a block are 0. It is static if the weight is known. If it is traced, as in jit, the result is dynamic,
    and one program serves all weights.

    Raises ShapeError if `weight` is not a matrix, m does not divide the axis, or n is not from 1 to m, DTypeError if
    `weight` does not hold numbers.
    """
    with jax.ensure_compile_time_eval():  # a known NumPy array stays known in jit
        w = jax_array(weight, "the weight of n_of_m to be a matrix of numbers")
    mask = n_of_m_mask(w, n, m, axis)
    layout, kept = Format.plain(format, 2), w.size // m * n
    capacity = capacity_for(kept, PatternType(w.shape, layout, kept))
    nse = w.size if capacity is None else capacity
    marked = asarray(mask, format=layout, dynamic=True, nse=nse) if is_traced(mask) else asarray(mask, format=layout)
    rows, columns = marked.coords
    return SparseTensor(jnp.where(marked.values, w[rows, columns], jnp.zeros((), w.dtype)), marked.pattern)


def n_of_m_mask(weight: jax.Array, n: int, m: int, axis: int) -> jax.Array:
    """Return the mask of the elements that `n_of_m` keeps."""
    if not all(isinstance(x, int | np.integer) and not isinstance(x, bool) and x > 0 for x in (n, m)):
        raise ShapeError(f"Expected positive integers n and m in n_of_m, but got {short_repr(n)} and {short_repr(m)}.")
    if weight.ndim != 2 or not n <= m or axis not in (0, 1, -1, -2) or weight.shape[axis] % m:
        raise ShapeError(
            f"Expected a matrix whose axis {axis} is a multiple of m, and 0 < n <= m, in n_of_m, but got "
            f"{weight.shape}, n={n} and m={m}."
        )
    known = jax.lax.stop_gradient(weight) if is_traced(weight) else weight
    with nullcontext() if is_traced(known) else jax.ensure_compile_time_eval():
        lines = jnp.moveaxis(known, axis, -1)
        kept = largest(lines.reshape(-1), n, np.arange(0, lines.size + 1, m), by_magnitude=True)
        return jnp.moveaxis(kept.reshape(lines.shape), -1, axis)
