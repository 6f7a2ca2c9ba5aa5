"""Pickles that were changed after they were written."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from jsparse import Pattern, SparseTensor, asarray
from jsparse.formats import Format

DENSE = (np.arange(48, dtype=np.float32).reshape(6, 8) * 7 % 5) * (np.arange(8) % 3 != 0)


@pytest.mark.parametrize("format", ["csr", "coo", "dcsc", "csc"])
def test_one_byte_changed(format: str) -> None:
    """The pickle raises an error, or loads as the same tensor or as another kind of object."""
    A, rng = asarray(DENSE, format), np.random.default_rng(0)
    data, errors = pickle.dumps(A), 0
    for at in rng.choice(len(data), 150, replace=False):
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        if changed[at] == pickle.LONG_BINPUT[0]:
            continue  # the unpickler would allocate memory for the number in this opcode
        try:
            loaded = pickle.loads(bytes(changed))
        except Exception:
            errors += 1
            continue
        if isinstance(loaded, SparseTensor):
            assert loaded.pattern == A.pattern
            np.testing.assert_array_equal(loaded.values, A.values)
    assert errors > 140


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "complex64"])
def test_all_dtypes_and_dynamic_tensors_survive_pickling(dtype: str) -> None:
    for A in (asarray(DENSE).astype(dtype), asarray(DENSE, dynamic=True, nse=40).with_transpose().astype(dtype)):
        loaded = pickle.loads(pickle.dumps(A))
        assert loaded.dtype == A.dtype
        np.testing.assert_array_equal(loaded.todense(), A.todense())


def test_given_arrays() -> None:
    csr = Format.of("csr", 2)
    pointers, columns = np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)
    assert Pattern.of_arrays((2, 2), csr, (pointers, columns)).nse == 2
