"""Unused slots are 0 and stay 0 under every operator: in values, tangents and cotangents.

Every operator is applied to tensors with padding, without padding, without entries, and to overflowed ones. The entries
in use are compared with those of the static tensor.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.amount import sample

import jsparse
from jsparse import SparseTensor
from jsparse.convert.creation import asarray

SHAPE, NSE = (5, 6), 11
RNG = np.random.default_rng(3)
ENTRIES = 2.0 ** RNG.integers(-2, 3, SHAPE)  # products and roots of powers of two are exact
ORDER = RNG.permutation(30)
OTHER = np.where(RNG.random(SHAPE) < 0.3, 2.0, 0).astype(np.float32)
ROW = np.array([1, 0, np.inf, 2, -1, 4], np.float32)
COLUMN = np.array([[2], [0], [-np.inf], [0.5], [1]], np.float32)
MATRIX = np.where(np.arange(30).reshape(SHAPE) % 4 == 1, 0, 2).astype(np.float32)
INVERSE = np.where(MATRIX, 0.5, np.inf).astype(np.float32)
KINDS = {"padded": 7, "full": NSE, "empty": 0}


def dense(count):
    """A matrix with `count` entries."""
    return np.where(ORDER.reshape(SHAPE) < count, ENTRIES, 0).astype(np.float32)


OPERATORS = {
    "+A": lambda A, _: +A,
    "-A": lambda A, _: -A,
    "abs(A)": lambda A, _: abs(A),
    "A.conj()": lambda A, _: A.conj(),
    "complex, conj": lambda A, _: (A.astype(jnp.complex64) * 1j).conj(),
    "complex, abs": lambda A, _: abs(A.astype(jnp.complex64)),
    "A.astype(bfloat16)": lambda A, _: A.astype(jnp.bfloat16),
    "A.astype(int32)": lambda A, _: A.astype(jnp.int32),
    "A.astype(bool)": lambda A, _: A.astype(bool),
    "A.with_values": lambda A, _: A.with_values(A.values + 3),
    "A * 2": lambda A, _: A * 2,
    "A * 0": lambda A, _: A * 0,
    "A * inf": lambda A, _: A * np.inf,
    "A * nan": lambda A, _: jnp.nan * A,
    "A * [[inf]]": lambda A, _: A * np.full((1, 1), np.inf),
    "A / 4": lambda A, _: A / 4,
    "A / 0": lambda A, _: A / 0,
    "A / nan": lambda A, _: A / np.nan,
    "A / array": lambda A, _: A / jnp.zeros((1, 1)),
    "A ** 0.5": lambda A, _: A**0.5,
    "A ** 1": lambda A, _: A**1,
    "A ** 1.5": lambda A, _: A**1.5,
    "A ** 2": lambda A, _: A**2,
    "A ** 3": lambda A, _: A**3,
    "values ** 0": lambda A, _: A.map(lambda v: v**0),
    "values ** -1": lambda A, _: A.map(lambda v: v**-1),
    "values ** -0.5": lambda A, _: A.map(lambda v: v**-0.5),
    "log(values)": lambda A, _: A.map(jnp.log),
    "arctanh(values)": lambda A, _: A.map(jnp.arctanh),
    "A + same": lambda A, _: A + -3 * A,
    "A - same": lambda A, _: A - -3 * A,
    "A * same": lambda A, _: A * (-3 * A),
    "A + other": lambda A, B: A + B,
    "other - A": lambda A, B: B - A,
    "A * other": lambda A, B: A * B,
    "A * row": lambda A, _: A * ROW,
    "A * column": lambda A, _: COLUMN * A,
    "A * matrix": lambda A, _: A * INVERSE,
    "A / row": lambda A, _: A / ROW,
    "A / column": lambda A, _: A / COLUMN,
    "A / matrix": lambda A, _: A / MATRIX,
    "A + 0": lambda A, _: A + 0,
    "1e39 * A": lambda A, _: jsparse.evaluate("C[i,j] = 1e39 * A[i,j]", A=A),
    "A - 1e39 * other": lambda A, B: jsparse.evaluate("C[i,j] = A[i,j] - 1e39 * B[i,j]", A=A, B=B),
    "min of A and row": lambda A, _: jsparse.evaluate("y[i] min= 3 * A[i,j] + x[j]", A=A, x=ROW),
    "by max_times": lambda A, _: jsparse.einsum("ij,j->ij", A, ROW, semiring="max_times"),
    "A.T": lambda A, _: A.T,
    "A.asformat": lambda A, _: A.asformat("csc"),
    "A.dynamic": lambda A, _: (2 * A).dynamic(16) if A.is_dynamic else 2 * A,
    **{
        f"A.{name}({axis})": lambda A, _, name=name, axis=axis: getattr(A, name)(
            axis, **({} if name == "sum" else {"stored": True})
        )
        for name, axis in (("sum", 1), ("min", 1), ("max", 0), ("prod", None), ("prod", 1), ("mean", None), ("mean", 1))
    },
}
DIFFERENTIABLE = [name for name in OPERATORS if "int32" not in name and "bool" not in name]
PASSED_ON = ("+A", "A.conj()", "A + 0", "A.T")  # they pass tangents and cotangents on unchanged


def operands(count, dynamic):
    """A tensor with `count` entries, and another tensor."""
    A = asarray(dense(count), **({"dynamic": True, "nse": NSE} if dynamic else {}))
    B = asarray(OTHER, **({"dynamic": True, "nse": 14} if dynamic else {}))
    return A, B


def entries(out):
    """The coordinates and values of all entries in order. Checks that unused slots are 0."""
    if not isinstance(out, SparseTensor):
        return None, np.asarray(out)
    if out.is_dynamic:
        behind = np.asarray(out.values)[int(out.nnz) :]
        assert not behind.any(), behind
    coords, values = out.to_coords()
    order = np.lexsort(coords[::-1])
    return coords[:, order], np.asarray(values)[order]


def assert_same(got, want):
    (coords, values), (wanted_coords, wanted) = entries(got), entries(want)
    np.testing.assert_array_equal(coords, wanted_coords)
    np.testing.assert_array_equal(values, wanted, strict=True)


def derivatives(name, A, B):
    """The operator's tangent, its cotangent, and the tangent of the cotangent."""

    def function(values):
        out = OPERATORS[name](SparseTensor._wrap(values, A.pattern), B)
        return (out.values, out) if isinstance(out, SparseTensor) else (out, None)

    def direction(like):
        """1 in every slot, unused ones included unless the operator would pass them on."""
        ones = jnp.ones_like(like)
        return A.pattern.in_use(ones) if name in PASSED_ON and A.is_dynamic else ones

    def pulled_back(values):
        out, back, _ = jax.vjp(function, values, has_aux=True)
        return back(direction(out))[0]

    _, tangent, like = jax.jvp(function, (A.values,), (direction(A.values),), has_aux=True)
    tangent = tangent if like is None else SparseTensor._wrap(tangent, like.pattern)
    cotangent, second = jax.jvp(pulled_back, (A.values,), (direction(A.values),))
    return tangent, *(SparseTensor._wrap(x, A.pattern) for x in (cotangent, second))


@pytest.mark.sampled
@pytest.mark.parametrize("name", sample(list(OPERATORS), 0, 3))
def test_values(name):
    """Each operator runs outside jit, and inside jit on a batch of patterns."""
    tensors = [operands(count, dynamic=True) for count in KINDS.values()]
    stacked = jax.tree.map(lambda *x: jax.device_put(np.stack(x)), *tensors)
    together = jax.jit(jax.vmap(OPERATORS[name]))(*stacked)
    for n, count in enumerate(KINDS.values()):
        want = OPERATORS[name](*operands(count, dynamic=False))
        assert_same(OPERATORS[name](*tensors[n]), want)
        assert_same(jax.tree.map(lambda x: jax.device_put(np.asarray(x)[n]), together), want)  # noqa: B023


@pytest.mark.sampled
@pytest.mark.parametrize("name", sample(DIFFERENTIABLE, 1, 3))
def test_derivatives(name):
    compiled = jax.jit(derivatives, static_argnums=0)
    for kind, count in KINDS.items():
        found = compiled(name, *operands(count, dynamic=True))
        if kind == "padded":
            for got, want in zip(found, compiled(name, *operands(count, dynamic=False)), strict=True):
                assert_same(got, want)
        for got in found:
            entries(got)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["A / 0", "A ** 0.5", "values ** -0.5", "A * row", "A + other", "A.astype(bfloat16)", "A.mean(1)"]
)
def test_overflow(name):
    """All slots are NaN; none is unused."""
    _, B = operands(7, dynamic=True)
    A = jax.jit(lambda x: asarray(x, dynamic=True, nse=NSE))(dense(20))
    out = OPERATORS[name](A, B)
    out = out.values if isinstance(out, SparseTensor) else out
    tangent, cotangent, _ = jax.jit(derivatives, static_argnums=0)(name, A, B)
    tangent = tangent.values if isinstance(tangent, SparseTensor) else tangent
    for found in (out, tangent, cotangent.values):
        assert found.size
        assert np.isnan(found).all()


def test_integers_and_small_hessians():
    A, _ = operands(2, dynamic=True)
    assert_same(A.astype(jnp.int8) / 2, A.static().astype(jnp.int8) / 2)
    assert_same(A.astype(jnp.uint8) ** 2, A.static().astype(jnp.uint8) ** 2)
    assert_same(-(A.astype(jnp.int16) * 3), -(A.static().astype(jnp.int16) * 3))

    def loss(A, s):
        return lambda v: ((SparseTensor._wrap(v, A.pattern) / s) ** 0.5).values.sum()

    got, want = (np.asarray(jax.hessian(loss(x, 2.0))(x.values)) for x in (A, A.static()))
    np.testing.assert_array_equal(got[:2, :2], want)
    assert not got[2:].any()
    assert not got[:, 2:].any()


def test_gradients_of_scalars():
    """Unused slots do not contribute to the derivative by a scalar, though their terms would be infinite."""
    for count, slope in (("padded", -np.inf), ("empty", 0)):
        A, _ = operands(KINDS[count], dynamic=True)
        assert jax.grad(lambda s: (A / s).sum())(0.0) == slope  # noqa: B023
    A, _ = operands(7, dynamic=True)
    assert jax.grad(lambda s: (A * s).sum())(3.0) == dense(7).sum()


def test_gradients_of_unused_slots_are_0():
    """This holds even for functions that use unused slots."""
    A, _ = operands(7, dynamic=True)
    for gradient in (
        jsparse.grad(lambda A: A.values.sum())(A),
        jax.jit(jsparse.grad(lambda A: (A**0.5).values.sum()))(A),
    ):
        assert np.isfinite(gradient.values).all()
        entries(gradient)
    assert jsparse.grad(lambda A: A.sum() * 1.0, allow_int=True)(A.astype(int)).values.dtype == jax.dtypes.float0


def test_an_optimizer_step_that_clips():
    optax = pytest.importorskip("optax")
    A, _ = operands(7, dynamic=True)
    step = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.5))

    @jax.jit
    def stepped(A):
        gradient = jsparse.grad(lambda A: (A**0.5 / jnp.maximum(A.values, 0).sum()).sum())(A)
        updates, _ = step.update(gradient.values, step.init(A.values))
        return A.with_values(optax.apply_updates(A.values, updates))

    found = stepped(A)
    assert np.isfinite(found.values).all()
    entries(found)
