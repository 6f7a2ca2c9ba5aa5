"""Sparse matrices as operators of Lineax: `lineax.linear_solve(SparseLinearOperator(A), b, solver)`.

The module needs the extra `jsparse[lineax]`. No other module of jsparse imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, ShapeError, describe_type
from jsparse.ops.evaluate import evaluate
from jsparse.tensor.sparse_tensor import SparseTensor

try:
    import equinox as eqx
    import lineax as lx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Expected the packages lineax and equinox for jsparse.lineax, but {error.name} is not installed. Install "
        "them: pip install 'jsparse[lineax]'.",
        name=error.name,
    ) from error

__all__ = ["SparseLinearOperator"]


class SparseLinearOperator(lx.AbstractLinearOperator):  # type: ignore[misc]  # lineax is not typed
    """A SparseTensor of shape (m, n), static or dynamic, as a linear operator from arrays (n,) to arrays (m,).

        >>> operator = SparseLinearOperator(A, lineax.positive_semidefinite_tag)
        >>> x = lineax.linear_solve(operator, b, lineax.CG(rtol=1e-6, atol=1e-6)).value

    The operator is a pytree with the leaves of its `matrix`; `tags` are static. Products, transposes and conjugates
    stay sparse, and `lineax.materialise` returns the operator itself. Iterative solvers (CG, GMRES, BiCGStab, LSMR,
    Normal) need products only. Diagonal and Tridiagonal read the diagonals from the stored entries. All other direct
    solvers (LU, QR, SVD, Cholesky, Triangular) call `as_matrix()`, which is dense.

    Args:
        matrix: a SparseTensor of two dimensions. Integer and boolean values become floats of JAX's default width.
        tags: one of Lineax's tags, such as `lineax.positive_semidefinite_tag`, or a collection of them. They are not
            checked against the entries: a wrong tag gives wrong solutions and gradients.

    Raises DTypeError if `matrix` is not a SparseTensor, ShapeError if it does not have two dimensions, ValueError if it
    is not square but has a tag of symmetric or definite matrices.
    """

    matrix: SparseTensor
    tags: frozenset[object] = eqx.field(static=True)

    def __init__(self, matrix: SparseTensor, tags: object = ()) -> None:
        if not isinstance(matrix, SparseTensor):
            raise DTypeError(
                f"Expected a SparseTensor as the matrix, but got {describe_type(matrix)}. Convert it with "
                "jsparse.asarray, or use lineax.MatrixLinearOperator for a dense array."
            )
        if matrix.ndim != 2:
            raise ShapeError(
                f"Expected a matrix with two dimensions, but got a tensor of shape {matrix.shape}. Map over leading "
                "dimensions with jax.vmap."
            )
        inexact = jnp.issubdtype(matrix.dtype, jnp.inexact)
        self.matrix = matrix if inexact else matrix.astype(jnp.result_type(float))
        self.tags = frozenset(tags if isinstance(tags, Iterable) else (tags,))

    def mv(self, vector: jax.Array) -> jax.Array:
        """Multiply by a vector of shape (n,). The product has shape (m,)."""
        return self.matrix @ vector

    def as_matrix(self) -> jax.Array:
        """Convert to a dense array of shape (m, n)."""
        return self.matrix.todense()

    def transpose(self) -> SparseLinearOperator:
        """The operator of the transposed matrix, with the same stored entries."""
        if lx.is_symmetric(self):
            return self
        return SparseLinearOperator(self.matrix.T, lx.transpose_tags(self.tags))

    def in_structure(self) -> jax.ShapeDtypeStruct:
        """The shape (n,) and the dtype of the vectors that the operator takes."""
        return jax.ShapeDtypeStruct(self.matrix.shape[1:], self.matrix.dtype)

    def out_structure(self) -> jax.ShapeDtypeStruct:
        """The shape (m,) and the dtype of the vectors that the operator returns."""
        return jax.ShapeDtypeStruct(self.matrix.shape[:1], self.matrix.dtype)


def _off_diagonal(matrix: SparseTensor, offset: int) -> jax.Array:
    """The elements at (i, i + offset), 0 where no entry is stored. Only stored entries are read."""
    rows = np.arange(max(-offset, 0), min(matrix.shape[0], matrix.shape[1] - offset), dtype=np.int64)
    elements = evaluate("d[p] = A[rows[p], columns[p]]", A=matrix, rows=rows, columns=rows + offset, out_format="dense")
    assert isinstance(elements, jax.Array)
    return elements


def _conj(operator: SparseLinearOperator) -> SparseLinearOperator:
    matrix = operator.matrix.conj()
    return operator if matrix is operator.matrix else SparseLinearOperator(matrix, operator.tags)


def _is_symmetric(operator: SparseLinearOperator) -> bool:
    if lx.symmetric_tag in operator.tags or lx.diagonal_tag in operator.tags:
        return True
    # A definite matrix is equal to its transpose if it is real, to its conjugate transpose if complex.
    definite = {lx.positive_semidefinite_tag, lx.negative_semidefinite_tag}
    return bool(definite & operator.tags) and not jnp.issubdtype(operator.matrix.dtype, jnp.complexfloating)


def _has_tag(*tags: object) -> Callable[[SparseLinearOperator], bool]:
    """Return a function that checks whether an operator has one of these tags."""
    return lambda operator: not operator.tags.isdisjoint(tags)


_IMPLEMENTATIONS = {
    lx.linearise: lambda operator: operator,
    lx.materialise: lambda operator: operator,
    lx.diagonal: lambda operator: _off_diagonal(operator.matrix, 0),
    lx.tridiagonal: lambda operator: tuple(_off_diagonal(operator.matrix, offset) for offset in (0, -1, 1)),
    lx.conj: _conj,
    lx.is_symmetric: _is_symmetric,
    lx.is_diagonal: lambda operator: lx.diagonal_tag in operator.tags or operator.matrix.shape == (1, 1),
    lx.is_tridiagonal: _has_tag(lx.tridiagonal_tag, lx.diagonal_tag),
    lx.has_unit_diagonal: _has_tag(lx.unit_diagonal_tag),
    lx.is_lower_triangular: _has_tag(lx.lower_triangular_tag),
    lx.is_upper_triangular: _has_tag(lx.upper_triangular_tag),
    lx.is_positive_semidefinite: _has_tag(lx.positive_semidefinite_tag),
    lx.is_negative_semidefinite: _has_tag(lx.negative_semidefinite_tag),
}

for _function, _implementation in _IMPLEMENTATIONS.items():
    _function.register(SparseLinearOperator, _implementation)
