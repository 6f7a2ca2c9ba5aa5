"""Unusual arrays, dtypes, capacities and shapes from users are understood, or refused with a clear error."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse
from jsparse import DTypeError, JsparseError, ShapeError, SparseTensor
from jsparse.formats import Pattern

DENSE = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
A = jsparse.asarray(DENSE)
COORDS = np.array([[0, 0, 1], [1, 2, 0]])


def takers(values, matrix, coords):
    """Calls that take an array of values, a matrix of values, or coordinates."""
    csr = scipy.sparse.csr_array(DENSE)
    csr.data = values
    dia = scipy.sparse.dia_array((np.ones((2, 3), np.float32), [0, 1]), shape=(2, 3))
    dia.data = matrix
    yield lambda: jsparse.asarray(matrix, "csr")
    yield lambda: jsparse.asarray(matrix, "dense")
    yield lambda: jsparse.asarray(matrix, "coo", dtype=np.complex64 if matrix.dtype.kind == "c" else np.float32)
    yield lambda: jsparse.asarray(matrix, dynamic=True, nse=6)
    yield lambda: jsparse.asarray(csr)
    yield lambda: jsparse.asarray(csr, "coo")
    yield lambda: jsparse.asarray(dia)
    yield lambda: SparseTensor.from_coords(coords, values, (2, 3))
    yield lambda: SparseTensor.from_coords(coords, values, (2, 3), nse=4)
    yield lambda: SparseTensor(values, A.pattern)
    yield lambda: A.with_values(values)
    yield lambda: A * matrix
    yield lambda: A + matrix
    yield lambda: A @ matrix.T
    yield lambda: matrix.T @ A
    yield lambda: jsparse.einsum("ij,ij->ij", A, matrix)
    yield lambda: jsparse.einsum(A, [0, 1], matrix, [0, 1], [0])
    yield lambda: jsparse.einsum("ij,ij->ij", DENSE, matrix)
    yield lambda: jsparse.einsum(DENSE, [0, 1], matrix, [0, 1], [0])
    yield lambda: jsparse.evaluate("y[i] = A[i,j] * x[i,j]", A=A, x=matrix)


def outcome(take):
    """The result of a call: its dtype and numbers, or the error's class and message."""
    try:
        x = take()
        return x.dtype, np.asarray(x.todense() if isinstance(x, SparseTensor) else x).tolist()
    except JsparseError as error:
        return type(error).__name__, str(error)


def unaligned(x):
    """A copy one byte behind an aligned address, as in a file that is mapped to memory."""
    found = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    assert not found.flags.aligned
    return found


def packed(x):
    """A copy as a field of a packed record."""
    records = np.zeros(x.shape, [("tag", "i1"), ("x", x.dtype)])
    records["x"] = x
    return records["x"]


MEMORY = {"byte order": lambda x: x.astype(x.dtype.newbyteorder(">")), "unaligned": unaligned, "packed": packed}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", MEMORY)
@pytest.mark.parametrize("dtype", ["f4", "i4", "i8", "c8", "f2", "u2"])
def test_arrays_in_other_memory_are_converted(dtype, kind):
    values, matrix = DENSE[DENSE != 0].astype(dtype), (DENSE + DENSE[:, ::-1]).astype(dtype)
    index = COORDS.astype(dtype) if dtype in ("i4", "i8") else COORDS
    others = [MEMORY[kind](x) for x in (values, matrix, index)]
    for take, take_other in zip(takers(values, matrix, index), takers(*others), strict=True):
        assert outcome(take_other) == outcome(take)


@pytest.mark.parametrize("kind", MEMORY)
def test_index_arrays_in_other_memory(kind):
    other, (pointers, columns) = MEMORY[kind], A.pattern.arrays
    for dtype in (np.int32, np.int64):
        arrays = [other(pointers.astype(dtype)), other(columns)]
        assert Pattern((2, 3), "csr", arrays) == A.pattern
        assert Pattern.of_arrays((2, 3), A.format, arrays) == A.pattern
        coords = other(COORDS.astype(dtype))
        assert Pattern.from_coordinates(coords, (2, 3), "csr")[0] == A.pattern
        assert Pattern.of_entries(list(coords), other(np.asarray(A.values)), (2, 3), A.format)[0] == A.pattern
    whole = np.kron(DENSE, np.ones((2, 2), np.float32))
    for name, parts in {"csr": 2, "csc": 2, "bsr": 2, "coo": 2, "dia": 1}.items():
        x = getattr(scipy.sparse, f"{name}_matrix")(whole)
        for part in ("indptr", "indices", "row", "col", "offsets"):
            if hasattr(x, part):
                setattr(x, part, other(getattr(x, part)))
                parts -= 1
        assert parts == 0
        np.testing.assert_array_equal(jsparse.asarray(x).todense(), whole)


def test_dtypes_of_the_other_byte_order():
    table = np.array([1, 0], ">i4")
    y = jsparse.evaluate("y[t[i]] += x[i]", shape=(2,), t=table, x=np.array([5, 7], ">f4"))
    assert y.tolist() == [7, 5]
    assert A.astype(">f4").dtype == jsparse.asarray(DENSE, dtype=">f4").dtype == np.float32
    assert jsparse.einsum("ij->i", A, preferred_element_type=">f4").dtype == np.float32


@pytest.mark.parametrize("kind", [bool, int, float, complex])
def test_numbers_of_python_name_the_dtype_of_jax(kind):
    wanted = jnp.zeros((), kind).dtype
    assert A.astype(kind).dtype == jsparse.asarray(DENSE, dtype=kind).dtype == wanted
    assert jsparse.einsum("ij->i", A, preferred_element_type=complex).dtype == np.complex64


NO_NUMBERS = [object, str, "S3", "M8[s]", "m8[s]", "V4", np.longdouble, np.clongdouble]


@pytest.mark.parametrize("dtype", NO_NUMBERS)
def test_dtypes_that_jax_lacks_are_refused_everywhere(dtype):
    matrix = np.zeros((2, 3), dtype) if dtype == "V4" else DENSE.astype(dtype)
    name = f"dtype {re.escape(str(matrix.dtype))}"
    for take in takers(matrix.ravel()[:3], matrix, COORDS):
        with pytest.raises(DTypeError, match=name):
            take()
    for asked in (lambda: A.astype(dtype), lambda: jsparse.asarray(DENSE, dtype=dtype)):
        with pytest.raises(DTypeError, match="dtype"):
            asked()


D = A.dynamic(6)
TAKE_NSE = {
    "asarray": lambda nse: jsparse.asarray(DENSE, nse=nse),
    "asarray of a SparseTensor": lambda nse: jsparse.asarray(A, nse=nse),
    "asarray, dynamic": lambda nse: jsparse.asarray(DENSE, dynamic=True, nse=nse),
    "asarray, traced": lambda nse: jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=nse))(DENSE),
    "asarray of scipy": lambda nse: jsparse.asarray(scipy.sparse.csr_array(DENSE), nse=nse),
    "asarray of a BCOO": lambda nse: jsparse.asarray(A.to_bcoo(), "csr", dynamic=True, nse=nse),
    "asformat": lambda nse: A.asformat("coo", nse=nse),
    "asformat, dynamic": lambda nse: D.asformat("coo", nse=nse),
    "dynamic": lambda nse: A.dynamic(nse),
    "dynamic, again": lambda nse: D.dynamic(nse),
    "from_coords": lambda nse: SparseTensor.from_coords(COORDS, np.ones(3), (2, 3), nse=nse),
    "from_coords, dense": lambda nse: SparseTensor.from_coords(COORDS, np.ones(3), (2, 3), "dense", nse=nse),
    "einsum": lambda nse: jsparse.einsum("ij,ij->ij", A, A, nse=nse),
    "einsum, dynamic": lambda nse: jsparse.einsum("ij,kj->ik", D, D, nse=nse),
    "einsum, dense": lambda nse: jsparse.einsum("ij,ij->ij", DENSE, DENSE, nse=nse),
    "evaluate": lambda nse: jsparse.evaluate("C[i,j] = A[i,j] + A[i,j]", A=A, nse=nse),
    "evaluate, dynamic": lambda nse: jsparse.evaluate("C[i,k] = A[i,j] * B[k,j]", A=D, B=D, nse=nse),
    "explain": lambda nse: jsparse.explain("ij,ij->ij", A, A, nse=nse),
}


@pytest.mark.parametrize("take", TAKE_NSE)
def test_nse_is_an_integer(take):
    for nse in (2.5, -1, True, "5", [5], np.array([5]), np.float64(5), np.bool_(True), float("nan"), 5j):
        with pytest.raises(ShapeError, match=r"nse= of .* to be a number of entries, nse >= 0, but got"):
            TAKE_NSE[take](nse)
    results = [TAKE_NSE[take](nse) for nse in (5, np.int64(5), np.uint8(5), np.array(5))]
    if take not in ("einsum, dense", "explain"):
        assert len({x.nse for x in results}) == 1


def test_nse_beyond_64_bits_is_a_bound_like_any_other():
    assert jsparse.asarray(DENSE, nse=10**5000).nse == 3
    assert A.dynamic(10**5000).nse == 6


@pytest.mark.parametrize("step", [3, 2**31, 2**62, 2**63, 10**30])
def test_steps_of_slices_may_be_longer_than_what_they_step_through(step):
    np.testing.assert_array_equal(A[:, ::step].todense(), DENSE[:, :1])
    np.testing.assert_array_equal(A[:, 1 : 10**30 : step].todense(), DENSE[:, 1:2])
    np.testing.assert_array_equal(A[step:].todense(), DENSE[2:])
    np.testing.assert_array_equal(A[-(10**30) :, ::step].todense(), DENSE[:, :1])
    huge = SparseTensor.from_coords([[0, 5, 2**62 - 3]] * 2, np.ones(3), (2**62 - 2,) * 2)
    assert huge[::step, 5].shape == (-(-huge.shape[0] // step),)
    assert huge[step - 1 :].nse == (step <= 2**62 - 2) + (step <= 6)
