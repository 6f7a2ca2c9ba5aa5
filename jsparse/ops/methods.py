"""The methods of SparseTensor and of patterns that call higher packages.

A tensor is values on a pattern, and its package imports no operation. So the methods that call operations are installed
here, when jsparse is imported. `SparseTensor` declares them for type checkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jsparse.convert import conversion, coordinate_creation, jax_sparse, scipy_sparse
from jsparse.formats import Pattern
from jsparse.formats.set_operators import SetOperators
from jsparse.ops import display, dot, picture, protocols
from jsparse.ops.building import diagonals
from jsparse.ops.elementwise import binary, comparisons, operators
from jsparse.ops.elementwise.map import map_entries
from jsparse.ops.indexing import getitem, points
from jsparse.ops.reductions import arg, moments, reductions
from jsparse.ops.shaping import axes, ordering, repeating, reshaping
from jsparse.ops.surgery.prune import drop_zeros, prune
from jsparse.ops.surgery.regrow import regrow
from jsparse.ops.surgery.restrict import restrict
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

__all__ = ["METHODS", "install"]


R = TypeVar("R")


def _reflected(function: Callable[[TensorLike, TensorLike], R]) -> Callable[[SparseTensor, TensorLike], R]:
    """The reflected operator, for a tensor on the right."""

    def reflected(self: SparseTensor, other: TensorLike) -> R:
        return function(other, self)

    return reflected


_OF_TABLE = {
    "floordiv": ("floor_divide", "//"),
    "mod": ("remainder", "%"),
    "lshift": ("left_shift", "<<"),
    "rshift": ("right_shift", ">>"),
}
"""Operators that are functions of the table, by the names of their methods."""

PICTURES: dict[str, Any] = {"spy": picture.spy, "_repr_html_": picture.as_html}
"""The methods that patterns have, too."""

METHODS: dict[str, Any] = {
    "from_coords": staticmethod(coordinate_creation.from_coords),
    "asformat": conversion.asformat,
    "dynamic": conversion.dynamic,
    "with_transpose": conversion.with_transpose,
    "todense": operators.todense,
    "toarray": operators.todense,
    "to_scipy": scipy_sparse.to_scipy,
    "to_bcoo": jax_sparse.to_bcoo,
    "to_bcsr": jax_sparse.to_bcsr,
    "conj": operators.conj,
    "dot": dot.dot,
    "multiply": operators.multiply,
    "power": binary.power,
    "map": map_entries,
    "sum": reductions.sum,
    "min": reductions.min,
    "max": reductions.max,
    "prod": reductions.prod,
    "mean": reductions.mean,
    "var": moments.var,
    "std": moments.std,
    "any": reductions.any,
    "all": reductions.all,
    "argmax": arg.argmax,
    "argmin": arg.argmin,
    "restrict": restrict,
    "prune": prune,
    "regrow": regrow,
    "drop_zeros": drop_zeros,
    **PICTURES,
    "__str__": display.as_text,
    "__getitem__": getitem.getitem,
    "take": getitem.take,
    "coords": property(points.coords),
    "at_coords": points.at_coords,
    "reshape": reshaping.reshape_method,
    "ravel": reshaping.ravel,
    "flatten": reshaping.ravel,
    "squeeze": axes.squeeze,
    "swapaxes": axes.swapaxes,
    "repeat": repeating.repeat,
    "nonzero": ordering.nonzero,
    "diagonal": diagonals.diagonal,
    "trace": diagonals.trace,
    "__array_function__": protocols.array_function,
    "__matmul__": operators.matmul,
    "__rmatmul__": _reflected(operators.matmul),
    "__mul__": operators.multiply,
    "__rmul__": operators.multiply,
    "__truediv__": operators.divide,
    "__rtruediv__": _reflected(operators.divide),
    "__pow__": binary.power,
    "__lt__": comparisons.less,
    "__le__": comparisons.less_equal,
    "__gt__": comparisons.greater,
    "__ge__": comparisons.greater_equal,
    "__add__": operators.add,
    "__radd__": _reflected(operators.add),
    "__sub__": operators.subtract,
    "__rsub__": _reflected(operators.subtract),
    "__and__": operators.bitwise_and,
    "__rand__": operators.bitwise_and,
    "__or__": operators.bitwise_or,
    "__ror__": operators.bitwise_or,
    "__xor__": operators.bitwise_xor,
    "__rxor__": operators.bitwise_xor,
    "__neg__": operators.negative,
    "__pos__": operators.positive,
    "__abs__": operators.absolute,
    "__divmod__": operators.divmod_,
    "__rdivmod__": _reflected(operators.divmod_),
    **{f"__{name}__": operators.of_table(*row) for name, row in _OF_TABLE.items()},
    **{f"__r{name}__": _reflected(operators.of_table(*row)) for name, row in _OF_TABLE.items()},
}
"""The functions that become methods of SparseTensor, by the methods' names."""

OF_PATTERNS = ("__getitem__", "take")
"""The methods that patterns, static and dynamic, have as well: a pattern is a tensor of ones that are not stored."""


def install() -> None:
    """Give SparseTensor and patterns their methods."""
    for name, method in METHODS.items():
        setattr(SparseTensor, name, method)
    for name, method in PICTURES.items():
        setattr(Pattern, name, method)
        setattr(DynamicPattern, name, method)
    for name in OF_PATTERNS:
        setattr(SetOperators, name, METHODS[name])


install()
