"""`A.restrict(B)`: moves the values of one tensor to the pattern of another."""

from __future__ import annotations

from jsparse.errors import PatternError, ShapeError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import contract
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseTensor


def restrict(self: SparseTensor, other: SparseTensor | Pattern | DynamicPattern) -> SparseTensor:
    """Move the values of a tensor to another pattern: the result has exactly the stored entries of `other`.

        >>> mu = mu.restrict(W)  # an optimizer's moments follow the parameters to their new pattern

    Where this tensor stores nothing, the result is 0. Entries that `other` does not store are dropped. The result has
    the format of `other`, is static or dynamic as `other` is, and is linear in the values of this tensor. The values of
    `other` are ignored.

    Args:
        other: a tensor or a pattern of the same shape, in any format.

    The dtype stays. Raises ShapeError for another shape, PatternError if `other` is neither a tensor nor a pattern.
    """
    self = with_sound_leaves(self, "A in A.restrict")
    if not isinstance(other, SparseTensor | Pattern | DynamicPattern):
        raise PatternError(
            f"Expected a SparseTensor or a pattern as B in A.restrict(B), but got {short_repr(other)}. Convert an "
            "array with jsparse.asarray."
        )
    if other.shape != self.shape:
        raise ShapeError(
            f"Expected B in A.restrict(B) to have the shape of A, {shorten(self.shape)}, but got "
            f"{shorten(other.shape)}."
        )
    if not self.ndim:
        return self
    letters = letters_of(self.ndim)
    return contract(f"{letters}->{letters}", self, out_format=other)
