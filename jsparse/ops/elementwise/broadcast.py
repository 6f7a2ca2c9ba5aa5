"""Elementwise operators with numpy's broadcasting. Each is a statement of tensor index notation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax

from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Format
from jsparse.notation import Access
from jsparse.notation.background import dense_background
from jsparse.notation.statement import Product, Statement
from jsparse.ops.aligned import values_at
from jsparse.ops.shaping.axes import squeeze
from jsparse.planning.planned import plan_statement
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
    shape = common_shape(f"A {symbol} B", lhs.shape, rhs.shape)
    both = isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor)
    if not (both or _is_kept(lhs, shape) or _is_kept(rhs, shape) or _is_held(shape, lhs, rhs)):
        tensor = lhs if isinstance(lhs, SparseTensor) else rhs
        whole = shorten(shape)
        raise PatternError(
            f"Expected A {symbol} x not to repeat dimensions of A, of shape {shorten(tensor.shape)}, unless x has all "
            f"elements of the product, of shape {whole}, which would be a dense array. To store the repeated entries, "
            f"write jsparse.broadcast_to(A, {whole}) {symbol} x, which is sparse."
        )
    target, (a, b), tensors = _align_operands(shape, lhs, rhs)
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
    shape = common_shape(f"A {symbol} B", lhs.shape, rhs.shape)
    if not ((_is_kept(lhs, shape) and _is_kept(rhs, shape)) or _is_held(shape, lhs, rhs)):
        both = isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor)
        repeated = f"jsparse.broadcast_to(A, {shorten(shape)}) {symbol} B"
        advice = f"To store the repeated entries, write {repeated}. " if both else ""
        raise dense_background(f"A {symbol} {'B' if both else 'x'}", None, advice, shape)
    target, (a, b), tensors = _align_operands(shape, lhs, rhs)
    sign = 1 if symbol == "+" else -1
    statement = Statement(target, (Product(1, (a,)), Product(sign, (b,))))
    return plan_statement(f"A {symbol} B", statement, tensors, out_format, nse).run()


def elements_at_slots(what: str, tensor: SparseTensor, array: jax.Array) -> jax.Array:
    """Broadcast an array to the shape of a tensor, and return its elements at the tensor's slots."""
    names = tuple(f"i{n}" for n in range(tensor.ndim))
    x, own = drop_repeated(array, names, tensor.shape)
    return values_at(what, Access("B", own), x, names, tensor.pattern)


def _is_kept(x: SparseTensor | jax.Array, shape: tuple[int, ...]) -> bool:
    """Whether `x` is sparse and broadcasting repeats none of its dimensions. It may add dimensions, as dense levels."""
    return isinstance(x, SparseTensor) and shape[len(shape) - x.ndim :] == x.shape


def _is_held(shape: Sequence[int], *operands: SparseTensor | jax.Array) -> bool:
    """Whether a dense operand has at least as many elements as a result of this shape."""
    return any(prod(shape) <= prod(x.shape) for x in operands if not isinstance(x, SparseTensor))


def common_shape(what: str, first: Sequence[int], *shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast. Raises ShapeError if the shapes do not broadcast."""
    # np.broadcast_shapes would refuse shapes with more elements than an int64 counts, which sparse tensors may have.
    common = tuple(first)
    for shape in shapes:
        if shape in ((), common):
            continue
        ndim = max(len(common), len(shape))
        left, right = ((1,) * (ndim - len(sizes)) + tuple(sizes) for sizes in (common, shape))
        if any(m != n and 1 not in (m, n) for m, n in zip(left, right, strict=True)):
            given = " and ".join(map(shorten, (first, *shapes)))
            raise ShapeError(
                f"Expected the shapes of {what} to broadcast, but got {given}. Sizes have to agree from the right, or "
                f"be 1."
            )
        common = tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))
    return common


def _align_operands(
    shape: tuple[int, ...], lhs: SparseTensor | jax.Array, rhs: SparseTensor | jax.Array
) -> tuple[Access, tuple[Access, Access], dict[str, SparseTensor | jax.Array]]:
    """Return the access to the result C, the accesses to `lhs` as A and to `rhs` as B, and the operands A and B."""
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
    if isinstance(x, SparseTensor) and not _is_kept(x, shape):
        own, sizes = names[len(names) - x.ndim :], shape[len(shape) - x.ndim :]
        separate = (v if m == n else f"{name}{v}" for v, m, n in zip(own, x.shape, sizes, strict=True))
        return Access(name, tuple(separate)), x
    x, own = drop_repeated(x, names, shape)
    return Access(name, own), x


def drop_repeated(x: Any, names: Sequence[str], shape: Sequence[int]) -> tuple[Any, tuple[str, ...]]:
    """Remove the dimensions of size 1 that broadcasting to `shape` repeats. Also return the names of the other ones.

    Args:
        names: the name of each dimension of `shape`.
    """
    own = tuple(names[len(names) - x.ndim :])
    repeated = [n for n, (m, size) in enumerate(zip(x.shape, shape[len(shape) - x.ndim :], strict=True)) if m != size]
    if not repeated:
        return x, own
    kept = [n for n in range(x.ndim) if n not in repeated]
    dropped = squeeze(x, repeated) if isinstance(x, SparseTensor) else x.reshape([x.shape[n] for n in kept])
    return dropped, tuple(own[n] for n in kept)
