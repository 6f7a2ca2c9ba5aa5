"""`fuse` on models and on edge cases, against formulas on dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.measure import arrays_of_entries, compiled, is_one_chain, kernel_count

import jsparse
from jsparse import Pattern, SparseTensor
from jsparse.ops.fuse import fuse

M, N, D, H = 9, 7, 4, 3
rng = np.random.default_rng(5)
MASK = rng.random((M, N)) < 0.4
MASK[2], MASK[:, 3] = False, False  # a row and a column without entries
COORDS = np.stack(np.nonzero(MASK)).astype(np.int32)


def pattern(format="csr", mask=MASK):
    return Pattern.from_coordinates(np.stack(np.nonzero(mask)).astype(np.int32), mask.shape, format)[0]


P = pattern()


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng((seed, *shape)).standard_normal(shape), jnp.float32)


def masked_softmax(scores, mask=MASK, axis=-1):
    """The softmax over what the mask selects; 0 elsewhere, and in rows without anything."""
    mask = jnp.broadcast_to(mask, scores.shape)
    shifted = scores - jnp.max(jnp.where(mask, scores, -jnp.inf), axis, keepdims=True, initial=-1e30)
    powers = jnp.where(mask, jnp.exp(jnp.where(mask, shifted, 0)), 0)
    sums = powers.sum(axis, keepdims=True)
    return powers / jnp.where(sums == 0, 1, sums)


def close(found, wanted, rtol=2e-5):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(jnp.abs(b).max(initial=0))))


def attention(q, k, v, bias):
    scores = jsparse.einsum("id,jd->ij", q, k, out_format=P) * 0.5
    return jsparse.softmax(jsparse.einsum("ij,j->ij", scores, jnp.exp(bias)), -1) @ v


def dense_attention(q, k, v, bias):
    return masked_softmax((q @ k.T) * 0.5 * jnp.exp(bias)) @ v


def edge_softmax(x, w, a, b):
    """A layer of graph attention with heads inside: x (nodes, features), w (heads, features, channels)."""
    h = jnp.einsum("nf,hfc->nhc", x, w)
    source, target = (h * a).sum(-1), (h * b).sum(-1)
    heads = SQUARE.extended([H])
    left = jsparse.einsum("ih,jh->ijh", source, jnp.ones_like(target), out_format=heads)
    right = jsparse.einsum("ih,jh->ijh", jnp.ones_like(source), target, out_format=heads)
    weights = jsparse.softmax(jsparse.leaky_relu(left + right, 0.2), 1)
    return jax.nn.elu(jsparse.einsum("ijh,jhc->ihc", weights, h))


def dense_edge_softmax(x, w, a, b):
    h = jnp.einsum("nf,hfc->nhc", x, w)
    source, target = (h * a).sum(-1), (h * b).sum(-1)
    scores = jax.nn.leaky_relu(source[:, None] + target[None], 0.2)
    return jax.nn.elu(jnp.einsum("ijh,jhc->ihc", masked_softmax(scores, SQUARE_MASK[:, :, None], 1), h))


SQUARE_MASK = np.random.default_rng(8).random((M, M)) < 0.4
SQUARE = pattern(mask=SQUARE_MASK)


def fused_mm(x, y, z):
    scores = jsparse.einsum("id,jd->ij", x, y, out_format=P)
    return (SparseTensor(VALUES, P) * jsparse.sigmoid(scores)) @ z


def dense_fused_mm(x, y, z):
    return (DENSE_VALUES * jax.nn.sigmoid(x @ y.T)) @ z


VALUES = normal(P.nse, seed=3)
DENSE_VALUES = jnp.zeros((M, N)).at[tuple(COORDS)].set(VALUES)


def layer(x, w, bias):
    return jax.nn.relu(SparseTensor(VALUES, P) @ (x @ w) + bias)


def dense_layer(x, w, bias):
    return jax.nn.relu(DENSE_VALUES @ (x @ w) + bias)


def row_normalised(v, x):
    A = jsparse.exp(SparseTensor(v, P))
    return jsparse.einsum("ij,i->ij", A, 1 / (A.sum(1) + 1)) @ x


def dense_row_normalised(v, x):
    A = jnp.where(MASK, jnp.exp(to_dense(v)), 0)
    return (A / (A.sum(1, keepdims=True) + 1)) @ x


def to_dense(v):
    return jnp.zeros((M, N), v.dtype).at[tuple(COORDS)].set(v)


def layer_norm(v, gain):
    """Entries of each row minus their mean, over their standard deviation."""
    A = SparseTensor(v, P)
    ones = SparseTensor(jnp.ones_like(v), P)
    mean = A.mean(1, stored=True)
    centred = A - jsparse.einsum("ij,i->ij", ones, mean)
    scale = jax.lax.rsqrt((centred * centred).mean(1, stored=True) + 1e-3)
    return jsparse.einsum("ij,i,j->ij", centred, scale, gain).values


def dense_layer_norm(v, gain):
    count = np.maximum(MASK.sum(1, keepdims=True), 1)
    A = to_dense(v)
    centred = jnp.where(MASK, A - A.sum(1, keepdims=True) / count, 0)
    scale = jax.lax.rsqrt((centred**2).sum(1, keepdims=True) / count + 1e-3)
    return (centred * scale * gain)[tuple(COORDS)]


def cross_entropy(x, y):
    """The mean of logsumexp minus the sum of logits, over rows that have entries."""
    logits = jsparse.einsum("id,jd->ij", x, y, out_format=P)
    rows = MASK.any(1)
    losses = jsparse.logsumexp(logits, 1) - logits.mean(1, stored=True)
    return jnp.where(rows, losses, 0).sum() / rows.sum()


def dense_cross_entropy(x, y):
    logits, count = x @ y.T, np.maximum(MASK.sum(1), 1)
    logs = jax.nn.logsumexp(jnp.where(MASK, logits, -1e30), axis=1)
    rows = MASK.any(1)
    return jnp.where(rows, logs - jnp.where(MASK, logits, 0).sum(1) / count, 0).sum() / rows.sum()


MODELS = {
    "attention": (attention, dense_attention, (normal(M, D), normal(N, D), normal(N, D, seed=1), normal(N))),
    "edge softmax": (
        edge_softmax,
        dense_edge_softmax,
        (normal(M, D), normal(H, D, 2), normal(H, 2, seed=1), normal(H, 2, seed=2)),
    ),
    "FusedMM": (fused_mm, dense_fused_mm, (normal(M, D), normal(N, D), normal(N, 3))),
    "layer": (layer, dense_layer, (normal(N, D), normal(D, 3), normal(3))),
    "row-normalised": (row_normalised, dense_row_normalised, (VALUES, normal(N, 3))),
    "layer norm": (layer_norm, dense_layer_norm, (VALUES, normal(N))),
    "cross entropy": (cross_entropy, dense_cross_entropy, (normal(M, D), normal(N, D))),
}


def squared(f):
    return lambda *x: (f(*x) ** 2).sum()


@pytest.mark.semantics
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    f, dense, operands = MODELS[name]
    g, every = fuse(f), tuple(range(len(operands)))
    close(g(*operands), dense(*operands))
    close(jax.jit(jax.grad(squared(g), every))(*operands), jax.grad(squared(dense), every)(*operands), 1e-4)
    directions = tuple(normal(*x.shape, seed=9) for x in operands)
    close(jax.jvp(g, operands, directions), jax.jvp(dense, operands, directions), 1e-4)


@pytest.mark.parametrize("name", ["attention", "edge softmax", "row-normalised", "cross entropy"])
def test_batches_of_models(name):
    f, dense, operands = MODELS[name]
    first = jnp.stack([operands[0], -operands[0], 2 * operands[0]])
    axes = (0, *(None for _ in operands[1:]))
    close(jax.vmap(fuse(f), axes)(first, *operands[1:]), jax.vmap(dense, axes)(first, *operands[1:]))
    inside, outside = fuse(jax.vmap(f, axes)), jax.vmap(dense, axes)
    close(
        jax.grad(squared(inside), (0, 1))(first, *operands[1:]),
        jax.grad(squared(outside), (0, 1))(first, *operands[1:]),
        1e-4,
    )


def test_second_derivatives_of_attention():
    operands = MODELS["attention"][2]
    hessian = lambda f: jax.jacrev(jax.jacfwd(lambda q: squared(f)(q, *operands[1:])))(operands[0])  # noqa: E731
    close(hessian(fuse(attention)), hessian(dense_attention), 1e-4)
    twice = lambda f: jax.grad(lambda q: squared(jax.grad(squared(lambda q: f(q, *operands[1:]))))(q))(operands[0])  # noqa: E731
    close(twice(fuse(attention)), twice(dense_attention), 1e-4)


def test_attention_and_its_gradient_keep_no_array_of_entries():
    operands = MODELS["attention"][2]
    assert P.nse > 10
    assert is_one_chain(attention, *operands)
    gradient = lambda f: jax.grad(squared(f), (0, 1, 2, 3))  # noqa: E731
    for f, most in ((fuse(attention), 1), (gradient(fuse(attention)), 3)):
        text = compiled(f, *operands)
        assert kernel_count(text) <= most
        assert not arrays_of_entries(text, [P.nse])
    assert arrays_of_entries(compiled(gradient(attention), *operands), [P.nse])


def test_rows_without_entries_give_zero():
    found = fuse(attention)(*MODELS["attention"][2])
    np.testing.assert_array_equal(found[2], 0)


@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.dots_saveable])
def test_checkpoint(policy):
    operands = MODELS["attention"][2]
    inside = fuse(jax.checkpoint(attention, policy=policy))
    outside = jax.checkpoint(fuse(attention), policy=policy)
    wanted = jax.grad(squared(dense_attention), (0, 1, 2, 3))(*operands)
    close(jax.grad(squared(inside), (0, 1, 2, 3))(*operands), wanted, 1e-4)
    close(jax.grad(squared(outside), (0, 1, 2, 3))(*operands), wanted, 1e-4)


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


@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_tensors_as_arguments(format, dynamic):
    A = jsparse.asarray(np.asarray(DENSE_VALUES), format=format)
    A = A.dynamic(A.nse + 4) if dynamic else A
    x = normal(N, 3)

    def f(A, x):
        B = jsparse.softmax(A * 2, 1)
        return B, B @ x

    B, y = fuse(f)(A, x)
    wanted = masked_softmax(2 * DENSE_VALUES)
    close((B.todense(), y), (wanted, wanted @ x))
    np.testing.assert_array_equal(B.values[P.nse :], 0)
    found = jsparse.grad(lambda A, x: squared(lambda A: fuse(f)(A, x)[1])(A))(A, x)
    gradient = jax.grad(lambda d: squared(lambda d: masked_softmax(2 * d) @ x)(d))(DENSE_VALUES)
    close(found.todense(), jnp.where(MASK, gradient, 0), 1e-4)


def test_an_overflowed_tensor_gives_nan():
    def f(x, y):
        A = jsparse.asarray(x, nse=4, format="csr", dynamic=True)
        return jsparse.softmax(A * 2, 1) @ y

    x, y = jnp.asarray(DENSE_VALUES), normal(N, 3)
    assert np.isnan(jax.jit(fuse(f))(x, y)).all()
    assert np.isnan(fuse(jax.jit(f))(x, y)).all()


def test_only_what_uses_an_overflowed_tensor_is_nan():
    def f(x, z, y):
        A = jsparse.asarray(x, nse=4, format="csr", dynamic=True)
        B = jsparse.asarray(z, nse=60, format="csr", dynamic=True)
        counts = A.map(lambda a: jnp.where(a > 0, 1.0, 0.0)).sum(1)
        return (A * 2) @ y, jsparse.sigmoid(B) @ y, counts, (B * 2).sum(1) + counts, B.map(jnp.sign).sum(1)

    operands = jnp.asarray(DENSE_VALUES), jnp.asarray(DENSE_VALUES), normal(N, 3)
    for a, b in zip(jax.jit(fuse(f))(*operands), jax.jit(f)(*operands), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        assert np.isnan(a).all() or not np.isnan(a).any()


def test_padding_is_what_operations_give():
    """A raw operation on values computes padding, too: results and sums of them are the same in a chain."""
    A = SparseTensor(VALUES, P).dynamic(P.nse + 5)
    x, target = normal(M), normal(A.nse)

    def f(values, x, target):
        B = jsparse.einsum("ij,i->ij", A.with_values(values), x)
        raw, heads = jnp.exp(B.values), jnp.stack([B.values, 2 * B.values])
        both = jax.vmap(lambda v, s: A.with_values(v).map(lambda a, s: jnp.cos(a * s), s).values, (0, 0))
        moved = both(heads, jnp.stack([B.sum(), B.sum() * 2]))
        total = ((B.values - target) ** 2).mean()
        return raw, raw.sum(), total, B.values * 2 + jnp.sin(B.values), A.with_values(raw).sum(1), moved

    operands = (A.values, x, target)
    close(fuse(f)(*operands), f(*operands))
    found = jax.grad(lambda *o: fuse(f)(*o)[2], (0, 1, 2))(*operands)
    close(found, jax.grad(lambda *o: f(*o)[2], (0, 1, 2))(*operands))


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


SQUARE_TENSOR = SparseTensor(normal(SQUARE.nse), SQUARE)


@pytest.mark.semantics
@pytest.mark.parametrize("scale", [1e4, -1e4, np.inf, -np.inf])
def test_extreme_logits(scale):
    values = np.where(np.random.default_rng(0).random(P.nse) < 0.3, scale, VALUES).astype(np.float32)
    values[COORDS[0] == 0] = scale
    x = normal(N, 2)

    def f(v, x):
        A = SparseTensor(v, P)
        return jsparse.softmax(A, 1) @ x, jsparse.logsumexp(A, 1)

    with np.errstate(invalid="ignore"):
        close_with_nan(fuse(f)(values, x), f(values, x))
    if np.isfinite(scale):
        found = jax.grad(lambda v: squared(lambda v: fuse(f)(v, x)[0])(v))(values)
        wanted = jax.grad(lambda v: squared(lambda v: masked_softmax(to_dense(v)) @ x)(v))(jnp.asarray(values))
        close(found, wanted)
    elif scale < 0:
        found = jax.grad(lambda v: squared(lambda v: fuse(f)(v, x)[0])(v))(values)
        close_with_nan(found, jax.grad(lambda v: squared(lambda v: f(v, x)[0])(v))(values))
        assert np.isfinite(found).all()


def close_with_nan(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.semantics
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "bool"])
def test_integers_and_bools(dtype):
    values = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 3, P.nse).astype(dtype)
    x = np.random.default_rng(2).integers(0, 3, (N, 2)).astype("int32")

    def f(v, x):
        A = SparseTensor(v, P)
        doubled = A + A
        return doubled @ x, doubled.sum(1), A.max(0, stored=True), A.map(lambda a: jnp.where(a > 1, a, 0)).sum(0)

    for a, b in zip(fuse(f)(values, x), f(values, x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.semantics
@pytest.mark.parametrize(
    "shape, count", [((4, 3), 0), ((4, 3), 1), ((0, 3), 0), ((4, 0), 0), ((1, 1), 1), ((1, 3), 2), ((4, 1), 3)]
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_few_entries(shape, count, dynamic):
    flat = np.sort(np.random.default_rng(0).choice(max(shape[0] * shape[1], 1), count, replace=False))
    coords = np.stack(np.unravel_index(flat, shape)).astype(np.int32) if count else np.zeros((2, 0), np.int32)
    mask = np.zeros(shape, bool)
    mask[tuple(coords)] = True
    A = SparseTensor(jnp.ones(count, jnp.float32), Pattern.from_coordinates(coords, shape, "csr")[0])
    A = A.dynamic(count) if dynamic else A
    q, k, v = normal(shape[0], 2), normal(shape[1], 2), normal(shape[1], 3)

    def f(A, q, k, v):
        scores = A * jsparse.einsum("id,jd->ij", q, k, out_format=A.pattern)
        return jsparse.softmax(scores * 0.5, 1) @ v

    def dense(q, k, v):
        return masked_softmax((q @ k.T) * 0.5, mask) @ v if mask.size else jnp.zeros((shape[0], 3))

    close(fuse(f)(A, q, k, v), dense(q, k, v))
    close(
        jax.grad(lambda *x: squared(lambda *x: fuse(f)(A, *x))(*x), (0, 1, 2))(q, k, v),
        jax.grad(squared(dense), (0, 1, 2))(q, k, v),
    )


@pytest.mark.semantics
def test_arithmetic_is_that_of_each_operation():
    """Integers wrap and compare exactly, bits are bits, and what is computed in float64 is not computed in float32."""
    small = np.random.default_rng(0).integers(-128, 128, P.nse).astype(np.int8)
    large = np.random.default_rng(0).integers(2**30, 2**31 - 1, P.nse).astype(np.int32)
    pairs = large + np.arange(P.nse, dtype=np.int32) % 2

    def narrow(v):
        A = SparseTensor(v, P)
        return (A + A).map(lambda a: jnp.maximum(a, 0)), (A * A).max(1, stored=True), A.map(lambda a: a // 3).sum(1)

    def bits(v):
        return SparseTensor(v, P).map(lambda a: (a & 6) | (a >> 3)).sum(1), SparseTensor(v, P).map(lambda a: ~a).sum(0)

    def equal(v, w, x):
        A = SparseTensor(v, P).map(lambda a, b, c: jnp.where(a == b, c, -c), SparseTensor(w, P), SparseTensor(x, P))
        B = SparseTensor(jnp.where(v == w, x, -x), P)
        return A.sum(1), B.sum(1)

    def wide(v, w, x):
        with jax.enable_x64(True):
            A = (SparseTensor(x, P) * 2).map(lambda a: ((a.astype(float) + 1e9) - 1e9).astype(np.float32))
            B = SparseTensor((((x * 2).astype(float) + 1e9) - 1e9).astype(np.float32), P)
            return A.sum(1), B.sum(1), A.astype(float).map(lambda a: a + 1e-12).astype(np.float32).sum(0)

    values = np.asarray(VALUES)
    for f, operands in (
        (narrow, (small,)),
        (bits, (large,)),
        (equal, (large, pairs, values)),
        (wide, (large, pairs, values)),
    ):
        for a, b in zip(jax.tree.leaves(fuse(f)(*operands)), jax.tree.leaves(f(*operands)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-6)


FUNCTIONS = (
    "exp exp2 log log1p expm1 tanh sqrt abs sign floor ceil square reciprocal relu relu6 leaky_relu elu selu gelu silu "
    "sigmoid log_sigmoid softplus rsqrt cbrt log10 log2 soft_sign negative round trunc"
)


@pytest.mark.semantics
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_functions_of_special_values(dtype):
    """One program computes every function at infinities, NaN, zeros, and large and small numbers."""
    special = np.array(
        [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e4, -1e4, 1e-7, -1e-7, 0.5, -0.5, 2.5, 88.8, -104.0, 1.0, 3.0]
    )
    with jax.enable_x64(True), np.errstate(all="ignore"):
        square = Pattern.from_coordinates(np.indices((4, 4)).reshape(2, -1), (4, 4), "csr")[0]
        A = SparseTensor(jnp.asarray(special, dtype), square)
        ones = jnp.ones(4, dtype)

        def f(name, A):
            B = getattr(jsparse, name)(jsparse.einsum("ij,i->ij", A, ones))
            return jsparse.einsum("ij,i->ij", B, ones).values

        names = FUNCTIONS.split()
        every = lambda A: [f(name, A) for name in names]  # noqa: E731
        assert is_one_chain(every, A)
        together = fuse(every)(A)
        for name, found in zip(names, together, strict=True):
            wanted = f(name, A.astype(float)).astype(found.dtype)
            tolerance = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
            np.testing.assert_allclose(
                np.asarray(found, float), np.asarray(wanted, float), rtol=tolerance, atol=1e-12, err_msg=name
            )
