"""Python's operators on sparse tensors, with numpy's broadcasting.

Arithmetic is one einsum, or acts on the values alone. `&`, `|` and `^` are for tensors of bools or integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Never, TypeGuard, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import jax_array
from jsparse.base.limits import check_bytes
from jsparse.convert.creation import as_sparse_operand, of_any_array
from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import einsum
from jsparse.ops.elementwise.broadcast import broadcast_add, broadcast_multiply, common_shape
from jsparse.ops.elementwise.called import apply_elementwise
from jsparse.ops.elementwise.map import map_values, on_one_pattern
from jsparse.planning.host.routes import by_kind
from jsparse.primitives.dense import dense_of_known
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def todense(self: SparseTensor) -> jax.Array:
    """Convert to a dense jax array of the tensor's shape and dtype, 0 where no entry is stored.

        >>> A.todense().shape
        (1000, 800)

    Raises ShapeError if the array is too large for memory.
    """
    check_leaves(self, "A in A.todense")
    if not self.ndim:
        array: jax.Array = self.values[0]
        return array
    if isinstance(self.pattern, Pattern):
        check_bytes(self.shape, self.dtype, "the dense array", "Index the part that you need: A[:100].todense().")
        known = dense_of_known(self.values, self.pattern)
        if known is not None:
            return known
    letters = letters_of(self.ndim)
    return cast(jax.Array, einsum(f"{letters}->{letters}", self, out_format="dense"))


def negative(self: SparseTensor) -> SparseTensor:
    """Compute `-A`, a SparseTensor on the pattern of A."""
    return map_values(operator.neg, "-A", self)


def positive(self: SparseTensor) -> SparseTensor:
    """Return the tensor itself, as `+A`."""
    return self


def absolute(self: SparseTensor) -> SparseTensor:
    """Compute `abs(A)`, a SparseTensor on the pattern of A."""
    return map_values(operator.abs, "abs(A)", self)


def conj(self: SparseTensor) -> SparseTensor:
    """Conjugate each entry. A real tensor is returned unchanged.

    >>> A.conj() is A
    True

    Shape, dtype and pattern stay the same. Raises LeafError if the values do not fit the pattern.
    """
    return map_values(jnp.conj, "A.conj()", self) if jnp.issubdtype(self.dtype, jnp.complexfloating) else self


@by_kind
def matmul(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `lhs @ rhs` as numpy defines it, with at least one sparse operand. Batch dimensions broadcast.

        >>> jsparse.matmul(A, A.T).shape
        (1000, 1000)

    The operands promote to the dtype of the result.

    Raises ShapeError if the contracted dimensions differ, batch dimensions do not broadcast or an operand is a scalar.
    """
    lhs, rhs = as_operand(lhs), as_operand(rhs)
    if not lhs.ndim or not rhs.ndim:
        raise ShapeError("Expected both operands of @ to have a dimension, but one is a scalar. Use *.")
    left, right = lhs.shape[-1], rhs.shape[-2 if rhs.ndim > 1 else -1]
    if left != right:
        raise ShapeError(
            "Expected the last dimension of the left operand of @ and the "
            f"{'second to last' if rhs.ndim > 1 else 'only'} dimension of the right operand to agree, but got {left} "
            f"and {right}, of shapes {lhs.shape} and {rhs.shape}."
        )
    return einsum(_matmul_subscripts(lhs.shape, rhs.shape), lhs, rhs)


@by_kind
def multiply(tensor: SparseTensor, other: TensorLike) -> SparseTensor | jax.Array:
    """Compute `tensor * other` for a scalar, or an array or tensor that broadcasts with it.

        >>> A.multiply(2).shape
        (1000, 800)

    The result is sparse unless broadcasting repeats a dimension of the tensor. If `other` is dense, the result has the
    tensor's pattern. Entries that become 0, as in `A * (A > 1)`, stay stored; `drop_zeros` removes them.

    Raises ShapeError if `tensor` and `other` do not broadcast, PatternError if the result would be dense and larger
    than a dense operand.
    """
    other = as_operand(other)
    if not isinstance(other, SparseTensor) and other.size == 1 and other.ndim <= tensor.ndim:
        return map_values(operator.mul, "A * x", tensor, other)
    return broadcast_multiply(tensor, other)


def divide(tensor: TensorLike, other: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A / x`, or `x / A`, for the stored entries of A: the result has the pattern of A.

        >>> jsparse.divide(A, 2).shape
        (1000, 800)

    The other operand is a scalar, a dense array that broadcasts to the shape of A, or a SparseTensor. The result
    stores nothing where A stores nothing, even for `x / A`, although numpy's result is infinite there. So `A / B` of
    two tensors is `A * (1 / B)`, on the entries that both tensors store.

    Raises ShapeError if the operands do not broadcast.
    """
    tensor, other = as_operand(tensor), as_operand(other)
    if not isinstance(tensor, SparseTensor) and not isinstance(other, SparseTensor):
        return jnp.divide(tensor, other)
    if isinstance(tensor, SparseTensor) and isinstance(other, SparseTensor) and not on_one_pattern(tensor, other):
        inverse = map_values(operator.truediv, "A / B", jnp.ones((), jnp.int32), other)
        return broadcast_multiply(tensor, inverse, symbol="/")
    sparse, divisor = (tensor, other) if isinstance(tensor, SparseTensor) else (other, tensor)
    if divisor.ndim > sparse.ndim or common_shape("A / B", sparse.shape, divisor.shape) != sparse.shape:
        raise ShapeError(
            f"Expected the divisor of a sparse tensor of shape {sparse.shape} to broadcast to that shape, but got "
            f"{divisor.shape}. Divide A.todense() for a larger result."
        )
    return map_values(operator.truediv, "A / B", tensor, other)


@by_kind
def add(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `lhs + rhs` with numpy's broadcasting, for at least one sparse operand.

    If both operands are sparse, the result is a SparseTensor on the union of their patterns. Otherwise it is an array.

    Raises ShapeError if `lhs` and `rhs` do not broadcast, PatternError if the result would be dense and larger than a
    dense operand: for a number other than 0, or a dense operand that broadcasting repeats.
    """
    return _add_or_subtract("+", operator.add, lhs, rhs)


@by_kind
def subtract(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `lhs - rhs`, by the rules of `add`."""
    return _add_or_subtract("-", operator.sub, lhs, rhs)


def _add_or_subtract(
    symbol: str, combine: Callable[[SparseTensor, SparseTensor], SparseTensor], lhs: Any, rhs: Any
) -> SparseTensor | jax.Array:
    if _is_zero(rhs):
        return _with_zero(lhs, rhs)
    if _is_zero(lhs):  # Python's sum() begins with 0
        return _with_zero(rhs, lhs) if symbol == "+" else -_with_zero(rhs, lhs)
    lhs, rhs = as_operand(lhs), as_operand(rhs)
    if isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor) and on_one_pattern(lhs, rhs):
        return map_values(combine, f"A {symbol} B", lhs, rhs)
    return broadcast_add(symbol, lhs, rhs)


def _is_zero(x: object) -> TypeGuard[complex | np.number]:
    """Whether an operand is a number of Python or numpy that is 0."""
    return isinstance(x, int | float | complex | np.number) and not x


def _with_zero(tensor: SparseTensor, zero: complex | np.number) -> SparseTensor:
    """Convert a tensor to the dtype of its sum with `zero`."""
    dtype = jnp.result_type(tensor.values, zero)
    return tensor if dtype == tensor.dtype else tensor.astype(dtype)


def _matmul_subscripts(left: tuple[int, ...], right: tuple[int, ...]) -> str:
    """Return the subscripts of `@` for operands of these shapes, with batch dimensions aligned at the right."""
    row, column = "i" if len(left) > 1 else "", "k" if len(right) > 1 else ""
    for size, other in zip(reversed(left[:-2]), reversed(right[:-2]), strict=False):
        if size != other and 1 not in (size, other):
            raise ShapeError(
                f"Expected the batch dimensions of @, all but the last two, to broadcast, but got {size} and {other}, "
                f"of shapes {left} and {right}."
            )
    lhs, rhs = "..." if len(left) > 2 else "", "..." if len(right) > 2 else ""
    return f"{lhs}{row}j,{rhs}j{column}->{lhs or rhs}{row}{column}"


def of_table(function: str, symbol: str) -> Callable[[TensorLike, TensorLike], SparseTensor | jax.Array]:
    """Make an operator, such as `//`, from the elementwise function with this name."""

    def apply_operator(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
        what = f"A {symbol} x" if isinstance(lhs, SparseTensor) else f"x {symbol} A"
        return apply_elementwise(function, what, (lhs, rhs))

    return apply_operator


def divmod_(lhs: TensorLike, rhs: TensorLike) -> tuple[SparseTensor | jax.Array, SparseTensor | jax.Array]:
    """Compute `divmod(lhs, rhs)`, the pair of `lhs // rhs` and `lhs % rhs`."""
    return of_table("floor_divide", "//")(lhs, rhs), of_table("remainder", "%")(lhs, rhs)


def bitwise_and(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A & B` elementwise: a SparseTensor on the entries that all sparse operands store.

        >>> A = jsparse.asarray([[0, 3], [-2, 0]])
        >>> ((A > 1) & (A > 2)).todense()

    Args:
        lhs, rhs: SparseTensors, arrays and numbers of bool or integers that broadcast, at least one of them sparse.

    Raises DTypeError for other dtypes, ShapeError if the operands do not broadcast.
    """
    return apply_elementwise("bitwise_and", "A & B", (lhs, rhs))


def bitwise_or(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A | B` elementwise: a SparseTensor on the union of both patterns, or an array if one operand is dense.

        >>> A = jsparse.asarray([[0, 3], [-2, 0]])
        >>> ((A > 1) | (A < -1)).todense()

    Raises DTypeError for dtypes other than bool and integers, ShapeError if the operands do not broadcast, PatternError
    if the result would be dense and larger than any array among the operands.
    """
    return apply_elementwise("bitwise_or", "A | B", (lhs, rhs))


def bitwise_xor(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A ^ B` elementwise, by the rules of `A | B`.

    >>> A = jsparse.asarray([[0, 3], [-2, 0]])
    >>> (A ^ A).todense().sum()
    Array(0, dtype=int32)
    """
    return apply_elementwise("bitwise_xor", "A ^ B", (lhs, rhs))


@of_any_array("bitwise_invert", jnp.bitwise_invert)
def bitwise_invert(A: SparseTensor, /) -> Never:
    """Invert the bits of an array, as jnp.bitwise_invert does. Raises DTypeError for a tensor, as `~A` does.

    >>> jsparse.bitwise_invert(jnp.arange(2)).tolist()
    [-1, -2]
    """
    A.__invert__()


@of_any_array("logical_not", jnp.logical_not)
def logical_not(A: SparseTensor, /) -> Never:
    """Test whether elements of an array are 0. Raises DTypeError for a tensor: `not 0` is True where nothing is stored.

    >>> jsparse.logical_not(jnp.arange(2)).tolist()
    [True, False]
    """
    A.__invert__()


def as_operand(value: TensorLike) -> SparseTensor | jax.Array:
    """Convert `value` to a SparseTensor if it is sparse in any library, else to an array. Numbers stay weakly typed."""
    value = as_sparse_operand(value, "an operator", composed=True)
    if isinstance(value, jax.Array | SparseTensor):
        return value
    return jax_array(value, "the operands of an operator to be arrays of numbers or SparseTensors")
