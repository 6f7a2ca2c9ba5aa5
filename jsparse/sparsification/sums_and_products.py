"""Products and sums of tensors with different entries, which are statements of their own instead of maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import einsum
from jsparse.ops.elementwise import operators
from jsparse.sparsification.deferred import Deferred, repeated
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.sparse_value import SparseValue, plain, whole

__all__ = ["SUMS", "is_addend", "is_factor", "product_of", "sum_of"]

SUMS = {"add": operators.add, "add_any": operators.add, "sub": operators.subtract}


def is_factor(x: Any) -> bool:
    """Whether an operand of a product is a tensor, or an array that is repeated along dimensions it lacks."""
    if isinstance(x, SparseValue):
        return x.background.is_zero
    return bool(np.ndim(x)) if not isinstance(x, Deferred) else x.repeats is not None and x.repeats[0].ndim > 0


def product_of(equation: Equation, factors: Sequence[Any]) -> SparseValue:
    """A product on the entries of all sparse factors. It is repeated along the dimensions that no factor has."""
    shape, terms = equation.shape, []
    for x in factors:
        if isinstance(x, SparseValue):
            terms.append((x.tensor, x.dims))
        else:
            leaf = x if isinstance(x, Deferred) else repeated(x, shape, range(len(shape) - x.ndim, len(shape)))
            assert leaf.repeats is not None
            terms.append(leaf.repeats)
    dims = tuple(sorted({dim for _, own in terms for dim in own}))
    letters = letters_of(len(shape))
    inputs = ",".join("".join(letters[dim] for dim in own) for _, own in terms)
    found: Any = einsum(f"{inputs}->{''.join(letters[dim] for dim in dims)}", *(x for x, _ in terms))
    return SparseValue(found.astype(equation.dtype) if found.dtype != equation.dtype else found, shape, dims)


def is_addend(x: Any, shape: tuple[int, ...]) -> bool:
    """Whether an operand of a sum is a tensor, or an array of all elements of the result."""
    if isinstance(x, SparseValue):
        return x.background.is_zero
    return not isinstance(x, Deferred) and np.shape(x) == shape


def sum_of(equation: Equation, addends: Sequence[Any]) -> Any:
    """A sum or difference: a tensor, or an array if an operand is one."""
    lhs, rhs = (whole(x).tensor if isinstance(x, SparseValue) else x for x in addends)
    return plain(SUMS[equation.name](lhs, rhs))
