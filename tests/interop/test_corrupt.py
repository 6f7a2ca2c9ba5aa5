"""Sparse arrays of JAX whose indices are wrong, and what is too long or too large for a message."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO, BCSR

from jsparse import JsparseError, SparseTensor, asarray, einsum

DENSE = np.arange(20, dtype=np.float32).reshape(4, 5) % 3


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
