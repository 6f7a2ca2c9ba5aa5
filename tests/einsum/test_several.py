"""Products of several sparse operands: dense results, and results on a given pattern."""

import numpy as np
import pytest

import jsparse

SIZES = {"i": 6, "j": 5, "k": 7, "l": 4}


def operand(term, format, seed):
    """A dense array in which about a third of the elements are small integers, and all others 0."""
    rng = np.random.default_rng(seed)
    shape = [SIZES[v] for v in term]
    dense = (rng.integers(-4, 5, shape) * (rng.random(shape) < 0.35)).astype(np.float32)
    return dense, jsparse.asarray(dense, format=format)


def operands(text, formats):
    """The dense arrays and the sparse tensors of an expression's operands."""
    terms = text.split("->")[0].split(",")
    made = [operand(term, format, n) for n, (term, format) in enumerate(zip(terms, formats, strict=False))]
    return zip(*made, strict=True)


@pytest.mark.semantics
@pytest.mark.parametrize("formats", [("csr", "csr"), ("coo", "csc"), ("csc", "dcsr")], ids="-".join)
def test_sampled_results(formats):
    (D, E), (A, B) = operands("ij,jk->ik", formats)
    F, like = operand("ik", "csr", 7)
    result = jsparse.einsum("ij,jk->ik", A, B, out_format=like)
    assert result.pattern == like.pattern
    np.testing.assert_array_equal(np.asarray(result.todense()), np.where(F != 0, D @ E, 0))
    G, other = operand("ij", formats[1], 8)
    product = jsparse.einsum("ij,ij->ij", A, other, out_format=A)
    np.testing.assert_array_equal(np.asarray(product.todense()), D * G)


@pytest.mark.semantics
@pytest.mark.parametrize("text", ["iji,jij->", "iji,jij->ij", "iji,kij->jk", "edcba,abcdea->ce"])
def test_diagonals_stored_in_contradicting_orders(text):
    terms = text.split("->")[0].split(",")
    rng = np.random.default_rng(5)
    dense = [rng.integers(-4, 5, [3] * len(term)) * (rng.random([3] * len(term)) < 0.4) for term in terms]
    sparse = [jsparse.asarray(D.astype(np.float32), format="csf") for D in dense]
    result = jsparse.einsum(text, *sparse, out_format="dense")
    np.testing.assert_array_equal(np.asarray(result), np.einsum(text, *dense))
