"""The expressions of numpy's and opt_einsum's own tests, with operands sparse in several combinations."""

import numpy as np
import pytest
from einsum.structure import check_structure, dense_array, integers, random_format, stored_in, structural_nonzeros

import jsparse
from jsparse import SparseTensor

ELLIPSES = [
    ("...,...", [(3,), (2, 3)]),
    ("...i,...i", [(2, 3), (3,)]),
    ("...i,...i->...", [(2, 3), (4, 2, 3)]),
    ("i...->...", [(3, 2, 2)]),
    ("...i->...", [(2, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ii...->...i", [(3, 3, 2)]),
    ("i...i->i...", [(3, 2, 3)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 2)]),
    ("...ij,...jk->...ik", [(2, 1, 2, 3), (3, 3, 2)]),
    ("...k,kj", [(2, 3), (3, 2)]),
    ("ij...,j...->ij...", [(2, 3, 2), (3, 2)]),
    ("ij...,...j->ij...", [(2, 3, 4), (3,)]),
    ("ik...,k...->i...", [(2, 3, 2), (3, 2)]),
    ("ik,k...->i...", [(2, 3), (3, 4)]),
    ("...ft,mf->...mt", [(2, 3, 2), (4, 3)]),
    ("...lmn,...lmno->...o", [(2, 2, 3), (2, 2, 3, 2)]),
    ("...a,...b", [(3, 2), (3, 4)]),
    ("...,...->...", [(1, 3), (2, 1)]),
    ("...,->...", [(2, 3), ()]),
]


def check(text, shapes, rng, kinds):
    arrays = [integers(rng, shape, 0.6) for shape in shapes]
    if not any(kinds):
        kinds = [True, *kinds[1:]]
    operands = [stored_in(x, random_format(rng, x.ndim), 1) if k else x for x, k in zip(arrays, kinds, strict=True)]
    expected = np.einsum(text, *map(dense_array, operands))
    for out_format in (None, "dense"):
        found = jsparse.einsum(text, *operands, out_format=out_format)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(dense_array(found), expected, f"{text} {operands} {out_format}")
        if isinstance(found, SparseTensor):
            assert out_format is None
            check_structure(found, structural_nonzeros(lambda *o: np.einsum(text, *o), operands))


def test_ellipses():
    rng = np.random.default_rng(0)
    for text, shapes in ELLIPSES:
        check(text, shapes, rng, [True] * len(shapes))
        if len(shapes) > 1:
            check(text, shapes, rng, [True, False])
            check(text, shapes, rng, [False, True])


@pytest.mark.semantics
def test_sublists():
    """Lists of integers give the result of letters in the same order."""
    rng = np.random.default_rng(0)
    A, B = (stored_in(integers(rng, (3, 3), 0.6), format) for format in ("csr", "coo"))
    x = integers(rng, (3,))
    a, b = dense_array(A), dense_array(B)
    cases = [
        ((A, [0, 1], x, [1], [0]), a @ x),
        ((A, [5, 2], B, [2, 7], [5, 7]), a @ b),
        ((A, [0, 1], B, [1, 2]), a @ b),
        ((A, [1, 0], B, [2, 1]), (b @ a).T),
        ((x, [1], A, [0, 1], [0]), a @ x),
        ((A, [0, 0], [0]), np.diag(a)),
        ((A, [0, 0]), np.trace(a)),
        ((A, [Ellipsis, 1], x, [1], [Ellipsis]), a @ x),
        ((A, [Ellipsis], B, [Ellipsis], [Ellipsis]), a * b),
        ((A, (0, 1), B, range(2), [1, 0]), (a * b).T),
        ((A, [40, 30], [30, 40]), a.T),
    ]
    for arguments, expected in cases:
        found = jsparse.einsum(*arguments)
        np.testing.assert_array_equal(dense_array(found), expected)
        np.testing.assert_array_equal(jsparse.einsum(*arguments, out_format="dense"), expected)
        if expected.ndim:
            assert isinstance(jsparse.einsum(*arguments, out_format="coo"), SparseTensor)
