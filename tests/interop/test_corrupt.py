"""Arrays of other libraries that are wrong: refused before anything trusts them, in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO, BCSR

from jsparse import DTypeError, JsparseError, PatternError, ShapeError, SparseTensor, asarray, einsum

DENSE = np.arange(20, dtype=np.float32).reshape(4, 5) % 3
FORMATS = ("csr", "csc", "coo", "dcsr", "csf", "(i, j) -> (i : compressed, j : dense)")


def put(name: str, at: int, value: int) -> Callable[[Any], None]:
    def change(S: Any) -> None:
        getattr(S, name)[at] = value

    return change


def cut(name: str, count: int) -> Callable[[Any], None]:
    def change(S: Any) -> None:
        setattr(S, name, getattr(S, name)[:count])

    return change


CHANGES = {
    "falls": (put("indptr", 2, -5), "indptr"),
    "rises": (put("indptr", 2, 900), "indptr"),
    "huge": (put("indptr", 2, 2 * 10**9), "indptr"),
    "last": (put("indptr", -1, 10**8), "last of indptr"),
    "negative last": (put("indptr", -1, -2), "last of indptr"),
    "first": (put("indptr", 0, 1), "indptr to begin with 0"),
    "short indptr": (cut("indptr", 3), "indptr to have length"),
    "empty indptr": (cut("indptr", 0), "indptr to have length"),
    "short indices": (cut("indices", 3), "last of indptr"),
    "short data": (cut("data", 3), "last of indptr"),
    "index": (put("indices", 1, 77), r"indices to lie in \[0, \d\), but 77 came at 1"),
    "negative index": (put("indices", 1, -1), r"indices to lie in \[0, \d\), but -1 came at 1"),
}


# Of a bsr, scipy itself refuses data of another length.
CASES = [(kind, name) for kind in ("csr", "csc", "bsr") for name in CHANGES if (kind, name) != ("bsr", "short data")]


@pytest.mark.parametrize("kind, name", CASES)
def test_compressed(kind: str, name: str) -> None:
    change, message = CHANGES[name]
    for format in FORMATS:
        for dynamic in (False, True):
            S = scipy.sparse.csr_array(DENSE).asformat(kind)
            change(S)
            with pytest.raises(PatternError, match=message if kind != "bsr" else "indptr|indices|data"):
                asarray(S, format, dynamic=dynamic)


def test_coordinates_of_coo() -> None:
    S = scipy.sparse.coo_array(DENSE)
    for value in (-1, 4, 10**8):
        rows = S.coords[0].copy()
        rows[2] = value
        broken = S.copy()
        broken.coords = (rows, S.coords[1])
        for format in FORMATS:
            with pytest.raises(PatternError, match=str(value)):
                asarray(broken, format)
    broken = S.copy()
    broken.coords = (S.coords[0][:3], S.coords[1])
    with pytest.raises(PatternError, match="as many coordinates as values"):
        asarray(broken)


def test_unsorted_and_repeated_entries_are_legal() -> None:
    S = scipy.sparse.csr_array((np.ones(4, np.float32), [3, 1, 1, 0], [0, 3, 3, 4, 4]), shape=(4, 5))
    for format in FORMATS:
        np.testing.assert_array_equal(asarray(S, format).todense(), S.toarray())


@pytest.mark.parametrize("pointers", [[0, 2, 1, 3], [0, 9, 9, 9], [0, -1, 2, 3], [1, 1, 2, 3]])
def test_pointers_of_bcsr(pointers: list[int]) -> None:
    M = BCSR((jnp.ones(3), jnp.arange(3), jnp.array(pointers)), shape=(3, 3))
    try:
        found = asarray(M).todense()
    except JsparseError:
        return
    assert np.isfinite(found).all()
    assert found.max() <= 3


def test_indices_of_bcoo_that_are_out_of_range_are_padding() -> None:
    M = BCOO((jnp.ones(3), jnp.array([[0, 0], [-4, 1], [2, 99]])), shape=(3, 3))
    np.testing.assert_array_equal(asarray(M).todense(), np.diag([1.0, 0, 0]))


def test_byte_order() -> None:
    big = DENSE.astype(">f4")
    for given in (big, scipy.sparse.csr_array(DENSE)):
        np.testing.assert_array_equal(asarray(given).todense(), DENSE)
    np.testing.assert_array_equal(einsum("ij,j->i", asarray(DENSE), np.ones(5, ">f4")), DENSE.sum(1))
    coords = np.argwhere(DENSE).T.astype(">i8")
    tensor = SparseTensor.from_coords(coords, DENSE[tuple(coords)].astype(">f4"), DENSE.shape)
    np.testing.assert_array_equal(tensor.todense(), DENSE)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, object, "U3", "datetime64[s]", "timedelta64[s]"])
def test_other_dtypes(dtype: Any) -> None:
    x = np.array([[0, 1], [1, 0]]).astype(dtype)
    with pytest.raises(DTypeError, match="Expected"):
        asarray(x)
    with pytest.raises(DTypeError, match="Expected"):
        einsum("ij,jk->ik", asarray(np.eye(2, dtype=np.float32)), x)


@pytest.mark.parametrize("nse", [2.5, -1, True, "5", None])
def test_nse(nse: Any) -> None:
    A = asarray(DENSE)
    calls = [
        lambda: asarray(DENSE, dynamic=True, nse=nse),
        lambda: A.dynamic(nse),
        lambda: A.asformat("csc", nse=nse),
        lambda: SparseTensor.from_coords(np.zeros((2, 1), int), np.ones(1), (4, 5), nse=nse),
        lambda: einsum("ij,kj->ik", A, A, nse=nse),
    ]
    for call in calls:
        if nse is None:
            call()
        else:
            with pytest.raises(ShapeError, match="nse"):
                call()
    assert asarray(DENSE, dynamic=True, nse=np.int64(30)).nse == 20


def test_many_dimensions_and_huge_numbers() -> None:
    with pytest.raises(JsparseError):
        SparseTensor.from_coords(np.zeros((70, 1), int), np.ones(1), (2,) * 70)
    A = asarray(DENSE)
    with pytest.raises(ShapeError):
        A[10**30]
    np.testing.assert_array_equal(A[:: 10**30].todense(), DENSE[:: 10**30])
    for shape in ((2.5, 3), (-1, 3), (10**30, 3)):
        with pytest.raises(JsparseError):
            SparseTensor.from_coords(np.zeros((2, 1), int), np.ones(1), shape)


def test_long_texts_are_shortened() -> None:
    A = asarray(DENSE)
    for call in (
        lambda: einsum("i" * 5000 + ",j->ij", A, A),
        lambda: A.asformat("x" * 5000),
        lambda: asarray(DENSE, "(i, j) -> (" + "i : dense, " * 2000 + ")"),
        lambda: einsum("ij,j->i", A, "y" * 5000),
    ):
        with pytest.raises(JsparseError) as caught:
            call()
        assert len(str(caught.value)) < 700
