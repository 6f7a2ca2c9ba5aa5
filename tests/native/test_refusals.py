"""Arguments that routines of the extension refuse; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
from native import kernels
from native.level_reference import DENSE, RANGE, SINGLETON
from refusals import test_refusals as test_refusals

from jsparse import asarray
from jsparse.base import _native
from jsparse.compiler.signature import element_code
from jsparse.primitives.execute import make_plan
from jsparse.primitives.kernel import kernel_p

CSR = [(0, 0, 1, 1000), (1, 1, 1, 70_000)]


def assembly():
    yield TypeError, lambda: _native.assemble([np.zeros(2), np.zeros(2)], CSR)
    yield ValueError, lambda: _native.assemble([np.zeros(2, int), np.zeros(3, int)], CSR)
    yield ValueError, lambda: _native.assemble([np.zeros(2, int), np.zeros(2, int)], [(0, 0, 1, 3), (0, 0, 1, 3)])
    yield OverflowError, lambda: _native.assemble([np.zeros(1, int)] * 3, [(0, dim, 1, 2**40) for dim in range(3)])
    size = 1 << 62
    rows = [np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, size - 1] * 4)]
    yield OverflowError, lambda: _native.assemble(rows, [(DENSE, 0, 1, 4), (RANGE, 1, 1, size)])
    three = [np.arange(3), np.arange(3)]
    yield ValueError, lambda: _native.assemble(three, [(DENSE, 0, 1, 3), (RANGE, 1, 0, 3)])
    yield ValueError, lambda: _native.assemble(three, [(RANGE, 0, 1, 3), (SINGLETON, 1, 1, 3)])
    yield ValueError, lambda: _native.assemble(three, [(DENSE, 0, 1, 3), (4, 1, 1, 3)])
    rows, columns = np.random.default_rng(0).integers(0, 1000, (2, 10_000))
    values = np.ones(10_000, np.float32)
    yield ValueError, lambda: _native.accumulate([rows, columns], CSR, values[1:])
    yield ValueError, lambda: _native.accumulate([rows, columns[1:]], CSR, values)


def conversions():
    pointers = [[0, 3, 2], [1, 1, 2], [0, 1, 3]]
    yield ValueError, lambda pointers: _native.transpose(np.array([0, 1]), 2, np.array(pointers), True), pointers
    yield ValueError, lambda: _native.transpose(np.array([0, 2]), 2, np.array([0, 1]), False)
    for dtype in ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", jnp.bfloat16]:
        for n in (10, 100_000):
            yield ValueError, lambda n, values: _native.take(values, np.array([n])), [(n, np.zeros(n, dtype))]
    yield ValueError, lambda: _native.block(np.zeros(2, np.int32), np.zeros(0, np.int32), 3, 0, 1)
    wrong = [([0, 1], [3]), ([0, 1], [-1]), ([0, 2], [0]), ([0, 2, 1], [0]), ([1, 1], [0])]
    yield ValueError, lambda p, c: _native.block(np.array(p, np.int32), np.array(c, np.int32), 3, 1, 1), wrong
    one = np.array([0, 1], np.int32), np.zeros(1, np.int32)
    yield MemoryError, lambda: _native.block(*one, 2**31, 2**31, 2**32)


def coordinates():
    zeros = np.zeros(5, np.int64)
    yield ValueError, lambda bad: _native.lexsort([zeros, np.array([0, 4, 1, bad, 2])], [9, 5]), [-1, 5, 2**40]
    yield ValueError, lambda: _native.lexsort([], [])
    yield ValueError, lambda: _native.lexsort([np.zeros(3, int), np.zeros(4, int)], [1, 1])
    yield TypeError, lambda: _native.lexsort([np.zeros(3)], [1])
    yield TypeError, lambda: _native.lexsort([np.zeros((3, 3), int)], [1])
    yield ValueError, lambda: _native.lexsort([np.zeros(3, int)], [-1])
    entries = [[0, 2, 1], [-1, 0, 0], [0, 0, 3]]
    yield ValueError, lambda entries: _native.compress(np.array(entries), 3, np.int64), entries
    yield TypeError, lambda: _native.compress(np.zeros(3, int), 1, np.float32)


def segments():
    pointers, coordinates = np.array([0, 1], np.int32), np.array([3], np.int32)
    level = (pointers, coordinates)
    yield TypeError, lambda: _native.take_segments(pointers, coordinates.astype(np.int64))
    yield ValueError, lambda: _native.take_segments(pointers[:0], coordinates)
    yield ValueError, lambda: _native.take_segments(pointers, coordinates, starts=pointers)
    yield ValueError, lambda: _native.join_segments([level], [])
    yield ValueError, lambda: _native.join_segments([], [])
    yield ValueError, lambda: _native.join_segments([level, (np.zeros(3, np.int32), coordinates)], [0, 0])


def selection():
    pointers, columns, slices = np.array([0, 2, 4]), [np.array([0, 3, 1, 2])], [(0, 1, 4)]
    select = _native.select_segments
    wrong = [[], [0, 2, 5], [0, 3, 2], [-1, 2, 4], [0, 2**62, 4]]
    yield ValueError, lambda pointers: select(np.array(pointers, int), columns, slices, None), wrong
    yield ValueError, lambda: select(pointers, [], slices, None)
    yield ValueError, lambda: select(pointers, [np.zeros(4, int)] * 2, slices, None)
    yield ValueError, lambda: select(pointers, [np.zeros(3, int)], slices, None)
    wrong = [(0, 0, 2), (0, 1, -1), (-1, 1, 2), (1, -1, 3), (5, 2**62, 4)]
    yield ValueError, lambda slice: select(pointers, columns, [slice], None), wrong
    yield ValueError, lambda: select(pointers, columns, [(0, 1, 2**63 - 1), (0, 1, 4)], None)
    yield ValueError, lambda parents: select(pointers, columns, slices, np.array(parents)), [[2], [0, -1], [2**62]]
    narrow, column = np.array([0, 1], np.int32), [np.array([3], np.int32)]
    beyond = [(0, 1, 2**31 + 1), (2**31, -1, 2), (0, 2**31, 2)]
    yield ValueError, lambda slice: select(narrow, column, [slice]), beyond
    many = np.array([0, 2**16], np.int32), [np.arange(2**16, dtype=np.int32)]
    yield ValueError, lambda: select(*many, [(0, 1, 2**16)], np.zeros(2**15 + 1, np.int32))


def arrays_of_a_selection():
    """Arrays of another dtype, byte order, or memory."""
    pointers, column, slices, parents = np.array([0, 2, 4]), np.array([0, 3, 1, 2]), [(0, 1, 4)], np.array([0, 1])

    def others(x):
        yield from (x.astype(np.int32), x.astype(np.float64), x.astype(">i8"), np.repeat(x, 2)[::2], x[None])
        yield np.frombuffer(b"\0" + x.tobytes(), np.int8)[1:].view(np.int64)

    yield TypeError, lambda x: _native.select_segments(x, [column], slices, parents), others(pointers)
    yield TypeError, lambda x: _native.select_segments(pointers, [x], slices, parents), others(column)
    yield TypeError, lambda x: _native.select_segments(pointers, [column], slices, x), others(parents)


def kernels_and_their_buffers():
    double = kernels.Compiled(kernels.DOUBLE)
    arrays = [np.zeros(3, np.float32), np.zeros(6, np.float32)[::2]]
    yield ValueError, lambda: _native.run(double.address, arrays, 0)
    yield ValueError, lambda: _native.run(0, [])
    yield ValueError, lambda: _native.bind_call("test/slot", double.address, [0, -2], [np.zeros(3)], double)
    column = np.zeros((3, 3))[:, 1]
    yield ValueError, lambda: _native.bind_call("test/array", double.address, [0, -1], [column], double)
    yield KeyError, lambda: _native.routine("permute")
    codes = [[], [1], [1, 0, 5], [1, 0, 5, 1], [1, 0, 5, 1, 0, 1, 0], [2, 0, 5, 0], [1, 99, 5, 0]]
    yield ValueError, lambda code: _native.check_buffers(code, [(element_code("int32"), (3,))]), codes
    A, X = asarray(np.eye(5, 7, dtype=np.float32)), jnp.ones((7, 3), jnp.float32)
    jaxpr = jax.make_jaxpr(lambda A: A @ X)(A)
    spec = next(eqn.params["spec"] for eqn in jaxpr.jaxpr.eqns if "spec" in eqn.params)
    _, call = make_plan(spec, ("float32",) * 3)
    wrong = {"call": call, "results": (((5, 4), np.dtype(np.float32)),), "patterns": (A.pattern,)}
    yield ValueError, lambda: jax.jit(lambda *x: kernel_p.bind(*x, **wrong)).lower(A.values, X)
