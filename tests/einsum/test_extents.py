"""Results too large for memory, and dimensions too large for NumPy, are refused before XLA compiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import ShapeError, SparseTensor

HUGE = 2**32 - 1


@pytest.fixture
def A() -> SparseTensor:
    with jax.enable_x64(True):
        coords = np.array([[0, 5, HUGE - 1], [1, 5, 0]])
        return SparseTensor.from_coords(coords, np.array([1.0, 2.0, 3.0], np.float32), (HUGE, HUGE))


def test_dense_results_are_refused(A: SparseTensor) -> None:
    with jax.enable_x64(True):
        for call in (
            lambda: A.todense(),
            lambda: jsparse.einsum("ij->ij", A, out_format="dense"),
            lambda: jsparse.evaluate("C[i,j,k] = A[i,j] * x[k]", A=A, x=jnp.ones(4), out_format="dense"),
            lambda: jax.jit(lambda A: A.todense())(A),
            lambda: jax.eval_shape(lambda A: A.todense(), A),
        ):
            with pytest.raises(ShapeError, match="EiB|bytes"):
                call()


def test_batches_that_are_too_large() -> None:
    """One result fits; a batch of 10¹⁸ of them does not."""
    x = SparseTensor.from_coords(np.zeros((1, 1), int), np.ones(1, np.float32), (2**20,), "csf")
    structs = jax.ShapeDtypeStruct((2**30, 1), jnp.float32)
    with pytest.raises(ShapeError):
        jax.eval_shape(jax.vmap(lambda v: x.with_values(v).todense()), structs)


def test_capacities_that_are_too_large() -> None:
    with pytest.raises(ShapeError):
        SparseTensor.from_coords(np.zeros((2, 1), int), np.ones(1, np.float32), (2**31 - 1, 2**31 - 1), nse=2**62)
