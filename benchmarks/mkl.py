"""Products of MKL's sparse BLAS by ctypes, in its strongest spelling: int32 indices, `mkl_sparse_optimize` first."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from harness import NotInstalledError, Step
from numpy.typing import NDArray

__all__ = ["product"]

NO_TRANSPOSE, ROW_MAJOR, GENERAL, ZERO_BASED = 10, 101, 20, 0  # constants of mkl_spblas.h
CALLS = 1000  # mkl_sparse_set_mm_hint is told that so many products follow


class _Description(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


def product(matrix: sp.csr_array | sp.bsr_array, x: NDArray[np.float32]) -> Step:
    """A step that multiplies a float32 matrix by x, an array (columns,) or (columns, n).

    Raises `NotInstalledError` if the package `mkl` is not installed.
    """
    library, handle = _library(), ctypes.c_void_p()
    data = np.ascontiguousarray(matrix.data, np.float32)
    indices, pointers = (np.ascontiguousarray(a, np.int32) for a in (matrix.indices, matrix.indptr))
    rows = [pointers[:-1].copy(), pointers[1:].copy()]
    if isinstance(matrix, sp.bsr_array):
        b, c = matrix.blocksize
        if b != c:
            raise NotInstalledError("MKL's blocks that are not square")
        arguments = (matrix.shape[0] // b, matrix.shape[1] // c, b, *map(_pointer, (*rows, indices, data)))
        _check(library.mkl_sparse_s_create_bsr(ctypes.byref(handle), ZERO_BASED, ROW_MAJOR, *arguments))
    else:
        arguments = (*matrix.shape, *map(_pointer, (*rows, indices, data)))
        _check(library.mkl_sparse_s_create_csr(ctypes.byref(handle), ZERO_BASED, *arguments))
    description = _Description(GENERAL, 0, 0)
    kept = (data, indices, *rows)  # MKL reads these arrays as long as the handle lives
    out = np.zeros((matrix.shape[0], *x.shape[1:]), np.float32)
    if x.ndim == 1:
        _check(library.mkl_sparse_set_mv_hint(handle, NO_TRANSPOSE, description, CALLS))
    else:
        _check(library.mkl_sparse_set_mm_hint(handle, NO_TRANSPOSE, description, ROW_MAJOR, x.shape[1], CALLS))
    _check(library.mkl_sparse_optimize(handle))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def run() -> NDArray[np.float32]:
        assert kept
        if x.ndim == 1:
            _check(library.mkl_sparse_s_mv(NO_TRANSPOSE, one, handle, description, _pointer(x), zero, _pointer(out)))
            return out
        n = x.shape[1]
        arguments = (description, ROW_MAJOR, _pointer(x), n, n, zero, _pointer(out), n)
        _check(library.mkl_sparse_s_mm(NO_TRANSPOSE, one, handle, *arguments))
        return out

    return run


def _pointer(array: NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"MKL returned the status {status}")


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        raise NotInstalledError("mkl") from None
    path = next(file.locate() for file in files if file.name.startswith("libmkl_rt.so"))
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    set_threads: Callable[..., int] = library.MKL_Set_Num_Threads
    set_threads(2)
    return library
