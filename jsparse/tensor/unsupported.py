"""Operations of arrays that a SparseTensor does not support. Each error says what to write instead."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from inspect import signature
from numbers import Number
from typing import Any, Never

import jax
import numpy as np

from jsparse._compat import function_of_jax_numpy
from jsparse.errors import DTypeError


class UnsupportedOperations:
    """Base of SparseTensor. Its methods raise DTypeError, which is also a TypeError."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __array__(self, *args: Any, **kwargs: Any) -> Never:
        raise DTypeError(
            "A SparseTensor is not converted to a dense array silently. Call A.todense(). For a product with a "
            "scipy.sparse array S, write jsparse.asarray(S) @ A."
        )

    def __len__(self) -> int:
        # Summaries of Flax replace the leaves of a pytree by descriptions, and ask whether its length is 0.
        if not isinstance(getattr(self, "values", None), jax.Array | np.ndarray):
            return 1
        raise DTypeError("len(A) of a SparseTensor is ambiguous: write A.shape[0], or A.nse for its stored entries.")

    def __bool__(self) -> Never:
        raise DTypeError(
            "The truth value of a SparseTensor is ambiguous. Write A.nse > 0, `A is not None`, or jsparse.any(A)."
        )

    def __iter__(self) -> Never:
        raise DTypeError("A SparseTensor is not iterable: write A[i] for i in range(A.shape[0]), or A.to_coords().")

    def __contains__(self, item: object) -> Never:
        raise DTypeError("`x in A` is not defined for a SparseTensor. Write (A.values == x).any() or x in A.todense().")

    def __float__(self) -> Never:
        raise _no_number("float")

    def __int__(self) -> Never:
        raise _no_number("int")

    def __complex__(self) -> Never:
        raise _no_number("complex")

    def __round__(self, digits: int | None = None) -> Never:
        raise DTypeError("round(A) is not defined for a SparseTensor. Write jsparse.round(A).")

    @property
    def __jax_array__(self) -> Never:
        """Raise DTypeError inside functions of jax.numpy. Elsewhere raise AttributeError, as if it did not exist.

        JAX looks this attribute up in many places. The operators of JAX arrays defer to a class that lacks it.
        """
        name = function_of_jax_numpy()
        if name is None:
            raise AttributeError("__jax_array__")
        raise DTypeError(
            f"The functions of JAX{f', such as {name},' if name else ''} do not take a SparseTensor, because "
            f"they would make it dense. Write {_counterpart(name)}A.map(f) for any elementwise function of stored "
            "entries; jsparse.einsum for products; or pass A.todense()."
        )

    # The result for a number or an array is a SparseTensor or an array, which `object` does not foresee.
    def __eq__(self, other: object) -> Any:
        """Compare elements with a number or an array, as `jsparse.equal` does, and tensors by identity."""
        if isinstance(other, Number | np.ndarray | jax.Array):
            return sys.modules["jsparse"].equal(self, other)
        if self is not other and isinstance(other, UnsupportedOperations):
            _warn_of_identity()
        return self is other

    def __ne__(self, other: object) -> Any:
        if isinstance(other, Number | np.ndarray | jax.Array):
            return sys.modules["jsparse"].not_equal(self, other)
        if self is not other and isinstance(other, UnsupportedOperations):
            _warn_of_identity()
        return self is not other

    def __rpow__(self, other: object) -> Never:
        raise DTypeError(
            "x ** A is 1 wherever the SparseTensor A stores nothing. Write A.with_values(x ** A.values) for its stored "
            "entries, or x ** A.todense()."
        )

    def __invert__(self) -> Never:
        raise DTypeError(
            "~A is True wherever the SparseTensor A stores nothing, so it would be dense. Write A > B for A & ~B of "
            "bool tensors, the complement of a comparison (A <= 0 for ~(A > 0)) if it is False at 0, A.map(jnp.invert) "
            "for stored entries only, or ~A.todense()."
        )

    def __getattr__(self, name: str) -> Never:
        """Raise AttributeError. For attributes of other libraries' arrays, the message names the counterpart."""
        function = callable(getattr(sys.modules.get("jsparse"), name, None)) and not name.startswith("_")
        instead = _COUNTERPARTS.get(name, f"Write jsparse.{name}(A)." if function else "")
        advice = f" {instead}" if instead else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{advice}")

    def __setitem__(self, index: object, value: object) -> Never:
        raise DTypeError(
            "A SparseTensor is immutable. For stored entries write A.with_values(A.values.at[slot].set(x))."
        )


_INDEX_ARRAYS = "The index arrays of all levels are A.pattern.arrays, and A.to_scipy() has them for csr, csc and coo."
_COUNTERPARTS = {
    "data": "The stored values are A.values, and A.with_values(v) is the tensor with other values.",
    "indices": _INDEX_ARRAYS,
    "indptr": _INDEX_ARRAYS,
    "row": "The coordinates of the entries are A.to_coords()[0], one row for each dimension.",
    "col": "The coordinates of the entries are A.to_coords()[0], one row for each dimension.",
    "tocsr": 'Write A.asformat("csr").',
    "tocsc": 'Write A.asformat("csc").',
    "tocoo": 'Write A.asformat("coo").',
    "tobsr": 'Write A.asformat("bsr(16, 16)").',
    "toscipy": "Write A.to_scipy().",
    "at": "Write jsparse.sparsify(lambda A: A.at[i, j].set(x))(A), or A.with_values(A.values.at[slot].set(x)).",
    "getrow": "Write A[i].",
    "getcol": "Write A[:, j].",
    "getnnz": "Write A.nse, or jsparse.count_nonzero(A) for the number of nonzeros.",
    "setdiag": "Write jsparse.tril(A, -1) + jsparse.triu(A, 1) + jsparse.diag(v) for a square A.",
    "eliminate_zeros": "Write A.drop_zeros().",
    "sort_indices": "Entries are always in storage order.",
    "sum_duplicates": "Equal coordinates are summed when a tensor is made.",
    "coalesce": "Equal coordinates are summed when a tensor is made.",
    "crow_indices": _INDEX_ARRAYS,
    "col_indices": _INDEX_ARRAYS,
    "to_dense": "Write A.todense().",
    "numpy": "Write np.asarray(A.todense()).",
    "tolist": "Write A.todense().tolist().",
    "item": "Write A.sum().item(), or A[i, j].item() for one element.",
    "fill": "A SparseTensor is immutable. Write A.with_values(jnp.full_like(A.values, x)).",
    "cumsum": "Write jsparse.cumulative_sum(A, axis=axis).",
    "clip": "Write jsparse.clip(A, low, high).",
}
"""Attribute of the arrays of numpy, scipy, JAX or torch → what to write instead."""

_SOLVERS = (
    "jax.scipy.sparse.linalg.cg(A, b) or lineax for an iterative solution, or "
    "jax.experimental.sparse.linalg.spsolve(S.data, S.indices, S.indptr, b) with S = A.to_bcsr() for a factorisation"
)
_LINALG = {"solve": _SOLVERS, "inv": _SOLVERS, "lstsq": _SOLVERS, "norm": "jsparse.norm(A)"}
"""Function of jnp.linalg → what to write instead."""

_CALLS = {
    "cumsum": "jsparse.cumulative_sum(A)",
    "einsum": 'jsparse.einsum("ij,jk->ik", A, B)',
    "where": "jsparse.where(A > 0, A, 0)",
}
"""Function of jnp → what to write instead, where the signature of our function does not say it."""


@cache
def _warn_of_identity() -> None:
    """Warn, once, that tensors are compared by identity."""
    warnings.warn(
        "For SparseTensors, A == B says whether they are the same object. jsparse.equal(A, B) compares elements, and "
        "jsparse.array_equal(A, B) says whether all are equal.",
        stacklevel=3,
    )


def _counterpart(name: str) -> str:
    """The call that replaces a jax.numpy function, as the beginning of a list of advice; "" if there is none."""
    short = name.rpartition(".")[2]
    if name.removesuffix(short).endswith("linalg."):
        call = _LINALG.get(short)
    else:
        call = _CALLS.get(short) or _call_of(short)
    return f"{call}; or " if call else ""


def _call_of(name: str) -> str | None:
    """A call of our function of this name with all operands that it needs, the first of them A."""
    function = getattr(sys.modules.get("jsparse"), name, None)
    if function is None:
        return None
    first, *others = signature(function).parameters.values()
    needed = [p.name for p in others if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    tensors = "[A, B]" if "Iterable" in str(first.annotation) else "A"
    return f"jsparse.{name}({', '.join([tensors, *needed])})"


def _no_number(kind: str) -> DTypeError:
    return DTypeError(f"{kind}(A) of a SparseTensor is not a number. Write {kind}(A.sum()), or {kind}(A.todense()).")
