"""Sparse results on static patterns of their own: their values, their entries, and when a result is sparse."""

import itertools

import numpy as np
import pytest
from einsum.structure import (
    MATRIX_FORMATS,
    check_structure,
    dense_array,
    integers,
    stored_in,
    structural_nonzeros,
)
from programs.amount import sample

import jsparse
from jsparse import Format, SparseTensor

SIZES = {"i": 6, "j": 5, "k": 7, "l": 3, "m": 2, "n": 1}


def by_numpy(text):
    return lambda *operands: np.einsum(text, *operands)


def random_operands(text, formats, seed=0, density=0.3):
    """A random operand for each term, in its format, or dense if that is None."""
    rng = np.random.default_rng(seed)
    arrays = [integers(rng, [SIZES[v] for v in term], density) for term in text.split("->")[0].split(",")]
    pairs = zip(arrays, formats, strict=True)
    return [x if format is None else stored_in(x, format) for x, format in pairs]


def check(text, operands, out_format=None):
    """Check the values and the stored entries of a sparse result."""
    found = jsparse.einsum(text, *operands, out_format=out_format)
    np.testing.assert_array_equal(dense_array(found), np.einsum(text, *map(dense_array, operands)))
    check_structure(found, structural_nonzeros(by_numpy(text), operands), out_format)
    return found


@pytest.mark.sampled
@pytest.mark.semantics
@pytest.mark.parametrize("format", MATRIX_FORMATS[:-1])
def test_products_of_matrices_in_all_formats(format):
    turn = MATRIX_FORMATS.index(format)
    for n, other in enumerate(MATRIX_FORMATS[:-1]):
        operands = random_operands("ij,jk->ik", (format, other))
        for out_format in (None, *sample(MATRIX_FORMATS[:-1], (turn + n) % 3, 3)):
            check("ij,jk->ik", operands, out_format)


def test_nothing_is_dropped_by_value():
    A = SparseTensor.from_coords([[0, 0, 1], [0, 1, 0]], np.float32([1, 1, 0]), (3, 2), "csr")
    B = SparseTensor.from_coords([[0, 1], [2, 2]], np.float32([1, -1]), (2, 3), "csr")
    for out_format in (None, *MATRIX_FORMATS[:5]):
        found = jsparse.einsum("ij,jk->ik", A, B, out_format=out_format)
        coords, values = found.to_coords()
        assert sorted(zip(*coords.tolist(), strict=True)) == [(0, 2), (1, 2)]
        assert values.tolist() == [0, 0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text, shapes",
    [
        ("ij,jk->ik", [(0, 3), (3, 2)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
        ("ij,jk->ik", [(2, 3), (3, 0)]),
        ("ij,jk->ik", [(0, 0), (0, 0)]),
        ("ij,jk->ik", [(1, 1), (1, 1)]),
        ("ij,jk->ik", [(1, 4), (4, 1)]),
        ("ij,ij->ij", [(0, 3), (0, 3)]),
        ("ii->i", [(0, 0)]),
        ("ii->i", [(1, 1)]),
        ("i,j->ij", [(0,), (3,)]),
        ("i,j->ij", [(1,), (1,)]),
        ("ijk,k->ij", [(2, 1, 0), (0,)]),
    ],
)
def test_sizes_of_zero_and_one(text, shapes):
    for density in (0, 1):
        for kind in ("coo", "csf", "dense"):
            rng = np.random.default_rng(0)
            operands = [stored_in(integers(rng, shape, density), kind, zeros=0) for shape in shapes]
            if kind == "dense":
                found = jsparse.einsum(text, *operands)
                np.testing.assert_array_equal(dense_array(found), np.einsum(text, *map(dense_array, operands)))
                continue
            for out_format in (None, "coo", "csf"):
                check(text, operands, out_format)


# einsum, which operands are sparse ("s") or dense ("d"), whether the result is sparse: docs/concepts/results.md
RULES = [
    ("ij,jk->ik", "ss", True),
    ("ij,jk->ik", "sd", False),
    ("ij,jk->ik", "ds", False),
    ("ij,ij->ij", "sd", True),
    ("ij,ij->ij", "ss", True),
    ("ij,i->ij", "sd", True),
    ("ij,i->ij", "ds", True),  # (a), with a dense level for j
    ("ij,i->ij", "ss", True),
    ("ij,i->j", "ss", False),
    ("ij,i->j", "sd", False),
    ("ij,i->i", "ss", True),  # (a): the vector has none of its indices summed
    ("ij,i->i", "ds", True),
    ("ij,i->i", "sd", False),
    ("ij->i", "s", False),
    ("ij->ij", "s", True),
    ("ij->", "s", False),
    ("ii->i", "s", True),
    ("ii->", "s", False),
    ("ijk,k->ij", "sd", True),
    ("ijk,k->ij", "ss", True),
    ("ijk,k->ij", "ds", False),
    ("ijk->ij", "s", True),
    ("ijk->i", "s", False),
    ("ijk,kl->ijl", "sd", False),
    ("ijk,kl->ijl", "ss", True),
    ("ij,ik,jk->ij", "sdd", True),
    ("ij,ik,jk->ij", "dss", True),
    ("ij,ik,jk->ij", "dsd", False),
    ("i,j->ij", "ss", True),
    ("i,j->ij", "sd", True),
    ("i,j->ij", "ds", True),
    ("i,i->i", "sd", True),
    ("i,i->", "ss", False),
    ("ij,k->ijk", "sd", True),
    ("ij,jk,kl->il", "sds", True),
    ("ij,jk,kl->il", "ssd", False),
    (",ij->ij", "ds", True),
    (",->", "sd", True),  # an operand of order 0 has no index that could be summed
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text, kinds, sparse", RULES, ids=[f"{text} {kinds}" for text, kinds, _ in RULES])
def test_when_a_result_is_sparse(text, kinds, sparse):
    """It depends on the expression and on which operands are sparse, not on their formats."""
    square = dict.fromkeys("ijkl", 4)
    rng = np.random.default_rng(0)
    arrays = [integers(rng, [square[v] for v in term], 0.4) for term in text.split("->")[0].split(",")]
    for kind in ("csf", "dense"):
        formats = [kind if letter == "s" else None for letter in kinds]
        pairs = zip(arrays, formats, strict=True)
        operands = [x if format is None or not x.ndim else stored_in(x, format) for x, format in pairs]
        if not any(isinstance(x, SparseTensor) for x in operands):
            operands = [jsparse.asarray(x) if letter == "s" else x for x, letter in zip(arrays, kinds, strict=True)]
        found = jsparse.einsum(text, *operands)
        assert isinstance(found, SparseTensor) == sparse, kind
        expected = np.einsum(text, *map(dense_array, operands))
        np.testing.assert_array_equal(dense_array(found), expected)
        if sparse and expected.ndim:
            check_structure(found, structural_nonzeros(by_numpy(text), operands))
        forced = jsparse.einsum(text, *operands, out_format="dense")
        assert not isinstance(forced, SparseTensor)
        np.testing.assert_array_equal(forced, expected)


def test_the_levels_of_one_operand_stay():
    A = stored_in(integers(np.random.default_rng(0), (6, 5), 0.4), "csc")
    v = np.arange(5, dtype=np.float32)
    assert jsparse.einsum("ij,j->ij", A, v).pattern is A.pattern
    assert jsparse.einsum("ij,jk->ijk", A, np.ones((5, 2), np.float32)).format == A.format.with_dense(1)
    assert jsparse.einsum("ij->ji", A).format == Format.of("csr", 2)
    assert jsparse.einsum("ij,ij->ij", A, A).pattern is A.pattern


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,ij->ij", "ijk,k->ij", "ii->i", "ij->ij", "ij,j->i"])
def test_a_tensor_as_out_format_gives_the_pattern(text):
    """No element outside its pattern is computed, and its entries that no product reaches are 0."""
    rng = np.random.default_rng(3)
    left, right = text.split("->")
    for formats in itertools.product((None, "csf", "coo"), repeat=len(left.split(","))):
        arrays = [integers(rng, [5] * len(term), 0.4) for term in left.split(",")]
        pairs = zip(arrays, formats, strict=True)
        operands = [x if format is None else stored_in(x, format) for x, format in pairs]
        like = stored_in(integers(rng, [5] * len(right), 0.4), rng.choice(["coo", "csf"]), zeros=0)
        found = jsparse.einsum(text, *operands, out_format=like.with_values(like.values * np.nan))
        assert found.pattern is like.pattern
        expected = np.einsum(text, *map(dense_array, operands)) * (dense_array(like) != 0)
        np.testing.assert_array_equal(dense_array(found), expected)


def test_formats_on_dense_operands():
    """A sparse format for the result of dense operands stores all elements."""
    rng = np.random.default_rng(0)
    X, Y = integers(rng, (4, 3)), integers(rng, (3, 5))
    for out_format in MATRIX_FORMATS:
        found = jsparse.einsum("ij,jk->ik", X, Y, out_format=out_format)
        check_structure(found, np.ones((4, 5), bool), out_format)
        np.testing.assert_array_equal(dense_array(found), X @ Y)
        A = stored_in(integers(rng, (4, 3), 0.3), "csr")
        check("ij,jk->ik", (A, Y), out_format)
        check("ij,j->i", (A, Y[:, 0]), "coo")


def test_nse_of_static_results():
    A = stored_in(integers(np.random.default_rng(0), (6, 6), 0.3), "csr")
    exact = jsparse.einsum("ij,jk->ik", A, A)
    assert jsparse.einsum("ij,jk->ik", A, A, nse=exact.nse).pattern is exact.pattern


def test_patterns_are_reused_and_equal():
    A, B = random_operands("ij,jk->ik", ("csr", "coo"))
    first = jsparse.einsum("ij,jk->ik", A, B)
    assert jsparse.einsum("ij,jk->ik", A.with_values(2 * A.values), B).pattern is first.pattern
    turned = jsparse.einsum("ij,jk->ki", A, B, out_format="csc")
    assert jsparse.einsum("ij->ji", turned).pattern == jsparse.einsum("ij,jk->ik", A, B, out_format="csr").pattern
