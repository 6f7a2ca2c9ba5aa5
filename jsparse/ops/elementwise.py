"""Operators that work element by element, with numpy's broadcasting: each is a statement of tensor index notation."""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv
from typing import Any

from jsparse.errors import DTypeError, ShapeError, shortened
from jsparse.notation import Access
from jsparse.notation.statement import Product, Statement
from jsparse.planning.planned import plan_statement
from jsparse.tensor.entrywise import compiled
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["divided", "multiplied", "summed"]


def multiplied(lhs: Any, rhs: Any) -> Any:
    """`lhs * rhs`: sparse where one of them is sparse and not repeated by broadcasting."""
    target, (a, b), tensors = _aligned("*", lhs, rhs)
    return plan_statement("A * B", Statement(target, (Product(1, (a, b)),)), tensors, None, None).run()


def summed(symbol: str, lhs: Any, rhs: Any) -> Any:
    """`lhs + rhs` or `lhs - rhs`: sparse where both are sparse and no dimension of size 1 is repeated."""
    target, (a, b), tensors = _aligned(symbol, lhs, rhs)
    sign = 1 if symbol == "+" else -1
    statement = Statement(target, (Product(1, (a,)), Product(sign, (b,))))
    return plan_statement(f"A {symbol} B", statement, tensors, None, None).run()


def divided(tensor: SparseTensor, divisor: Any) -> SparseTensor:
    """`tensor / divisor` of a dense divisor, of which only what meets stored entries is used."""
    if isinstance(divisor, SparseTensor):
        raise DTypeError(
            "A / B divides by zero wherever the SparseTensor B stores nothing. Write A * B.with_values(1 / B.values), "
            "which is 0 there, or A.todense() / B.todense()."
        )
    target, (_, access), tensors = _aligned("/", tensor, divisor)
    if len(target.indices) != tensor.ndim or _broadcast("/", tensor, divisor) != tensor.shape:
        raise ShapeError(
            f"Expected the divisor of a sparse tensor of shape {tensor.shape} to broadcast to that shape, but got "
            f"{divisor.shape}."
        )
    statement = Statement(target, (Product(1, (access,)),))
    sampled = plan_statement("A / B", statement, {"B": tensors["B"]}, tensor, None).run()
    quotients = compiled(truediv, tensor.pattern, tensor.values, sampled.values)
    return SparseTensor._unchecked(quotients, tensor.pattern)


def _broadcast(symbol: str, lhs: Any, rhs: Any) -> tuple[int, ...]:
    ndim = max(lhs.ndim, rhs.ndim)
    left, right = ((1,) * (ndim - x.ndim) + tuple(x.shape) for x in (lhs, rhs))  # numpy counts what such arrays hold
    if any(m != n and 1 not in (m, n) for m, n in zip(left, right, strict=True)):
        raise ShapeError(
            f"Expected the shapes of A {symbol} B to broadcast, but got {shortened(lhs.shape)} and "
            f"{shortened(rhs.shape)}."
        )
    return tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))


def _aligned(symbol: str, lhs: Any, rhs: Any) -> tuple[Access, tuple[Access, Access], dict[str, Any]]:
    """The result's access, those of A and B, and the two."""
    shape = _broadcast(symbol, lhs, rhs)
    names = tuple(f"i{n}" for n in range(len(shape)))
    (a, left), (b, right) = _access("A", lhs, names, shape), _access("B", rhs, names, shape)
    return Access("C", names), (a, b), {"A": left, "B": right}


def _access(name: str, x: Any, names: Sequence[str], shape: tuple[int, ...]) -> tuple[Access, Any]:
    """How `x` is accessed: a dimension that is repeated has an index of its own if sparse; if dense, it is dropped."""
    own, offset = list(names[len(names) - x.ndim :]), len(names) - x.ndim
    repeated = [n for n, size in enumerate(x.shape) if size != shape[offset + n]]
    if not repeated:
        return Access(name, tuple(own)), x
    if isinstance(x, SparseTensor):
        return Access(name, tuple(f"{name}{v}" if n in repeated else v for n, v in enumerate(own))), x
    kept = [n for n in range(x.ndim) if n not in repeated]
    return Access(name, tuple(own[n] for n in kept)), x.reshape([x.shape[n] for n in kept])
