"""Lowering of scalar expressions to KernelIR, on scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel.algebra import broadcast, cast
from jsparse.compiler.kernel.nodes import Binary, Bind, Call, Compare, Const, Expr, Select, Var
from jsparse.compiler.operations import OPERATIONS
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.notation.assignment import Access


def lower_scalar(
    value: Scalar,
    read: Callable[[Access], Expr],
    fresh: Callable[[str, Type], Var],
    dtype: str,
    lanes: int,
    in_order: bool = False,
) -> tuple[list[Bind], Expr]:
    """Lower an expression to a vector of `lanes` lanes. Returns statements that bind local names, and the expression.

    Scalars are broadcast where they meet a vector.

    Args:
        read: returns the elements of an access, in `dtype`.
        fresh: makes a name that is used nowhere else in the kernel.
        in_order: whether the arguments of the outermost operation keep their order.

    Raises ValueError if a function needs floats, or float32, and arithmetic is in another dtype.
    """
    lowering = _Lowering(read, fresh, dtype)
    expr = broadcast(lowering.of(value, {}, not in_order), lanes)
    return lowering.bound, expr


class _Lowering:
    """The lowering of one expression.

    Attributes:
        bound: the bindings of local names so far, in order.
    """

    def __init__(self, read: Callable[[Access], Expr], fresh: Callable[[str, Type], Var], dtype: str) -> None:
        self.read, self.fresh, self.dtype = read, fresh, dtype
        self.bound: list[Bind] = []

    def of(self, value: Scalar, names: Mapping[str, Expr], sorts: bool = False) -> Expr:
        """Lower a value to an expression in KernelIR.

        Args:
            names: the values of local names.
            sorts: whether scalar factors may be multiplied before vectors.
        """
        match value:
            case Access():
                return self.read(value)
            case Number(value=number):
                return Const(number, Type(self.dtype))
            case Local(name=name):
                return names[name]
            case Let(name=name, value=inner, body=body):
                return self.of(body, {**names, name: self.bind_name(name, self.of(inner, names))}, sorts)
            case Rounded(value=exact, dtype=narrow):
                wide = self.of(exact, names, sorts)
                return cast(cast(wide, narrow), wide.type.dtype)
            case Apply(operation=operation, arguments=arguments):
                return self.apply_operation(operation, [self.of(x, names) for x in arguments], sorts)
        raise TypeError(f"{value} is not a scalar expression")

    def bind_name(self, name: str, value: Expr) -> Expr:
        """Return a name or a constant for the value. Any other expression is bound to a new name."""
        if isinstance(value, Var | Const):
            return value
        variable = self.fresh(name, value.type)
        self.bound.append(Bind(variable, value))
        return variable

    def apply_operation(self, operation: str, values: list[Expr], sorts: bool) -> Expr:
        match operation:
            case "select":
                return Select(*_alike(values))
            case "==" | "!=" | "<" | "<=":
                return Compare(operation, *_alike(values))
            case "+" | "*" | "min" | "max" | "&" | "|" | "-" | "/":
                if sorts and operation in ("*", "+", "&"):
                    values.sort(key=lambda x: bool(x.type.lanes))
                return reduce(lambda left, right: Binary(operation, *_alike([left, right])), values)
        if OPERATIONS[operation].takes == "floats" and not values[0].type.is_float:
            raise ValueError(f"expected floats for {operation}, but arithmetic is on {self.dtype}")
        if OPERATIONS[operation].is_narrow and self.dtype != "float32":
            raise ValueError(f"expected arithmetic in float32 for {operation}, but it is in {self.dtype}")
        return Call(operation, tuple(_alike(values)))


def _alike(values: list[Expr]) -> list[Any]:
    """Broadcast the values to the lanes of the widest value."""
    width = max(value.type.lanes for value in values)
    return [broadcast(value, width) for value in values]
