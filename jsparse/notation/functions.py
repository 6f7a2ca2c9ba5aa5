"""The table of elementwise functions, with the names of jax.numpy and jax.nn.

A function that is added here is a function of statements, `evaluate("C[i,j] = hypot(A[i,j], B[i,j])", …)`, and a
function of tensors, `jsparse.hypot(A, B)`, once `jsparse/__init__.py` exports it. `sparsify` and kernels need no row:
they read JAX's functions as jaxprs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from importlib import import_module
from typing import Any

from jsparse.base.dataclass import dataclass


@dataclass(frozen=True)
class Function:
    """An elementwise function.

    Attributes:
        name: the name in statements, and in `jsparse`.
        path: the path of JAX's function. If `arity` allows more than three arguments, JAX's function takes two, and
            `functools.reduce` applies it to all of them.
        formula: the value as text, a function of x, or of x and y.
        arity: the least and the largest number of arguments in statements.
        is_zero_at_zero: whether the value is 0 if all arguments are 0. Then the result has no entry where no argument
            has an entry.
        takes_floats: whether a first argument of integers or bools is converted to floats.
        takes_integers: whether the arguments have to be integers or bools.
        divides: whether the function divides by y, so that its value at two zeros counts as NaN, although JAX returns
            a number for integers.
    """

    name: str
    path: str
    formula: str
    arity: tuple[int, int] = (1, 1)
    is_zero_at_zero: bool = True
    takes_floats: bool = False
    takes_integers: bool = False
    divides: bool = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Compute the function of arrays and numbers, as JAX does."""
        if self.takes_floats:
            first, *others = arguments
            dtype = getattr(first, "dtype", None)
            arguments = (first if dtype is not None and dtype.kind not in "biu" else first * 1.0, *others)
        if len(arguments) > 2 and self.arity[1] > 3:
            return reduce(self.of_jax, arguments)
        return self.of_jax(*arguments, **options)

    @property
    def __name__(self) -> str:
        """The name in jaxprs and messages."""
        return self.name

    @cached_property
    def of_jax(self) -> Callable[..., Any]:
        """The function of JAX, which takes a fixed number of arguments."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(module), name)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The callable that computes the function: JAX's function if it takes the arguments unchanged, else `self`."""
        takes_more = self.arity[1] > 3
        return self if self.takes_floats or takes_more else self.of_jax


def _of(module: str, formulas: dict[str, str], **same: Any) -> Iterable[Function]:
    return (Function(name, f"jax.{module}.{name}", formula, **same) for name, formula in formulas.items())


_ROWS = (
    *_of("numpy", {
        "abs": "|x|", "negative": "-x", "sign": "the sign of x", "square": "x²", "sqrt": "√x",
        "cbrt": "the cube root of x", "expm1": "exp(x) - 1", "log1p": "log(1 + x)", "sin": "sin x", "tan": "tan x",
        "arcsin": "arcsin x", "arctan": "arctan x", "sinh": "sinh x", "tanh": "tanh x", "arcsinh": "arsinh x",
        "arctanh": "artanh x", "floor": "⌊x⌋", "ceil": "⌈x⌉", "trunc": "x rounded towards 0", "round": "x rounded",
        "conj": "the conjugate of x", "real": "the real part of x", "imag": "the imaginary part of x",
        "isnan": "whether x is NaN", "isinf": "whether x is infinite", "positive": "x itself",
        "rint": "x rounded to the nearest integer, and halves to the even one", "signbit": "whether x has a minus sign",
        "nan_to_num": "x with NaN replaced by 0, and infinities by the largest numbers", "deg2rad": "x · π / 180",
        "rad2deg": "x · 180 / π",
    }),
    *_of("numpy", {
        "exp": "exp x", "exp2": "2ˣ", "log": "log x", "log2": "log₂ x", "log10": "log₁₀ x", "cos": "cos x",
        "arccos": "arccos x", "cosh": "cosh x", "arccosh": "arcosh x", "reciprocal": "1 / x",
        "isfinite": "whether x is finite",
    }, is_zero_at_zero=False),
    *_of("numpy", {"arctan2": "the angle of the point (y, x), arctan2(x, y)", "hypot": "√(x² + y²)"}, arity=(2, 2)),
    *_of("numpy", {
        "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "left_shift": "x << y",
        "right_shift": "x >> y",
    }, arity=(2, 2), takes_integers=True),
    *_of("numpy", {
        "logical_and": "whether neither x nor y is 0", "logical_or": "whether x or y is not 0",
        "logical_xor": "whether exactly one of x and y is 0", "copysign": "|x| with the sign of y",
    }, arity=(2, 2)),
    *_of("numpy", {
        "logaddexp": "log(exp x + exp y)", "logaddexp2": "log₂(2ˣ + 2ʸ)",
    }, arity=(2, 2), is_zero_at_zero=False),
    *_of("numpy", {
        "floor_divide": "⌊x / y⌋", "remainder": "x - y · ⌊x / y⌋, which has the sign of y",
        "fmod": "the remainder of x / y with the sign of x",
    }, arity=(2, 2), is_zero_at_zero=False, divides=True),
    *_of("nn", {"relu": "max(x, 0)", "relu6": "min(max(x, 0), 6)"}),
    *_of("nn", {
        "gelu": "the Gaussian error linear unit of x", "selu": "the scaled exponential linear unit of x",
        "soft_sign": "x / (|x| + 1)",
    }),
    *_of("nn", {"silu": "x · sigmoid(x)"}, takes_floats=True),
    *_of("nn", {
        "celu": "the continuously differentiable exponential linear unit of x",
        "elu": "x if x > 0, else alpha · (exp(x) - 1)", "leaky_relu": "x if x ≥ 0, else negative_slope · x",
    }, arity=(1, 2)),
    *_of("nn", {"log_sigmoid": "log sigmoid(x)", "softplus": "log(1 + exp(x))"}, is_zero_at_zero=False),
    *_of("nn", {"sigmoid": "1 / (1 + exp(-x))"}, takes_floats=True, is_zero_at_zero=False),
    *_of("lax", {"rsqrt": "1 / √x"}, takes_floats=True, is_zero_at_zero=False),
    *_of("scipy.special", {"erf": "the error function of x"}),
    *_of("scipy.special", {"erfc": "1 - erf(x)"}, is_zero_at_zero=False),
    Function("max", "jax.numpy.maximum", "the largest argument", (2, 100)),
    Function("min", "jax.numpy.minimum", "the smallest argument", (2, 100)),
    Function("maximum", "jax.numpy.maximum", "the larger of x and y", (2, 2)),
    Function("minimum", "jax.numpy.minimum", "the smaller of x and y", (2, 2)),
    Function("pow", "jax.numpy.power", "xʸ", (2, 2), is_zero_at_zero=False),
    Function("clip", "jax.numpy.clip", "x within the bounds y and z", (3, 3)),
    Function("where", "jax.numpy.where", "y where x holds, else z", (3, 3)),
)  # fmt: skip

_ALIASES = {
    "absolute": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atanh": "arctanh", "atan2": "arctan2", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "conjugate": "conj", "mod": "remainder",
}  # fmt: skip

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}
"""The functions by name, and by the other names that numpy and the array API have for them."""
FUNCTIONS |= {name: FUNCTIONS[other] for name, other in _ALIASES.items()}

COMPARISONS: dict[str, Function] = {
    "<": Function("<", "jax.numpy.less", "x < y", (2, 2)),
    "<=": Function("<=", "jax.numpy.less_equal", "x ≤ y", (2, 2), is_zero_at_zero=False),
    ">": Function(">", "jax.numpy.greater", "x > y", (2, 2)),
    ">=": Function(">=", "jax.numpy.greater_equal", "x ≥ y", (2, 2), is_zero_at_zero=False),
    "==": Function("==", "jax.numpy.equal", "x = y", (2, 2), is_zero_at_zero=False),
    "!=": Function("!=", "jax.numpy.not_equal", "x ≠ y", (2, 2)),
}
"""The comparisons by symbol: infix functions of two sums."""
