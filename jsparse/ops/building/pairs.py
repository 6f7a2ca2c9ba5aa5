"""Products of every entry of one tensor with every entry of another: their places are arithmetic on coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.formats import Format, Pattern
from jsparse.ops.relocation.values import gathered, is_known
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["are_known", "of_pairs"]


def are_known(*operands: Any) -> bool:
    """Whether all operands are tensors on static patterns, whose values are known."""
    return all(isinstance(x, SparseTensor) and isinstance(x.pattern, Pattern) and is_known(x.values) for x in operands)


def of_pairs(
    left: SparseTensor,
    right: SparseTensor,
    places: Sequence[tuple[int | None, int | None]],
    shape: Sequence[int],
    format: Format,
) -> SparseTensor:
    """The tensor of the products of each entry of `left` with each of `right`, both known; no two may meet.

    It is made on the host: XLA would compile a program for each pair of patterns.

    Args:
        places: for each dimension of the result the one of `left` and the one of `right` that it is made of; None for
            one that it is not made of. The coordinate of both is that of `left` times the size plus that of `right`.
    """
    assert isinstance(left.pattern, Pattern)
    assert isinstance(right.pattern, Pattern)
    wide = np.dtype(np.int32 if max(*shape, 1) < 2**31 else np.int64)
    first = [row.astype(wide, copy=False)[:, None] for row in left.pattern.rows()]
    second = [row.astype(wide, copy=False)[None, :] for row in right.pattern.rows()]
    pairs, rows = (left.nse, right.nse), []
    for m, n in places:
        row = 0 if m is None else first[m] if n is None else first[m] * wide.type(right.shape[n])
        row = row if n is None else row + second[n]
        rows.append(np.broadcast_to(row, pairs).reshape(-1))
    pattern, built = Pattern.from_rows(rows, shape, format)
    pair = built.gather()
    of_left = pair // max(right.nse, 1)  # -1 stays -1
    of_right = pair - of_left * right.nse
    if pattern.nse > left.nse * right.nse:
        of_right[pair < 0] = -1
    values = [gathered([x.values], number, 1, x.dtype) for x, number in ((left, of_left), (right, of_right))]
    return SparseTensor._unchecked(jnp.multiply(*values), pattern)
