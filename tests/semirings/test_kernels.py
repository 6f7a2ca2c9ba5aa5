"""KernelIR's operations of semirings, interpreted and as machine code; semirings and masks in recipes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import CASES
from interpreters.kernel import interpret_kernel

from jsparse import JsparseError
from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.algebra import const
from jsparse.compiler.kernel.nodes import (
    Binary,
    Buffer,
    Compare,
    Const,
    HorizontalReduce,
    Load,
    Select,
    Store,
    WidenLanes,
)
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.semiring import EqualityMask, Semiring
from jsparse.compiler.statement import product_statement

NAN, INF = np.nan, np.inf
LEFT = [1, NAN, 3, NAN, INF, -INF, -2, 5]
RIGHT = [2, 0, NAN, NAN, NAN, 1, -INF, 5]
REDUCE = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "|": np.bitwise_or}


def agree(body, source, size):
    """Run a kernel from `x` to `y` both ways. Checks that the results are equal, and returns them."""
    dtype = source.dtype.name
    kernel = Kernel((Buffer("x", Type(dtype), 0), Buffer("y", Type(dtype), 1, True)), body)
    found = np.full((2, size), 7, dtype)
    interpret_kernel(kernel, [source, found[0]])
    assert _native.run(compile_kernel(kernel).address, [source, found[1]], 1) == 0
    np.testing.assert_array_equal(*found)
    return found[0]


def buffers(dtype):
    return Buffer("x", Type(dtype), 0), Buffer("y", Type(dtype), 1, True)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_nan_are_nan(dtype, op, lanes):
    source = np.array(LEFT + RIGHT, dtype)
    x, y = buffers(dtype)
    for n in range(8) if not lanes else [0]:
        pair = Binary(op, Load(x, const(n), lanes), Load(x, const(n + 8), lanes))
        got = agree(Store(y, const(0), pair), source, lanes or 1)
        want = REDUCE[op](source[:8], source[8:])
        np.testing.assert_array_equal(got, want if lanes else want[n : n + 1])


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("op", ["min", "max", "*", "|"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_folds(dtype, op, lanes):
    if (op, dtype) == ("|", "float32"):
        return
    source = np.random.default_rng(0).integers(-3, 4, lanes).astype(dtype)
    x, y = buffers(dtype)
    got = agree(Store(y, const(0), HorizontalReduce(Load(x, const(0), lanes), op)), source, 1)
    assert got[0] == REDUCE[op].reduce(source)


@pytest.mark.parametrize("fill", [INF, -INF, 0])
def test_widened_by_other_lanes_than_zero(fill):
    x, y = buffers("float32")
    got = agree(Store(y, const(0), WidenLanes(Load(x, const(0), 3), 7, fill)), np.arange(1, 4, dtype=np.float32), 7)
    np.testing.assert_array_equal(got, [1, 2, 3, *[fill] * 4])


@pytest.mark.parametrize("lanes", [0, 3])
@pytest.mark.parametrize("op, want", [("min", 5), ("max", 7), ("*", 35), ("|", 7)])
def test_stores_accumulate(op, want, lanes):
    x, y = buffers("int32")
    got = agree(Store(y, const(1), Load(x, const(0), lanes), True, op), np.full(3, 5, np.int32), 5)
    assert got.tolist() == [7, want, *([want] * 2 if lanes else [7, 7]), 7]


def test_choices_lane_by_lane():
    x, y = buffers("float32")
    left, right = Load(x, const(0), 8), Load(x, const(8), 8)
    chosen = Select(Compare("==", left, right), left, Const(-1, Type("float32", 8)))
    got = agree(Store(y, const(0), chosen), np.array(LEFT + RIGHT, np.float32), 8)
    np.testing.assert_array_equal(got, [-1] * 7 + [5])


@pytest.mark.parametrize(
    "operation, holds", [("!=", np.not_equal), ("==", np.equal), ("<", np.less), ("<=", np.less_equal)]
)
def test_comparisons_with_nan(operation, holds):
    x, y = buffers("float32")
    left, right = Load(x, const(0), 8), Load(x, const(8), 8)
    chosen = Select(Compare(operation, left, right), Const(1, Type("float32", 8)), Const(0, Type("float32", 8)))
    got = agree(Store(y, const(0), chosen), np.array(LEFT + RIGHT, np.float32), 8)
    np.testing.assert_array_equal(got, holds(np.array(LEFT, np.float32), np.array(RIGHT, np.float32)))


def masked() -> tuple[Problem, tuple[Schedule, ...]]:
    """An SpMV whose terms count only where the first factor equals the second."""
    plan = CASES[0].plan
    target, *factors = plan.problem.assignment.accesses
    dtypes = [plan.problem.type_of[access.tensor].dtype for access in (target, *factors)]
    statement = product_statement(target, factors, (0,), dtypes, Semiring("max", "*"), EqualityMask("+", 1))
    return replace(plan.problem, statements=(statement,)), (plan.schedule,)


def test_recipes():
    pair = masked()
    assert read_recipe(write_recipe(*pair)) == pair


@pytest.mark.parametrize(
    "field, value",
    [
        ("add", "-"),
        ("add", None),
        ("value", ["apply", "**", ["number", 1], ["number", 2]]),
        ("value", ["apply", "*", ["number", 1]]),
        ("value", ["number", "1"]),
        ("value", 3),
        ("condition", ["rounded", ["number", 1], "float7"]),
        ("condition", ["access"]),
    ],
)
def test_recipes_of_other_operations(field, value):
    text = json.loads(write_recipe(*masked()))
    place = ("target", "value", "add", "patterns", "condition").index(field)
    text["statements"][0][place] = value
    with pytest.raises(JsparseError):
        read_recipe(json.dumps(text))


def test_a_mask_is_shown():
    problem, schedules = masked()
    names = [str(access) for access in problem.assignment.factors]
    assert f"max= 1 if float32({names[0]}) == {names[1]}" in str(problem)
    assert f"max= 1 if float32({names[0]}) == {names[1]}" in str(build_loops(problem, *schedules))
