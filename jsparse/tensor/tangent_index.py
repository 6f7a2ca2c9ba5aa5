"""The index arrays of tangents, which `jax.jacfwd` and `jax.jacrev` turn into the index arrays of Jacobians.

JAX gives the tangent of an integer array the dtype float0, which has no content. `jax.jacfwd` and `jax.jacrev` reshape
each part of a tangent, and cast it to the dtype of the primal array. Index arrays would become zeros, and the Jacobian
a tensor without entries. But a Jacobian has the entries of the primal tensor. So the index arrays of a tangent are
leaves of a class of their own. When these functions of JAX reshape such a leaf, they get the primal index array.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import primal_of_jacobian
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
                "Expected a function whose results have a Jacobian, but one result is the gradient of a dynamic "
                "tensor, or a tensor with index arrays. Differentiate its values, f(x).values or jsparse.values(f(x))."
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
