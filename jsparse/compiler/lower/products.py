"""Products of scalars and vectors."""

from __future__ import annotations

from functools import reduce

from jsparse.compiler.kernel.algebra import cast
from jsparse.compiler.kernel.nodes import Binary as Op
from jsparse.compiler.kernel.nodes import Expr, Splat
from jsparse.compiler.semiring import Multiply

__all__ = ["multiplied", "rounded"]


def multiplied(operation: Multiply, values: list[Expr], lanes: int) -> Expr:
    """The product of the values, in their order, in `lanes` lanes; scalars are broadcast where they meet a vector."""

    def combined(left: Expr, right: Expr) -> Expr:
        width = max(left.type.lanes, right.type.lanes)
        return Op(operation, broadcast(left, width), broadcast(right, width))

    return broadcast(reduce(combined, values), lanes)


def rounded(value: Expr, dtype: str) -> Expr:
    """A value rounded to a dtype, as a number of its own dtype."""
    return cast(cast(value, dtype), value.type.dtype)


def broadcast(value: Expr, lanes: int) -> Expr:
    """A scalar in `lanes` lanes; a vector stays as it is."""
    return value if not lanes or value.type.lanes else Splat(value, lanes)
