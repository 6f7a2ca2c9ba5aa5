"""The operators &, | and ^ for tensors of bools or integers, with numpy's broadcasting."""

from __future__ import annotations

import jax

from jsparse.errors import DTypeError
from jsparse.ops.elementwise.called import called
from jsparse.ops.elementwise.operators import as_operand
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor"]


def bitwise_and(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A & B` elementwise: a SparseTensor on the entries that all sparse operands store.

        >>> A = jsparse.asarray([[0, 3], [-2, 0]])
        >>> ((A > 1) & (A < 5)).todense()

    Args:
        lhs, rhs: SparseTensors, arrays and numbers of bool or integers that broadcast, at least one of them sparse.

    Raises DTypeError for other dtypes, ShapeError if the operands do not broadcast.
    """
    return _called("bitwise_and", "&", lhs, rhs)


def bitwise_or(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A | B` elementwise: a SparseTensor on the entries that either stores, or an array if one is dense.

        >>> A = jsparse.asarray([[0, 3], [-2, 0]])
        >>> ((A > 1) | (A < -1)).todense()

    Raises DTypeError for dtypes other than bool and integers, ShapeError if the operands do not broadcast, PatternError
    if the result would be dense and larger than any array among the operands.
    """
    return _called("bitwise_or", "|", lhs, rhs)


def bitwise_xor(lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A ^ B` elementwise, by the rules of `A | B`."""
    return _called("bitwise_xor", "^", lhs, rhs)


def _called(name: str, symbol: str, lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    """Apply a bitwise function. Raises DTypeError if an operand is neither bool nor integer."""
    for x in (lhs, rhs):
        dtype = (x if isinstance(x, SparseTensor) else as_operand(x)).dtype
        if dtype.kind not in "biu":
            raise DTypeError(
                f"Expected operands of A {symbol} B that are bool or integers, but one is {dtype}. Compare it first, "
                f"as in (A > 0) {symbol} (B > 0)."
            )
    return called(name, f"A {symbol} B", (lhs, rhs))
