"""Pruning of weights: a schedule of the fraction of zeros, and N:M patterns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.convert.creation import asarray
from jsparse.errors import ShapeError
from jsparse.formats import Format
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
    """Keep the n largest magnitudes in each group of m consecutive elements. Of equal magnitudes, the first is kept.

        >>> W = jsparse.nn.n_of_m(jnp.arange(16.0).reshape(8, 2), 2, 4)
        >>> W.nse
        8

    N:M sparsity (Mishra et al., "Accelerating sparse deep neural networks", 2021).

    Args:
        weight: a concrete array (in, out).
        n, m: n of m elements are kept; m divides the size of the axis.
        axis: the axis along which elements are consecutive; by default the axis of inputs.

    Returns a static SparseTensor with n / m of the elements.

    Raises ShapeError if `weight` is no matrix, m does not divide the axis, or n is not from 1 to m.
    """
    if not all(isinstance(x, int) and x > 0 for x in (n, m)):
        raise ShapeError(f"Expected positive integers n and m in n_of_m, but got {n!r} and {m!r}.")
    w = jnp.asarray(weight)
    if w.ndim != 2 or not 0 < n <= m or axis not in (0, 1, -1, -2) or w.shape[axis] % m:
        raise ShapeError(
            f"Expected a matrix whose axis {axis} is a multiple of m, and 0 < n <= m, in n_of_m, but got {w.shape}, "
            f"n={n} and m={m}."
        )
    groups = jnp.moveaxis(w, axis, -1).reshape(-1, m)
    kept = jnp.argsort(jnp.argsort(-jnp.abs(groups), axis=1, stable=True), axis=1) < n
    mask = jnp.moveaxis(kept.reshape(jnp.moveaxis(w, axis, -1).shape), -1, axis)
    marked = asarray(mask, format=format)
    rows, columns = marked.coords
    return SparseTensor(w[rows, columns], marked.pattern)
