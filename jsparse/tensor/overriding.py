"""Types that compute some functions of jsparse themselves, as arrays do by NumPy's `__array_function__`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax

from jsparse.errors import JsparseError

Arguments: TypeAlias = Sequence[Any]
Options: TypeAlias = Mapping[str, Any]


class Overriding:
    """The base class of operands that are not SparseTensors, but compute some functions of jsparse.

    It is a pytree. Its values are its first leaf, and all other leaves are index arrays.
    """

    @property
    def values(self) -> jax.Array:
        """The stored values."""
        raise NotImplementedError

    def with_values(self, values: jax.Array) -> Overriding:
        """Return the object with other values."""
        raise NotImplementedError

    def _call(self, name: str, args: Arguments, kwargs: Options) -> Any:
        """Compute `jsparse.<name>(*args, **kwargs)`, of which this object is an argument.

        Raises an error of jsparse if it cannot.
        """
        raise NotImplementedError

    def _refusal(self, text: str) -> JsparseError:
        """The error for a function that this type does not compute. `text` names the function."""
        raise NotImplementedError


def overriding_operand(operands: Arguments) -> Overriding | None:
    """The first operand that computes functions of jsparse itself, or None."""
    return next((x for x in operands if isinstance(x, Overriding)), None)
