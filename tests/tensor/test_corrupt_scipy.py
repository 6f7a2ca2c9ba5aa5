"""scipy.sparse arrays with inconsistent parts are refused before scipy's compiled code reads them."""

import numpy as np
import pytest
import scipy.sparse

import jsparse
from jsparse import DTypeError, JsparseError, PatternError

FORMATS = ["csr", "csc", "coo", "dcsr", "dense", "(i, j) -> (i : compressed, j : dense)"]


def replaced(name, change):
    return lambda x: setattr(x, name, change(getattr(x, name)))


def written(name, position, value):
    return lambda x: getattr(x, name).__setitem__(position, value)


COMPRESSED = {
    "a pointer is negative": (written("indptr", 2, -5), "indptr never to decrease, but 4 at 1 is followed by -5"),
    "a pointer is too large": (written("indptr", 2, 900), "indptr never to decrease, but 900 at 2"),
    "a pointer is far too large": (written("indptr", 2, 2 * 10**9), "indptr never to decrease, but 2000000000 at 2"),
    "the last pointer is too large": (
        written("indptr", -1, 10**8),
        r"the last element of indptr .* \(18\) .* it is 100000000",
    ),
    "the last pointer is negative": (written("indptr", -1, -2), "the last element of indptr .* it is -2"),
    "the first pointer is not 0": (written("indptr", 0, 3), "indptr to begin with 0, but it begins with 3"),
    "a pointer is missing": (replaced("indptr", lambda p: p[:-1].copy()), "indptr to have length 7, but it has 6"),
    "there are no pointers": (replaced("indptr", lambda p: p[:0].copy()), "indptr to have length 7, but it has 0"),
    "there is a pointer too many": (replaced("indptr", lambda p: np.append(p, p[-1])), "length 7, but it has 8"),
    "pointers are floats": (replaced("indptr", lambda p: p.astype(float)), "indptr .* integers, but got .* float64"),
    "pointers are a matrix": (replaced("indptr", lambda p: p[None]), r"indptr .* but got shape \(1, 7\)"),
    "pointers are none": (replaced("indptr", lambda p: None), "indptr to be a one-dimensional array"),
    "an index is too large": (written("indices", 3, 99), r"indices to lie in \[0, 6\), but 99 came at 3"),
    "an index is negative": (written("indices", 3, -1), r"indices to lie in \[0, 6\), but -1 came at 3"),
    "indices are missing": (replaced("indices", lambda i: i[:5].copy()), r"indices \(5\) and data \(18\)"),
    "indices are floats": (replaced("indices", lambda i: i + 0.5), "indices .* integers, but got .* float64"),
    "data is missing": (replaced("data", lambda d: d[:5].copy()), r"indices \(18\) and data \(5\)"),
    "data is a matrix": (replaced("data", lambda d: np.stack([d, d])), "data of 1 dimensions"),
}
OTHERS = {
    "coo": {
        "a row is too large": (lambda x: x.coords[0].__setitem__(3, 99), r"dimension 0 to lie in \[0, 6\), .* has 99"),
        "a column is negative": (lambda x: x.coords[1].__setitem__(3, -7), "dimension 1 .* entry 3 has -7"),
        "rows are missing": (replaced("coords", lambda c: (c[0][:4], c[1])), r"coords\[0\] has 4 and data 18"),
        "rows are floats": (replaced("coords", lambda c: (c[0] + 0.5, c[1])), r"coords\[0\] .* integers"),
        "there are no columns": (replaced("coords", lambda c: c[:1]), "coords to be a tuple of 2 arrays"),
        "data is missing": (replaced("data", lambda d: d[:5]), "and data 5"),
    },
    "bsr": {
        **{name: COMPRESSED[name] for name in COMPRESSED if name.startswith(("a pointer", "the last", "an index"))},
        "blocks are too large": (replaced("data", lambda d: np.ones((len(d), 5, 5), "f4")), "blocks of data that fill"),
        "blocks are empty": (replaced("data", lambda d: np.ones((len(d), 0, 2), "f4")), "blocks of data that fill"),
        "data is missing": (replaced("data", lambda d: d[:1]), r"data \(1\)"),
    },
    "dia": {
        "offsets are missing": (replaced("offsets", lambda o: o[:2]), "an offset for each row of data"),
        "offsets repeat": (replaced("offsets", lambda o: o * 0), "each offset once"),
        "offsets are floats": (replaced("offsets", lambda o: o + 0.5), "offsets .* integers"),
        "data is a vector": (replaced("data", lambda d: d[0]), "data of 2 dimensions"),
    },
    "lil": {
        "rows are missing": (replaced("rows", lambda r: r[:3]), "rows to be an array of 6 lists"),
        "data is missing": (replaced("data", lambda d: d[:3]), "data to be an array of 6 lists"),
        "a column is too large": (lambda x: x.rows[1].__setitem__(0, 99), r"indices to lie in \[0, 6\)"),
        "a column is negative": (lambda x: x.rows[1].__setitem__(0, -2), r"indices to lie in \[0, 6\)"),
        "a column is a float": (lambda x: x.rows[1].__setitem__(0, 0.5), "lists of integers"),
        "a column is missing": (lambda x: x.rows[1].pop(), "a value for each column, but row 1 has 3 and 4"),
        "a row is no list": (written("rows", 1, 5), "rows to be an array of 6 lists"),
        "a value is text": (lambda x: x.data[1].__setitem__(0, "a"), "data to be lists of float32"),
    },
    "dok": {
        "a row is too large": (lambda x: x._dict.update({(99, 1): 1.0}), "entry 18 has 99"),
        "a row is negative": (lambda x: x._dict.update({(-1, 1): 1.0}), "entry 18 has -1"),
        "a key is too long": (lambda x: x._dict.update({(1, 1, 1): 1.0}), "tuples of 2 coordinates"),
        "a key is a number": (lambda x: x._dict.update({5: 1.0}), "tuples of 2 coordinates"),
        "a key has a float": (lambda x: x._dict.update({(0.5, 1): 1.0}), "the keys to hold integers"),
        "a value is text": (lambda x: x._dict.update({(1, 1): "a"}), "values of float32"),
    },
}
CASES = [(kind, *case) for kind in ("csr", "csc") for case in COMPRESSED.values()]
CASES += [(kind, *case) for kind, cases in OTHERS.items() for case in cases.values()]


def matrix(kind):
    return scipy.sparse.random_array((6, 6), density=0.5, format=kind, dtype=np.float32, rng=np.random.default_rng(0))


@pytest.mark.parametrize("kind, corrupt, message", CASES)
def test_corrupt_arrays_are_refused(kind, corrupt, message):
    x = matrix(kind)
    corrupt(x)
    for format in FORMATS:
        with pytest.raises(PatternError, match=message) as caught:
            jsparse.asarray(x, format)
        assert "make it again" in str(caught.value)
    for options in ({"dynamic": True}, {"dynamic": True, "nse": 40}):
        with pytest.raises(PatternError, match=message):
            jsparse.asarray(x, **options)
    with pytest.raises(PatternError, match=message):
        jsparse.einsum("ij,j->i", x, np.ones(6, np.float32))


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("format", FORMATS)
def test_unsorted_repeated_or_longer_arrays_are_legal(kind, format):
    parts = np.array([1, 2, 3, 4], np.float32), np.array([2, 0, 1, 1]), np.array([0, 2, 4, 4])
    x = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}[kind](parts, shape=(3, 3))
    x.data, x.indices = np.append(x.data, 9).astype(np.float32), np.append(x.indices, 0)
    expected = np.array([[2, 0, 1], [0, 7, 0], [0, 0, 0]], np.float32)
    A = jsparse.asarray(x, format)
    np.testing.assert_array_equal(A.todense(), expected if kind == "csr" else expected.T)
    np.testing.assert_array_equal(x.indices[:4], [2, 0, 1, 1])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("format", ["csr", "coo"])
@pytest.mark.parametrize("shape", [(6, 4), (3, 0), (0, 3), (0, 0)])
def test_valid_arrays_mean_what_scipy_means(kind, format, shape):
    x = scipy.sparse.random_array(shape, density=0.5, dtype=np.float64, rng=np.random.default_rng(0)).asformat(kind)
    A = jsparse.asarray(x, format)
    expected = x.toarray()
    np.testing.assert_array_equal(np.asarray(A.todense()), expected.astype(A.dtype))
    jsparse.Pattern(A.shape, A.format, A.pattern.arrays)


def test_diagonals_outside_the_matrix_are_ignored():
    x = scipy.sparse.dia_array((np.ones((3, 6), np.float32), [0, 2, -5]), shape=(6, 4))
    x.offsets = np.array([0, 2**31 - 1, -(2**31)])
    np.testing.assert_array_equal(jsparse.asarray(x).todense(), np.eye(6, 4))


def test_other_dtypes_of_parts():
    x = matrix("csr")
    expected = x.toarray()
    for dtype in ("int64", "uint8", ">i4"):
        x.indptr, x.indices, x.data = x.indptr.astype(dtype), x.indices.astype(dtype), x.data.astype(">f4")
        for format in ("csr", "coo"):
            np.testing.assert_array_equal(jsparse.asarray(x, format).todense(), expected)
    x.data = x.data.astype(object)
    with pytest.raises(DTypeError, match="numbers as data of a csr_array, but got dtype object"):
        jsparse.asarray(x)
    assert issubclass(PatternError, JsparseError)
