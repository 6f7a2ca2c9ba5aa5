"""Programs of several statements by hand: their text, their checks, and a custom call with several results."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
import scipy.sparse
from interpreters.kernel import interpret_kernel
from interpreters.scalars import evaluate

from jsparse import JsparseError, Pattern, Schedule
from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.lower.storage import kernel_buffers
from jsparse.compiler.problem import Dense, Positions, Problem, StorageType, TensorType
from jsparse.compiler.runtime.bound_arrays import array_names
from jsparse.compiler.runtime.kernel_call import KernelCall, bind
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, power_of, product_of
from jsparse.compiler.schedule import build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.search.statements import plan_statements
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.notation import Access
from jsparse.primitives.target import TARGET

ROW, ENTRY = ("i",), ("i", "j")
A, MOST, SHIFTED = Access("A", ENTRY), Access("most", ROW), Access("shifted", ENTRY)
ON_P0, VECTOR = (Positions(0, (0, 1)),), (Dense(0),)


def rows(pattern: StorageType, size: int, temporaries: tuple[str, ...] = ()) -> Problem:
    """The maximum of each row's entries, the entries minus it, and the rows' sums of these."""
    statements = (
        Statement(MOST, A, "max", (0,)),
        Statement(SHIFTED, Apply("-", (A, MOST)), "+", (0,)),
        Statement(Access("total", ROW), SHIFTED, "+", (0,)),
    )
    tensors = (
        TensorType("most", "float32", VECTOR),
        TensorType("shifted", "float32", ON_P0),
        TensorType("total", "float32", VECTOR),
        TensorType("A", "float32", ON_P0),
    )
    return Problem(statements, tensors, (pattern,), (("i", size), ("j", size)), temporaries=temporaries)


@pytest.fixture
def matrix() -> scipy.sparse.csr_matrix:
    rng = np.random.default_rng(0)
    dense = rng.integers(1, 9, (40, 40)) * (rng.random((40, 40)) < 0.2)
    return scipy.sparse.csr_matrix(dense.astype(np.float32))


def call_on(pattern: Pattern, problem: Problem) -> KernelCall:
    """The call of a problem on one pattern, whose index arrays are bound."""
    names = " ".join(array_names(pattern, pattern))
    return KernelCall(write_recipe(problem, plan_statements(problem, [pattern])), names)


@pytest.mark.parametrize("temporaries", [(), ("most",), ("shifted",), ("most", "shifted")])
def test_a_custom_call_has_several_results(matrix, temporaries):
    pattern = Pattern((40, 40), "csr", (matrix.indptr, matrix.indices))
    problem = rows(storage_type(pattern), 40, temporaries)
    call = call_on(pattern, problem)
    handle = bind(call)
    shapes = {"most": (40,), "shifted": (matrix.nnz,), "total": (40,)}
    wanted = [jax.ShapeDtypeStruct(shapes[t.name], t.dtype) for t in problem.results]
    run = jax.jit(lambda *x: jax.ffi.ffi_call(TARGET, wanted)(*x, key=call.key, recipe=call.recipe, bound=call.bound))
    found = run(matrix.data)
    most = np.array([matrix.data[lo:hi].max(initial=-np.inf) for lo, hi in zip(*rows_of(matrix), strict=True)])
    shifted = matrix.data - np.repeat(most, np.diff(matrix.indptr))
    total = scipy.sparse.csr_matrix((shifted, matrix.indices, matrix.indptr)).sum(1).A1
    expected = {"most": most, "shifted": shifted, "total": total}
    for tensor, array in zip(problem.results, found, strict=True):
        np.testing.assert_array_equal(array, expected[tensor.name].astype(np.float32))
    del handle


def test_the_validity_flag_poisons_every_result(matrix):
    pattern = Pattern((40, 40), "csr", (matrix.indptr, matrix.indices))
    problem = rows(storage_type(pattern), 40)
    call = call_on(pattern, problem).with_validity
    handle = bind(call)
    wanted = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((40,), (matrix.nnz,), (40,))]
    run = jax.jit(lambda *x: jax.ffi.ffi_call(TARGET, wanted)(*x, key=call.key, recipe=call.recipe, bound=call.bound))
    assert all(np.isnan(array).all() for array in run(matrix.data, np.array(True)))
    assert not any(np.isnan(array).any() for array in run(matrix.data, np.array(False)))
    del handle


def rows_of(matrix: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    return matrix.indptr[:-1], matrix.indptr[1:]


def test_a_program_is_printed_statement_by_statement(matrix):
    pattern = Pattern((40, 40), "csr", (matrix.indptr, matrix.indices))
    problem = rows(storage_type(pattern), 40, ("most",))
    assert (
        str(problem)
        == """\
most[i] max= A[i, j] (temporary)
shifted[i, j] = A[i, j] - most[i]
total[i] = shifted[i, j]
  most: float32[d0]
  shifted: float32[P0(d0, d1)]
  total: float32[d0]
  A: float32[P0(d0, d1)]
  P0: (dense, compressed) int32
  i < 40, j < 40"""
    )
    nest = build_loops(problem, *plan_statements(problem, [pattern]))
    assert (
        str(nest)
        == """\
∀ i ∈ P0.0 in parallel, owned, ≥ 512 entries a chunk
  most_at_i = -inf
    acc = -inf
      ∀ j ∈ P0.1, 8 at a time in lanes
        acc max= A[i, j]
    most_at_i = acc
  ∀ j ∈ P0.1, 8 at a time in lanes
    shifted[i, j] = A[i, j] - most_at_i
  acc = 0
    ∀ j ∈ P0.1, 8 at a time in lanes
      acc += shifted[i, j]
  total[i] = acc"""
    )
    assert [buffer.name for buffer in kernel_buffers(problem)][-2:] == ["shifted", "total"]


def split(strides: tuple[tuple[int, str], ...], sizes: dict[str, int], target: str = "k") -> Problem:
    """The sum of a vector's elements, by a derived variable."""
    statement = Statement(Access("R", (target,)), Access("x", ("k",)))
    tensors = (TensorType("R", "float64", VECTOR), TensorType("x", "float64", VECTOR))
    return Problem((statement,), tensors, (), tuple(sizes.items()), derived=(DerivedVar("k", strides),))


def test_a_derived_variable_has_a_ragged_end():
    problem = split(((4, "k0"), (1, "k1")), {"k": 10, "k0": 3, "k1": 4})
    nest = build_loops(problem, *plan_statements(problem, []))
    assert "∀ k ∈ 4·k0 + k1" in str(nest)
    assert str(problem).endswith("k < 10, k0 < 3, k1 < 4\n  k = 4·k0 + k1")
    lower(nest)


R, S, X = (Access(name, ROW) for name in ("R", "S", "x"))


def added(name="S", view_of="R", dtype="float32", add="+", temporaries=(), reads=X, order=(0, 1)):
    """A sum of two terms, the target of the second is a view of the first one's."""
    types = (
        TensorType("R", "float32", VECTOR),
        TensorType(name, dtype, VECTOR, view_of),
        TensorType("x", "float32", VECTOR),
    )
    statements = (Statement(R, X), Statement(Access(name, ROW), reads, add))
    chosen = tuple(statements[n] for n in order)
    types = (*(types[n] for n in order), types[2])
    return Problem(chosen, types, (), (("i", 3),), temporaries=temporaries)


def test_a_view_is_printed_and_has_no_buffer():
    problem = added()
    assert str(problem).splitlines()[:4] == [
        "R[i] = x[i]",
        "S[i] += x[i]",
        "  R: float32[d0]",
        "  S: float32[d0], a view of R",
    ]
    assert problem.is_sum
    assert [tensor.name for tensor in problem.results] == ["R"]
    assert [buffer.name for buffer in kernel_buffers(problem)] == ["x", "R"]
    assert read_recipe(write_recipe(problem, (Schedule(), Schedule())))[0] == problem


@pytest.mark.parametrize(
    "options, message",
    [
        ({"view_of": "x"}, "not a later term"),
        ({"order": (1, 0)}, "not a later term"),
        ({"add": "max"}, "not a later term"),
        ({"dtype": "float64"}, "not a later term"),
        ({"reads": R}, "not a later term"),
        ({"temporaries": ("R",)}, "is not a result"),
        ({"temporaries": ("S",)}, "is not a result"),
    ],
)
def test_views_that_are_no_terms_of_a_sum(options, message):
    with pytest.raises(ValueError, match=message):
        added(**options)


def test_a_recipe_whose_view_has_another_size():
    problem = added()
    larger = Statement(Access("S", ("k",)), Access("x", ("k",)))
    edited = replace(problem, statements=(problem.statements[0], larger), sizes=(("i", 3), ("k", 4)))
    with pytest.raises(JsparseError, match="the same number of elements in 'S: float32"):
        read_recipe(write_recipe(edited, (Schedule(), Schedule())))


def test_scalars_are_printed_with_parentheses_where_they_are_needed():
    product = product_of("*", (Number(2), Apply("+", (A, MOST))))
    assert str(product) == "2 * (A[i, j] + most[i])"
    chosen = Apply("select", (Apply("<", (A, Number(0))), Rounded(product, "float16"), A))
    assert str(chosen) == "select(A[i, j] < 0, float16(2 * (A[i, j] + most[i])), A[i, j])"
    assert str(product_of("+", ())) == "1"
    t = Local("t")
    shared = Let("t", Apply("exp", (A,)), Apply("/", (t, Apply("+", (Number(1), t)))))
    assert str(shared) == "let t = exp(A[i, j]) in t / (1 + t)"
    assert str(Apply("*", (shared, A))) == "(let t = exp(A[i, j]) in t / (1 + t)) * A[i, j]"
    assert str(Apply("min", (Number(float("inf")), Apply("neg", (A,))))) == "min(inf, neg(A[i, j]))"


def test_a_name_is_bound_once_before_the_assignment():
    tensors = (TensorType("R", "float32", VECTOR), TensorType("x", "float32", VECTOR))
    t = Local("t")
    inner = Let("t", Apply("*", (t, t)), Apply("+", (t, Number(-0.0))))  # the inner name hides the outer one
    value = Let("t", Apply("tanh", (X,)), Apply("-", (inner, t)))
    problem = Problem((Statement(R, value),), tensors, (), (("i", 19),))
    kernel = lower(build_loops(problem, *plan_statements(problem, [])))
    assert (
        str(kernel)
        == """\
kernel(x: float32*, R: float32* (written))
  let t_0: <19 x float32> = tanh(x[0 : 19])
  let t_1: <19 x float32> = (t_0 * t_0)
  R[0] = ((t_1 + splat19(-0)) - t_0)"""
    )
    x = np.linspace(-3, 3, 19, dtype=np.float32)
    wide = np.tanh(x.astype(float))
    for run in (lambda *buffers: interpret_kernel(kernel, buffers), compiled(kernel)):
        found = np.zeros(19, np.float32)
        run(x, found)
        np.testing.assert_allclose(found, wide * wide - wide, atol=3e-7)


def compiled(kernel):
    code = compile_kernel(kernel)
    return lambda *buffers: _native.run(code.address, list(buffers), 1)


VALUES = [float("inf"), float("-inf"), float("nan"), -0.0, 0.0, 0, 5e-324, 0.1, 2**53 + 1]


@pytest.mark.parametrize("value", VALUES)
def test_numbers_survive_recipes(value):
    problem = split(((4, "k0"), (1, "k1")), {"k": 12, "k0": 3, "k1": 4})
    named = Let("t", Number(value), Apply("max", (Local("t"), Access("x", ("k",)))))
    problem = replace(problem, statements=(replace(problem.statement, value=named),))
    text = write_recipe(problem, ())
    json.loads(text, parse_constant=pytest.fail)  # no NaN and Infinity, which JSON lacks
    read, _ = read_recipe(text)
    assert read == problem
    assert hash(read.statement) == hash(problem.statement)
    (number,) = (x.value for x in [read.statement.value])
    assert str(number) == str(Number(value))


def test_numbers_are_equal_if_they_are_the_same():
    different = [Number(value) for value in VALUES if type(value) is float]
    assert len(set(different)) == len(different)
    assert Number(float("nan")) == Number(float("nan"))
    assert Number(2) == Number(2.0)
    assert Number(0.0) != Number(-0.0)


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 3, 7, 12, 64, 65])
def test_integer_powers_are_repeated_multiplications(exponent):
    x = np.array([1.0, -0.5, 2.0, 0.0, np.inf])
    with np.errstate(all="ignore"):
        found = evaluate(power_of(X, exponent, "x"), lambda access: x, np.dtype("float64"))
        np.testing.assert_array_equal(found * np.ones(5), x ** float(exponent))


def test_a_target_by_the_parts_of_a_derived_variable_is_cleared_where_that_is_out_of_range():
    """R[k0, k1] = x[k] with k = 4·k0 + k1 < 10: the last two elements are written by nobody."""
    statement = Statement(Access("R", ("k0", "k1")), Access("x", ("k",)))
    tensors = (TensorType("R", "float64", (Dense(0), Dense(1))), TensorType("x", "float64", VECTOR))
    sizes = {"k": 10, "k0": 3, "k1": 4}
    derived = (DerivedVar("k", ((4, "k0"), (1, "k1"))),)
    problem = Problem((statement,), tensors, (), tuple(sizes.items()), derived=derived)
    x, found = np.arange(1.0, 11), np.full((3, 4), np.nan)
    interpret_kernel(lower(build_loops(problem, *plan_statements(problem, []))), [x, found])
    np.testing.assert_array_equal(found.ravel(), [*x, 0, 0])
    whole = replace(problem, sizes=(("k", 12), ("k0", 3), ("k1", 4)))
    assert "R[k0, k1] = 0" not in str(build_loops(whole, *plan_statements(whole, [])))


def test_a_target_by_a_derived_variable_is_cleared_between_its_values():
    """R[k] = x[k] with k = 4·k0 + k1 and k1 < 3: every fourth element is written by nobody."""
    problem = split(((4, "k0"), (1, "k1")), {"k": 8, "k0": 2, "k1": 3})
    x, found = np.arange(1.0, 9), np.full(8, np.nan)
    interpret_kernel(lower(build_loops(problem, *plan_statements(problem, []))), [x, found])
    np.testing.assert_array_equal(found, [1, 2, 3, 0, 5, 6, 7, 0])
