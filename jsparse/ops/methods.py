"""The methods of SparseTensor and of patterns that call operations of other packages.

A SparseTensor consists of values on a pattern, and its package imports no operation. So the methods that call
operations are installed here, when jsparse is imported. The first lookup of a method imports the file of its function.
Type checkers and editors read them in `tensor/methods.pyi` and `formats/methods.pyi` (`python tools/stubs.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from jsparse.formats import Pattern
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

R = TypeVar("R")
Find = Callable[[], Any]


def _at(place: str) -> Find:
    """Make a function that imports and returns a function of jsparse, such as `ops.dot.dot`."""
    module, _, name = place.rpartition(".")
    return lambda: getattr(import_module(f"jsparse.{module}"), name)


def _wrap(wrapper: Callable[[Any], Any], find: Find) -> Find:
    """Make a function that returns what `wrapper` makes of the function that `find` returns."""
    return lambda: wrapper(find())


def _as_reflected(function: Callable[[TensorLike, TensorLike], R]) -> Callable[[SparseTensor, TensorLike], R]:
    """Make the reflected form of a function of two operands: a method that takes its tensor as the right operand."""

    def call_reflected(self: SparseTensor, other: TensorLike) -> R:
        return function(other, self)

    return call_reflected


def _of_table(name: str, sign: str) -> Find:
    """Make a function that returns the operator `sign`: the function `name` of `jsparse/notation/functions.py`."""
    return lambda: _at("ops.elementwise.operators.of_table")()(name, sign)


_OF_TABLE = {
    "floordiv": ("floor_divide", "//"),
    "mod": ("remainder", "%"),
    "lshift": ("left_shift", "<<"),
    "rshift": ("right_shift", ">>"),
}
"""(function of the table, symbol) of an operator, by the name of its method without underscores."""

OF_ALL: dict[str, Find] = {
    "from_coords": _wrap(staticmethod, _at("convert.coordinate_creation.from_coords")),
    "asformat": _at("convert.conversion.asformat"),
    "todense": _at("ops.elementwise.operators.todense"),
    "toarray": _at("ops.elementwise.operators.todense"),
    "to_scipy": _at("convert.scipy_sparse.to_scipy"),
    "to_torch": _at("convert.dlpack.to_torch"),
    "to_cupyx": _at("convert.dlpack.to_cupyx"),
    "conj": _at("ops.elementwise.operators.conj"),
    "dot": _at("ops.dot.dot"),
    "multiply": _at("ops.elementwise.operators.multiply"),
    "map": _at("ops.elementwise.map.map_entries"),
    "sum": _at("ops.reductions.reductions.sum"),
    "prune": _at("ops.surgery.prune.prune"),
    "__str__": _at("ops.display.as_text"),
    "__array_function__": _at("ops.protocols.array_function"),
    "__array_namespace__": _at("ops.protocols.array_namespace"),
    "__matmul__": _at("ops.elementwise.operators.matmul"),
    "__rmatmul__": _wrap(_as_reflected, _at("ops.elementwise.operators.matmul")),
    "__mul__": _at("ops.elementwise.operators.multiply"),
    "__rmul__": _at("ops.elementwise.operators.multiply"),
    "__truediv__": _at("ops.elementwise.operators.divide"),
    "__rtruediv__": _wrap(_as_reflected, _at("ops.elementwise.operators.divide")),
    "__add__": _at("ops.elementwise.operators.add"),
    "__radd__": _wrap(_as_reflected, _at("ops.elementwise.operators.add")),
    "__sub__": _at("ops.elementwise.operators.subtract"),
    "__rsub__": _wrap(_as_reflected, _at("ops.elementwise.operators.subtract")),
    "__neg__": _at("ops.elementwise.operators.negative"),
    "__pos__": _at("ops.elementwise.operators.positive"),
    "__abs__": _at("ops.elementwise.operators.absolute"),
    "__treescope_repr__": _at("ops.picture.as_treescope"),
    "_repr_html_": _at("ops.picture.as_html"),
}
"""The methods that have a rule for composed tensors, too."""

METHODS: dict[str, Find] = {
    **OF_ALL,
    "dynamic": _at("convert.conversion.dynamic"),
    "with_transpose": _at("convert.conversion.with_transpose"),
    "with_rows": _at("convert.conversion.with_rows"),
    "to_bcoo": _at("convert.jax_sparse.to_bcoo"),
    "to_bcsr": _at("convert.jax_sparse.to_bcsr"),
    "power": _at("ops.elementwise.binary.power"),
    "min": _at("ops.reductions.reductions.min"),
    "max": _at("ops.reductions.reductions.max"),
    "prod": _at("ops.reductions.reductions.prod"),
    "mean": _at("ops.reductions.reductions.mean"),
    "var": _at("ops.reductions.moments.var"),
    "std": _at("ops.reductions.moments.std"),
    "any": _at("ops.reductions.reductions.any"),
    "all": _at("ops.reductions.reductions.all"),
    "argmax": _at("ops.reductions.arg.argmax"),
    "argmin": _at("ops.reductions.arg.argmin"),
    "restrict": _at("ops.surgery.restrict.restrict"),
    "regrow": _at("ops.surgery.regrow.regrow"),
    "drop_zeros": _at("ops.surgery.prune.drop_zeros"),
    "spy": _at("ops.picture.spy"),
    "__getitem__": _at("ops.indexing.getitem.getitem"),
    "take": _at("ops.indexing.getitem.take"),
    "coords": _wrap(property, _at("ops.indexing.at_coords.coords")),
    "at_coords": _at("ops.indexing.at_coords.at_coords"),
    "reshape": _at("ops.shaping.reshaping.reshape_method"),
    "ravel": _at("ops.shaping.reshaping.ravel"),
    "flatten": _at("ops.shaping.reshaping.ravel"),
    "squeeze": _at("ops.shaping.axes.squeeze"),
    "swapaxes": _at("ops.shaping.axes.swapaxes"),
    "repeat": _at("ops.shaping.repeating.repeat"),
    "nonzero": _at("ops.shaping.ordering.nonzero"),
    "diagonal": _at("ops.building.diagonals.diagonal"),
    "trace": _at("ops.building.diagonals.trace"),
    "__pow__": _at("ops.elementwise.binary.power"),
    "__lt__": _at("ops.elementwise.comparisons.less"),
    "__le__": _at("ops.elementwise.comparisons.less_equal"),
    "__gt__": _at("ops.elementwise.comparisons.greater"),
    "__ge__": _at("ops.elementwise.comparisons.greater_equal"),
    "__and__": _at("ops.elementwise.operators.bitwise_and"),
    "__rand__": _at("ops.elementwise.operators.bitwise_and"),
    "__or__": _at("ops.elementwise.operators.bitwise_or"),
    "__ror__": _at("ops.elementwise.operators.bitwise_or"),
    "__xor__": _at("ops.elementwise.operators.bitwise_xor"),
    "__rxor__": _at("ops.elementwise.operators.bitwise_xor"),
    "__divmod__": _at("ops.elementwise.operators.divmod_"),
    "__rdivmod__": _wrap(_as_reflected, _at("ops.elementwise.operators.divmod_")),
    **{f"__{name}__": _of_table(*row) for name, row in _OF_TABLE.items()},
    **{f"__r{name}__": _wrap(_as_reflected, _of_table(*row)) for name, row in _OF_TABLE.items()},
}
"""For each method of SparseTensor, by name, a function that imports and returns the method."""


OF_COMPOSED: dict[str, Find] = {
    **OF_ALL,
    "with_values": _at("convert.composed.with_values"),
    "to_coords": _at("convert.composed.to_coords"),
    "dynamic": _at("convert.composed.dynamic"),
    "static": _at("convert.composed.static"),
}
"""The methods that composed tensors have by a rule for them. All others act on the tensor in csr, or csf."""

OF_PATTERNS: dict[str, Find] = {
    **{name: METHODS[name] for name in ("__getitem__", "__treescope_repr__", "_repr_html_", "spy", "take")},
    "todense": _at("ops.patterns.values.todense"),
    "astype": _at("ops.patterns.values.astype"),
    "__mul__": _at("ops.patterns.values.multiply"),
    "__rmul__": _at("ops.patterns.values.multiply"),
}
"""The methods of static and dynamic patterns: a pattern acts as a tensor of ones, without stored values."""


def _on_plain(name: str, find: Find) -> Find:
    """Make a function that returns a method or property that composed tensors and compositions have in csr or csf."""

    def attribute(self: ComposedTensor | Composition) -> Any:
        return getattr(_at("convert.creation.as_sparse_operand")()(self, f"A.{name}"), name)

    def method(self: ComposedTensor | Composition, *args: object, **kwargs: object) -> object:
        return attribute(self)(*args, **kwargs)

    return lambda: property(attribute) if isinstance(find(), property) else method


class _Late:
    """Placeholder for a method of a class. The first lookup imports the method, which replaces the placeholder."""

    __slots__ = ("class_", "find", "name")

    def __init__(self, class_: type, name: str, find: Find) -> None:
        self.class_, self.name, self.find = class_, name, find

    def __get__(self, instance: object, owner: type) -> Any:
        setattr(self.class_, self.name, self.find())
        return getattr(owner if instance is None else instance, self.name)


def install() -> None:
    """Give tensors and patterns their methods. Compositions act as their pattern in csr, or csf."""
    for name, find in METHODS.items():
        _give(SparseTensor, name, find)
        _give(ComposedTensor, name, _on_plain(name, find))
    for name, find in OF_COMPOSED.items():
        _give(ComposedTensor, name, find)
    for name, find in OF_PATTERNS.items():
        _give(Pattern, name, find)
        _give(DynamicPattern, name, find)
        _give(Composition, name, find if name in ("__treescope_repr__", "_repr_html_") else _on_plain(name, find))
    _give(Composition, "_plain", _at("convert.slots.plain_pattern"))


def _give(class_: type, name: str, find: Find) -> None:
    setattr(class_, name, _Late(class_, name, find))


install()
