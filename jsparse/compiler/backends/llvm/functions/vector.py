"""Scalars and vectors of LLVM with Python's operators, so that emitted formulas read like mathematics.

`x * y` and `x + y` are always rounded separately. Only `muladd` and `horner` may fuse a multiplication and an addition,
as multiply-adds elsewhere in kernels may be fused. Results of these two functions may differ in the last bit between
CPUs with and without a fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from jsparse.base.dataclass import dataclass
from jsparse.compiler.backends.llvm.types import integer_comparison, llvm_type
from jsparse.compiler.dtypes import Type


@dataclass(frozen=True, slots=True)
class FloatLayout:
    """The bits of a float: a sign, an exponent with a bias, a mantissa.

    Attributes:
        integer: the dtype of integers with as many bits as the float.
        mantissa: the number of bits of the mantissa.
        bias: the stored exponent of 1.0.
    """

    integer: str
    mantissa: int
    bias: int

    @property
    def sign(self) -> int:
        """The integer whose only 1 bit is the float's sign bit."""
        return -1 << (self.mantissa + self.bias.bit_length() + 1)

    @property
    def shifter(self) -> float:
        """1.5 · 2^mantissa. The last bits of its sum with a small x hold x, rounded to an integer (ties to even)."""
        return 1.5 * 2.0**self.mantissa


_LAYOUTS = {"float32": FloatLayout("int32", 23, 127), "float64": FloatLayout("int64", 52, 1023)}

Operand: TypeAlias = "Vector | float"


class Vector:
    """An LLVM value with its KernelIR type. In operations, a Python number is a constant in all lanes."""

    __slots__ = ("builder", "type", "value")

    def __init__(self, builder: ir.IRBuilder, value: Any, type_: Type) -> None:
        self.builder, self.value, self.type = builder, value, type_

    def like(self, value: Any, type_: Type | None = None) -> Vector:
        """Wrap an LLVM value of this vector's type, or of type `type_`, which has the same number of lanes."""
        return Vector(self.builder, value, type_ or self.type)

    def constant(self, number: Operand) -> Vector:
        """A vector with a number in all lanes; a vector is returned unchanged."""
        if isinstance(number, Vector):
            return number
        scalar = ir.Constant(llvm_type(self.type.scalar), float(number) if self.type.is_float else int(number))
        scalars = [scalar] * self.type.lanes
        return self.like(ir.Constant(llvm_type(self.type), scalars) if self.type.lanes else scalar)

    def _binary(self, of_floats: str, of_integers: str, right: Operand) -> Vector:
        emit = getattr(self.builder, of_floats if self.type.is_float else of_integers)
        return self.like(emit(self.value, self.constant(right).value))

    def __add__(self, right: Operand) -> Vector:
        return self._binary("fadd", "add", right)

    def __radd__(self, left: Operand) -> Vector:
        return self.constant(left) + self

    def __sub__(self, right: Operand) -> Vector:
        return self._binary("fsub", "sub", right)

    def __rsub__(self, left: Operand) -> Vector:
        return self.constant(left) - self

    def __mul__(self, right: Operand) -> Vector:
        return self._binary("fmul", "mul", right)

    def __rmul__(self, left: Operand) -> Vector:
        return self.constant(left) * self

    def __truediv__(self, right: Operand) -> Vector:
        return self.like(self.builder.fdiv(self.value, self.constant(right).value))

    def __rtruediv__(self, left: Operand) -> Vector:
        return self.constant(left) / self

    def __neg__(self) -> Vector:
        return self.like(self.builder.fneg(self.value)) if self.type.is_float else 0 - self

    def __and__(self, right: Operand) -> Vector:
        return self.like(self.builder.and_(self.value, self.constant(right).value))

    def __or__(self, right: Operand) -> Vector:
        return self.like(self.builder.or_(self.value, self.constant(right).value))

    def __lshift__(self, count: int) -> Vector:
        return self.like(self.builder.shl(self.value, self.constant(count).value))

    def __rshift__(self, count: int) -> Vector:
        """Shift to the right and repeat the sign bit (an arithmetic shift)."""
        return self.like(self.builder.ashr(self.value, self.constant(count).value))

    def _compare(self, order: str, right: Operand) -> Vector:
        emit = self.builder.fcmp_ordered if self.type.is_float else integer_comparison(self.builder, self.type)
        return self.like(emit(order, self.value, self.constant(right).value), Type("bool", self.type.lanes))

    def __lt__(self, right: Operand) -> Vector:
        """Whether numbers are less than `right`; false for NaN."""
        return self._compare("<", right)

    def __gt__(self, right: Operand) -> Vector:
        return self._compare(">", right)

    def equals(self, right: Operand) -> Vector:
        """Whether numbers are equal; false for NaN."""
        return self._compare("==", right)

    @property
    def layout(self) -> FloatLayout:
        return _LAYOUTS[self.type.dtype]

    def bits(self) -> Vector:
        """The bits of a float, as an integer."""
        type_ = Type(self.layout.integer, self.type.lanes)
        return self.like(self.builder.bitcast(self.value, llvm_type(type_)), type_)

    def floats(self, bits: Vector) -> Vector:
        """Reinterpret integers as the bits of floats of this vector's type."""
        return self.like(self.builder.bitcast(bits.value, llvm_type(self.type)))

    def magnitude(self) -> Vector:
        """The absolute value of a float."""
        return self.floats(self.bits() & ~self.layout.sign)

    def with_sign_of(self, other: Vector) -> Vector:
        """This float, which is not negative, with the sign of `other`."""
        return self.floats(self.bits() | (other.bits() & self.layout.sign))

    def power_of_two(self, exponent: Vector) -> Vector:
        """2ⁿ as a float of this vector's type, for an integer n within the range of exponents."""
        return self.floats((exponent + self.layout.bias) << self.layout.mantissa)

    def at_most(self, bound: float) -> Vector:
        """The smaller of this vector and a bound; NaN stays NaN."""
        return select(self > bound, self.constant(bound), self)

    def at_least(self, bound: float) -> Vector:
        """The larger of this vector and a bound; NaN stays NaN."""
        return select(self < bound, self.constant(bound), self)

    def cast(self, dtype: str) -> Vector:
        """Convert a float to float64 or float32."""
        if dtype == self.type.dtype:
            return self
        type_ = Type(dtype, self.type.lanes)
        emit = self.builder.fpext if dtype == "float64" else self.builder.fptrunc
        return self.like(emit(self.value, llvm_type(type_)), type_)


def select(condition: Vector, then: Operand, otherwise: Operand) -> Vector:
    """Select one of two values in each lane. At least one of the values is a vector."""
    like = then if isinstance(then, Vector) else otherwise
    assert isinstance(like, Vector)
    return like.like(
        condition.builder.select(condition.value, like.constant(then).value, like.constant(otherwise).value)
    )


def muladd(x: Vector, y: Operand, z: Operand) -> Vector:
    """x · y + z, rounded once or twice."""
    flags = ("contract",)
    product = x.builder.fmul(x.value, x.constant(y).value, flags=flags)
    return x.like(x.builder.fadd(product, x.constant(z).value, flags=flags))


def horner(x: Vector, coefficients: Sequence[float]) -> Vector:
    """The polynomial in x with these coefficients, from the highest power to the constant."""
    first, *rest = coefficients
    total = x.constant(first)
    for coefficient in rest:
        total = muladd(total, x, coefficient)
    return total


def intrinsic(name: str, *arguments: Vector) -> Vector:
    """Call an intrinsic of LLVM that becomes one instruction."""
    first = arguments[0]
    lanes, width = first.type.lanes, first.type.dtype.removeprefix("float")
    full = f"llvm.{name}.{f'v{lanes}' if lanes else ''}f{width}"
    type_, module = llvm_type(first.type), first.builder.module
    function = module.globals.get(full) or ir.Function(module, ir.FunctionType(type_, [type_] * len(arguments)), full)
    return first.like(first.builder.call(function, [x.value for x in arguments]))
