"""`softmax`, `log_softmax` and `logsumexp` over the stored entries of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast, overload

import jax
import jax.numpy as jnp

from jsparse._compat import same_varying
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.convert.composed import in_digits, to_plain
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import contract
from jsparse.ops.reductions.axes import axes_to_reduce, with_kept_axes
from jsparse.primitives.einsum import with_checkpoint_name
from jsparse.primitives.softmax import logsumexp_p, softmax_p, variables_without
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.leaves import with_sound_leaves
from jsparse.tensor.overriding import Overriding
from jsparse.tensor.sparse_tensor import Axis, SparseTensor, TensorLike

SPARE = 1 << 20  # a row statistic may have this many elements, or 4 for each slot


@overload
def log_softmax(A: SparseTensor, axis: Axis = -1) -> SparseTensor: ...
@overload
def log_softmax(A: TensorLike, axis: Axis = -1) -> SparseTensor | jax.Array: ...
def log_softmax(A: TensorLike, axis: Axis = -1) -> SparseTensor | jax.Array:
    """Compute the logarithm of the softmax of the stored entries along `axis`: x - log Σ exp(x), on the pattern of A.

        >>> jsparse.log_softmax(scores, axis=1).map(jnp.exp)  # softmax(scores, axis=1)

    The maximum m of a row is subtracted before the sum: (x - m) - log Σ exp(x - m). So large entries keep the digits
    that x - logsumexp(x) loses.

    Elements that are not stored count as -inf. They contribute nothing, and the result does not store them, although
    it would be -inf there. A row with +inf or NaN is NaN. A row in which all entries are -inf stays -inf.

    See `softmax` for the arguments, dtypes, errors and the paper; an array is passed to jax.nn.log_softmax.
    """
    A = as_sparse_operand(A, "jsparse.log_softmax", composed=True)
    if not isinstance(A, SparseTensor):
        return jax.nn.log_softmax(A, axis)
    A, reduced = _of_floats("log_softmax", A, axis)
    if isinstance(A, ComposedTensor):
        return A.with_values(log_softmax(*_in_digits(A, reduced)).values)
    if not A.ndim:
        return A.map(jnp.zeros_like)
    over = _variables(A, reduced)
    shifted, sums = _subtract_row_maxima(_wide(A), over)
    logarithms = shifted.map(lambda x, s: jnp.where(s == 0, -jnp.inf, x - jnp.log(jnp.where(s == 0, 1, s))), sums)
    return logarithms.astype(A.dtype)


@overload
def softmax(A: SparseTensor, axis: Axis = -1) -> SparseTensor: ...
@overload
def softmax(A: TensorLike, axis: Axis = -1) -> SparseTensor | jax.Array: ...
def softmax(A: TensorLike, axis: Axis = -1) -> SparseTensor | jax.Array:
    """Compute the softmax of the stored entries along `axis`: exp(x) / Σ exp(x), on the pattern of A.

    Elements that are not stored count as -inf: they contribute nothing, and the result does not store them. The fill of
    blocks is stored: its zeros count.

        >>> weights = jsparse.softmax(scores, axis=1)  # of each row

    Args:
        A: a SparseTensor of floats; an array is passed to jax.nn.softmax.
        axis: one dimension, several, or all (None).

    The maximum is subtracted before the exponential (Blanchard, Higham and Higham, "Accurately computing the
    log-sum-exp and softmax functions", 2021). float16 and bfloat16 are computed in float32.

    A row (the entries along `axis` that are summed together) with +inf or NaN is NaN, as with jax.nn.softmax. A row in
    which all entries are -inf becomes 0.

    Raises ShapeError for an axis out of range, DTypeError for complex numbers.
    """
    if isinstance(A, Overriding):
        return cast("SparseTensor", A._call("softmax", (A, axis), {}))
    A = as_sparse_operand(A, "jsparse.softmax", composed=True)
    if not isinstance(A, SparseTensor):
        return jax.nn.softmax(A, axis)
    A, reduced = _of_floats("softmax", A, axis)
    if isinstance(A, ComposedTensor):
        return A.with_values(softmax(*_in_digits(A, reduced)).values)
    if not A.ndim:
        return A.map(jnp.ones_like)
    over, (operands, spec) = _variables(A, reduced), _spec(A)
    if _is_large(spec, over, A):
        shifted, sums = _subtract_row_maxima(_wide(A), over)
        weights = shifted.map(lambda x, s: jnp.where(s == 0, 0, jnp.exp(x) / jnp.where(s == 0, 1, s)), sums)
        return weights.astype(A.dtype)
    values = softmax_p.bind(*same_varying(operands), spec=spec, over=over, are_slopes=False)
    values = values if values.ndim == 1 else values.reshape(-1)  # an array, if all levels are dense
    return SparseTensor._wrap(with_checkpoint_name(values), A.pattern)


def logsumexp(A: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> jax.Array:
    """Compute log Σ exp(x) of the stored entries along `axis`, as an array: -inf where nothing is stored.

        >>> jsparse.logsumexp(A, axis=1)

    See `softmax` for the arguments and errors.
    """
    A = as_sparse_operand(A, "jsparse.logsumexp", composed=True)
    if not isinstance(A, SparseTensor):
        return jax.nn.logsumexp(A, axis, keepdims=keepdims)
    A, reduced = _of_floats("logsumexp", A, axis)
    if isinstance(A, ComposedTensor):
        # The digits of each dimension are joined, and what lies beyond the shape is cut off.
        dims = [dim for dim in range(A.ndim) if dim not in reduced]
        padded = A.pattern.parts[0].format.blocks.round_up(A.shape)
        sums = logsumexp(*_in_digits(A, reduced)).reshape([padded[dim] for dim in dims])
        sums = sums[tuple(slice(A.shape[dim]) for dim in dims)]
        return with_kept_axes(sums, reduced, A.ndim, keepdims)
    if not A.ndim:
        return A.values[0]
    over, (operands, spec) = _variables(A, reduced), _spec(A)
    spec = Spec(spec.factors, ArrayAccess(variables_without(spec, over)), spec.walks, spec.sizes)
    sums = logsumexp_p.bind(*same_varying(operands), spec=spec, over=over)
    kept = variables_without(spec, over)  # in storage order
    wanted = [v for v in letters_of(A.ndim) if v not in over]
    sums = jnp.transpose(with_checkpoint_name(sums), [kept.index(v) for v in wanted])
    return with_kept_axes(sums, reduced, A.ndim, keepdims)


def _of_floats(name: str, tensor: SparseTensor, axis: Axis) -> tuple[SparseTensor, tuple[int, ...]]:
    """Convert the values to floats, and composed tensors to plain ones if their values are not stored on a pattern.

    Returns the tensor, and the dimensions over which the softmax sums.
    """
    tensor = with_sound_leaves(tensor, f"A in jsparse.{name}(A)")
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        raise DTypeError(f"Expected real entries for jsparse.{name}, but they are {tensor.dtype}. Use A.map(jnp.real).")
    if not jnp.issubdtype(tensor.dtype, jnp.inexact):
        tensor = tensor.astype(jnp.result_type(float))
    if isinstance(tensor, ComposedTensor) and tensor.pattern.on_levels is None:
        tensor = to_plain(tensor)
    return tensor, axes_to_reduce(axis, tensor.ndim)


def _variables(tensor: SparseTensor, dims: Sequence[int]) -> tuple[str, ...]:
    """The index variables of these dimensions."""
    return tuple(letters_of(tensor.ndim)[dim] for dim in dims)


def _in_digits(tensor: ComposedTensor, reduced: Sequence[int]) -> tuple[SparseTensor, tuple[int, ...]]:
    """The tensor of the digits, with -inf in padding, and its dimensions over which the softmax sums."""
    digits, blocks = in_digits(tensor, -jnp.inf), tensor.pattern.parts[0].format.blocks
    assert digits is not None
    dims = [blocks.levels[n].dim for n in blocks.by_coordinate]
    return digits, tuple(n for n, dim in enumerate(dims) if dim in reduced)


def _wide(tensor: SparseTensor) -> SparseTensor:
    """Convert narrow floats to the dtype in which they are summed."""
    dtype = arithmetic_dtype(tensor.dtype.name)
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def _spec(tensor: SparseTensor) -> tuple[tuple[jax.Array, ...], Spec]:
    """Return the operands and the spec of the identity einsum, which maps the values to themselves."""
    inner, order = letters_of(tensor.ndim), tensor.format.order
    names = tuple(inner[dim] for dim in order)
    pattern, count = tensor.pattern, tensor.ndim - tensor.format.trailing_dense
    walk = PatternAccess(names[:count], pattern.type.core, pattern.derived_types, has_parents=pattern.has_parents)
    index = pattern.operands()
    term = ArrayAccess((), 0, names[count:]) if count else ArrayAccess(names)
    walks = (walk,) if count else ()
    values = tensor.values if count else tensor.values.reshape([tensor.shape[dim] for dim in order])
    return (values, *index), Spec((term,), term, walks, tuple(zip(inner, tensor.shape, strict=True)))


def _is_large(spec: Spec, over: tuple[str, ...], tensor: SparseTensor) -> bool:
    """Whether an array with one element per row, such as the rows' maxima, would be much larger than the tensor."""
    sizes = dict(spec.sizes)
    return prod(sizes[v] for v in variables_without(spec, over)) > max(SPARE, 4 * tensor.nse)


def _subtract_row_maxima(tensor: SparseTensor, over: tuple[str, ...]) -> tuple[SparseTensor, SparseTensor | jax.Array]:
    """Subtract the maximum m of its row from each entry x. Also return the sums of exp(x - m), for `map`.

    m is 0 in rows of -inf. If most rows are empty, maxima and sums of rows are stored as sparse tensors.
    """
    inner = letters_of(tensor.ndim)
    kept = "".join(v for v in inner if v not in over)
    summed = [n for n, v in enumerate(inner) if v in over]
    is_large = _is_large(_spec(tensor)[1], over, tensor)
    levels = ", ".join(f"{v} : compressed" for v in kept)
    format = f"({', '.join(kept)}) -> ({levels})" if is_large else "dense"
    nse = tensor.pattern.capacity if is_large else None
    ones = tensor.map(jnp.ones_like)

    def of_rows(entries: SparseTensor, semiring: str) -> SparseTensor | jax.Array:
        statistic = contract(f"{inner}->{kept}", entries, semiring=semiring, out_format=format, nse=nse)
        if isinstance(statistic, SparseTensor):
            spread: SparseTensor = contract(f"{inner},{kept}->{inner}", ones, statistic)
            return spread.restrict(tensor)
        return with_kept_axes(statistic, summed, tensor.ndim, True)

    # The result does not depend on m, so no derivative passes through it.
    maxima = of_rows(tensor.with_values(jax.lax.stop_gradient(tensor.values)), "max_plus")
    shifted = tensor.map(lambda x, m: x - jnp.where(m != -jnp.inf, m, 0), maxima)
    return shifted, of_rows(shifted.map(jnp.exp), "plus_times")
