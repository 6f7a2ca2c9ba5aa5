"""Functions in machine code: errors in ulp, special values, and results that are the same in vectors of any length."""

import math
from decimal import localcontext

import numpy as np
import pytest
from functions.exhaustive import EXACT, UNARY, largest_error
from functions.measure import BOUNDS, applied, decimal_ulps, exact, function_kernel, run, ulps
from interpreters.kernel import interpret_kernel

from jsparse.compiler.backends.llvm import compile_kernel, cpu, jit, types
from jsparse.compiler.backends.llvm.functions import FUNCTIONS
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.operations import OPERATIONS, meaning_of

INF, NAN = math.inf, math.nan
FLOATS = ["float32", "float64"]
POSITIVE = ("log", "sqrt", "rsqrt")


def in_dtypes(*names: str) -> list[tuple[str, str]]:
    """Each function with the dtypes that it is for."""
    return [(name, dtype) for name in names for dtype in FLOATS if dtype == "float32" or not OPERATIONS[name].is_narrow]


STRIDE = 16381  # prime, so that all bits of arguments vary


def arguments(dtype: str, count: int = 2000, seed: int = 0) -> np.ndarray:
    """Numbers of all sizes, and many between -30 and 30."""
    rng = np.random.default_rng(seed)
    words = np.uint32 if dtype == "float32" else np.uint64
    anything = rng.integers(0, np.iinfo(words).max, count, words, endpoint=True).view(dtype)
    near = np.concatenate([rng.uniform(-1, 1, count), rng.normal(size=count) * 10, 10.0 ** rng.uniform(-12, 2, count)])
    return np.concatenate([anything, near.astype(dtype)])


@pytest.mark.parametrize("name", UNARY)
def test_errors_in_float32_are_below_the_bounds(name):
    assert largest_error(name, STRIDE)[0] <= BOUNDS[name][0]


@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name):
    assert largest_error(name, STRIDE)[0] == 0
    x = arguments("float64")
    np.testing.assert_array_equal(applied(name, x), meaning_of(name)(x))
    halves = np.arange(-8, 8, 0.5, np.float32)
    np.testing.assert_array_equal(applied(name, halves), meaning_of(name)(halves))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name, dtype in in_dtypes(*UNARY) if dtype == "float64"])
def test_errors_in_float64_are_below_the_bounds(name):
    x = arguments("float64", 150)
    if name.startswith("exp"):
        x = np.concatenate([x, np.random.default_rng(1).uniform(-760, 720, 150)])
    with np.errstate(all="ignore"):
        rough = meaning_of(name)(x)
    x = x[np.isfinite(x) & np.isfinite(rough) & (rough != 0)]
    with localcontext(prec=80):
        error = decimal_ulps(applied(name, x), [exact(name, number) for number in x.tolist()])
    assert len(error) > 200
    assert error.max() <= BOUNDS[name][1], x[error.argmax()]


def powers(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    bases = [rng.uniform(0.5, 2, 200), 10 ** rng.uniform(-5, 5, 200), rng.uniform(0.99, 1.01, 200)]
    bases.append(2.0 ** rng.uniform(-100, 100, 200))
    exponents = [rng.uniform(-scale, scale, 200) for scale in (120, 6, 7000, 1)]
    return np.concatenate(bases).astype(dtype), np.concatenate(exponents).astype(dtype)


def test_errors_of_powers():
    x, y = powers("float64")
    with localcontext(prec=80):
        want = [exact("pow", *pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]
        error = decimal_ulps(applied("pow", x, y), want)
    assert error.max() <= BOUNDS["pow"][1]
    x, y = powers("float32")
    assert ulps(applied("pow", x, y), np.power(x.astype(float), y.astype(float))).max() <= BOUNDS["pow"][0]


SPECIAL = {  # of NaN, inf, -inf, 0.0, -0.0, 1.0, -1.0
    "exp": (NAN, INF, 0.0, 1.0, 1.0, math.e, 1 / math.e),
    "exp2": (NAN, INF, 0.0, 1.0, 1.0, 2.0, 0.5),
    "expm1": (NAN, INF, -1.0, 0.0, -0.0, math.e - 1, 1 / math.e - 1),
    "log": (NAN, INF, NAN, -INF, -INF, 0.0, NAN),
    "log1p": (NAN, INF, NAN, 0.0, -0.0, math.log(2), -INF),
    "tanh": (NAN, 1.0, -1.0, 0.0, -0.0, math.tanh(1), -math.tanh(1)),
    "logistic": (NAN, 1.0, 0.0, 0.5, 0.5, 1 / (1 + 1 / math.e), 1 / (1 + math.e)),
    "erf": (NAN, 1.0, -1.0, 0.0, -0.0, math.erf(1), -math.erf(1)),
    "erfc": (NAN, 0.0, 2.0, 1.0, 1.0, math.erfc(1), math.erfc(-1)),
    "sqrt": (NAN, INF, NAN, 0.0, -0.0, 1.0, NAN),
    "rsqrt": (NAN, 0.0, NAN, INF, -INF, 1.0, NAN),
    "cbrt": (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0),
    "sin": (NAN, NAN, NAN, 0.0, -0.0, math.sin(1), -math.sin(1)),
    "cos": (NAN, NAN, NAN, 1.0, 1.0, math.cos(1), math.cos(1)),
    "tan": (NAN, NAN, NAN, 0.0, -0.0, math.tan(1), -math.tan(1)),
    "floor": (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0),
    "ceil": (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0),
    "trunc": (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0),
    "round": (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0),
    "neg": (NAN, -INF, INF, -0.0, 0.0, -1.0, 1.0),
    "abs": (NAN, INF, INF, 0.0, 0.0, 1.0, 1.0),
    "sign": (NAN, 1.0, -1.0, 0.0, -0.0, 1.0, -1.0),
}


def same(found: np.ndarray, want: np.ndarray) -> None:
    """Equal numbers up to two ulp, and equal signs of zeros."""
    np.testing.assert_allclose(found, want, rtol=2 * np.finfo(found.dtype).eps, atol=0)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(want[known]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lanes", [0, 7])
@pytest.mark.parametrize(("name", "dtype"), in_dtypes(*SPECIAL))
def test_special_values(name, dtype, lanes):
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0], dtype)
    same(applied(name, x, lanes=lanes), np.array(SPECIAL[name], dtype))


@pytest.mark.parametrize(("name", "dtype"), in_dtypes(*UNARY))
def test_smallest_and_largest_numbers(name, dtype):
    limits = np.finfo(dtype)
    x = np.array([limits.max, limits.tiny, limits.smallest_subnormal, limits.tiny / 3, limits.tiny * 1.5], dtype)
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        same(applied(name, x), meaning_of(name)(x))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_multiples_of_half_pi(name):
    """Numbers close to multiples of π / 2: near one of all sizes, and 16367173 · 2⁷², the closest one of float32."""
    multiples = np.pi / 2 * np.round(2.0 ** np.random.default_rng(0).uniform(0, 120, 4000))
    x = np.concatenate([multiples, [16367173 * 2.0**72], 2.0 ** np.arange(-20, 128)]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), -x])
    assert ulps(applied(name, x), meaning_of(name)(x.astype(np.float64))).max() <= BOUNDS[name][0]


@pytest.mark.parametrize(("dtype", "edges"), [("float32", (88.72284, -103.97208)), ("float64", (709.7827129, -745.13))])
def test_exponentials_overflow_and_underflow_gradually(dtype, edges):
    above, below = (np.linspace(edge - 1, edge + 1, 4001).astype(dtype) for edge in edges)
    for x in (above, below, np.linspace(edges[1], edges[1] + 20, 4001).astype(dtype)):
        with np.errstate(all="ignore"):
            want = np.exp(x.astype(np.longdouble)).astype(dtype)
        found = applied("exp", x)
        assert (np.abs(found.view(f"i{found.itemsize}") - want.view(f"i{found.itemsize}")) <= 1).all()
    assert {0.0, INF} < set(applied("exp", np.concatenate([above, below])).tolist())


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_special_values_are_those_of_c(dtype):
    x = [0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 7.0, INF, 2.0**24 + 2, 2.0**-140, 2.0**127]
    x = np.array([*x, *(-number for number in x), NAN], dtype)
    bases, exponents = (np.ascontiguousarray(array.ravel()) for array in np.meshgrid(x, x))
    want = [c_pow(*pair) for pair in zip(bases.tolist(), exponents.tolist(), strict=True)]
    with np.errstate(over="ignore"):
        same(applied("pow", bases, exponents), np.array(want).astype(dtype))


def c_pow(x: float, y: float) -> float:
    """math.pow, which raises errors where C's returns a number."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(INF, x) if y % 2 == 1 else INF
    except ValueError:
        is_pole = x == 0 and y < 0
        return math.copysign(INF, x if y % 2 == 1 else 1) if is_pole else NAN


def test_is_finite_and_not():
    x = np.array([NAN, INF, -INF, 0, 3.4e38, -1e-45], np.float32)
    np.testing.assert_array_equal(applied("is_finite", x, lanes=3, target="bool"), np.isfinite(x))
    flags = np.array([True, False, True])
    np.testing.assert_array_equal(applied("not", flags), ~flags)
    np.testing.assert_array_equal(applied("not", flags, lanes=3), ~flags)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_functions_of_integers(dtype):
    x = np.array([3, 0, -5, np.iinfo(dtype).max, np.iinfo(dtype).min + 1], dtype)
    for name, want in (("neg", -x), ("abs", np.abs(x)), ("sign", np.sign(x))):
        for lanes in (0, 5):
            np.testing.assert_array_equal(applied(name, x, lanes=lanes), want)
            np.testing.assert_array_equal(interpreted(function_kernel(name, dtype, 1, lanes), x), want)


def interpreted(kernel: Kernel, *given: np.ndarray) -> np.ndarray:
    out = np.zeros(len(given[0]), kernel.buffers[-1].type.dtype)
    interpret_kernel(kernel, [*given, out])
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "dtype"), in_dtypes(*UNARY, "pow"))
def test_results_do_not_depend_on_the_number_of_lanes(name, dtype):
    arity = OPERATIONS[name].arity
    x = [arguments(dtype, 140, seed) for seed in range(arity)]
    want = applied(name, *x)
    for lanes in (4, 5, 8, 16):
        np.testing.assert_array_equal(applied(name, *x, lanes=lanes), want)


@pytest.mark.parametrize("lanes", [0, 5])
@pytest.mark.parametrize(("name", "dtype"), in_dtypes(*UNARY, *EXACT, "pow"))
def test_the_interpreter_of_kernels_agrees(name, dtype, lanes):
    x = [arguments(dtype, 10, seed) for seed in range(OPERATIONS[name].arity)]
    found = interpreted(function_kernel(name, dtype, len(x), lanes), *x)
    np.testing.assert_allclose(applied(name, *x, lanes=lanes), found, rtol=4 * np.finfo(dtype).eps)


def test_every_function_has_code():
    assert set(FUNCTIONS) == {name for name, operation in OPERATIONS.items() if operation.is_function}


@pytest.fixture(params=["oldest", "avx", "fma"])
def other_cpu(request, monkeypatch):
    """Compiles for a CPU with fewer instructions: x86-64 without extensions, with AVX, with AVX2 and FMA."""
    if jit.llvm.get_default_triple().split("-")[0] != "x86_64":
        return
    features = {"oldest": "", "avx": "+avx", "fma": "+avx2,+fma,+bmi,+f16c"}[request.param]
    if not all(jit.llvm.get_host_cpu_features().get(name[1:]) for name in features.split(",") if name):
        return
    monkeypatch.setattr(jit, "host_cpu", lambda: ("x86-64", features))
    monkeypatch.setattr(jit, "_target_machine", jit._target_machine.__wrapped__)
    monkeypatch.setattr(cpu, "has_rounding", lambda: request.param != "oldest")
    monkeypatch.setattr(cpu, "has_fused_multiply_add", lambda: request.param == "fma")
    monkeypatch.setattr(types, "has_half_instructions", lambda: False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("name", [*UNARY, *EXACT, "pow"])
def test_other_cpus(name, lanes, other_cpu):
    """The bounds hold there, and nothing is called: kernels are not linked with libm."""
    for _, dtype in in_dtypes(name):
        kernel = function_kernel(name, dtype, OPERATIONS[name].arity, lanes)
        text = jit.assembly(kernel)
        assert "call" not in text
        assert "@PLT" not in text
    x = powers("float32") if name == "pow" else (arguments("float32"),)
    code = compile_kernel(function_kernel(name, "float32", len(x), lanes))
    with np.errstate(all="ignore"):
        error = ulps(run(code, *x, lanes=lanes), meaning_of(name)(*(array.astype(float) for array in x)))
    assert error.max() <= BOUNDS.get(name, (0.0, 0.0))[0]
