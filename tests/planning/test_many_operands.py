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
