"""A gradient of rows equals the gradient by `jax.grad` at the rows that a function looks up, and has no other rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

ROWS, F = 23, 4
RNG = np.random.default_rng(0)
TABLE = jnp.asarray(RNG.integers(-4, 5, (ROWS, F)), jnp.float32)
IDS = jnp.array([[3, 3], [5, 0], [3, 22]])
W = jnp.asarray(RNG.integers(-3, 4, (3, 2, F)), jnp.float32)
OUT = jnp.array([25, -30, 4, -1])  # of range, but for 4 and the last row
A = jsparse.random(jax.random.key(0), (5, ROWS), nse=9)


def through_loop(table):
    def step(carry, ids):
        return carry * 2 + (table[ids] ** 2).sum(), table[ids[0]]

    total, rows = jax.lax.scan(step, 0.0, IDS)
    return total + (rows**3).sum()


def through_nested_loops(table):
    def inner(carry, i):
        return (carry + (table[i] * W[0, 0]).sum(), None)

    return jax.lax.scan(lambda carry, ids: jax.lax.scan(inner, carry * 2, ids), 0.0, IDS)[0]


def through_branches(which):
    branches = [lambda t: (t[IDS[0]] ** 2).sum(), lambda t: t[7].sum() * 2, lambda _: 3.0]
    return lambda table: jax.lax.switch(jnp.asarray(which), branches, table) + table[1].sum()


def with_dropout(table):
    def step(key, ids):
        key, own = jax.random.split(key)
        return key, (table[ids] * jax.random.bernoulli(own, 0.5, (2, F))).sum()

    key, sums = jax.lax.scan(step, jax.random.key(0), IDS)
    return (sums**2).sum() + jax.random.uniform(key)


def rows_named_by_rows(table):
    """Numbers of rows that are computed from the table itself."""
    first = table[IDS]
    return (first * table[jnp.abs(first[..., 0]).astype(int)]).sum()


def bag(reduction, ids=IDS):
    return lambda table: (jsparse.nn.embedding_bag(table, ids, reduction=reduction) ** 2 * W[: len(ids), 0]).sum()


def sum_of_products(table):
    text = "R[i,f] = A[i,j] * T[j,f] - 2 * B[i,m] * T[m,f]"
    return (jsparse.evaluate(text, A=A, B=A.asformat("coo") * 3, T=table) ** 2).sum()


PAIRS = "s[p] = t[a[p],f] * t[b[p],f]"
CASES = {
    "sum of products": sum_of_products,
    "rows": lambda t: (t[IDS] ** 2 * W).sum(),
    "several lookups": lambda t: (t[IDS] ** 2 * W).sum() + (t[3] ** 2).sum() + (t[jnp.array(9)] ** 3).sum(),
    "take": lambda t: (jnp.take(t, IDS, axis=0) ** 2).sum() + (t.take(IDS[:, 0], axis=0) ** 3).sum(),
    "filled": lambda t: (t.at[OUT].get(mode="fill", fill_value=2) ** 2).sum(),
    "clipped": lambda t: (t.at[OUT].get(mode="clip") ** 2).sum() + (t[OUT] ** 3).sum(),
    "elements": lambda t: (t[IDS, jnp.array([1, 2])] ** 2).sum(),
    "parts of rows": lambda t: (t[IDS, 1:3] ** 2).sum(),
    "a range": lambda t: (t[2:9:3] ** 2).sum(),
    "all rows": lambda t: (t[jnp.arange(ROWS)] ** 2).sum() + t[IDS].sum(),
    "a part of each row": lambda t: (t[:, 1:3][IDS] ** 2).sum(),
    "a function of each row": lambda t: (jnp.exp((2 * t + t).astype(jnp.float32) / 4)[IDS] * W).sum(),
    "vectorised": lambda t: (jax.vmap(lambda i, w: t[i] ** 2 * w)(IDS, W)).sum(),
    "jitted": lambda t: jax.jit(lambda t, i: (t[i] ** 2).sum())(t, IDS),
    "checkpointed": lambda t: (jax.checkpoint(lambda t, i: jnp.sin(t[i]))(t, IDS) ** 2 * W).sum(),
    "a loop": through_loop,
    "nested loops": through_nested_loops,
    **{f"branch {which}": through_branches(which) for which in range(2)},
    "rows named by rows": rows_named_by_rows,
    **{f"bags, {reduction}": bag(reduction) for reduction in ("sum", "mean", "max")},
    "bags with padding": bag("sum", jnp.array([[3, -1], [ROWS, -1]])),
    "vectorised bags": lambda t: (jax.vmap(lambda i: jsparse.nn.embedding_bag(t, i[None]))(IDS) ** 2).sum(),
    "dropout": with_dropout,
    "what nothing depends on": lambda t: (
        jax.lax.cond((t[0] @ t[1]) < 0, lambda: t[2], lambda: t[3]).sum() + 0 * len(t @ t.T)
    ),
    "an indirect product": lambda t: jsparse.evaluate(PAIRS, t=t, a=IDS[:, 0], b=IDS[:, 1]).sum(),
    "sparse times table": lambda t: ((A @ t) ** 2).sum(),
    "a product on a pattern": lambda t: (jsparse.evaluate("o[i,f] = m[i] * t[i,f]", m=A[0], t=t) ** 2).sum(),
    "a constant carry": lambda t: jax.lax.fori_loop(0, 2, lambda i, c: (c[0], c[1] + c[0][i].sum()), (t, 0.0))[1],
    "no rows of none": lambda t: (t[jnp.zeros((0, 2), int)] ** 2).sum() + 1,
    "nothing": lambda _: jnp.float32(3),
}


def agree(loss, *arguments, tolerance=1e-5, wrapper=jax.jit):
    """Compare with `jax.grad`. Returns the gradient."""

    def both(*arguments):
        return jsparse.value_and_grad(loss, rows=True)(*arguments), jax.value_and_grad(loss)(*arguments)

    (got, gradient), (value, slope) = wrapper(both)(*arguments)
    np.testing.assert_allclose(got, value, rtol=1e-5)
    np.testing.assert_allclose(dense(gradient), slope, rtol=tolerance, atol=tolerance)
    assert gradient.dtype == slope.dtype
    gradient.validate()
    return gradient


def dense(gradient):
    """The array of a gradient of rows, by numpy."""
    coords, values = gradient.to_coords()
    found = np.zeros(gradient.shape, values.dtype)
    found[tuple(coords)] = values
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_whole_table(name):
    gradient = agree(CASES[name], TABLE)
    assert gradient.nse <= ROWS * F


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["rows", "a loop", "bags, max", "sparse times table"])
def test_gradients_outside_of_jit(name):
    agree(CASES[name], TABLE, wrapper=lambda function: function)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_ids_are_data(reduction):
    weights = jnp.asarray(RNG.integers(1, 4, IDS.shape), jnp.float32)

    def bags(t, ids, w):
        return (jsparse.nn.embedding_bag(t, ids, w, reduction=reduction) ** 2).sum()

    agree(bags, TABLE, jnp.array([[3, 3], [-1, 0], [3, 99]]), weights)
    agree(lambda t, ids: (t[ids] ** 2).sum(), TABLE, IDS.astype(jnp.uint8))


def test_dynamic_matrices_times_tables():
    for matrix in (A.dynamic(12).with_transpose(), A.asformat("coo").dynamic(12)):
        gradient = agree(lambda t, matrix: ((matrix @ t) ** 2).sum(), TABLE, matrix)
        assert gradient.nse <= 12 * F


def test_the_pattern_is_the_rows_that_are_read():
    gradient = jsparse.grad(lambda t: (0 * t[IDS]).sum(), rows=True)(TABLE)
    assert gradient.format == jsparse.Format.of("(i, j) -> (i : compressed, j : dense)", 2)
    assert gradient.nse == IDS.size * F
    rows, features = gradient.to_coords()[0].reshape(2, -1, F)
    np.testing.assert_array_equal(rows[:, 0], [0, 3, 5, 22])
    np.testing.assert_array_equal(features, [range(F)] * 4)
    with pytest.raises(TypeError, match="use jsparse.values"):  # it is marked as a gradient
        jax.tree.map(lambda leaf: -leaf, gradient)


@pytest.mark.parametrize("shape", [(ROWS,), (1, F), (ROWS, 2, 3), (ROWS, 0)])
def test_tables_of_any_rank(shape):
    table = jnp.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    agree(lambda t: (t[IDS % shape[0]] ** 2).sum(), table)


def test_no_array_has_the_shape_of_the_table():
    """No equation of the program computes an array of all rows, also not while it looks for the rows that are read."""
    table = jnp.zeros((5_000_000, 16))

    def loss(table, ids):
        rows = (table * 2).astype(jnp.bfloat16)[ids]
        return jnp.float32(rows.sum()) + (jsparse.nn.embedding_bag(table, ids[None]) ** 2).sum()

    compiled = jax.jit(jsparse.grad(loss, rows=True)).lower(table, jnp.arange(50)).compile()
    found = compiled.memory_analysis()
    assert found.temp_size_in_bytes + found.output_size_in_bytes < 1 << 20


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("lookup", ["rows", "bags", "loop"])
def test_lookups_of_one_row_are_added_in_float32(dtype, lookup):
    """4,099 lookups of one row: counts above 256 are no bfloat16s, above 2,048 no float16s unless they are even."""
    ids = jnp.where(jnp.arange(8_000) < 4_099, 2, 1).reshape(-1, 4)
    losses = {
        "rows": lambda t: t[ids].astype(jnp.float32).sum(),
        "bags": lambda t: jsparse.nn.embedding_bag(t, ids.reshape(-1, 1)).astype(jnp.float32).sum(),
        "loop": lambda t: jax.lax.scan(lambda c, i: (c + t[i].astype(jnp.float32).sum(), None), 0.0, ids)[0],
    }
    gradient = jax.jit(jsparse.grad(losses[lookup], rows=True))(jnp.ones((3, 2), dtype))
    assert gradient.dtype == dtype
    want = np.outer([0, 3_901, 4_099], [1, 1]).astype(dtype)
    np.testing.assert_array_equal(dense(gradient), want)


def test_complex_and_double_tables():
    with jax.enable_x64(True):
        table = jnp.asarray(TABLE, jnp.complex128) * (1 + 2j)

        def holomorphic(t):
            return (t[IDS] ** 3).sum()

        found = jax.jit(jsparse.grad(holomorphic, rows=True, holomorphic=True))(table)
        np.testing.assert_allclose(dense(found), jax.jit(jax.grad(holomorphic, holomorphic=True))(table))
        ids = jnp.array([2, 2**40 + 2, -(2**40), ROWS - 1])  # numbers out of range do not wrap
        agree(lambda t: (t.at[ids].get(mode="fill", fill_value=0) ** 2).sum(), table.real)


def test_trees_auxiliary_results_and_several_arguments():
    params = {"users": TABLE, "items": 2 * TABLE, "bias": jnp.ones(F), "A": A.dynamic()}

    def loss(params, scale, ids, *, shift):
        rows = params["users"][ids] * params["items"][ids + 1] * params["bias"] * scale
        return rows.sum() + (params["A"] @ params["items"][:, 0][jnp.arange(ROWS)]).sum() + shift, rows

    rows = {"users": True, "items": True, "bias": False, "A": False}

    def find(params):
        return jax.tree.map(lambda x: getattr(x, "shape", ()) == TABLE.shape, params, is_leaf=is_tensor)

    @jax.jit
    def results(params, scale, ids):
        mixed = jsparse.value_and_grad(loss, has_aux=True, rows=rows)(params, scale, ids, shift=1.0)
        both = jsparse.value_and_grad(loss, (0, 1), has_aux=True, rows=lambda a: (find(a[0]), False))
        plain = jsparse.grad(loss, (0, 1), has_aux=True)
        return mixed, both(params, scale, ids, shift=1.0), plain(params, scale, ids, shift=1.0)

    ((value, aux), found), ((again, _), (same, of_scale)), ((slopes, wanted), _) = results(params, 2.0, IDS[1:2])
    assert aux.shape == (1, 2, F)
    np.testing.assert_allclose(value, loss(params, 2.0, IDS[1:2], shift=1.0)[0], rtol=1e-6)
    np.testing.assert_allclose([again, of_scale], [value, wanted], rtol=1e-6)
    for gradients in (found, same):
        assert [name for name, x in gradients.items() if is_tensor(x)] == ["A", "items", "users"]
        np.testing.assert_allclose(gradients["bias"], slopes["bias"])
        np.testing.assert_allclose(gradients["A"].values, slopes["A"].values)
        for name in ("items", "users"):
            np.testing.assert_allclose(dense(gradients[name]), slopes[name])


def is_tensor(x):
    return isinstance(x, jsparse.SparseTensor)


def test_functions_of_other_leaves_are_differentiated_as_jax_does():
    @jax.custom_vjp
    def doubled_slope(x):
        return x

    doubled_slope.defvjp(lambda x: (x, None), lambda _, g: (2 * g,))

    def loss(p):
        return (doubled_slope(p["t"][IDS]) * jax.nn.relu(p["w"])).sum()

    params = {"t": TABLE, "w": jnp.array([0.0, -1, 2, 3])}
    got, want = jsparse.grad(loss, rows={"t": True, "w": False})(params), jax.grad(loss)(params)
    np.testing.assert_array_equal(got["t"].todense(), want["t"])
    np.testing.assert_array_equal(got["w"], want["w"])


def test_batches_and_derivatives_of_gradients():
    def loss(t, ids):
        return (t[ids] ** 3).sum()

    tables, ids = jnp.stack([TABLE, 2 * TABLE]), jnp.stack([IDS[:2], IDS[1:]])
    found = jax.jit(jax.vmap(lambda t, ids: jsparse.grad(loss, rows=True)(t, ids).todense()))(tables, ids)
    for n in range(2):
        want = np.zeros((ROWS, F), np.float32)
        np.add.at(want, ids[n], 3 * tables[n][ids[n]] ** 2)
        np.testing.assert_array_equal(found[n], want)

    def curve(s):
        return jsparse.grad(loss, rows=True)(s * TABLE, IDS).values.sum()

    np.testing.assert_allclose(jax.jit(jax.grad(curve))(2.0), 12 * (TABLE[IDS] ** 2).sum(), rtol=1e-6)  # of Σ 3 s² t²


def tied(t):
    return (t[IDS] @ t.T).sum()


REFUSED = {
    "a tied projection": (tied, "'transpose' in .*test_lookups.py.*tied"),
    "a penalty": (lambda t: t[IDS].sum() + (t**2).sum(), "'reduce_sum' in"),
    "a product": (lambda t: (t @ jnp.ones(F))[IDS].sum(), "'dot_general' in"),
    "a loop over rows": (lambda t: jax.lax.scan(lambda c, row: (c + row.sum(), None), 0.0, t)[0], "'scan' in"),
    "a carried table": (lambda t: jax.lax.scan(lambda c, i: (c * 2, c[i].sum()), t, IDS)[1].sum(), "'scan' in"),
    "a while loop": (
        lambda t: jax.lax.while_loop(lambda c: c < 9, lambda c: c + t[0].sum() ** 2 + 9, 0.0),
        "'while' in",
    ),
    "a derivative of its own": (lambda t: jax.nn.relu(t)[IDS].sum(), "'custom_jvp_call' in"),
    "columns": (lambda t: t[:, IDS % F].sum(), "'gather' in"),
    "a block at an index": (lambda t: jax.lax.dynamic_slice(t, (2, 0), (3, F)).sum(), "'dynamic_slice' in"),
    "a dense level of rows": (lambda t: (A.T.asformat("csr").T @ t).sum(), "'jsparse_einsum' in"),
    "a number for each row": (lambda t: (t * jnp.ones((ROWS, 1)))[IDS].sum(), "'mul' in"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("wrapper", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_other_uses_of_a_table_are_refused(name, wrapper):
    loss, message = REFUSED[name]
    jax.eval_shape(loss if name == "a while loop" else jax.grad(loss), TABLE)  # it is a valid loss
    with pytest.raises(jsparse.NotYetSupportedError, match=message) as caught:
        wrapper(jsparse.grad(loss, rows=True))(TABLE)
    assert "leave the table out of rows=" in str(caught.value)


def test_integers_have_no_gradient():
    with pytest.raises(TypeError, match="real- or complex-valued"):
        jsparse.grad(lambda t: t[IDS].sum() * 1.0, rows=True)(TABLE.astype(int))


def test_prints_happen_once(capfd):
    def loss(table):
        jax.debug.print("loss {}", table[0, 0])
        return table[IDS].sum()

    jsparse.grad(loss, rows=True)(TABLE)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("loss") == 1
