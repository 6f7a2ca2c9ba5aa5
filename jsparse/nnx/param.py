"""A trainable sparse tensor for NNX modules, whose values alone are parameters."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jsparse.errors import DTypeError, PatternError
from jsparse.formats import Pattern
from jsparse.nnx.shown import Shown
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

PREFIX = "values@"


class SparseIndex(nnx.Variable):
    """The index arrays of a dynamic pattern: state of a module, but no parameters."""


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

    Raises DTypeError if `tensor` is no SparseTensor.
    """

    def __init__(self, tensor: SparseTensor) -> None:
        if not isinstance(tensor, SparseTensor):
            raise DTypeError(f"Expected a SparseTensor for a SparseParam, but got a {type(tensor).__name__}.")
        check_leaves(tensor, "the tensor of a SparseParam")
        pattern = tensor.pattern
        self.pattern: Any = pattern if isinstance(pattern, Pattern) else SparseIndex(pattern.ordinary())
        setattr(self, _name(tensor.pattern), nnx.Param(tensor.values))

    @property
    def tensor(self) -> SparseTensor:
        """The tensor with the current values."""
        pattern = self._pattern()
        return SparseTensor._unchecked(getattr(self, _name(pattern))[...], pattern)

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
                f"Expected a tensor on {pattern!r}, or if that is dynamic, of the same shape, format and nse, but got "
                f"{tensor!r}. Make a new SparseParam, and a new optimizer."
            )
        if isinstance(tensor.pattern, DynamicPattern):
            self.pattern.set_value(tensor.pattern.ordinary())
        getattr(self, _name(pattern))[...] = tensor.values

    def _pattern(self) -> Pattern | DynamicPattern:
        found: Pattern | DynamicPattern = (
            self.pattern if isinstance(self.pattern, Pattern) else self.pattern.get_value()
        )
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Raises PatternError for the values of another pattern.

        The name of the attribute that holds the values contains a digest of their pattern. Without the error,
        `nnx.update` would add the values of another pattern as a second attribute, and the old values would stay.
        """
        pattern = vars(self).get("pattern")
        if name.startswith(PREFIX) and pattern is not None and name != _name(self._pattern()):
            raise PatternError(
                f"Expected a state with the parameter {_name(self._pattern())}, whose digest is that of "
                f"{self._pattern()!r}, but got {name}: the state belongs to another pattern."
            )
        super().__setattr__(name, value)


def _name(pattern: Pattern | DynamicPattern) -> str:
    return f"{PREFIX}{pattern.digest[:12]}"
