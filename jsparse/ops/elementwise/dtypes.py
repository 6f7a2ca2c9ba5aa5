"""`astype`, `result_type` and `can_cast` of the array API, which also accept tensors here."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.convert.creation import of_any_array
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


@of_any_array("astype", jnp.astype)
def astype(self: SparseTensor, dtype: DTypeLike, /, *, copy: bool = True) -> SparseTensor:
    """Cast the values of a tensor to another dtype, on its pattern, as `A.astype(dtype)` does.

        >>> jsparse.astype(A, "bfloat16").dtype
        dtype(bfloat16)

    `copy` exists for the array API, and has no effect, because values are immutable. Raises DTypeError if `dtype` is
    not a dtype of numbers.
    """
    return self.astype(dtype)


def result_type(*operands: TensorLike | DTypeLike) -> np.dtype:
    """The dtype to which tensors, arrays, numbers and dtypes promote, by the rules of jnp.result_type.

    >>> jsparse.result_type(A, jnp.float16, 1.5)
    dtype('float32')

    Raises TypeError for an operand without a dtype, and DTypeError for dtypes that do not promote.
    """
    return np.dtype(jnp.result_type(*(x.values if isinstance(x, SparseTensor) else x for x in operands)))


def can_cast(
    from_: TensorLike | DTypeLike,
    to: DTypeLike,
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
) -> bool:
    """Test whether a dtype, or the dtype of a tensor or array, can be cast to another, as jnp.can_cast does.

        >>> jsparse.can_cast(A, "float64"), jsparse.can_cast(A, "int32")
        (True, False)

    Args:
        from_: a dtype, or a tensor or array, whose dtype is taken.
        to: a dtype.
        casting: what may happen: "safe" keeps all numbers, "same_kind" may round them; see np.can_cast.

    Raises TypeError for an argument that neither is nor has a dtype, ValueError for an unknown `casting`.
    """
    own = getattr(from_, "dtype", None)  # of numpy's scalar types it is a descriptor
    return bool(jnp.can_cast(own if isinstance(own, np.dtype) else from_, to, casting))
