"""Elementwise functions of sparse tensors, with the names of jax.numpy and jax.nn.

Each maps the stored entries only. Functions that are 0 at 0 agree with jax.numpy's on the dense array. The others do
not: entries that are not stored stay 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.convert.creation import as_sparse_operand
from jsparse.tensor.entrywise import compiled, mapped
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = [
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "cbrt",
    "ceil",
    "celu",
    "conj",
    "cos",
    "cosh",
    "elu",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gelu",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "leaky_relu",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "negative",
    "real",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "soft_sign",
    "softplus",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]


def _function(name: str, f: Callable[..., Any], formula: str, keeps_zero: bool = True) -> Callable[..., Any]:
    """The function of sparse tensors that applies `f` to stored entries, and of arrays that is `f` itself."""

    def applied(A: Any, *args: Any, **options: Any) -> Any:
        A = as_sparse_operand(A, f"jsparse.{name}")
        if not isinstance(A, SparseTensor):
            return f(A, *args, **options)
        check_leaves(A, f"A in jsparse.{name}(A)")
        return SparseTensor._unchecked(_values(f, A, args, options), A.pattern)

    rest = (
        "As it is 0 at 0, the result equals that of the dense array."
        if keeps_zero
        else "Only stored entries are mapped: where A stores nothing, the result stores nothing and counts as 0."
    )
    applied.__doc__ = f"""Compute {formula} for each stored entry x of a SparseTensor, on its pattern.

    {rest}

        >>> jsparse.{name}(A)

    Args:
        A: a SparseTensor of any shape and format; an array is passed to the function of JAX itself.
        args, options: the further arguments of JAX's function of this name, numbers or flags.

    Returns a SparseTensor on the pattern of A, so of its shape, of the dtype that the function of JAX gives, and
    differentiable in the values. Raises LeafError if the leaves of A do not fit its pattern, TypeError as JAX does.
    """
    applied.__name__ = applied.__qualname__ = name
    return applied


def _values(f: Callable[..., Any], tensor: SparseTensor, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if all(isinstance(x, bool | int | float | str | None) for x in (*args, *options.values())):
        positional = {f"argument{n}": x for n, x in enumerate(args)}
        return compiled(_called, tensor.pattern, tensor.values, f=f, **positional, **options)
    return mapped(lambda values: f(values, *args, **options), tensor.pattern, tensor.values)


def _called(values: Any, f: Callable[..., Any], **options: Any) -> Any:
    positional = [options.pop(name) for name in list(options) if name.startswith("argument")]
    return f(values, *positional, **options)


abs = _function("abs", jnp.abs, "|x|")
negative = _function("negative", jnp.negative, "-x")
sign = _function("sign", jnp.sign, "the sign of x")
square = _function("square", jnp.square, "x²")
sqrt = _function("sqrt", jnp.sqrt, "√x")
cbrt = _function("cbrt", jnp.cbrt, "the cube root of x")
expm1 = _function("expm1", jnp.expm1, "exp(x) - 1")
log1p = _function("log1p", jnp.log1p, "log(1 + x)")
sin = _function("sin", jnp.sin, "sin x")
tan = _function("tan", jnp.tan, "tan x")
arcsin = _function("arcsin", jnp.arcsin, "arcsin x")
arctan = _function("arctan", jnp.arctan, "arctan x")
sinh = _function("sinh", jnp.sinh, "sinh x")
tanh = _function("tanh", jnp.tanh, "tanh x")
arcsinh = _function("arcsinh", jnp.arcsinh, "arsinh x")
arctanh = _function("arctanh", jnp.arctanh, "artanh x")
floor = _function("floor", jnp.floor, "⌊x⌋")
ceil = _function("ceil", jnp.ceil, "⌈x⌉")
trunc = _function("trunc", jnp.trunc, "x rounded towards 0")
round = _function("round", jnp.round, "x rounded")
conj = _function("conj", jnp.conj, "the conjugate of x")
real = _function("real", jnp.real, "the real part of x")
imag = _function("imag", jnp.imag, "the imaginary part of x")
isnan = _function("isnan", jnp.isnan, "whether x is NaN")
isinf = _function("isinf", jnp.isinf, "whether x is infinite")

exp = _function("exp", jnp.exp, "exp x", keeps_zero=False)
exp2 = _function("exp2", jnp.exp2, "2ˣ", keeps_zero=False)
log = _function("log", jnp.log, "log x", keeps_zero=False)
log2 = _function("log2", jnp.log2, "log₂ x", keeps_zero=False)
log10 = _function("log10", jnp.log10, "log₁₀ x", keeps_zero=False)
cos = _function("cos", jnp.cos, "cos x", keeps_zero=False)
arccos = _function("arccos", jnp.arccos, "arccos x", keeps_zero=False)
cosh = _function("cosh", jnp.cosh, "cosh x", keeps_zero=False)
arccosh = _function("arccosh", jnp.arccosh, "arcosh x", keeps_zero=False)
reciprocal = _function("reciprocal", jnp.reciprocal, "1 / x", keeps_zero=False)
rsqrt = _function("rsqrt", jax.lax.rsqrt, "1 / √x", keeps_zero=False)
isfinite = _function("isfinite", jnp.isfinite, "whether x is finite", keeps_zero=False)

relu = _function("relu", jax.nn.relu, "max(x, 0)")
relu6 = _function("relu6", jax.nn.relu6, "min(max(x, 0), 6)")
leaky_relu = _function("leaky_relu", jax.nn.leaky_relu, "x if x ≥ 0, else negative_slope · x")
elu = _function("elu", jax.nn.elu, "x if x > 0, else alpha · (exp(x) - 1)")
celu = _function("celu", jax.nn.celu, "the continuously differentiable exponential linear unit of x")
selu = _function("selu", jax.nn.selu, "the scaled exponential linear unit of x")
gelu = _function("gelu", jax.nn.gelu, "the Gaussian error linear unit of x")
silu = _function("silu", jax.nn.silu, "x · sigmoid(x)")
soft_sign = _function("soft_sign", jax.nn.soft_sign, "x / (|x| + 1)")
sigmoid = _function("sigmoid", jax.nn.sigmoid, "1 / (1 + exp(-x))", keeps_zero=False)
log_sigmoid = _function("log_sigmoid", jax.nn.log_sigmoid, "log sigmoid(x)", keeps_zero=False)
softplus = _function("softplus", jax.nn.softplus, "log(1 + exp(x))", keeps_zero=False)
