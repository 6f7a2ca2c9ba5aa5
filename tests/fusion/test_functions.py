"""`fuse` inside and around what JAX does to functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.models import MODELS, attention, dense_attention
from fusion.operands import (
    COORDS,
    DENSE_VALUES,
    MASK,
    SQUARE_MASK,
    SQUARE_TENSOR,
    VALUES,
    D,
    M,
    N,
    P,
    close,
    normal,
    squared,
    to_dense,
)

import jsparse
from jsparse import SparseTensor
from jsparse.ops.fuse import fuse


@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.dots_saveable])
def test_checkpoint(policy):
    operands = MODELS["attention"][2]
    inside = fuse(jax.checkpoint(attention, policy=policy))
    outside = jax.checkpoint(fuse(attention), policy=policy)
    wanted = jax.jit(jax.grad(squared(dense_attention), (0, 1, 2, 3)))(*operands)
    close(jax.jit(jax.grad(squared(inside), (0, 1, 2, 3)))(*operands), wanted, 1e-4)
    close(jax.jit(jax.grad(squared(outside), (0, 1, 2, 3)))(*operands), wanted, 1e-4)


def test_custom_derivatives_are_kept():
    @jax.custom_jvp
    def step(x):
        return x * 2

    step.defjvp(lambda x, dx: (x[0] * 2, 7 * dx[0]))

    @jax.custom_vjp
    def shift(x):
        return x + 1

    shift.defvjp(lambda x: (x + 1, x), lambda x, ct: (ct * x,))

    def f(v, x):
        A = SparseTensor(v, P).map(step)
        return shift(jax.nn.relu(A @ x))

    x = jnp.ones((N, 2))
    v = jnp.asarray(VALUES).at[0].set(-VALUES[COORDS[0] == COORDS[0, 0]][1:].sum())
    for g in (f, fuse(f)):
        dv = jax.grad(lambda v, g=g: g(v, x).sum())(v)
        y = jax.nn.relu(to_dense(2 * v) @ x)
        slope = (y * (y > 0)).sum(1)
        np.testing.assert_allclose(dv, 7 * slope[COORDS[0]], rtol=1e-5)
    zero = jnp.zeros(P.nse)
    np.testing.assert_array_equal(jax.grad(lambda v: fuse(layer_of_values)(v, x).sum())(zero), 0)


def layer_of_values(v, x):
    return jax.nn.relu(SparseTensor(v, P) @ x)


def test_closures_over_tracers_and_tensors():
    A = SparseTensor(VALUES, P)

    def outer(s, x):
        inner = fuse(lambda x: jax.nn.relu(jsparse.sigmoid(A * s) @ x) * s)
        return inner(x)

    dense = lambda s, x: jax.nn.relu(jnp.where(MASK, jax.nn.sigmoid(DENSE_VALUES * s), 0) @ x) * s  # noqa: E731
    s, x = jnp.float32(0.7), normal(N, 3)
    close(outer(s, x), dense(s, x))
    close(jax.jit(jax.grad(squared(outer), (0, 1)))(s, x), jax.grad(squared(dense), (0, 1))(s, x))
    scales = jnp.arange(1.0, 4)
    close(jax.vmap(outer, (0, None))(scales, x), jax.vmap(dense, (0, None))(scales, x))


def test_functions_without_chains_run_as_before():
    def f(x, n):
        return {"sum": jnp.sort(x).cumsum(), "n": n + 1, "x": x}, jnp.sin(x)

    x = normal(5)
    close(fuse(f)(x, 3), f(x, 3))
    close(fuse(f)(x, n=3), f(x, 3))
    assert fuse(lambda: ())() == ()
    np.testing.assert_array_equal(fuse(lambda: 3)(), 3)


def test_control_flow_around_and_inside():
    x = normal(N, D)

    def body(carry, _):
        y = jax.nn.tanh(jsparse.sigmoid(SQUARE_TENSOR) @ carry)
        return y, y.sum()

    def f(x):
        return jax.lax.scan(body, x, length=3)

    x = normal(M, D)
    S = jnp.where(SQUARE_MASK, jax.nn.sigmoid(SQUARE_TENSOR.todense()), 0)
    y, sums = x, []
    for _ in range(3):
        y = jnp.tanh(S @ y)
        sums.append(y.sum())
    close(fuse(f)(x), (y, jnp.stack(sums)))
    layer = fuse(lambda c: jax.nn.tanh(jsparse.sigmoid(SQUARE_TENSOR) @ c))
    close(jax.lax.fori_loop(0, 3, lambda _, c: layer(c), x), y)
    close(jax.jit(lambda x: jax.lax.cond(x.sum() > 0, layer, lambda c: c, jnp.abs(x)))(x), jnp.tanh(S @ jnp.abs(x)))


def test_dropout_of_entries():
    q, k, v, _ = MODELS["attention"][2]

    def f(key, q, k, v):
        A = jsparse.softmax(jsparse.einsum("id,jd->ij", q, k, out_format=P), 1)
        kept = jax.random.bernoulli(key, 0.6, (P.nse,))
        return A.with_values(jnp.where(kept, A.values / 0.6, 0)) @ v

    key = jax.random.key(0)
    gradient = lambda f: jax.jit(jax.grad(lambda *x: squared(lambda *x: f(key, *x))(*x), (0, 1, 2)))(q, k, v)  # noqa: E731
    close(fuse(f)(key, q, k, v), f(key, q, k, v))
    close(gradient(fuse(f)), gradient(f))


def test_batch_axes_behind_the_entries():
    pattern = jsparse.pattern.window(6, 1) | jsparse.pattern.global_(6, 1)
    y, b, x = normal(pattern.nse, 2), normal(2, pattern.nse), normal(6, 3)

    def one(y, b, x, mask=pattern):
        scores = SparseTensor(y, mask).map(jnp.tanh)
        return jsparse.softmax(scores.with_values(scores.values + b), axis=1) @ x

    batched = jax.vmap(one, (1, 0, None))
    close(fuse(batched)(y, b, x), batched(y, b, x), 1e-6)
    assert len(jsparse.explain(fuse(batched))(y, b, x).kernels) == 1
    found = jax.jit(jax.grad(squared(fuse(batched)), (0, 1, 2)))(y, b, x)
    close(found, jax.jit(jax.grad(squared(batched), (0, 1, 2)))(y, b, x), 1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_a_larger_pattern_has_beside_an_operand_is_zero(dynamic):
    """Entries of the union that only one operand has are read as 0 of the other, whatever memory held."""
    rng = np.random.default_rng(0)
    a, b = (np.where(rng.random((5, 6)) < 0.5, rng.normal(size=(5, 6)), 0).astype(np.float32) for _ in range(2))
    A, B = jsparse.asarray(a), jsparse.asarray(b)
    union = SparseTensor(np.ones((A.pattern | B.pattern).nse, np.float32), A.pattern | B.pattern)
    A, B, union = (x.dynamic(nse=x.nse + 3) for x in (A, B, union)) if dynamic else (A, B, union)

    def smaller(A, B, union):
        left, right = (jsparse.einsum("ij->ij", x, out_format=union) for x in (A, B))
        least = left.map(jnp.minimum, right)
        return jsparse.einsum("ij->ij", least, out_format=A), least.sum(1)

    found, sums = fuse(smaller)(A, B, union)
    np.testing.assert_array_equal(found.todense(), np.where(a != 0, np.minimum(a, b), 0))
    np.testing.assert_allclose(sums, np.minimum(a, b).sum(1), rtol=1e-6)


def test_effects_happen_once():
    seen = []

    def f(x):
        y = SparseTensor(VALUES, P) @ x
        jax.debug.callback(lambda total: seen.append(float(total)), y.sum())
        return jax.nn.relu(y) * 2

    x = normal(N, 3)
    fuse(f)(x).block_until_ready()
    jax.effects_barrier()
    np.testing.assert_allclose(seen, [(DENSE_VALUES @ x).sum()], rtol=1e-5)


def test_arguments_without_derivatives():
    def f(x, n, flag):
        return jnp.where(flag, SparseTensor(VALUES, P) @ (x * n), 0), n + 1

    x, tangent = normal(N, 2), normal(N, 2, seed=4)
    nothing = np.zeros((), jax.dtypes.float0)
    found, wanted = (jax.jvp(g, (x, 3, True), (tangent, nothing, nothing)) for g in (fuse(f), f))
    close((found[0], found[1][0]), (wanted[0], wanted[1][0]))
    close(
        jax.grad(lambda x: squared(lambda x: fuse(f)(x, 3, True)[0])(x))(x),
        jax.grad(lambda x: squared(lambda x: f(x, 3, True)[0])(x))(x),
    )
