"""The index array of a gradient, as a pytree that refuses arithmetic.

The gradient of a dynamic tensor has the tensor's index arrays, since products, sums and `todense` need them. But code
that maps over all leaves, such as an optimizer or a norm, would compute with coordinates as with any number.
Therefore the first index array in the pytree of a gradient is a `GradientIndex`: the array, and an empty array of
random keys, its *mark*. JAX moves, stacks, selects and compiles arrays of keys, but does not add, multiply, compare or
cast them. The pytree of the tensor itself is a prefix of the pytree of the gradient. So a function that is mapped over
both gets the tensor's index array and the GradientIndex. If the function computes with the latter, it raises LeafError.

The index arrays of tangents, which `jax.jacfwd` and `jax.jacrev` turn into the index arrays of Jacobians.

JAX gives the tangent of an integer array the dtype float0, which has no content. `jax.jacfwd` and `jax.jacrev` reshape
each part of a tangent, and cast it to the dtype of the primal array. Index arrays would become zeros, and the Jacobian
a tensor without entries. But a Jacobian has the entries of the primal tensor. So the index arrays of a tangent are
leaves of a class of their own. When these functions of JAX reshape such a leaf, they get the primal index array.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, ClassVar, Never

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import primal_of_jacobian, register_dtype_for_export, same_varying
from jsparse.base.dataclass import dataclass
from jsparse.errors import LeafError


class TangentIndex(np.ndarray):
    """A float0 array: the tangent of an index array, or of the mark of a gradient."""

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Reshape as numpy does; in `jax.jacfwd` and `jax.jacrev` return the primal index array, repeated.

        Raises LeafError in these functions for a gradient, whose mark JAX cannot convert, and if JAX does not say which
        the primal array is.
        """
        primal = primal_of_jacobian()
        if primal is None:
            return super().reshape(*shape, **options)
        array, axis = primal
        if array is None or jnp.issubdtype(array.dtype, jax.dtypes.extended):
            raise LeafError(
                "Expected a function whose results have a Jacobian, but one is the gradient of a dynamic tensor, or a "
                "tensor with index arrays. Differentiate its values, f(x).values or jsparse.values(f(x))."
            )
        (sizes,) = shape
        # JAX puts the axes of the result before the axes of the argument.
        ones = (1,) * (len(sizes) - array.ndim)
        return jnp.broadcast_to(array.reshape((*ones, *array.shape) if axis == 0 else (*array.shape, *ones)), sizes)


def as_tangent_index(leaf: object) -> object:
    """Return a float0 array, which may be traced, as a TangentIndex, and any other leaf as it is."""
    if not isinstance(leaf, jax.Array | np.ndarray) or leaf.dtype != jax.dtypes.float0:
        return leaf
    return np.zeros(leaf.shape, jax.dtypes.float0).view(TangentIndex)  # takes no memory: an element has no bytes


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
        "Expected a function of values, but it computes with an index array of the gradient of a dynamic tensor. Map "
        "over jsparse.values(gradient), wrap an optimizer in jsparse.optax.values_only, or compute with the tensors "
        "themselves, A - 0.1 * gradient."
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
