"""The index array of a gradient, as a pytree that refuses arithmetic.

The gradient of a dynamic tensor has the tensor's index arrays, because products, sums and `todense` need them. But code
that maps over all leaves, such as an optimizer or a norm, would compute with coordinates as with any number. Therefore
the first index array in the pytree of a gradient is a `GradientIndex`: the array, and an empty array of random keys,
its *mark*. JAX moves, stacks, selects and compiles arrays of keys, but does not add, multiply, compare or cast them.
The pytree of the tensor itself is a prefix of the pytree of the gradient. So a function that is mapped over both gets
the tensor's index array and the GradientIndex. If the function computes with the latter, it raises LeafError.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, ClassVar, Never

import jax
import jax.numpy as jnp

from jsparse._compat import register_dtype_for_export, same_varying
from jsparse.base.dataclass import dataclass
from jsparse.errors import LeafError


@partial(jax.tree_util.register_dataclass, data_fields=["array", "mark"], meta_fields=[])
@dataclass(slots=True, eq=False)
class GradientIndex:
    """An index array of a gradient, and its mark."""

    array: Any
    mark: Any

    __array_ufunc__: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def dtype(self) -> Any:
        """The integer dtype of the array."""
        return self.array.dtype


def _refuse(*_: object) -> Never:
    raise LeafError(
        "Expected a function of values, but the function computes with an index array of the gradient of a dynamic "
        "tensor. Map over jsparse.values(gradient), wrap an optimizer in jsparse.optax.values_only, or compute with "
        "the tensors themselves, A - 0.1 * gradient."
    )


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(GradientIndex, f"__{_name}__", _refuse)
    setattr(GradientIndex, f"__r{_name}__", _refuse)
for _name in ("neg", "pos", "abs", "lt", "le", "gt", "ge", "float", "int", "array"):
    setattr(GradientIndex, f"__{_name}__", _refuse)


def mark_of(array: jax.Array) -> jax.Array:
    """Make the mark of a gradient with this index array. The mark is an array of keys of shape (0,)."""
    return same_varying((array, _mark()))[1]


@jax.jit
def _mark() -> jax.Array:
    return jax.random.wrap_key_data(jnp.zeros((0, 1), jnp.uint32), impl=_kind_of_keys())


@cache
def _kind_of_keys() -> Any:
    """A kind of random keys from which no numbers are drawn. Messages of JAX show its tag as the dtype of the mark."""
    from jax.extend import random  # noqa: PLC0415  slow to load, and rarely needed

    return random.define_prng_impl(
        key_shape=(1,), seed=_refuse, split=_refuse, random_bits=_refuse, fold_in=_refuse, name="jsparse", tag=_TAG
    )


_TAG = "gradient with index arrays: use jsparse.values(gradient) or jsparse.optax.values_only(optimizer)"


@cache
def let_jax_export_marks() -> None:
    """Tell `jax.export` about the dtype of marks, before it writes or reads one."""
    register_dtype_for_export(jax.eval_shape(_mark).dtype)
