"""Lineax's interface of operators, compared with its own MatrixLinearOperator."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linalg.systems import matrix, sparse, vector

import jsparse
from jsparse.errors import DTypeError, ShapeError

lx = pytest.importorskip("lineax")
from jsparse.lineax import SparseLinearOperator  # noqa: E402

TAGS = [
    (),
    lx.symmetric_tag,
    lx.diagonal_tag,
    lx.tridiagonal_tag,
    lx.unit_diagonal_tag,
    lx.lower_triangular_tag,
    [lx.upper_triangular_tag, lx.unit_diagonal_tag],
    lx.positive_semidefinite_tag,
    {lx.negative_semidefinite_tag},
]
CHECKS = [
    lx.is_symmetric,
    lx.is_diagonal,
    lx.is_tridiagonal,
    lx.has_unit_diagonal,
    lx.is_lower_triangular,
    lx.is_upper_triangular,
    lx.is_positive_semidefinite,
    lx.is_negative_semidefinite,
]


@pytest.mark.parametrize("tags", TAGS, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_tags(tags, dtype):
    dense = matrix("bicgstab", dtype)
    dense = dense + dense.T  # some tags say that it is symmetric, and then Lineax may transpose or not
    A, D = SparseLinearOperator(sparse(dense), tags), lx.MatrixLinearOperator(jnp.asarray(dense), tags)
    definite = {lx.positive_semidefinite_tag, lx.negative_semidefinite_tag} & A.tags
    for ours, theirs in ((A, D), (A.T, D.T), (lx.conj(A), lx.conj(D))):
        assert ours.tags == theirs.tags
        assert [check(ours) for check in CHECKS[1:]] == [check(theirs) for check in CHECKS[1:]]
        if definite and dtype == "complex128":  # it equals its conjugate transpose, or, for Lineax 0.1.0, its transpose
            assert not lx.is_symmetric(ours)
        else:
            assert lx.is_symmetric(ours) == lx.is_symmetric(theirs)
        np.testing.assert_array_equal(ours.as_matrix(), theirs.as_matrix())


@pytest.mark.parametrize("tags", TAGS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_small_matrices_have_the_properties_that_lineax_sees(tags, shape, dynamic):
    """A matrix with one element is diagonal whatever its tags say."""
    if shape[0] != shape[1] and tags:
        return  # Lineax refuses tags of square matrices
    dense = np.full(shape, 2.0, np.float32)
    A = SparseLinearOperator(jsparse.asarray(dense, dynamic=dynamic), tags)
    D = lx.MatrixLinearOperator(jnp.asarray(dense), tags)
    assert [check(A) for check in CHECKS] == [check(D) for check in CHECKS]
    if shape == (1, 1) and lx.unit_diagonal_tag not in A.tags and lx.negative_semidefinite_tag not in A.tags:
        np.testing.assert_allclose(lx.linear_solve(A, jnp.full(1, 4, "float32")).value, [2.0])


MATRICES = [
    ((6, 6), "csr", True),
    ((6, 6), "coo", False),
    ((4, 7), "csc", True),
    ((4, 7), "csr", False),
    ((7, 4), "dcsr", False),
    ((7, 4), "coo", True),
    ((1, 1), "csr", False),
    ((1, 3), "csc", True),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape, format, dynamic", MATRICES)
def test_products_structures_and_diagonals(shape, format, dynamic):
    rng = np.random.default_rng(0)
    dense = rng.integers(-3, 4, shape) * (rng.random(shape) < 0.6).astype(np.float64)
    operator, expected = (
        SparseLinearOperator(sparse(dense, dynamic, format)),
        lx.MatrixLinearOperator(jnp.asarray(dense)),
    )
    x, y = np.arange(shape[1], dtype=np.float64), np.arange(shape[0], dtype=np.float64)
    np.testing.assert_array_equal(operator.mv(x), dense @ x)
    np.testing.assert_array_equal(operator.T.mv(y), dense.T @ y)
    assert operator.in_structure() == expected.in_structure()
    assert operator.out_structure() == expected.out_structure()
    np.testing.assert_array_equal(lx.diagonal(operator), np.diagonal(dense))
    for found, diagonal in zip(lx.tridiagonal(operator), lx.tridiagonal(expected), strict=True):
        np.testing.assert_array_equal(found, diagonal)


def test_sparse_operators_stay_sparse(dynamic):
    operator = SparseLinearOperator(sparse(matrix("bicgstab", "complex128"), dynamic), lx.tridiagonal_tag)
    for found in (operator.T, lx.conj(operator), lx.materialise(operator), lx.linearise(operator)):
        assert isinstance(found, SparseLinearOperator)
        assert found.matrix.nse == operator.matrix.nse
    symmetric = SparseLinearOperator(sparse(matrix(), dynamic), lx.symmetric_tag)
    assert symmetric.T is symmetric


def test_composed_operators():
    dense, x = matrix("bicgstab"), vector()
    A, D = SparseLinearOperator(sparse(dense)), lx.DiagonalLinearOperator(jnp.arange(10.0))
    product = A @ D - 2.0 * A.T + A / 4.0
    expected = dense @ np.diag(np.arange(10.0)) - 2 * dense.T + dense / 4
    np.testing.assert_allclose(product.mv(x), expected @ x, rtol=1e-12)
    np.testing.assert_allclose(product.T.as_matrix(), expected.T, rtol=1e-12)
    np.testing.assert_allclose(lx.diagonal(A + D), np.diag(dense) + np.arange(10.0), rtol=1e-12)
    np.testing.assert_allclose(lx.TaggedLinearOperator(A, lx.symmetric_tag).mv(x), dense @ x, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_values_that_are_no_floats_become_floats(dtype):
    dense = np.eye(3).astype(dtype)
    operator = SparseLinearOperator(sparse(dense))
    assert operator.as_matrix().dtype == np.float64
    with jax.enable_x64(False):
        assert SparseLinearOperator(sparse(dense)).as_matrix().dtype == np.float32


def test_refusals():
    with pytest.raises(
        DTypeError, match=r"SparseTensor as the matrix, but got an ndarray. Convert it with jsparse.asarray"
    ):
        SparseLinearOperator(np.eye(3))
    with pytest.raises(ShapeError, match=r"two dimensions, but got a tensor of shape \(3,\)"):
        SparseLinearOperator(jsparse.asarray(np.ones(3)))
    with pytest.raises(ValueError, match="must have matching input and output"):
        SparseLinearOperator(jsparse.asarray(np.ones((3, 4))), lx.symmetric_tag)


PROGRAM = """
import sys
import jsparse
assert "lineax" not in sys.modules and "equinox" not in sys.modules
sys.modules["lineax"] = None
try:
    import jsparse.lineax
except ModuleNotFoundError as error:
    assert "lineax is not installed. Install them: pip install 'jsparse[lineax]'" in str(error), error
else:
    raise AssertionError("imported")
"""


def test_lineax_is_optional():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
