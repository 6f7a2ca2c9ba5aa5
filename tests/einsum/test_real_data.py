"""Tensors and matrices from real applications, against scipy and numpy."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from programs.amount import sample

import jsparse
from jsparse import SparseTensor

FOLDERS = [folder / "shared" / "data" for folder in Path(__file__).parents]
DATA = next((folder for folder in FOLDERS if folder.is_dir()), None)
LARGEST = 30_000  # the most entries of a matrix and of a product


@pytest.fixture(scope="module")
def tensor():
    """A third-order tensor: its coordinates, its values as float64, and a SparseTensor."""
    if DATA is None or not (DATA / "med3.npz").exists():
        pytest.skip("no shared data here")
    with np.load(DATA / "med3.npz") as file:
        coords, values, shape = file["coords"], file["values"], tuple(file["shape"].tolist())
    return coords, values, shape, SparseTensor.from_coords(coords, values, shape, "csf")


def sums(shape, coords, terms):
    """The sums of terms (n, …) with equal coordinates, in double precision."""
    out = np.zeros((*shape, *terms.shape[1:]))
    np.add.at(out, tuple(coords), terms)
    return out


def close(found, expected):
    """Check equality up to the rounding of float32 sums, relative to the largest element."""
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("format", ["csf", "coo"])
def test_matricized_products_in_all_modes(tensor, format):
    coords, values, shape, A = tensor
    A, rng, rank = A.asformat(format), np.random.default_rng(0), 8
    factors = [rng.random((size, rank), np.float32) for size in shape]
    for mode, text in enumerate(("ijk,jr,kr->ir", "ijk,ir,kr->jr", "ijk,ir,jr->kr")):
        others = [n for n in range(3) if n != mode]
        found = jax.jit(lambda A, *f, text=text: jsparse.einsum(text, A, *f))(A, *(factors[n] for n in others))
        terms = values[:, None].astype(float) * np.prod([factors[n][coords[n]] for n in others], axis=0)
        close(found, sums(shape[mode : mode + 1], coords[[mode]], terms))


def test_products_with_vectors_and_matrices(tensor):
    coords, values, shape, A = tensor
    rng = np.random.default_rng(0)
    for mode, text in enumerate(("ijk,i->jk", "ijk,j->ik", "ijk,k->ij")):
        x = rng.random(shape[mode], np.float32)
        others = [n for n in range(3) if n != mode]
        found = jsparse.einsum(text, A, x)
        kept, inverse = np.unique(coords[others], axis=1, return_inverse=True)
        terms = values.astype(float) * x[coords[mode]]
        expected = np.bincount(inverse.ravel(), terms, kept.shape[1])
        got, numbers = found.to_coords()
        order = np.lexsort(got[::-1])
        np.testing.assert_array_equal(got[:, order], kept)
        close(numbers[order], expected)
    X = rng.random((shape[2], 4), np.float32)
    found = jsparse.einsum("ijk,kl->ijl", A, X, out_format="coo")
    kept, inverse = np.unique(coords[:2], axis=1, return_inverse=True)
    expected = sums((kept.shape[1],), [inverse.ravel()], values[:, None].astype(float) * X[coords[2]])
    got, numbers = found.to_coords()
    order = np.lexsort(got[::-1])
    np.testing.assert_array_equal(got[:2, order].reshape(2, -1, 4)[:, :, 0], kept)
    close(numbers[order].reshape(-1, 4), expected)


def test_inner_products_and_sums(tensor):
    coords, values, shape, A = tensor
    B = SparseTensor.from_coords(coords[:, ::2], values[::2], shape, "coo")
    close(jsparse.einsum("ijk,ijk->", A, B), (values[::2].astype(float) ** 2).sum())
    close(jsparse.einsum("ijk,ijk->", A, A), (values.astype(float) ** 2).sum())
    union = A + B
    assert union.nse == A.nse
    entries = dict(zip(map(tuple, coords.T.tolist()), values.tolist(), strict=True))
    found, numbers = union.to_coords()
    doubled = set(map(tuple, coords[:, ::2].T.tolist()))
    expected = [entries[at] * (1 + (at in doubled)) for at in map(tuple, found.T.tolist())]
    np.testing.assert_allclose(numbers, expected, rtol=1e-6)
    assert (A * B).nse == B.nse


def readable():
    """The files of matrices."""
    folder = None if DATA is None else DATA / "matrices"
    return [] if folder is None or not folder.is_dir() else sorted(folder.glob("*.mtx"))


def read(path):
    """A canonical csr array of small integers with the structure of the file's matrix.

    It is None if scipy cannot read the file, and for tensors and large matrices.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = scipy.sparse.coo_array(scipy.io.mmread(path, spmatrix=False))
    except Exception:  # files that are broken on purpose
        return None
    if found.ndim != 2 or found.nnz > LARGEST:
        return None
    rng = np.random.default_rng(0)
    coords = np.unique(np.stack(found.coords).astype(np.int64), axis=1)
    numbers = rng.integers(1, 4, coords.shape[1]) * rng.choice([-1, 1], coords.shape[1])
    return scipy.sparse.csr_array((numbers.astype(np.float32), tuple(coords)), shape=found.shape)


def check_csr(found, expected, structure):
    """Check that a result has the values of one scipy matrix and the stored entries of another."""
    structure = scipy.sparse.csr_array(structure)
    structure.sort_indices()
    found = found.asformat("csr")
    np.testing.assert_array_equal(found.pattern.pointers(1), structure.indptr)
    np.testing.assert_array_equal(found.pattern.coordinates(1), structure.indices)
    got = scipy.sparse.csr_array((np.asarray(found.values), structure.indices, structure.indptr), shape=found.shape)
    difference = abs(got - expected)
    assert difference.nnz == 0 or difference.max() == 0


def positive(matrix):
    """A matrix of ones with the same entries: in its products no sum cancels."""
    return scipy.sparse.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)


def distinct():
    """The matrices of all files, without repeats of a structure and without those of large products."""
    found = [S for S in map(read, readable()) if S is not None]
    by_structure = {(S.shape, S.indices.tobytes(), S.indptr.tobytes()): S for S in reversed(found)}
    return [S for S in reversed(by_structure.values()) if (positive(S) @ positive(S).T).nnz <= 20 * LARGEST]


@pytest.mark.sampled
def test_matrices():
    """A·A, A·Aᵀ, A + Aᵀ and A ∘ A have exactly the values and the structure of scipy's results."""
    matrices = distinct()
    if not matrices:
        pytest.skip("no shared data here")
    assert len(matrices) >= 15
    for n, S in enumerate(sample(matrices, 0, 3)):
        P = positive(S)
        A = jsparse.asarray(S, ("csr", "coo", "csc", "dcsr")[n % 4])
        check_csr(A @ A.T, S @ S.T, P @ P.T)
        check_csr(A * A.asformat("csc"), S * S, P)
        if S.shape[0] == S.shape[1]:
            check_csr(A @ A, S @ S, P @ P)
            check_csr(A + A.T, S + S.T, P + P.T)
            check_csr(A - A.T, S - S.T, P + P.T)


def test_gradients_on_a_matrix():
    S = next((S for S in map(read, readable()) if S is not None and S.shape[0] == S.shape[1] and S.nnz > 500), None)
    if S is None:
        pytest.skip("no shared data here")
    A = jsparse.asarray(S, "csr")
    gradient = jax.jit(jax.grad(lambda A: ((A @ A.T).values ** 2).sum() / 2))(A)
    expected = (2 * (S @ S.T) @ S).todense()
    np.testing.assert_array_equal(gradient.values, expected[tuple(A.to_coords()[0])])
    assert jnp.isfinite(gradient.values).all()
