"""Sparse arrays of JAX with wrong indices, and objects that are too long for a message."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO

from jsparse import JsparseError, asarray, einsum

DENSE = np.arange(20, dtype=np.float32).reshape(4, 5) % 3


def test_indices_of_bcoo_that_are_out_of_range_are_padding() -> None:
    M = BCOO((jnp.ones(3), jnp.array([[0, 0], [-4, 1], [2, 99]])), shape=(3, 3))
    np.testing.assert_array_equal(asarray(M).todense(), np.diag([1.0, 0, 0]))


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
