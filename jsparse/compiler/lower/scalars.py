"""Scalar expressions in KernelIR, on scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from jsparse.compiler.kernel.algebra import broadcast, cast
from jsparse.compiler.kernel.nodes import Binary, Compare, Const, Expr, Select
from jsparse.compiler.kernel.types import Type
from jsparse.compiler.scalar import Apply, Number, Rounded, Scalar
from jsparse.notation.assignment import Access

__all__ = ["lowered_scalar"]


def lowered_scalar(
    value: Scalar, read: Callable[[Access], Expr], dtype: str, lanes: int, in_order: bool = False
) -> Expr:
    """The expression in `lanes` lanes; scalars are broadcast where they meet a vector.

    Args:
        read: gives the elements of an access, in `dtype`.
        in_order: whether the arguments of the outermost operation keep their order.
    """

    def of(inner: Scalar, sorts: bool = False) -> Expr:
        match inner:
            case Access():
                return read(inner)
            case Number(value=number):
                return Const(number, Type(dtype))
            case Rounded(value=exact, dtype=narrow):
                found = of(exact, sorts)
                return cast(cast(found, narrow), found.type.dtype)
            case Apply(operation="select", arguments=arguments):
                return Select(*_alike([of(x) for x in arguments]))
            case Apply(operation="==" | "!=" | "<" | "<=" as operation, arguments=arguments):
                return Compare(operation, *_alike([of(x) for x in arguments]))
            case Apply(operation="+" | "*" | "min" | "max" | "&" | "|" | "-" | "/" as operation, arguments=arguments):
                values = [of(x) for x in arguments]
                if sorts and operation in ("*", "+", "&"):
                    values.sort(key=lambda x: bool(x.type.lanes))
                return reduce(lambda left, right: Binary(operation, *_alike([left, right])), values)
        raise TypeError(f"{inner} is no scalar expression")

    return broadcast(of(value, not in_order), lanes)


def _alike(values: list[Expr]) -> list[Any]:
    """The values in as many lanes as the widest of them."""
    width = max(value.type.lanes for value in values)
    return [broadcast(value, width) for value in values]
