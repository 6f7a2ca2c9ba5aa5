"""Functions in statements: derivatives, overflow, padding, fusion, and random statements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.structure import dense_array

import jsparse
from jsparse import PatternError

RNG = np.random.default_rng(0)
E = np.where(RNG.random((5, 6)) < 0.5, RNG.normal(size=(5, 6)), 0).astype(np.float32)
F = np.where(RNG.random((5, 6)) < 0.5, RNG.normal(size=(5, 6)), 0).astype(np.float32)
M, X = RNG.normal(size=5).astype(np.float32), RNG.normal(size=6).astype(np.float32)
MASK = E != 0


def leaky(x):
    return jax.nn.leaky_relu(x, 0.2)


# the statement, the same by jax.numpy
FUNCTIONS = [
    ("y[i] += tanh(E[i,j] * x[j] + F[i,j])", lambda e, f, m, x: jnp.tanh(e * x + f).sum(1)),
    ("y[i] = P[i,j] * exp(E[i,j] - m[i]) * x[j]", lambda e, f, m, x: (MASK * jnp.exp(e - m[:, None])) @ x),
    ("R[i,j] = P[i,j] * leaky_relu(m[i] + x[j], 0.2)", lambda e, f, m, x: MASK * leaky(m[:, None] + x)),
    ("R[i,j] = max(E[i,j], F[i,j]) / (2 + m[i] ** 2)", lambda e, f, m, x: jnp.maximum(e, f) / (2 + m[:, None] ** 2)),
    ("R[i,j] = E[i,j] * exp(F[i,j]) ** 0.5", lambda e, f, m, x: e * jnp.exp(f / 2)),
    ("R[i,j] = where(E[i,j] > F[i,j], E[i,j] * x[j], 0)", lambda e, f, m, x: jnp.where(e > f, e * x, 0)),
]  # fmt: skip


def operands(text, e, f, m, x):
    given = {"E": e, "F": f, "m": m, "x": x, "P": getattr(e, "pattern", None)}
    return {name: value for name, value in given.items() if f"{name}[" in text}


def loss(text, *tensors):
    found = jsparse.evaluate(text, **operands(text, *tensors))
    weights = jnp.cos(jnp.arange(float(np.prod(found.shape)))).reshape(found.shape)
    return (found.todense() if isinstance(found, jsparse.SparseTensor) else found) @ weights.T


def total(text, *tensors):
    return loss(text, *tensors).sum()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text, function", FUNCTIONS, ids=[text for text, _ in FUNCTIONS])
def test_gradients(text, function):
    def dense(e, f, m, x):
        value = function(e, f, m, x)
        return (value @ jnp.cos(jnp.arange(float(value.size))).reshape(value.shape).T).sum()

    tensors = jsparse.asarray(E), jsparse.asarray(F, "csc"), M, X
    expected = jax.grad(dense, (0, 1, 2, 3))(jnp.asarray(E), jnp.asarray(F), M, X)
    for given in (tensors, (tensors[0].dynamic(nse=22), tensors[1].dynamic(nse=22), M, X)):
        found = jax.jit(jsparse.grad(total, (1, 2, 3, 4)), static_argnums=0)(text, *given)
        for got, want, mask in zip(found, expected, (E != 0, F != 0, 1, 1), strict=True):
            np.testing.assert_allclose(dense_array(got), want * mask, rtol=1e-4, atol=1e-5)


def test_overflow_reaches_the_result():
    small = jsparse.asarray(E, dynamic=True, nse=E.size)
    coords, values = small.to_coords()

    def overflowed(text, **options):
        @jax.jit
        def run(coords, values):
            tensor = jsparse.SparseTensor.from_coords(coords, values, E.shape, "csr", nse=2)
            found = jsparse.evaluate(text, E=tensor, **options)
            return found.values if isinstance(found, jsparse.SparseTensor) else found

        return np.asarray(run(coords, values))

    for text in ("R[i,j] = relu(E[i,j])", "R[i,j] = where(E[i,j] > 0, 1.5, 0)", "y[i] += abs(E[i,j])"):
        assert np.isnan(overflowed(text)).all()
    # Comparisons hide a NaN, but not an overflow.
    text = "R[i,j] = where(E[i,j] > 0, 1.5, 2.5)"
    assert np.isnan(overflowed(text, out_format=jsparse.asarray(F))).all()
    assert np.isnan(overflowed(text, out_format="dense")).all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_padding_contributes_nothing(dynamic):
    padded = jsparse.asarray(E, dynamic=True, nse=29)
    other = padded if dynamic else jsparse.asarray(F)

    def f(e):
        return jsparse.evaluate("l += E[i,j] ** 0.5 * P[i,j] * exp(abs(E[i,j]) ** 0.5)", E=e, P=other.pattern)

    gradient = jsparse.grad(f)(abs(padded))
    assert not np.isnan(gradient.values).any()


@jsparse.fuse
def softmax(e, x):
    m = jsparse.evaluate("m[i] max= E[i,j]", E=e)
    w = jsparse.evaluate("w[i,j] = P[i,j] * exp(E[i,j] - m[i])", E=e, P=e.pattern, m=m)
    s = jsparse.evaluate("s[i] = w[i,j]", w=w)
    return jsparse.evaluate("y[i] = w[i,j] * x[j] / s[i]", w=w, x=x, s=s)


def test_chains_are_fused():
    tensor = jsparse.asarray(E + 0.1 * (np.arange(6) == 0))
    (kernel,) = jsparse.explain(softmax)(tensor, X).kernels
    assert "as one kernel" in kernel.title
    np.testing.assert_allclose(softmax(tensor, X), jsparse.softmax(tensor, 1) @ X, rtol=1e-5)
    fused = jsparse.fuse(lambda e, f, x: jsparse.evaluate(FUNCTIONS[0][0], E=e, F=f, x=x))
    tensors = jsparse.asarray(E), jsparse.asarray(F)
    np.testing.assert_allclose(fused(*tensors, X), FUNCTIONS[0][1](E, F, M, X), rtol=1e-5)


class Draw:
    """A random expression over i and j: its text, and its value on arrays where what is not stored is 0."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def leaf(self):
        arrays = {
            "E[i,j]": E,
            "F[i,j]": F,
            "G[j,i]": F[::-1],
            "m[i]": M[:, None],
            "x[j]": X[None],
            "D[i,j]": E[::-1] + X,
        }
        text = self.rng.choice([*arrays, "E[i,j]", "F[i,j]", "0.5", "2"])
        return str(text), arrays[text] if text in arrays else float(text)

    def tree(self, depth):
        if depth == 0:
            return self.leaf()
        kind = self.rng.integers(6)
        (a, x), (b, y) = self.tree(depth - 1), self.tree(depth - self.rng.integers(1, depth + 1))
        if kind < 3:
            symbol, combined = [("+", x + y), ("-", x - y), ("*", x * y)][kind]
            return f"({a}) {symbol} ({b})", combined
        if kind == 3:
            known = {"tanh": jnp.tanh, "relu": jax.nn.relu, "abs": jnp.abs, "cos": jnp.cos, "sigmoid": jax.nn.sigmoid}
            name = str(self.rng.choice(list(known)))
            return f"{name}({a})", np.asarray(known[name](x), np.float64)
        if kind == 4:
            name, function = [("max", np.maximum), ("min", np.minimum)][self.rng.integers(2)]
            return f"{name}({a}, {b})", function(x, y)
        return f"where({a} > {b}, {b}, {a})", np.where(x > y, y, x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(24))
def test_random_statements(seed):
    draw = Draw(seed)
    (text, value), (other, factor) = draw.tree(3), draw.tree(1)
    text, value = f"C[i,j] = tanh({text}) + ({other})", np.broadcast_to(np.tanh(value) + factor, (5, 6))
    formats = draw.rng.permutation(["csr", "csc", "coo"])
    arrays = {"E": E, "F": F, "G": F[::-1].T, "m": M, "x": X, "D": E[::-1] + X}
    given = {name: jnp.asarray(array) for name, array in arrays.items() if f"{name}[" in text}
    for name, format in zip("EFG", formats, strict=True):
        if name in given:
            given[name] = jsparse.asarray(arrays[name], str(format))
            given[name] = given[name].dynamic(nse=28) if draw.rng.random() < 0.4 else given[name]
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(jsparse.evaluate(text, out_format="dense", **given), value, **tolerance)
    guarded = jsparse.evaluate(text, out_format=jsparse.asarray(E).pattern, **given)
    np.testing.assert_allclose(guarded.todense(), np.where(E != 0, value, 0), **tolerance)
    if seed % 3 == 0:
        fused = jsparse.fuse(lambda given: jsparse.evaluate(text, out_format=jsparse.asarray(E).pattern, **given))
        np.testing.assert_allclose(fused(given).values, guarded.values, **tolerance)
    try:
        found = jsparse.evaluate(text, **given)
    except PatternError:
        return
    np.testing.assert_allclose(dense_array(found), value, **tolerance)
