"""Messages of `A.validate()` say what was expected, what was found and where."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse.convert.creation import asarray
from jsparse.errors import PatternError, ShapeError
from jsparse.tensor.sparse_tensor import SparseTensor


def corrupted(A, array, change):
    arrays = [np.array(array) for array in A.pattern.arrays]
    arrays[array] = change(arrays[array])
    return SparseTensor(A.values, replace(A.pattern, arrays=tuple(map(jnp.asarray, arrays))))


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    "format, array, change, message",
    [
        ("csr", 1, put(0, 7), r"coordinates of level 1 to lie in \[0, 7\), but the one at position 0 is 7"),
        ("csr", 1, put(1, -1), r"but the one at position 1 is -1"),
        ("csr", 0, put(1, 99), r"pointers of level 1 never to decrease, but 99 is followed by \d+ at 2"),
        ("csr", 0, put(0, 1), "pointers of level 1 to start at 0, but they start at 1"),
        (
            "csr",
            0,
            put(-1, 99),
            r"at most 20 positions in the level of dimension 1, the capacity for nse=20, but there are 99",
        ),
        ("csr", 1, put(slice(0, 2), 3), r"coordinates of dimensions \(1,\) to increase .* repeat"),
        ("csr", 1, put(slice(0, 2), [3, 2]), "are out of order"),
        ("coo", 1, put(slice(0, 2), [4, 0]), "are out of order"),
        (
            "csr",
            1,
            lambda a: a[:-1],
            r"coordinates of level 1 of .* int32 of shape \(20,\), but got int32 of shape \(19,\)",
        ),
        (
            "csr",
            0,
            lambda a: a.astype(np.int16),
            r"pointers of level 1 of .* int32 of shape \(6,\), but got int16 of shape \(6,\)",
        ),
        ("dcsr", 0, put(1, 6), "at most 5 positions in the level of dimension 0"),
    ],
)
def test_faults(dense, format, array, change, message):
    A = asarray(dense, format, dynamic=True, nse=20)
    A.validate()
    with pytest.raises(PatternError, match=message):
        corrupted(A, array, change).validate()


def test_padding_may_be_anything(dense):
    A = asarray(dense, dynamic=True, nse=20)
    corrupted(A, 1, put(-1, -77)).validate()


def test_static_tensors_and_values(dense):
    A = asarray(dense)
    A.validate()
    with pytest.raises(
        ShapeError, match=r"values of A in A.validate, .* shape \(10,\), but got float32 of shape \(3,\)"
    ):
        SparseTensor._wrap(jnp.ones(3), A.pattern).validate()


def test_batches_and_transposed_indices(dense):
    A = asarray(dense, dynamic=True, nse=20).with_transpose()
    A.validate()
    (derived,) = A.pattern.derived
    wrong = replace(derived, arrays=(derived.arrays[0], derived.arrays[1].at[0].set(99)))
    with pytest.raises(PatternError, match="but the one at position 0 is 99"):
        SparseTensor(A.values, replace(A.pattern, derived=(wrong,))).validate()
    parts = [asarray(dense, dynamic=True, nse=20), corrupted(asarray(dense, dynamic=True, nse=20), 1, put(0, 7))]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *parts)
    with pytest.raises(PatternError, match=r"In pattern \(1,\) of the batch: Expected .* the one at position 0 is 7"):
        stacked.validate()


def test_traced_arrays_cannot_be_checked(dense):
    A = asarray(dense, dynamic=True)
    with pytest.raises(PatternError, match="known index arrays, but DynamicPattern.* has traced ones"):
        jax.jit(lambda A: A.validate())(A)
    with pytest.raises(PatternError, match="Make the tensor static outside jit"):
        jax.jit(lambda A: A.static().values)(A)
