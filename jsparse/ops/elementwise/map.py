"""`A.map(f)`: elementwise functions of the stored entries of tensors on one pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import PatternError
from jsparse.tensor.dynamic_pattern import same_entries
from jsparse.tensor.entrywise import mapped
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["map_entries", "on_both_patterns", "on_one_pattern", "value_operands"]


def map_entries(self: SparseTensor, f: Callable[..., Any], *others: Any) -> SparseTensor:
    """Apply an elementwise function to the stored entries: `f(values, *values_of_others)` on the pattern of A.

    Entries that are not stored stay so, whatever the function gives for 0. The function is traced with scalars. It may
    close over scalars, and use any elementwise function of jax.numpy, jax.nn or jax.scipy.special.

        >>> A.map(jnp.exp)
        >>> A.map(lambda a, b: a * jax.nn.sigmoid(b), B.restrict(A))  # tensors on one pattern

    Args:
        f: a function of one number for each tensor that gives one number, of any dtype.
        others: SparseTensors with the entries of A, and scalars.

    Derivatives, batches and dynamic patterns work. The padding of dynamic patterns contributes nothing.

    Raises ShapeError if the function is not elementwise, PatternError if the tensors have different entries.
    """
    operands = [as_sparse_operand(x, "A.map") for x in others]
    values = value_operands("A.map", self, *operands)
    return SparseTensor._unchecked(mapped(f, self.pattern, *values), self.pattern)


def value_operands(what: str, first: SparseTensor, *others: Any) -> list[Any]:
    """The values of tensors on one pattern; scalars stay as they are. Raises PatternError for other entries."""
    check_leaves(first, f"A in {what}")
    values = [first.values]
    for x in others:
        if not isinstance(x, SparseTensor):
            values.append(x)
            continue
        check_leaves(x, f"an operand of {what}")
        if not on_one_pattern(first, x):
            raise PatternError(
                f"Expected the tensors of {what} to have the same stored entries, in one format, but got {first!r} and "
                f"{x!r}. Take values on the entries of A by B.restrict(A), or on those of both by restricting to A + B."
            )
        values.append(x.values)
    return values


def on_one_pattern(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether two tensors certainly have the same slots."""
    return a.format == b.format and a.shape == b.shape and same_entries(a.pattern, b.pattern)


def on_both_patterns(a: SparseTensor, b: SparseTensor) -> tuple[SparseTensor, SparseTensor]:
    """Two tensors of one shape, on the union of their patterns: 0 at entries that only the other one stores."""
    if on_one_pattern(a, b):
        return a, b
    both = a + b
    return a.restrict(both), b.restrict(both)
