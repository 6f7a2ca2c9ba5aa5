"""A trainable sparse tensor for NNX modules, whose values alone are parameters."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

from flax import nnx

from jsparse.errors import DTypeError, PatternError, describe_type, short_repr
from jsparse.formats import Pattern
from jsparse.nnx.shown import Shown
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

PREFIX = "values@"


class SparseIndex(nnx.Variable):
    """The index arrays of a dynamic pattern: they belong to a module's state, but are not parameters."""


class SparseParam(nnx.Module, metaclass=Shown):
    """A SparseTensor whose values are an `nnx.Param`, and whose index arrays are not.

        >>> class Layer(nnx.Module):
        ...     def __init__(self, A):
        ...         self.weight = jsparse.nnx.SparseParam(A)
        ...
        ...     def __call__(self, x):
        ...         return self.weight.tensor @ x

    So `nnx.grad`, `nnx.Optimizer` and any Optax transformation work with it, for static and dynamic patterns. The
    parameter's name contains a digest of the pattern (for a dynamic pattern, of its shape, format and nse), so that
    restoring the state of another pattern is refused.

    Args:
        tensor: a SparseTensor.

    Raises DTypeError if `tensor` is not a SparseTensor.
    """

    def __init__(self, tensor: SparseTensor) -> None:
        if not isinstance(tensor, SparseTensor):
            raise DTypeError(f"Expected a SparseTensor for a SparseParam, but got {describe_type(tensor)}.")
        check_leaves(tensor, "the tensor of a SparseParam")
        pattern: Pattern | DynamicPattern | Composition = tensor.pattern
        is_known = isinstance(pattern, Pattern) or not tensor.is_dynamic
        self.pattern: Any = pattern if is_known else SparseIndex(_ordinary(pattern))
        setattr(self, _name(tensor.pattern), nnx.Param(tensor.values))

    @property
    def tensor(self) -> SparseTensor:
        """The tensor with the current values."""
        pattern = self._pattern()
        values = getattr(self, _name(pattern))[...]
        if isinstance(pattern, Composition):
            return ComposedTensor._wrap(values, pattern)
        return SparseTensor._wrap(values, pattern)

    def __getitem__(self, index: EllipsisType) -> SparseTensor:
        """Return the tensor for `param[...]`, so a module reads its kernel in one way, whether it is sparse or dense.

        Raises DTypeError for any other index.
        """
        if index is not ...:
            raise DTypeError(f"Expected [...] of a SparseParam, but got {short_repr(index)}. Write param[...][index].")
        return self.tensor

    def replace(self, tensor: SparseTensor) -> None:
        """Take the values and the pattern of another tensor.

            >>> layer.weight.replace(layer.weight.tensor.prune(keep=n).regrow(scores, k))

        A static pattern must not change. A dynamic pattern may change, but not in shape, format or nse. So the
        parameter and the state of its optimizer keep their names and shapes.

        Raises PatternError for any other change of the pattern.
        """
        pattern = self._pattern()
        check_leaves(tensor, "the tensor of a SparseParam")
        if type(tensor.pattern) is not type(pattern) or tensor.pattern.digest != pattern.digest:
            raise PatternError(
                f"Expected a tensor on {pattern!r}, or if this pattern is dynamic, a tensor with the same shape, "
                f"format and nse, but got {tensor!r}. Make a new SparseParam, and a new optimizer."
            )
        if isinstance(self.pattern, SparseIndex):
            self.pattern.set_value(_ordinary(tensor.pattern))
        getattr(self, _name(pattern))[...] = tensor.values

    def _pattern(self) -> Pattern | DynamicPattern | Composition:
        pattern: Pattern | DynamicPattern | Composition = self.pattern
        return pattern if isinstance(pattern, (Pattern, Composition)) else self.pattern.get_value()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Raises PatternError for the values of another pattern.

        The name of the attribute that holds the values contains a digest of their pattern. Without the error,
        `nnx.update` would add the values of another pattern as a second attribute, and the old values would stay.
        """
        pattern = vars(self).get("pattern")
        if name.startswith(PREFIX) and pattern is not None and name != _name(self._pattern()):
            raise PatternError(
                f"Expected a state with the parameter {_name(self._pattern())}, whose digest belongs to "
                f"{self._pattern()!r}, but got {name}: the state belongs to another pattern."
            )
        super().__setattr__(name, value)


def _ordinary(pattern: Pattern | DynamicPattern | Composition) -> DynamicPattern | Composition:
    """A dynamic pattern without the mark of a gradient."""
    assert not isinstance(pattern, Pattern)
    return pattern.ordinary()


def _name(pattern: Pattern | DynamicPattern | Composition) -> str:
    """The name of the values. A matrix in bsr has the name of the tensor of its blocks, whose values these are."""
    if isinstance(pattern, Composition):
        pattern = pattern.as_blocks or pattern
    return f"{PREFIX}{pattern.digest[:12]}"
