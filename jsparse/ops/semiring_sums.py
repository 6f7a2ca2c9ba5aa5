"""Sums of several terms by a semiring: `C[i, j] = A[i, j] + B[i, j]` by min_plus is the smaller of two entries.

`+` in a statement is the semiring's ⊕, as `*` is its ⊗. Each term is computed as a tensor. Terms are combined where at
least one of them stores an entry, as the element-wise addition of GraphBLAS does: an entry that no term stores is the
zero of ⊕, so it stays out of a sparse result, and is that zero in an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.compiler.semiring import Semiring
from jsparse.notation.ellipsis import letters_of
from jsparse.notation.evaluate import parse_statement
from jsparse.ops.einsum import einsum
from jsparse.planning.bare_pattern import is_sparse
from jsparse.planning.planned import plan_statement
from jsparse.planning.signature import OutFormat
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["combined"]

_ADD: dict[str, Callable[..., jax.Array]] = {
    "+": jnp.add,
    "*": jnp.multiply,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "|": jnp.bitwise_or,
    "&": jnp.bitwise_and,
}


def combined(
    terms: Sequence[SparseTensor | jax.Array], ring: Semiring, out_format: OutFormat, nse: int | None
) -> SparseTensor | jax.Array:
    """The sum ⊕ of terms of one shape. It is sparse if all of them are, and `out_format` is not "dense"."""
    add = _ADD[ring.add]
    if is_sparse(out_format):  # all terms are values on that pattern
        first, *others = terms
        return reduce(lambda one, other: one.map(add, other), others, first)
    if out_format != "dense" and all(isinstance(x, SparseTensor) for x in terms):
        union = _union(terms, out_format, nse)
        first, *others = (_placed(x, ring, union) for x in terms)
        return reduce(lambda one, other: one.map(add, other), others, first)
    return reduce(add, (_placed(x, ring, "dense") for x in terms))


def _union(terms: Sequence[SparseTensor | jax.Array], out_format: OutFormat, nse: int | None) -> SparseTensor:
    """A tensor with the entries that some term stores."""
    indices = ", ".join(letters_of(terms[0].ndim))
    text = f"U[{indices}] = {' + '.join(f'P{n}[{indices}]' for n in range(len(terms)))}"
    patterns = {f"P{n}": x.pattern for n, x in enumerate(terms) if isinstance(x, SparseTensor)}
    made: SparseTensor = plan_statement(text, parse_statement(text), patterns, out_format, nse).run()
    return made


def _placed(x: SparseTensor | jax.Array, ring: Semiring, out_format: OutFormat) -> Any:
    """A term on another pattern or as an array, with the zero of ⊕ where it stores nothing."""
    if not isinstance(x, SparseTensor):
        return x
    letters = letters_of(x.ndim)
    return einsum(f"{letters}->{letters}", x, semiring=ring, out_format=out_format)
