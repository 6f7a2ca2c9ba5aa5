"""Sparse arrays of JAX with wrong indices, and objects that are too long for a message."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO, BCSR

from jsparse import JsparseError, PatternError, SparseTensor, asarray, einsum

DENSE = np.arange(20, dtype=np.float32).reshape(4, 5) % 3


POINTERS = [
    ([0, 2, 1, 3], r"indptr\[\(1,\)\] is 2 and indptr\[\(2,\)\] is 1"),
    ([0, 9, 9, 9], "from 0 to at most its 3 entries, but it leads from 0 to 9"),
    ([0, -1, 2, 3], r"indptr\[\(1,\)\] is -1"),
    ([1, 1, 2, 3], "from 0 to at most its 3 entries, but it leads from 1 to 3"),
    ([0, 1, 3], r"indptr of a BCSR of shape \(3, 3\) to have shape \(4,\)"),
]


@pytest.mark.parametrize(("pointers", "message"), POINTERS)
def test_pointers_of_bcsr(pointers: list[int], message: str) -> None:
    M = BCSR((jnp.ones(3), jnp.arange(3), jnp.zeros(4, jnp.int32)), shape=(3, 3))
    M.indptr = jnp.array(pointers)
    with pytest.raises(PatternError, match=message):
        asarray(M)


def test_indices_of_bcoo_that_are_out_of_range_are_padding() -> None:
    M = BCOO((jnp.ones(3), jnp.array([[0, 0], [-4, 1], [2, 99]])), shape=(3, 3))
    np.testing.assert_array_equal(asarray(M).todense(), np.diag([1.0, 0, 0]))


def test_many_dimensions_and_huge_numbers() -> None:
    with pytest.raises(JsparseError):
        SparseTensor.from_coords(np.zeros((70, 1), int), np.ones(1), (2,) * 70)
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
