"""Gradients of dynamic tensors as trees: what computes with all leaves is refused, what moves them works."""

import pickle

import jax
import jax.export
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from trees.cases import DENSE, KINDS, X

import jsparse

optax = pytest.importorskip("optax")


def loss(A):
    return ((A @ X - 3) ** 2).sum()


WANT = np.where(DENSE != 0, jax.grad(loss)(jnp.asarray(DENSE)), 0)


def one_step(optimizer):
    def step(A, g):
        updates, _ = optimizer.update(g, optimizer.init(A), A)
        return optax.apply_updates(A, updates)

    return step


def of_leaves(f):
    return lambda A, g: [f(x) for x in jax.tree.leaves(g)]


REFUSED = {
    "adamw": one_step(optax.adamw(0.1)),
    "sgd": one_step(optax.sgd(0.1)),
    "momentum": one_step(optax.sgd(0.1, momentum=0.9)),
    "lion": one_step(optax.lion(0.1)),
    "several steps": one_step(optax.MultiSteps(optax.sgd(0.1), 2)),
    "clipped by norm": one_step(optax.clip_by_global_norm(1.0)),
    "clipped": one_step(optax.clip(1.0)),
    "norm": lambda A, g: optax.tree.norm(g),
    "largest": of_leaves(lambda x: jnp.abs(x).max()),
    "sum": of_leaves(jnp.sum),
    "norm by hand": lambda A, g: sum((x**2).sum() for x in jax.tree.leaves(g)),
    "step by hand": lambda A, g: jax.tree.map(lambda p, q: p - 0.1 * q, A, g),
    "step of leaves": lambda A, g: [p - 0.1 * q for p, q in zip(jax.tree.leaves(A), jax.tree.leaves(g), strict=False)],
    "moving average": lambda A, g: optax.incremental_update(g, A, 0.1),
    "total": lambda A, g: jax.tree.map(jnp.add, g, g),
    "average": lambda A, g: jax.tree.map(lambda a, b: (a + b) / 2, g, g),
    "scaled": lambda A, g: jax.tree.map(lambda x: 2 * x, g),
    "cast": lambda A, g: jax.tree.map(lambda x: x.astype("bfloat16"), g),
    "one vector": lambda A, g: jax.flatten_util.ravel_pytree(g)[0],
    "total of devices": lambda A, g: jax.vmap(lambda _: jax.lax.psum(g, "i"), axis_name="i")(jnp.ones(2)),
}


@pytest.mark.parametrize("wrapper", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", REFUSED)
def test_computing_with_all_leaves_is_refused(name, wrapper):
    A = KINDS["transposed"]()
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        wrapper(lambda A: REFUSED[name](A, jsparse.grad(loss)(A)))(A)


@pytest.mark.parametrize("wrapper", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("rows", [None, True], ids=["dense", "rows"])
def test_patterns_and_sparse_matrices_of_jax_in_arguments(wrapper, rows):
    """Their index arrays are not differentiated: a pattern is its own gradient, a BCOO has one on the same indices."""
    A, table = KINDS["dynamic"](), jnp.ones((7, 6))
    tree = {"A": A, "mask": A.pattern, "fixed": KINDS["static"]().pattern, "table": table}
    tree |= {"bcoo": KINDS["static"]().to_bcoo(), "bcsr": KINDS["static"]().to_bcsr()}

    def loss(tree):
        looked_up = tree["table"][jnp.array([2, 2, 5])].sum(0)
        masked = jsparse.einsum("i,j->ij", jnp.arange(5.0), X, out_format=tree["mask"])
        products = jsparse.einsum("ij,j->i", tree["bcoo"], X) + tree["bcsr"] @ X**2
        return ((tree["A"] @ looked_up) ** 2 + (masked * tree["A"]).sum(1) + products**2).sum()

    def dense_loss(D, table, E, F):
        masked = jnp.where(DENSE != 0, jnp.arange(5.0)[:, None] * X, 0)
        return ((D @ table[jnp.array([2, 2, 5])].sum(0)) ** 2 + (masked * D).sum(1) + (E @ X + F @ X**2) ** 2).sum()

    flags = rows and {"A": False, "mask": False, "fixed": False, "table": True, "bcoo": False, "bcsr": False}
    found = wrapper(jsparse.grad(loss, rows=flags))(tree)
    D, on_table, E, F = jax.grad(dense_loss, (0, 1, 2, 3))(jnp.asarray(DENSE), table, DENSE, DENSE)
    np.testing.assert_allclose(found["A"].todense(), np.where(DENSE != 0, D, 0), rtol=1e-5)
    np.testing.assert_allclose(found["bcoo"].todense(), np.where(DENSE != 0, E, 0), rtol=1e-5)
    np.testing.assert_allclose(found["bcsr"].todense(), np.where(DENSE != 0, F, 0), rtol=1e-5)
    np.testing.assert_allclose(found["table"].todense() if rows else found["table"], on_table, rtol=1e-5)
    assert found["mask"].to_static() == A.pattern.to_static()
    assert found["fixed"] == tree["fixed"]
    assert type(found["bcoo"]) is type(tree["bcoo"])
    value, gradient = jsparse.value_and_grad(lambda p, v: jsparse.einsum("ij,j->", p, v) ** 2, 0)(A.to_bcoo(), X)
    np.testing.assert_allclose(value, (DENSE @ X).sum() ** 2, rtol=1e-5)
    np.testing.assert_allclose(gradient.todense(), np.where(DENSE != 0, 2 * (DENSE @ X).sum() * X, 0), rtol=1e-5)


def test_messages_say_what_to_do():
    g = jsparse.grad(loss)(KINDS["dynamic"]())
    with pytest.raises(TypeError, match=r"use jsparse\.values\(gradient\) or jsparse\.optax\.values_only"):
        jax.tree.map(lambda x: -0.1 * x, g)
    with pytest.raises(jsparse.LeafError, match=r"jsparse\.optax\.values_only, or compute with the tensors"):
        REFUSED["step by hand"](KINDS["dynamic"](), g)
    with pytest.raises(ValueError, match="GradientIndex"):
        one_step(optax.adamw(0.1))(KINDS["dynamic"](), g)


WORKS = {
    "todense": lambda g: g.todense(),
    "sum": lambda g: (g + g) / 2,
    "number": lambda g: 2 * g * 0.5,
    "negative": lambda g: -1 * -g,
    "transposed": lambda g: g.T.T,
    "array": lambda g: g * np.ones((5, 6), np.float32),
    "map": lambda g: g.map(jnp.add, g).map(lambda v: v / 2),
    "values": lambda g: g.with_values(jsparse.values(g)),
    "with_values": lambda g: jsparse.with_values(g, jax.tree.map(lambda v: v * 1, jsparse.values(g))),
    "jit": jax.jit(lambda g: 2 * g / 2),
    "scan": lambda g: jax.lax.scan(lambda c, _: (c + c, None), g / 4, length=2)[0],
    "results of scan": lambda g: jax.tree.map(lambda x: x[1], jax.lax.scan(lambda c, _: (c, c), g, length=2)[1]),
    "while": lambda g: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 2 * c[1]), (0, g / 8))[1],
    "cond": lambda g: jax.lax.cond(g.sum() < 9e9, lambda: g, lambda: 2 * g),
    "copy": lambda g: jax.tree.map(jnp.copy, g),
    "selected": lambda g: jax.tree.map(lambda a, b: jnp.where(g.nse > 0, a, b), g, 2 * g),
    "on the host": jax.device_get,
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
    "static": lambda g: g.static(),
}
WORKS["stacked"] = lambda g: jax.tree.map(
    lambda x: x[1], jax.vmap(lambda g, s: g * s)(jax.tree.map(lambda *x: jnp.stack(x), g, g), jnp.ones(2))
)


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("kind", ["dynamic", "transposed"])
def test_what_moves_leaves_works(kind, name):
    g = jsparse.grad(loss)(KINDS[kind]())
    found = WORKS[name](g)
    dense = found.todense() if isinstance(found, jsparse.SparseTensor) else found
    np.testing.assert_allclose(dense, WANT, rtol=1e-5)
    np.testing.assert_allclose(g @ X, WANT @ X, rtol=1e-5)
    if name not in ("todense", "static"):  # still a gradient
        assert jax.tree.structure(found) == jax.tree.structure(g)


TENSORS = {
    "difference": lambda A, g: A - 0.1 * g,
    "exchanged": lambda A, g: -0.1 * g + A,
    "map": lambda A, g: g.map(lambda g, a: a - 0.1 * g, A),
    "statement": lambda A, g: jsparse.evaluate("C[i,j] = A[i,j] - 0.1 * G[i,j]", A=A, G=g),
    "statement, exchanged": lambda A, g: jsparse.evaluate("C[i,j] = A[i,j] - 0.1 * G[i,j]", G=g, A=A),
    "values": lambda A, g: A.with_values(A.values - 0.1 * g.values),
    "tree": lambda A, g: jax.tree.map(lambda a, g: a - 0.1 * g, A, g, is_leaf=lambda x: hasattr(x, "todense")),
    "numbers": lambda A, g: jax.tree.map(lambda a, g: a - 0.1 * g if g.dtype == np.float32 else a, A, g),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_combined_with_its_gradient_is_a_tensor(name):
    """So a step may be the body of a loop."""
    A = KINDS["transposed"]()
    found = jax.lax.scan(lambda A, _: (TENSORS[name](A, jsparse.grad(loss)(A)), None), A, length=1)[0]
    np.testing.assert_allclose(found.todense(), DENSE - 0.1 * WANT, rtol=1e-5, atol=1e-6)
    assert jax.tree.structure(found) == jax.tree.structure(A)


def test_gradients_leave_a_program_in_shards_and_exports():
    A = KINDS["dynamic"]()
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    stacked = jax.tree.map(lambda x: x[None], A)

    def of_shard(stacked):
        A = jax.tree.map(lambda x: x[0], stacked)
        start = jsparse.grad(loss)(A)
        found, _ = jax.lax.scan(lambda g, _: (jsparse.grad(loss)(A), None), start, length=2)
        return jax.tree.map(lambda x: x[None], found)

    found = jax.shard_map(of_shard, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))(stacked)
    np.testing.assert_allclose(jax.tree.map(lambda x: x[0], found).todense(), WANT, rtol=1e-5)
    pytest.importorskip("flatbuffers")
    written = jsparse.export(jax.jit(jsparse.grad(loss)))(A).serialize()
    np.testing.assert_allclose(jax.export.deserialize(written).call(A).todense(), WANT, rtol=1e-5)


def zero_tangent(C):
    return jax.custom_derivatives.zero_from_primal(C, symbolic_zeros=False)


def scaled_tangent(A, s, dA, ds):
    return dA * s + dA.with_values(A.values * ds)


def product_tangent(A, x, dA, dx):
    return A.with_values(dA.values) @ x + A @ dx


def gram_tangent(A, s, dA, ds):
    dA, C = jsparse.with_values(A, jsparse.values(dA)), gram(A, s)
    parts = [(s * dA, A), (s * A, dA), (ds * A, A)]
    total = sum(jsparse.einsum("ij,kj->ik", *pair, out_format=C) for pair in parts)
    return zero_tangent(C).with_values(total.values)


def gram(A, s):
    return jsparse.einsum("ij,kj->ik", s * A, A, nse=25)


RULES = {
    "scaled": (lambda A, s: A * s, scaled_tangent),
    "product": (lambda A, s: A @ (s * X), lambda A, s, dA, ds: product_tangent(A, s * X, dA, ds * X)),
    "gram": (gram, gram_tangent),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_custom_jvp(name):
    """The index leaves of a tangent are float0. Its values are used, on the pattern of the primal tensor."""
    function, tangent = RULES[name]
    ruled = jax.custom_jvp(function)
    ruled.defjvp(lambda primals, tangents: (function(*primals), tangent(*primals, *tangents)))
    A, s = KINDS["dynamic"](), jnp.float32(2)
    found = jax.jit(jsparse.grad(lambda A, s: (ruled(A, s).sum(0) ** 2).sum(), (0, 1)))(A, s)
    dense = {"scaled": lambda D, s: D * s, "product": lambda D, s: D @ (s * X), "gram": lambda D, s: s * D @ D.T}[name]
    want = jax.grad(lambda D, s: (dense(D, s).sum(0) ** 2).sum(), (0, 1))(jnp.asarray(DENSE), s)
    np.testing.assert_allclose(found[0].todense(), np.where(DENSE != 0, want[0], 0), rtol=1e-5)
    np.testing.assert_allclose(found[1], want[1], rtol=1e-5)


def test_a_tangent_without_a_pattern_is_named():
    ruled = jax.custom_jvp(lambda A: A @ X)
    ruled.defjvp(lambda primals, tangents: (primals[0] @ X, tangents[0] @ X))
    with pytest.raises(jsparse.LeafError, match=r"A\.with_values\(dA\.values\)"):
        jsparse.grad(lambda A: ruled(A).sum())(KINDS["dynamic"]())
