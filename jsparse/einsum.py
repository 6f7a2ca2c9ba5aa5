"""`jsparse.einsum`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse._compat import same_varying
from jsparse.contraction import Contraction, OutFormat, as_array, contraction
from jsparse.dynamic import DynamicPattern
from jsparse.errors import NotYetSupportedError
from jsparse.formats import DynamicType, Pattern
from jsparse.primitives.einsum import einsum_p
from jsparse.tensor import SparseTensor

__all__ = ["einsum"]


def einsum(
    subscripts: str,
    *operands: Any,
    out_format: OutFormat = None,
    nse: int | None = None,
    semiring: str = "plus_times",
    schedule: Any = None,
    preferred_element_type: Any = None,
) -> jax.Array | SparseTensor:
    """Sums of products of sparse and dense tensors, in numpy's notation.

        y = jsparse.einsum("ij,j->i", A, x)                      # A: SparseTensor of any format
        S = jsparse.einsum("ik,jk->ij", X, Y, out_format=A)      # only where A is stored

    The operation is compiled for the operands' formats and sizes, differentiable in every operand (the values of a
    sparse one included), and works under `jax.jit`, `jax.grad`, `jax.jvp` and `jax.vmap`.

    Args:
        subscripts: a term of letters for each operand, separated by commas, and `->` with the indices of the result.
            Indices that the result lacks are summed. Without `->` the result has those that appear once, sorted. An
            index may stand twice in a term (a diagonal).
        operands: any number of SparseTensors and arrays, of dtypes that promote to float32, float64, int32 or int64. An
            entry that is not stored contributes nothing, even against NaN or Inf.
        out_format: "dense" for an array; a SparseTensor to compute on its pattern only (its values play no part). By
            default the result is a SparseTensor if some sparse operand has none of its indices summed: then it has that
            operand's levels, and dense levels for indices added to them. Otherwise it is an array.

    Returns:
        An array of the result's shape, or a SparseTensor.

    Raises:
        SubscriptError: the subscripts do not follow the notation.
        ShapeError: ranks or sizes do not agree.
        DTypeError: the operands' dtypes are not supported.
        NotYetSupportedError: the result is sparse and its pattern is none of the operands'.
    """
    _refuse(subscripts, nse=nse, schedule=schedule, preferred_element_type=preferred_element_type)
    if semiring != "plus_times":
        raise NotYetSupportedError(
            f"einsum knows the semiring 'plus_times' only, so far; '{subscripts}' asks for {semiring!r}."
        )
    if out_format is None and not any(isinstance(x, SparseTensor) for x in (subscripts, *operands)):
        if isinstance(subscripts, str):
            operands = tuple(as_array(x, subscripts) for x in operands)
        return jnp.einsum(subscripts, *operands)
    work, taken = contraction(subscripts, operands, out_format)
    return _compute(work, taken, work.walked(taken, out_format))


def _refuse(subscripts: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise NotYetSupportedError(f"einsum does not take {name}= yet; leave it out of '{subscripts}'.")


def _compute(work: Contraction, operands: Sequence[Any], walked: list[DynamicPattern]) -> jax.Array | SparseTensor:
    arrays = work.arrays(operands)
    if work.spec is None:
        return _dense_levels(jnp.einsum(work.subscripts, *arrays), work.result)
    if work.spec.factors == (work.spec.result,):
        out = arrays[0]  # the same values, perhaps under other names of dimensions
    else:
        index = [array for pattern in walked for array in pattern.operands()]
        out = einsum_p.bind(*same_varying((*arrays, *index)), spec=work.spec)
        for pattern in walked:
            out = pattern.poisoned(out)
    if work.result is None or work.result.format.is_dense:
        return _dense_levels(out, work.result)
    if isinstance(work.result, Pattern):
        return SparseTensor._unchecked(out, work.result)
    like = work.stored_like(walked)
    assert like is not None
    return SparseTensor._unchecked(out, like.retyped(work.result))


def _dense_levels(out: jax.Array, pattern: Pattern | DynamicType | None) -> jax.Array | SparseTensor:
    """The array itself, or as the values of a tensor whose levels are all dense."""
    if pattern is None:
        return out
    pattern = Pattern.of_arrays(pattern.shape, pattern.format, ())
    stored = jnp.transpose(out, pattern.format.order) if out.ndim else out
    return SparseTensor._unchecked(stored.reshape(-1), pattern)
