"""Patterns as out_format, with as many dimensions as the result or fewer: dense levels store the others."""

import numpy as np
import pytest

import jsparse
from jsparse import Format, Pattern, SparseTensor

RNG = np.random.default_rng(0)
MASK = RNG.random((6, 6)) < 0.4
A = jsparse.asarray(MASK.astype(np.float32))
P = A.pattern


def integers(*shape):
    return RNG.integers(-3, 4, shape).astype(np.float32)


Q, K = integers(6, 4, 5), integers(6, 4, 5)  # nodes, heads, width
B = integers(2, 6, 4, 5), integers(2, 6, 4, 5)  # a batch of them


# the einsum, its operands, the axes of the mask in the result, and the format
CASES = [
    ("ihd,jhd->ijh", (Q, K), (0, 1), "(i, j, h) -> (i : dense, j : compressed, h : dense)"),
    ("ihd,jhd->hij", (Q, K), (1, 2), "(h, i, j) -> (i : dense, j : compressed, h : dense)"),
    ("ihd,jhd->ihj", (Q, K), (0, 2), "(i, h, j) -> (i : dense, j : compressed, h : dense)"),
    ("bihd,bjhd->bijh", B, (1, 2), "(b, i, j, h) -> (i : dense, j : compressed, b : dense, h : dense)"),
    ("...d,jhd->...jh", (Q[:, 0], K), (0, 1), "(i, j, h) -> (i : dense, j : compressed, h : dense)"),
]


def masked(text, operands, axes):
    product = np.einsum(text, *operands)
    return product * np.expand_dims(MASK, [n for n in range(product.ndim) if n not in axes])


@pytest.mark.parametrize(("text", "operands", "axes", "format"), CASES)
def test_dimensions_that_the_pattern_lacks_are_dense(text, operands, axes, format):
    for given in (P, A, A.dynamic(40).pattern, A.dynamic(40)):
        found = jsparse.einsum(text, *operands, out_format=given)
        assert isinstance(found, SparseTensor)
        assert found.format == Format.of(format, found.ndim)
        np.testing.assert_array_equal(found.todense(), masked(text, operands, axes))
    core = jsparse.einsum("ik,jk->ij", Q[:, 0], K[:, 0], out_format=P)
    assert found.is_dynamic
    assert core.pattern is P


@pytest.mark.parametrize("format", ["csc", "coo", "dcsr", "(i, j) -> (i : dense, j : range)"])
def test_formats(format):
    given = A.asformat(format)
    found = jsparse.einsum("ihd,jhd->hij", Q, K, out_format=given.pattern)
    stored = np.zeros((6, 6))
    stored[tuple(given.pattern.rows())] = 1
    np.testing.assert_array_equal(found.todense(), np.einsum("ihd,jhd->hij", Q, K) * stored)
    assert found.format.levels[-1].kind.is_full
    whole = jsparse.evaluate("S[i,j,h] = Q[i,h,d] * K[j,h,d] + Q[i,h,d]", Q=Q, K=K, out_format=given)
    expected = np.einsum("ihd,jhd->ijh", Q, K) + Q.sum(2)[:, None]
    np.testing.assert_array_equal(whole.todense(), expected * stored[:, :, None])


def test_several_terms_and_further_dimensions():
    x = integers(6)
    found = jsparse.evaluate("C[i,j,k] = x[i]", x=x, shape=(6, 6, 3), out_format=P)
    np.testing.assert_array_equal(found.todense(), np.broadcast_to((x[:, None] * MASK)[:, :, None], (6, 6, 3)))
    found = jsparse.evaluate("C[i,j] = x[i]", x=x, out_format=P)
    np.testing.assert_array_equal(found.todense(), x[:, None] * MASK)
    rows = Pattern.from_coordinates([[1, 4]], (6,), "(i) -> (i : compressed)")[0]
    found = jsparse.einsum("i,k->ik", x, integers(4) * 0 + 1, out_format=rows)
    assert found.shape == (6, 4)
    np.testing.assert_array_equal(found.values, np.repeat(x[[1, 4]], 4))


def test_a_pattern_of_full_rank_decides_where_sizes_do_not():
    q, k = integers(6, 6, 2), integers(6, 6, 2)
    dynamic = A.dynamic(40).pattern
    for given in (P, dynamic):
        found = jsparse.einsum("ihd,jhd->ijh", q, k, out_format=given.extended((6,)))
        np.testing.assert_array_equal(found.todense(), masked("ihd,jhd->ijh", (q, k), (0, 1)))
        found = jsparse.einsum("ihd,jhd->hij", q, k, out_format=given.extended((6,)).transposed((2, 0, 1)))
        np.testing.assert_array_equal(found.todense(), masked("ihd,jhd->hij", (q, k), (1, 2)))
