"""Messages of `A.validate()` say what was expected, what was found and where."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from jsparse.convert.creation import asarray
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


def test_padding_may_be_anything(dense):
    A = asarray(dense, dynamic=True, nse=20)
    corrupted(A, 1, put(-1, -77)).validate()


def test_static_tensors_are_valid(dense):
    A = asarray(dense)
    A.validate()
