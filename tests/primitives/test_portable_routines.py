"""The routines as operations of XLA have the results of the extension's routines, bit for bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse import NotYetSupportedError
from jsparse.compiler.runtime.routine import Routine, parameters, swap_parameters
from jsparse.formats import Format, PatternType
from jsparse.formats.dynamic import slots_dtype
from jsparse.primitives.host import run_routine
from jsparse.primitives.portable.routines import run_portable
from jsparse.primitives.routine import array_results

CASES = {  # shape, format, nse, and the number of inputs
    "vector": ((9,), "(i) -> (i : compressed)", 5, 7),
    "range vector": ((30,), "(i) -> (i : range)", 20, 4),
    "csr": ((5, 7), "csr", 9, 14),
    "csc": ((5, 7), "csc", 12, 12),
    "coo": ((4, 5), "coo", 8, 12),
    "dcsr": ((6, 5), "dcsr", 6, 12),
    "no columns": ((3, 0), "(i, j) -> (i : compressed, j : dense)", 4, 3),
    "no inputs": ((5, 7), "csr", 9, 0),
    "no slots": ((5, 7), "coo", 0, 6),
    "skyline": ((5, 9), "(i, j) -> (i : dense, j : range)", 14, 9),
    "blocks of ranges": ((5, 6, 2), "(i, j, k) -> (i : compressed, j : range, k : dense)", 23, 8),
    "ranges of ranges": ((4, 5, 6), "(i, j, k) -> (j : range, i : range, k : range)", 30, 6),
    "entries of ranges": ((4, 5, 6), "(i, j, k) -> (i : range, j : compressed, k : compressed)", 7, 9),
    "ranges of nothing": ((4, 0), "(i, j) -> (i : range, j : dense)", 3, 3),
    "chain below rows": (
        (3, 4, 3),
        "(i, j, k) -> (i : dense, k : compressed(nonunique), j : singleton)",
        10,
        14,
    ),
    "unique chain": ((4, 4, 3), "(i, j, k) -> (i : compressed, j : singleton(nonunique), k : singleton)", 10, 12),
    "two chains": (
        (3, 3, 3, 2),
        "(i, j, k, l) -> (i : compressed(nonunique), j : singleton, k : compressed(nonunique), l : singleton)",
        12,
        16,
    ),
    "rows of blocks": ((4, 3, 2), "(i, j, k) -> (i : dense, j : compressed, k : dense)", 13, 8),
    "far positions": ((3, 2**30, 2**30), "(i, j, k) -> (i : compressed, j : dense, k : range)", 0, 5),
    "far runs": ((3, 2**31 - 1), "(i, j) -> (i : dense, j : range)", 6, 6),
}


def type_of(name):
    shape, format, nse, _ = CASES[name]
    return PatternType(shape, Format.of(format, len(shape)), nse)


def routine_of(name, type_, operands, results, **given):
    return Routine(name, parameters(type_, **given), operands, len(results))


def assembling(type_, inputs, coordinates):
    dtype = slots_dtype(type_, inputs)
    results = (*array_results(type_), ((inputs,), dtype), ((type_.nse + 1,), dtype), ((inputs,), dtype))
    return routine_of("assemble", type_, 1, results, inputs=inputs, coordinates=np.dtype(coordinates)), results


def expanding(type_):
    results = (((len(type_.shape), type_.nse), type_.index_dtype),)
    return routine_of("expand", type_, len(type_.array_lengths), results), results


def validating(type_):
    results = (((), np.dtype(np.int32)),)
    return routine_of("validate", type_, len(type_.array_lengths), results), results


def finding(type_, x):
    results = (*array_results(type_), ((type_.nse,), slots_dtype(type_, x.size)))
    return routine_of("nonzero", type_, 1, results, element=x.dtype), results


@functools.cache
def compiled(*calls):
    """The results of some routines for the same operands."""
    run = [
        functools.partial(run_portable, routine=routine, results=results, keepalive=()) for routine, results in calls
    ]
    return jax.jit(lambda *operands: [f(*operands) for f in run])


def check(operands, *calls):
    """Compare the results of the C++ routine and of the XLA operations, and return them."""
    expected = [run_routine(operands, routine, results) for routine, results in calls]
    found = compiled(*calls)(*operands)
    for array, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        assert np.array_equal(array, other), f"{array} is not {other} for {operands}"
    return [np.asarray(x) for x in expected[0]]


def draw(rng, type_, inputs, dtype):
    """Coordinates, some of them repeated and some out of range."""
    coords = [rng.integers(0, max(size, 1), inputs) for size in type_.shape]
    coords = np.array(coords, np.int64).reshape(len(type_.shape), inputs)
    if coords.size and rng.integers(2):
        coords[:, rng.integers(0, inputs, inputs // 2)] = coords[:, :1]
    if coords.size and rng.integers(2):
        wrong = rng.random(coords.shape) < 0.1
        sizes = np.array(type_.shape, np.int64)[:, None]
        coords = np.where(wrong, rng.choice([-1, -(2**31), 2**31 - 1], coords.shape), coords)
        coords = np.where(rng.random(coords.shape) < 0.05, sizes, coords)
    if rng.integers(2):
        coords = coords[:, np.lexsort(coords[::-1])] if coords.size else coords
    return coords.astype(dtype)


def corrupted(rng, arrays, dtype):
    """The arrays with a few numbers replaced, or with rows in another order, or with random contents."""
    lowest, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = []
    for array in arrays:
        changed = np.array(array)
        kind = rng.integers(5)
        if kind == 0 and changed.size:
            at = rng.integers(0, changed.size, 1 + changed.size // 4)
            changed[at] = rng.choice([-1, 0, 1, 2, 3, 5, 100, lowest, lowest + 1, largest, largest - 1], len(at))
        elif kind == 1 and changed.size:
            changed[rng.integers(changed.size)] += rng.choice([-1, 1])
        elif kind == 2:
            changed = np.sort(rng.integers(-2, 12, changed.shape)).astype(dtype)
        elif kind == 3 and changed.size:
            changed = (changed.astype(np.int64) + rng.choice([lowest, largest, -3, 3])).astype(dtype)
        found.append(changed)
    return found


def check_there_and_back(type_, inputs, dtype):
    rng = np.random.default_rng(0)
    for _ in range(6):
        *arrays, _, _, _ = check([draw(rng, type_, inputs, dtype)], assembling(type_, inputs, dtype))
        for given in [arrays, *(corrupted(rng, arrays, type_.index_dtype) for _ in range(6))]:
            check(given, expanding(type_), validating(type_))


@pytest.mark.parametrize("name", CASES)
def test_coordinates_become_index_arrays_and_back(name):
    check_there_and_back(type_of(name), CASES[name][3], np.int32)


WIDE = {
    "many rows": ((2**40, 5), "(i, j) -> (i : compressed, j : range)", 9, 12),
    "far positions": ((3, 2**40, 2**40), "(i, j, k) -> (i : compressed, j : dense, k : range)", 0, 5),
    "far runs": ((3, 2**62), "(i, j) -> (i : compressed, j : range)", 6, 6),
    "chain": ((4, 2**40), "coo", 8, 12),
}


@pytest.mark.parametrize("name", WIDE)
def test_int64(name):
    shape, format, nse, inputs = WIDE[name]
    type_ = PatternType(shape, Format.of(format, len(shape)), nse)
    with jax.enable_x64(True):
        check_there_and_back(type_, inputs, np.int64)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_coordinates_and_indices_of_other_widths(dtype):
    shape = (5, 7) if dtype == np.int64 else (5, 2**40)
    with jax.enable_x64(True):
        check_there_and_back(PatternType(shape, Format.of("csr", 2), 9), 12, dtype)


@pytest.mark.parametrize("name, size", [("csr", 3), ("coo", 3), ("skyline", 3), ("csr", 0)])
def test_batches(name, size):
    type_, inputs = type_of(name), CASES[name][3]
    rng = np.random.default_rng(0)
    coords = [draw(rng, type_, inputs, np.int32) for _ in range(size)]
    coords = np.array(coords, np.int32).reshape(size, len(type_.shape), inputs)
    *arrays, _, _, _ = check([coords], batched(assembling(type_, inputs, np.int32), size))
    check(arrays, batched(expanding(type_), size), batched(validating(type_), size))


def batched(call, size):
    routine, results = call
    return routine.with_batch_axis(size), tuple(((size, *shape), dtype) for shape, dtype in results)


def test_a_batch_of_a_program():
    """Primitives fold the axes of jax.vmap into one; a plain function can have them, too."""
    type_, inputs = type_of("csr"), CASES["csr"][3]
    routine, results = assembling(type_, inputs, np.int32)
    rng = np.random.default_rng(0)
    coords = np.stack([draw(rng, type_, inputs, np.int32) for _ in range(4)])
    found = jax.jit(jax.vmap(functools.partial(run_portable, routine=routine, results=results)))(coords)
    for n in range(4):
        for array, other in zip(found, run_routine([coords[n]], routine, results), strict=True):
            np.testing.assert_array_equal(array[n], other)


TINY = {"bfloat16": 2.0**-133, "float64": 2.0**-1074}
TINY |= dict.fromkeys(["float32", "complex64"], 2.0**-149)
ELEMENTS = [*TINY, "bool", "int8"]


@pytest.mark.parametrize("name", ["csc", "coo", "skyline", "no columns", "rows of blocks"])
def test_nonzeros_in_all_formats(name):
    check_nonzeros(type_of(name), "float32")


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_nonzeros_of_all_dtypes(dtype):
    with jax.enable_x64(True):
        check_nonzeros(type_of("vector"), dtype)


def check_nonzeros(type_, dtype):
    """Zeros of both signs are zero; NaN, and the least denormal number, are not."""
    rng, dtype = np.random.default_rng(0), jnp.dtype(dtype)
    is_exact = not jnp.issubdtype(dtype, jnp.inexact)
    special = [0, 1] if is_exact else [0.0, -0.0, 1.0, np.inf, np.nan, TINY.get(dtype.name, 1.0)]
    for density in [0.0, 0.1, 0.5, 1.0]:

        def part(density=density):
            one, zero = rng.choice(special, type_.shape), rng.choice(special[:2], type_.shape)
            return np.where(rng.random(type_.shape) < density, one, zero)

        x = part().astype(dtype)
        if dtype.kind == "c":
            x.imag = part()
        check([x], finding(type_, x))


@pytest.mark.parametrize("shape", [(2, 3, 5), (0, 3)])
def test_two_dimensions_are_swapped(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    results = (((*shape[:-2], shape[-1], shape[-2]), x.dtype),)
    routine = Routine("swap", swap_parameters(shape, x.dtype), 1, 1)
    check([x], (routine, results))
    members = np.stack([x, x + 1])
    check([members], batched((routine, results), 2))


def test_no_custom_calls():
    """The programs run wherever XLA does."""
    type_ = type_of("entries of ranges")
    x = np.zeros(type_.shape, np.float32)
    for routine, results in [
        assembling(type_, 9, np.int32),
        expanding(type_),
        validating(type_),
        finding(type_, x),
        (Routine("swap", swap_parameters(x.shape, x.dtype), 1, 1), (((4, 6, 5), x.dtype),)),
    ]:
        given = {"assemble": [np.zeros((3, 9), np.int32)], "nonzero": [x], "swap": [x]}
        operands = given.get(routine.name, [np.zeros(n, np.int32) for n in type_.array_lengths])
        lowered = compiled((routine, results)).trace(*operands).lower(lowering_platforms=("cuda", "tpu"))
        assert "custom_call" not in lowered.as_text()


def test_a_check_is_refused():
    type_ = type_of("csr")
    results = (((), np.dtype(np.int32)), *array_results(type_))
    routine = routine_of("check", type_, 2, results)
    with pytest.raises(NotYetSupportedError, match=r"config\.bounds"):
        run_portable(*(np.zeros(n, np.int32) for n in type_.array_lengths), routine=routine, results=results)
