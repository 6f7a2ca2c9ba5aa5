"""Products of more operands than there is time to price every contraction path."""

import numpy as np
import pytest

import jsparse

LETTERS = "abcdefghijklmnop"


@pytest.mark.parametrize("count", [8, 9, 13])
def test_a_long_chain_is_computed_step_by_step(count):
    """One nest over all operands would visit 6 ** count combinations of entries for each row."""
    rng, size = np.random.default_rng(count), 40
    matrices = [np.zeros((size, size), np.int32) for _ in range(count)]
    for matrix in matrices:
        for row in matrix:
            row[rng.permutation(size)[:6]] = rng.integers(1, 3, 6)
    vector = rng.integers(0, 3, size).astype(np.int32)
    text = ",".join(LETTERS[n : n + 2] for n in range(count)) + f",{LETTERS[count]}->{LETTERS[0]}"
    expected = vector
    for matrix in reversed(matrices):
        expected = matrix @ expected  # wraps around at 32 bits, like kernels
    np.testing.assert_array_equal(jsparse.einsum(text, *map(jsparse.asarray, matrices), vector), expected)


def test_many_factors_on_one_pattern_need_no_steps():
    """A step would cost a call and a temporary, and save no work."""
    rng = np.random.default_rng(0)
    mask = rng.random((30, 20)) < 0.2
    dense = [rng.integers(1, 3, (30, 20)) * mask for _ in range(9)]
    product = np.prod(dense, axis=0)
    out = jsparse.einsum(",".join(["ij"] * 9) + "->ij", *map(jsparse.asarray, dense))
    np.testing.assert_array_equal(out.todense(), product)


@pytest.mark.parametrize("density", [0.05, 0.1, 0.2])
def test_steps_with_dense_levels_store_no_more_than_is_reached(density):
    """The step B[d] * C[b, d, g] has few entries, though B stores every element, in a dense level."""
    rng = np.random.default_rng(0)
    a, b, d = (rng.integers(1, 5, shape) for shape in ((33, 5), 17, 17))
    c = np.where(rng.random((5, 17, 9)) < density, 7, 0)
    operands = a, jsparse.asarray(b, format="dense"), jsparse.asarray(c), d
    found = jsparse.einsum("ib,d,bdg,d->dib", *operands, out_format="csf", semiring="or_and")
    products = a[None, :, :, None] & b[:, None, None, None] & c.transpose(1, 0, 2)[:, None] & d[:, None, None, None]
    np.testing.assert_array_equal(found.todense(), np.bitwise_or.reduce(products, axis=3))
    assert found.nse == 33 * np.count_nonzero(c.any(axis=2))
