"""The names of the functions that statements may call, with the numbers of their arguments."""

__all__ = ["COMPARISONS", "FUNCTIONS"]

_OF_ONE = """
    abs arccos arcsin arctan cbrt ceil cos cosh erf erfc exp exp2 expm1 floor gelu isfinite isinf isnan log log10 log1p
    log2 log_sigmoid relu relu6 round rsqrt selu sigmoid sign silu sin sinh soft_sign softplus sqrt square tan tanh
    trunc
"""

FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(_OF_ONE.split(), (1, 1)),
    "arctan2": (2, 2),
    "elu": (1, 2),
    "leaky_relu": (1, 2),
    "max": (2, 100),
    "min": (2, 100),
    "pow": (2, 2),
    "where": (3, 3),
}
"""For each function the least and the largest number of its arguments."""

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
"""Infix functions of two sums."""
