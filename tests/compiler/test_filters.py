"""Filters: in lanes, number by number, and by the interpreter they find the same numbers and read nothing else."""

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel, emit
from jsparse.compiler.dtypes import I64, Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.algebra import add, block, cast, const
from jsparse.compiler.kernel.jam import unroll_and_jam
from jsparse.compiler.kernel.nodes import (
    FILTER_LANES,
    FILTER_ROOM,
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Declare,
    Filter,
    For,
    Load,
    LocalArray,
    Select,
    Store,
    Var,
)

I32 = Type("int32")
N, P, COUNT = Var("n"), Var("p"), Var("count")
FOUND = Buffer("found", I32, -1, True)
RESULT = Buffer("result", I64, 2, True)


def run_interpreted(kernel, buffers, monkeypatch):
    interpret_kernel(kernel, buffers)


def run_in_lanes(kernel, buffers, monkeypatch):
    monkeypatch.setattr(emit, "has_fast_gathers", lambda: True)
    assert _native.run(compile_kernel(kernel).address, buffers, 2) == 0


def run_one_by_one(kernel, buffers, monkeypatch):
    monkeypatch.setattr(emit, "has_fast_gathers", lambda: False)
    assert _native.run(compile_kernel(kernel).address, buffers, 2) == 0


RUNS = [run_interpreted, run_in_lanes, run_one_by_one]


def filtering(mark, buffers, start, stop):
    """A kernel that writes the number of numbers kept, and their distances from `start`, to its result."""
    copied = For(N, const(0), COUNT, Store(RESULT, add(N, const(1)), Cast(Load(FOUND, N), "int64")))
    body = block(
        LocalArray(FOUND, 256 + FILTER_LANES),
        Declare(COUNT, const(0)),
        Filter(P, start, stop, mark, FOUND, COUNT),
        Store(RESULT, const(0), COUNT),
        copied,
    )
    return Kernel((*buffers, RESULT), body)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("dtype", "words"), [("int32", "int8"), ("int64", "int8"), ("int32", "int32"), ("int64", "int64")]
)
@pytest.mark.parametrize("length", [0, 1, 10, 15, 16, 17, 31, 32, 33, 47, 100, 256])
def test_marks_of_coordinates_are_found(run, dtype, words, length, monkeypatch):
    """Marks are bytes, or bits in words."""
    rng = np.random.default_rng(length)
    size, start = 200, 5
    coordinates = rng.integers(0, size, start + length).astype(dtype)  # it ends where the range ends
    marked = rng.random(size) < 0.3
    crd, marks = Buffer("crd", Type(dtype), 0), Buffer("marks", Type(words), 1)
    at = Load(crd, P)
    if words == "int8":
        memory, mark = np.concatenate([marked, np.ones(FILTER_ROOM - 1)]).astype(words), Load(marks, at)
    else:
        bits = 8 * np.dtype(words).itemsize
        memory = np.packbits(np.pad(marked, (0, -size % bits)), bitorder="little").view(words)
        word = Load(marks, Binary(">>", at, Const(bits.bit_length() - 1, at.type)))
        place = cast(Binary("&", at, Const(bits - 1, at.type)), words)
        mark = Binary("&", Binary(">>", word, place), Const(1, word.type))
    result = np.zeros(258, np.int64)
    run(filtering(mark, (crd, marks), const(start), const(start + length)), [coordinates, memory, result], monkeypatch)
    expected = np.flatnonzero(marked[coordinates[start:]])
    assert result[0] == len(expected)
    np.testing.assert_array_equal(result[1 : 1 + len(expected)], expected)


@pytest.mark.parametrize("run", RUNS)
def test_conditions_choose_what_is_read(run, monkeypatch):
    """Numbers that are out of range are not used as addresses."""
    given = np.array([3, -(2**31), 2**31 - 1, 0, 7, -1, 9, 4] * 5, np.int32)
    values = np.arange(8, dtype=np.int32) % 3
    crd, table = Buffer("crd", I32, 0), Buffer("table", I32, 1)
    at = Load(crd, add(P, const(2)))
    inside = Binary("&", Compare("<=", Const(0, I32), at), Compare("<", at, Const(8, I32)))
    read = Load(table, Select(inside, at, Const(0, I32)))
    keep = Cast(Binary("&", inside, Compare("!=", read, Const(0, I32))), "int8")
    result = np.zeros(258, np.int64)
    run(filtering(keep, (crd, table), const(0), const(38)), [given, values, result], monkeypatch)
    expected = [n for n, x in enumerate(given[2:]) if 0 <= x < 8 and values[x]]
    assert result[0] == len(expected)
    np.testing.assert_array_equal(result[1 : 1 + len(expected)], expected)


def test_the_interpreter_asks_for_room_for_whole_vectors():
    result = np.zeros(258, np.int64)
    body = block(
        LocalArray(FOUND, 20), Declare(COUNT, const(0)), Filter(P, const(0), const(10), Const(1), FOUND, COUNT)
    )
    with pytest.raises(IndexError, match="found"):
        interpret_kernel(Kernel((Buffer("result", I64, 0, True),), body), [result])


def test_loops_with_filters_are_not_jammed():
    body = block(LocalArray(FOUND, 64), Declare(COUNT, const(0)), Filter(P, const(0), N, Const(1), FOUND, COUNT))
    loop = For(N, const(0), const(10), body)
    assert unroll_and_jam(loop, 2) is loop
