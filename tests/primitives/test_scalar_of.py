"""Elementwise functions of JAX as scalar expressions: values and tangents are JAX's, by definition and in kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreters.scalars import evaluate

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.scalar import Apply, Number, Scalar
from jsparse.compiler.schedule import build_loops
from jsparse.compiler.schedule.search.statements import plan_statements
from jsparse.compiler.statement import Statement
from jsparse.notation import Access
from jsparse.primitives.elementwise_function import ElementwiseFunction, trace_elementwise
from jsparse.primitives.scalar_of import NoScalar, scalar_of

nn = jax.nn
UNARY = {
    "relu": nn.relu,
    "relu6": nn.relu6,
    "gelu by tanh": nn.gelu,
    "gelu": lambda x: nn.gelu(x, approximate=False),
    "silu": nn.silu,
    "elu": nn.elu,
    "selu": nn.selu,
    "leaky_relu": nn.leaky_relu,
    "softplus": nn.softplus,
    "sigmoid": nn.sigmoid,
    "tanh": jnp.tanh,
    "log_sigmoid": nn.log_sigmoid,
    "hard_tanh": nn.hard_tanh,
    "hard_silu": nn.hard_silu,
    "celu": nn.celu,
    "mish": nn.mish,
    "squareplus": nn.squareplus,
    "soft_sign": nn.soft_sign,
    "where": lambda x: jnp.where((x > 0.5) & ~(x == 2), x, jnp.exp(x)),
    "exclusive or": lambda x: jnp.where((x > 0.5) ^ (x < 1.5), x, -x),
    "clip": lambda x: jnp.clip(x, -1, 2.5),
    "clamp": lambda x: jax.lax.clamp(jnp.asarray(-1, x.dtype), x, jnp.asarray(2.5, x.dtype)),
    "abs": jnp.abs,
    "sign": jnp.sign,
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x) + 1),
    "rsqrt": lambda x: jax.lax.rsqrt(jnp.abs(x) + 1),
    "cbrt": lambda x: jnp.cbrt(jnp.abs(x) + 1),
    "log1p": lambda x: jnp.log1p(jnp.exp2(x)),
    "expm1": jnp.expm1,
    "square": jnp.square,
    "x³": lambda x: x**3,
    "x⁻²": lambda x: (jnp.abs(x) + 1) ** -2,
    "x²·⁵": lambda x: jnp.power(jnp.abs(x) + 1, 2.5),
    "erf": jax.scipy.special.erf,
    "bell": lambda x: jnp.exp(-jnp.square(x) / 2),
    "rounds": lambda x: jnp.round(x) + jax.lax.round(x / 2) + jnp.floor(x) + jnp.ceil(x / 3) + jnp.trunc(x / 5),
    "integer part": lambda x: x.astype(jnp.int32).astype(x.dtype),
    "finite": lambda x: jnp.where(jnp.isfinite(x), x, 0),
    "is positive": lambda x: x > 0,
    "checkpoint": jax.checkpoint(lambda x: jnp.tanh(x) * x),
    "constant": lambda x: jnp.full_like(x, 3),
}
BINARY = {
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "power": lambda x, y: jnp.power(jnp.abs(x) + 0.1, y),
    "logaddexp": jnp.logaddexp,
    "quotient": lambda x, y: (x - y) / (jnp.abs(y) + 1),
    "true where": lambda x, y: jnp.where(x >= y, x, jax.lax.stop_gradient(y)),
    "hypot": lambda x, y: jnp.sqrt(x * x + y * y + 1),
}
FUNCTIONS = {**UNARY, **BINARY}
FORWARD = [name for name in FUNCTIONS if name not in ("is positive", "rounds", "integer part")]


def function(name: str, dtype: str) -> ElementwiseFunction:
    count = 2 if name in BINARY else 1
    found, constants = trace_elementwise(FUNCTIONS[name], [jax.ShapeDtypeStruct((), dtype)] * count)
    assert not constants
    return found


def operands(count: int, dtype: str) -> list[np.ndarray]:
    """Numbers, ties, and halves."""
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, 2.5, -2.5, 6.0, 11.0, -12.0, 30.0, -30.0])
    drawn = [rng.normal(size=60) * 3 for _ in range(count)]
    found = [
        np.concatenate([special, x]) if n == 0 else np.concatenate([special[::-1], x]) for n, x in enumerate(drawn)
    ]
    found = [x.astype(dtype) for x in found]
    if count > 1:
        found[1][-5:] = found[0][-5:]
    return found


def scalar(found: ElementwiseFunction) -> tuple[Scalar, list[Access]]:
    accesses = [Access(f"x{n}", ("i",)) for n in range(found.arity)]
    value = scalar_of(found.jaxpr, accesses)
    assert not isinstance(value, NoScalar), value
    return value, accesses


def by_definition(found: ElementwiseFunction, arrays: list[np.ndarray]) -> np.ndarray:
    value, accesses = scalar(found)
    known = dict(zip(accesses, arrays, strict=True))
    dtype = np.dtype("float64" if arrays[0].dtype == np.float64 else "float32")
    with np.errstate(all="ignore"):
        result = evaluate(value, lambda access: known[access].astype(dtype), dtype)
    return np.broadcast_to(result, arrays[0].shape)


def by_kernel(found: ElementwiseFunction, arrays: list[np.ndarray]) -> np.ndarray:
    """The result of machine code for R[i] = f(x0[i], …), by way of its recipe."""
    value, accesses = scalar(found)
    dtypes = [array.dtype.name for array in arrays]
    target = arrays[0].dtype.name if found.dtype == bool else found.dtype.name
    tensors = [TensorType("R", target, (Dense(0),))]
    read = {access.tensor for access in Statement(Access("R", ("i",)), value).reads}
    tensors += [TensorType(a.tensor, d, (Dense(0),)) for a, d in zip(accesses, dtypes, strict=True) if a.tensor in read]
    statement = Statement(Access("R", ("i",)), value)
    problem = Problem((statement,), tuple(tensors), (), (("i", len(arrays[0])),))
    recipe = write_recipe(problem, plan_statements(problem, ()))
    assert read_recipe(recipe)[0] == problem
    code = compile_kernel(lower(build_loops(*[(p := read_recipe(recipe))[0], *p[1]])))
    out = np.zeros(len(arrays[0]), target)
    used = [array for a, array in zip(accesses, arrays, strict=True) if a.tensor in read]
    assert _native.run(code.address, [*used, out], 1) == 0
    return out


def by_jax(found: ElementwiseFunction, arrays: list[np.ndarray]) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(found))(*arrays))


TOLERANCE = {"float64": 1e-14, "float32": 4e-6, "bfloat16": 2.0**-6}


def compare(found: ElementwiseFunction, dtype: str, size: np.ndarray | float = 1.0) -> None:
    """Compare with JAX, up to a tolerance relative to the result and to `size`."""
    arrays = operands(found.arity, dtype)
    want = by_jax(found, arrays).astype(float)
    for result in (by_definition(found, arrays), by_kernel(found, arrays)):
        error = np.abs(result.astype(float) - want)
        assert (error <= TOLERANCE[dtype] * (np.abs(want) + size)).all(), (error.argmax(), error.max())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_jax(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        compare(function(name, dtype), dtype)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORWARD)
def test_tangents_are_those_of_jax(name):
    """In GELU's tangent, 1 + tanh(u(x)) is rounded to an ulp of 1, and is then multiplied by x u'(x) dx."""
    with jax.enable_x64(True):
        found = function(name, "float64")
        x, *_, change = operands(2 * found.arity, "float64")
        size = np.abs(change) * (1 + np.abs(x)) ** 3 if name == "gelu by tanh" else 1.0
        compare(found.tangent((True,) * found.arity), "float64", size)


@pytest.mark.parametrize("name", ["relu", "relu6", "elu", "gelu", "softplus", "abs", "sqrt", "maximum"])
def test_infinities_and_nan(name):
    found = function(name, "float32")
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0], np.float32)
    arrays = [np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(*[x] * found.arity)]
    want = by_jax(found, arrays)
    np.testing.assert_allclose(by_definition(found, arrays), want, rtol=1e-6)
    np.testing.assert_allclose(by_kernel(found, arrays), want, rtol=1e-6)


A = Access("A", ("i",))


def expression(function, *dtypes: str) -> Scalar | NoScalar:
    avals = [jax.ShapeDtypeStruct((), dtype) for dtype in dtypes or ("float32",)]
    return scalar_of(jax.make_jaxpr(function)(*avals), [A, Access("B", ("i",))][: len(avals)])


def test_shared_values_are_named_and_others_are_not():
    assert expression(nn.sigmoid) == Apply("logistic", (A,))
    assert str(expression(nn.silu)) == "let t0 = A[i] in t0 * logistic(t0)"
    assert str(expression(lambda x: jnp.exp(-x) + 1)) == "exp(neg(A[i])) + 1.0"
    assert str(expression(lambda x: jnp.exp(x) / (1 + jnp.exp(x)))) == "let t1 = exp(A[i]) in t1 / (1.0 + t1)"
    doubled = lambda x: [x := x + x for _ in range(100)][-1]  # noqa: E731
    assert len(str(expression(doubled))) < 4000


def test_arguments_may_be_any_scalars():
    product = Apply("*", (A, Access("B", ("j",))))
    found = scalar_of(jax.make_jaxpr(lambda x: x * x - 1)(1.0), [product], "u")
    assert str(found) == "let u0 = A[i] * B[j] in (u0 * u0) - 1.0"


def test_conditions():
    found = expression(lambda x, keep: jnp.where(keep, x, 0), "float32", "bool")
    assert str(found) == "select(B[i] != 0.0, A[i], 0.0)"
    assert expression(lambda x: x > 2) == Apply("select", (Apply("<", (Number(2.0), A)), Number(1.0), Number(0.0)))


def test_narrow_floats_are_rounded_after_each_operation():
    found = expression(lambda x: jnp.exp(x + 1) * x.astype(jnp.float32), "bfloat16")
    assert str(found) == "let t0 = A[i] in bfloat16(exp(bfloat16(t0 + 1.0))) * t0"


@pytest.mark.parametrize(
    "function, dtypes, reason",
    [
        (jnp.arctan, ["float32"], "it uses 'atan', which kernels do not compute"),
        (jnp.sin, ["float64"], "it uses 'sin' in float64, which kernels compute only in float32"),
        (lambda x: x + 1, ["int32"], "arguments or results of int32"),
        (lambda x: x.astype(jnp.int32), ["float32"], "arguments or results of int32"),
        (lambda x: (x.astype(jnp.int32) + 1).astype(x.dtype), ["float32"], "'add' is on int32"),
        (lambda x: x.real, ["complex64"], "arguments or results of complex64"),
        (lambda x: jax.lax.fori_loop(0, 9, lambda i, y: y * 2, x), ["float32"], "it uses 'scan'"),
        (lambda x: [x := jnp.exp(x) for _ in range(600)][-1], ["float32"], "more than 500 equations"),
        (lambda x: x * jnp.ones(3).sum(), ["float32"], "on arrays of shape"),
        (lambda x: jax.lax.reduce_precision(x, 5, 3), ["float32"], "5 bits of exponent and 3 of mantissa"),
    ],
)
def test_reasons(function, dtypes, reason):
    with jax.enable_x64("float64" in dtypes):
        found = expression(function, *dtypes)
    assert isinstance(found, NoScalar)
    assert reason in found.reason


def test_arithmetic_in_a_wider_float_than_the_statement_has():
    with jax.enable_x64(True):
        found = expression(lambda x: jnp.exp(x.astype(jnp.float64)).astype(jnp.float32))
    assert found == NoScalar("its 'convert_element_type' is in float64, but arithmetic is in float32")
