"""The choice of a format by the entries: what is chosen, what is shown, and what is refused."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jsparse

RNG = np.random.default_rng(0)


def uniform(n, density):
    return scipy.sparse.random_array((n, n), density=density, format="csr", dtype=np.float32, rng=RNG)


def in_blocks(n, side, density):
    blocks = scipy.sparse.kron(uniform(n // side, density).astype(bool), np.ones((side, side), np.float32))
    return scipy.sparse.csr_array(blocks)


def empty_rows():
    coords = RNG.integers(0, 300, 3000) * 300, RNG.integers(0, 90_000, 3000)
    return scipy.sparse.coo_array((np.ones(3000, np.float32), coords), shape=(90_000, 90_000))


CHOICES = {
    "uniform": (uniform(2048, 0.01), [64], "csr"),
    "blocks of 32": (in_blocks(2048, 32, 0.1), [64], "bsr(32, 32)"),
    "blocks of 8": (in_blocks(1024, 8, 0.1), [16, 128], "bsr(8, 8)"),
    "blocks of 3": (in_blocks(1023, 3, 0.05), [64], "bsr(3, 3)"),
    "blocks of 8 that do not divide the shape": (in_blocks(1024, 8, 0.1)[:1021, :1021], [64], "csr"),
    "lower triangle": (scipy.sparse.csr_array(np.tril(np.ones((512, 512), np.float32))), [1], "bsr(32, 32)"),
    "blocks and single entries": (in_blocks(2048, 16, 0.05) + uniform(2048, 0.005), [64], "bsr(16, 16) + csr"),
    "empty rows, a vector": (empty_rows(), [1], "dcsr"),
}


@pytest.mark.parametrize(("matrix", "uses", "expected"), CHOICES.values(), ids=CHOICES)
def test_chosen_formats(matrix, uses, expected):
    choice = jsparse.choose_format(jsparse.asarray(matrix), uses)
    assert choice.chosen.name == expected
    assert choice.considered[0].name == "csr"
    A = jsparse.asarray(matrix, format="auto", uses=uses)
    assert A.format.name == expected
    x = RNG.integers(-3, 4, matrix.shape[1]).astype(np.float32)
    np.testing.assert_allclose(A @ x, matrix @ x, rtol=1e-4, atol=1e-3)
    text = str(choice)
    assert text.startswith(f"{expected} for {matrix.shape[0]:,} x {matrix.shape[1]:,} with")
    assert all(one.name in text for one in choice.considered)
    same = jsparse.choose_format(jsparse.asarray(matrix, format="coo"), uses)
    assert same == choice
    assert hash(same) == hash(choice)


def test_other_tensors():
    assert jsparse.asarray(np.ones((3, 4, 5), np.float32), format="auto").format.name == "csf"
    assert jsparse.asarray(np.zeros((3, 4), np.float32), format="auto").format.name == "csr"
    assert jsparse.asarray(np.zeros((0, 4), np.float32), format="auto").nse == 0
    A = jsparse.asarray(in_blocks(256, 8, 0.2), format="auto")
    assert A.asformat("csr").asformat("auto").format == A.format
    assert A.asformat("auto").format == A.format
    assert jsparse.asarray(in_blocks(256, 8, 0.2), format="auto", dynamic=True).is_dynamic
    converted = jax.jit(lambda A: A.asformat("auto"))(A.asformat("csr"))
    assert converted.format == A.format
    np.testing.assert_array_equal(converted.todense(), A.todense())


def test_what_is_refused():
    A = jsparse.asarray(np.eye(4, dtype=np.float32))
    for uses in ([], [0], [1.5], 3, "x"):
        with pytest.raises(jsparse.ShapeError, match="Expected numbers of columns of at least 1 in uses="):
            jsparse.choose_format(A, uses)
    with pytest.raises(jsparse.NotYetSupportedError, match="static"):
        jsparse.choose_format(A.dynamic())
    with pytest.raises(jsparse.DTypeError, match="Expected a SparseTensor for choose_format"):
        jsparse.choose_format(np.eye(4))
