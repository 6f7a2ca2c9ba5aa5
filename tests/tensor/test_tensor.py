from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse.convert.creation import asarray
from jsparse.errors import ShapeError
from jsparse.formats import Format
from jsparse.formats.relayout import relayout_to
from jsparse.tensor.sparse_tensor import SparseTensor


def test_members(dense):
    A = asarray(dense)
    assert (A.shape, A.ndim, A.size, A.dtype) == ((5, 7), 2, 35, np.float32)
    assert A.nse == A.nnz == np.count_nonzero(dense)
    assert A.density == A.nse / 35
    assert A.format.name == "csr"
    assert A.pattern.shape == A.shape
    assert isinstance(A.values, jax.Array)
    assert A.static() is A
    assert A.with_transpose() is A
    np.testing.assert_array_equal(A.todense(), dense)


def test_repr(dense):
    A = asarray(dense)
    assert (
        repr(A) == f"SparseTensor(shape=(5, 7), dtype=float32, nse={A.nse}, density={A.density * 100:.3g}%, format=csr)"
    )
    big = SparseTensor.from_coords(np.arange(4000).reshape(2, 2000), np.ones(2000, np.float32), (4000, 4000))
    assert repr(big) == "SparseTensor(shape=(4000, 4000), dtype=float32, nse=2,000, density=0.0125%, format=coo)"
    assert "dtype=object" in repr(jax.tree.map(lambda _: object(), A))
    assert "dtype=bfloat16" in repr(A.astype(jnp.bfloat16))
    shown = []
    jax.jit(lambda A: shown.append(repr(A)))(A)
    assert shown == [repr(A)]


def test_there_is_one_value_per_slot(dense):
    A = asarray(dense)
    assert A.with_values(np.arange(A.nse)).dtype == jnp.int32


@pytest.mark.parametrize(
    "format", ["csc", "coo", "dcsr", "dcsc", "csf", "dense", "(i, j) -> (j : compressed, i : dense)"]
)
def test_formats(dense, format):
    A = asarray(dense)
    B = A.asformat(format)
    assert B.format == Format.of(format, 2)
    np.testing.assert_array_equal(B.todense(), dense)
    np.testing.assert_array_equal(B.asformat("csr").todense(), dense)
    values = np.arange(1.0, B.nse + 1, dtype=np.float32)
    moved = jax.grad(lambda v: (A.with_values(v).asformat(format).values * values).sum())(A.values)
    np.testing.assert_array_equal(moved, values[relayout_to(A.pattern, format).scatter])


def test_asformat_keeps_stored_zeros(dense):
    A = asarray(dense)
    zeros = A.with_values(np.zeros(A.nse))
    assert zeros.asformat("csc").nse == A.nse
    assert A.asformat("csr").pattern is A.pattern


def test_transposition_copies_nothing(dense):
    A = asarray(dense)
    assert A.T.values is A.values
    assert A.T.format.name == "csc"
    assert A.T.T.pattern is A.pattern
    np.testing.assert_array_equal(A.T.todense(), dense.T)
    B = asarray(np.arange(24).reshape(2, 3, 4) % 5)
    np.testing.assert_array_equal(B.transpose((1, 2, 0)).todense(), np.asarray(B.todense()).transpose(1, 2, 0))


def test_to_coords(dense):
    coords, values = asarray(dense, "csc").to_coords()
    assert coords.shape == (2, len(values))
    np.testing.assert_array_equal(coords[::-1], np.nonzero(dense.T))
    np.testing.assert_array_equal(values, dense.T[dense.T != 0])


@pytest.mark.parametrize("format, kind", [("csr", "csr"), ("csc", "csc"), ("coo", "coo"), ("dcsr", "coo")])
def test_to_scipy(dense, format, kind):
    A = asarray(dense, format)
    A = A.with_values(A.values.at[0].set(0))
    found = A.to_scipy()
    assert (found.format, found.dtype, found.nnz) == (kind, np.float32, A.nse)
    np.testing.assert_array_equal(found.toarray(), A.todense())
    found.data[:] = 1
    found.sum_duplicates()
    assert A.values[0] == 0
    assert asarray(found, format).pattern is A.pattern


@pytest.mark.parametrize("shape", [(6,), (3, 4, 2)])
def test_to_scipy_of_other_ranks(shape):
    """SciPy has coo_array of any rank from 1.15 on; before, this is an error of ours."""
    dense = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape) % 3
    for tensor in (asarray(dense), asarray(dense).dynamic(dense.size)):
        try:
            found = tensor.to_scipy()
        except ShapeError:
            assert tuple(map(int, version("scipy").split(".")[:2])) < (1, 15)
            continue
        assert (found.format, found.dtype, found.nnz) == ("coo", np.float32, np.count_nonzero(dense))
        np.testing.assert_array_equal(found.toarray(), dense)
        np.testing.assert_array_equal(asarray(found).todense(), dense)


def test_a_pytree_of_its_values(dense):
    A = asarray(dense)
    (leaf,), tree = jax.tree.flatten(A)
    assert leaf is A.values
    assert tree == jax.tree.structure(asarray(dense))
    assert tree != jax.tree.structure(A.asformat("csc"))
    [(path, _)] = jax.tree_util.tree_leaves_with_path(A)
    assert jax.tree_util.keystr(path) == ".values"
    np.testing.assert_array_equal(jax.tree.map(lambda v: 2 * v, A).todense(), 2 * dense)
    assert jax.eval_shape(lambda A: A, A).values.shape == (A.nse,)


def test_equal_patterns_do_not_retrace(dense):
    traces = []

    @jax.jit
    def double(A):
        traces.append(None)
        return A.with_values(2 * A.values)

    np.testing.assert_array_equal(double(asarray(dense)).todense(), 2 * dense)
    double(asarray(dense + (dense > 0)))
    assert len(traces) == 1
    double(asarray(dense, "csc"))
    assert len(traces) == 2


def test_batched_values_exist_inside_vmap(dense):
    A = asarray(dense)
    scaled = jax.vmap(lambda s: A.with_values(s * A.values))(jnp.arange(3.0))
    assert scaled.values.shape == (3, A.nse)
    assert jax.vmap(lambda A: A.values.sum())(scaled).shape == (3,)
