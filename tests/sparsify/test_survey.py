"""Library functions give for a sparse matrix what they give for the dense one, or an error that names them."""

import re

import jax
import numpy as np
import pytest
from sparsify.survey import AS_LARGE, DENSE, REFUSED, ROWS

import jsparse


def matrix():
    return jsparse.asarray(np.asarray(DENSE), format="csr")


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("library", "name"), ROWS)
def test_functions(library, name):
    module = pytest.importorskip(library)

    def function(A):
        return ROWS[library, name](module, A)

    program = jax.jit(jsparse.sparsify(function)).lower(matrix())
    assert ("64x48x" in program.as_text()) <= (name in AS_LARGE.get(library, ()))  # an array of the matrix's shape
    found, expected = program.compile()(matrix()), function(DENSE)
    leaves = jax.tree.leaves(found, is_leaf=lambda leaf: isinstance(leaf, jsparse.SparseTensor))
    for leaf, wanted in zip(leaves, jax.tree.leaves(expected), strict=True):
        array = leaf.todense() if isinstance(leaf, jsparse.SparseTensor) else leaf
        assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=2e-5)


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("library", "name"), ROWS)
def test_gradients(library, name):
    module = pytest.importorskip(library)

    def loss(A):
        leaves = jax.tree.leaves(ROWS[library, name](module, A))
        return sum((leaf**2).sum() / 2 + leaf.sum() for leaf in leaves if leaf.dtype == np.float32) + 0.0

    found = jax.jit(jax.grad(jsparse.sparsify(loss)))(matrix()).todense()
    expected = np.where(DENSE != 0, jax.grad(loss)(DENSE), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max() + 1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("library", "name"), REFUSED)
def test_refused(library, name):
    module, (function, error, text) = pytest.importorskip(library), REFUSED[library, name]
    with pytest.raises(error) as caught:
        jsparse.sparsify(lambda A: function(module, A))(matrix())
    assert re.search(text, str(caught.value))
    assert set(re.findall(r"([^/ ]+\.py):\d+", str(caught.value))) == {"survey.py"}


def test_most_functions_work():
    assert len(ROWS) >= 79
    assert len(ROWS) >= 0.89 * (len(ROWS) + len(REFUSED))
