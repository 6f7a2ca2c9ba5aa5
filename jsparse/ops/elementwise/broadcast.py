"""Elementwise operators with numpy's broadcasting. Each is a statement of tensor index notation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import truediv
from typing import Any

import jax

from jsparse.base.arrays import Array
from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Format
from jsparse.notation import Access
from jsparse.notation.background import dense_background
from jsparse.notation.statement import Product, Statement
from jsparse.planning.planned import plan_statement
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import SparseTensor


def broadcast_multiply(
    lhs: SparseTensor,
    rhs: SparseTensor | jax.Array,
    out_format: Format | None = None,
    nse: int | None = None,
    symbol: str = "*",
) -> SparseTensor | jax.Array:
    """Compute `lhs * rhs`. The result is sparse if both operands are, or if one is and broadcasting does not repeat it.

    `out_format` and `nse` are the format and the capacity of a result with a new pattern, as in `jsparse.einsum`.
    """
    both = isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor)
    if not both and not any(is_sparse(symbol, x, lhs, rhs) for x in (lhs, rhs)):
        shape = broadcast_shape(symbol, lhs, rhs)
        if not _is_held(shape, lhs, rhs):
            tensor = lhs if isinstance(lhs, SparseTensor) else rhs
            whole = shorten(shape)
            raise PatternError(
                f"Expected A {symbol} x to repeat no dimension of A, of shape {shorten(tensor.shape)}, or x to have "
                f"as many elements as the product, of shape {whole}, which would be a dense array. To store the "
                f"entries that are repeated write jsparse.broadcast_to(A, {whole}) {symbol} x, which is sparse."
            )
    target, (a, b), tensors = _align_operands(symbol, lhs, rhs)
    statement = Statement(target, (Product(1, (a, b)),))
    return plan_statement(f"A {symbol} B", statement, tensors, out_format, nse).run()


def broadcast_add(
    symbol: str,
    lhs: SparseTensor | jax.Array,
    rhs: SparseTensor | jax.Array,
    out_format: Format | None = None,
    nse: int | None = None,
) -> SparseTensor | jax.Array:
    """Compute `lhs + rhs` or `lhs - rhs`. The result is sparse if both operands are and broadcasting repeats neither.

    See `broadcast_multiply` for `out_format` and `nse`.
    """
    if not all(is_sparse(symbol, x, lhs, rhs) for x in (lhs, rhs)):
        check_size(symbol, lhs, rhs)
    target, (a, b), tensors = _align_operands(symbol, lhs, rhs)
    sign = 1 if symbol == "+" else -1
    statement = Statement(target, (Product(1, (a,)), Product(sign, (b,))))
    return plan_statement(f"A {symbol} B", statement, tensors, out_format, nse).run()


def broadcast_divide(tensor: SparseTensor, divisor: Any, by_tensor: bool = False) -> SparseTensor:
    """Compute `tensor / divisor` for a dense divisor, on the tensor's pattern: the divisor is only read there.

    With `by_tensor`, compute `divisor / tensor` instead.
    """
    if len(divisor.shape) > tensor.ndim or broadcast_shape("/", tensor, divisor) != tensor.shape:
        raise ShapeError(
            f"Expected the divisor of a sparse tensor of shape {tensor.shape} to broadcast to that shape, but got "
            f"{divisor.shape}. Divide A.todense() for a larger result."
        )
    found = elements_at_slots("A / B", tensor, divisor)
    quotients = jit_map(truediv, tensor.pattern, *((found, tensor.values) if by_tensor else (tensor.values, found)))
    return tensor.with_values(quotients)


def elements_at_slots(what: str, tensor: SparseTensor, array: jax.Array) -> jax.Array:
    """Broadcast an array to the shape of a tensor, and return its elements at the tensor's slots."""
    target, (_, access), tensors = _align_operands("/", tensor, array)
    statement = Statement(target, (Product(1, (access,)),))
    found: jax.Array = plan_statement(what, statement, {"B": tensors["B"]}, tensor, None).run().values
    return found


def is_sparse(
    symbol: str, x: SparseTensor | jax.Array, lhs: SparseTensor | jax.Array, rhs: SparseTensor | jax.Array
) -> bool:
    """Whether `x` is sparse and broadcasting repeats none of its dimensions. It may add dimensions, as dense levels."""
    return isinstance(x, SparseTensor) and keeps(x, broadcast_shape(symbol, lhs, rhs))


def keeps(x: SparseTensor, shape: Sequence[int]) -> bool:
    """Whether broadcasting to `shape` repeats no dimension of `x`."""
    return tuple(shape[len(shape) - x.ndim :]) == tuple(x.shape)


def check_size(symbol: str, lhs: SparseTensor | jax.Array, rhs: SparseTensor | jax.Array) -> None:
    """Raise PatternError if a dense result has more elements than every dense operand."""
    shape = broadcast_shape(symbol, lhs, rhs)
    if not _is_held(shape, lhs, rhs):
        both = isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor)
        repeated = f"jsparse.broadcast_to(A, {shorten(shape)}) {symbol} B"
        advice = f"To store the entries that are repeated write {repeated}. " if both else ""
        raise dense_background(f"A {symbol} {'B' if both else 'x'}", None, advice, shape)


def _is_held(shape: Sequence[int], *operands: SparseTensor | jax.Array) -> bool:
    """Whether a dense operand has at least as many elements as a result of this shape."""
    return any(prod(shape) <= prod(x.shape) for x in operands if not isinstance(x, SparseTensor))


def broadcast_shape(symbol: str, lhs: SparseTensor | Array, rhs: SparseTensor | Array) -> tuple[int, ...]:
    return common_shape(f"A {symbol} B", lhs.shape, rhs.shape)


def common_shape(what: str, first: Sequence[int], *shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast. Raises ShapeError if the shapes do not broadcast."""
    # np.broadcast_shapes would refuse shapes with more elements than an int64 counts, which sparse tensors may have.
    found = tuple(first)
    for shape in shapes:
        ndim = max(len(found), len(shape))
        left, right = ((1,) * (ndim - len(sizes)) + tuple(sizes) for sizes in (found, shape))
        if any(m != n and 1 not in (m, n) for m, n in zip(left, right, strict=True)):
            given = " and ".join(map(shorten, (first, *shapes)))
            raise ShapeError(
                f"Expected the shapes of {what} to broadcast, but got {given}. Sizes have to agree from the right, or "
                f"be 1."
            )
        found = tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))
    return found


def _align_operands(
    symbol: str, lhs: SparseTensor | jax.Array, rhs: SparseTensor | jax.Array
) -> tuple[Access, tuple[Access, Access], dict[str, SparseTensor | jax.Array]]:
    """Return the access to the result C, the accesses to `lhs` as A and to `rhs` as B, and the operands A and B."""
    shape = broadcast_shape(symbol, lhs, rhs)
    names = tuple(f"i{n}" for n in range(len(shape)))
    (a, left), (b, right) = _access("A", lhs, names, shape), _access("B", rhs, names, shape)
    return Access("C", names), (a, b), {"A": left, "B": right}


def _access(
    name: str, x: SparseTensor | jax.Array, names: Sequence[str], shape: tuple[int, ...]
) -> tuple[Access, SparseTensor | jax.Array]:
    """Return an access to `x`, and `x` with exactly the dimensions of that access.

    A dimension of size 1 that broadcasting repeats does not get the result's index. In a sparse tensor, this dimension
    gets a separate index, which is summed. In a dense array, it is dropped.
    """
    own, offset = list(names[len(names) - x.ndim :]), len(names) - x.ndim
    repeated = [n for n, size in enumerate(x.shape) if size != shape[offset + n]]
    if not repeated:
        return Access(name, tuple(own)), x
    if isinstance(x, SparseTensor):
        return Access(name, tuple(f"{name}{v}" if n in repeated else v for n, v in enumerate(own))), x
    kept = [n for n in range(x.ndim) if n not in repeated]
    return Access(name, tuple(own[n] for n in kept)), x.reshape([x.shape[n] for n in kept])
