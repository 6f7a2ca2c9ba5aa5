"""The choice of a format by the entries: what is chosen, what is shown, and what is refused."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jsparse

RNG = np.random.default_rng(0)


def uniform(n, density):
    dense = RNG.random((n, n), np.float32)
    return scipy.sparse.csr_array(np.where(dense < density, dense, 0))


def in_blocks(n, side, density):
    blocks = scipy.sparse.kron(uniform(n // side, density).astype(bool), np.ones((side, side), np.float32))
    return scipy.sparse.csr_array(blocks)


def empty_rows():
    coords = RNG.integers(0, 300, 3000) * 300, RNG.integers(0, 90_000, 3000)
    return scipy.sparse.coo_array((np.ones(3000, np.float32), coords), shape=(90_000, 90_000))


def blocks_in_few_rows():
    coords = RNG.integers(0, 40, 400) * 200, RNG.integers(0, 8000, 400)
    ones = scipy.sparse.coo_array((np.ones(400, bool), coords), shape=(8000, 8000))
    return scipy.sparse.csr_array(scipy.sparse.kron(ones, np.ones((8, 8), np.float32)))


CHOICES = {
    "uniform": (uniform(2048, 0.01), [64], "csr"),
    "blocks of 32": (in_blocks(2048, 32, 0.1), [1], "bsr(32, 32)"),
    "blocks of 16, many columns": (in_blocks(2048, 16, 0.1), [256], "bsr(16, 16)"),
    "blocks in few rows": (blocks_in_few_rows(), [1], "dbsr(8, 8)"),
    "blocks of 8": (in_blocks(1024, 8, 0.1), [64, 128], "bsr(8, 8)"),
    "blocks of 3": (in_blocks(1023, 3, 0.05), [4, 16], "bsr(3, 3)"),
    "blocks of 8 that do not divide the shape": (in_blocks(1024, 8, 0.1)[:1021, :1021], [64], "csr"),
    "lower triangle": (scipy.sparse.csr_array(np.tril(np.ones((512, 512), np.float32))), [1], "bsr(32, 32)"),
    "blocks and single entries": (in_blocks(2048, 16, 0.05) + uniform(2048, 0.005), [256], "bsr(16, 16) + csr"),
    "nearly half full": (uniform(256, 0.5), [1, 64], "(i, j) -> (i : dense, j : dense)"),
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


BLOCKS, OTHER = in_blocks(256, 8, 0.05), uniform(256, 0.01)
RESULTS = {
    "product": ("C[i,k] = A[i,j] * B[j,k]", BLOCKS @ BLOCKS, "bsr"),
    "sum": ("C[i,j] = A[i,j] + A[j,i]", BLOCKS + BLOCKS.T, "bsr"),
    "masked": ("C[i,j] = A[i,j] * D[i,j]", BLOCKS * OTHER, "csr"),
    "with a function": ("C[i,j] = A[i,j] * exp(A[i,j])", BLOCKS * np.e, "bsr"),
    "dense": ("C[i] = A[i,j] * x[j]", BLOCKS @ np.ones(256), None),
    "previous content": ("C[i,j] += A[i,j]", OTHER + BLOCKS, "csr"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["csr", "coo", "bsr(8, 8)", "bsr(4, 4)"])
@pytest.mark.parametrize(("text", "expected", "name"), RESULTS.values(), ids=RESULTS)
def test_format_of_results(text, expected, name, format):
    given = {"A": BLOCKS, "B": BLOCKS, "D": OTHER, "C": OTHER}
    tensors = {key: jsparse.asarray(x).asformat(format) for key, x in given.items() if f"{key}[" in text.split("= ")[1]}
    tensors |= {"C": jsparse.asarray(OTHER)} if "+=" in text else {}
    tensors |= {"x": np.ones(256, np.float32)} if "x[" in text else {}
    result = jsparse.evaluate(text, **tensors, out_format="auto")
    if name is None:
        assert isinstance(result, jax.Array)
        np.testing.assert_allclose(result, expected, rtol=1e-4)
        return
    np.testing.assert_allclose(result.todense(), expected.todense(), rtol=1e-4)
    assert result.format == jsparse.choose_format(result.asformat("csr")).convert(result).format
    assert result.format.name.startswith(name) or format.startswith("bsr")  # whose fill counts


def test_format_of_einsum_results():
    A, X = jsparse.asarray(BLOCKS), RNG.random((256, 3), dtype=np.float32)
    product = jax.jit(lambda A: jsparse.einsum("ij,jk->ik", A, A, out_format="auto"))
    assert product(A).format.name == "bsr(8, 8)"
    explained = jsparse.explain("ij,jk->ik", A, A, out_format="auto")
    assert explained.choice == jsparse.choose_format(A @ A)
    assert str(explained.choice) in str(explained)
    assert jsparse.explain("ij,jk->ik", A, X, out_format="auto").choice is None
    by_rule = jsparse.einsum("ij,jk->ijk", A, X)
    assert jsparse.einsum("ij,jk->ijk", A, X, out_format="auto").format == by_rule.format
    assert jsparse.einsum("ij,jk->ik", X, X.T, out_format="auto").shape == (256, 256)
    for text in ("ij,jk->ik", "ij->ij"):  # a fill of 0 would be an edge
        operands = (A,) * (text.count(",") + 1)
        assert jsparse.einsum(text, *operands, out_format="auto", semiring="min_plus").format.name == "csr"
    text = "C[i,j] = A[i,j] + B[j,i]"
    assert jsparse.evaluate(text, A=A, B=A, out_format="auto", semiring="min_plus").format.name == "csr"


def test_derivatives_through_chosen_formats():
    A, D = jsparse.asarray(BLOCKS), BLOCKS.todense()

    def loss(values):
        result = jsparse.einsum("ij,jk->ik", A.with_values(values), A, out_format="auto")
        return (result.values**2).sum()

    rows, columns = BLOCKS.nonzero()
    np.testing.assert_allclose(jax.grad(loss)(A.values), (2 * D @ D @ D.T)[rows, columns], rtol=1e-3)
