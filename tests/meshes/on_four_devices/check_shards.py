"""Matrices divided by rows equal the undivided ones: products, gradients, and the bytes that devices exchange."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.sharding import AxisType, NamedSharding
from meshes.programs import P, collectives, draw

import jsparse

ROWS, WIDTH = 48, 6


def band(width=2, size=ROWS):
    return sp.diags_array([np.arange(1.0, size + 1 - abs(n)) % 5 - 2 for n in range(-width, width + 1)],
                          offsets=list(range(-width, width + 1))).toarray()  # fmt: skip


def matrices():
    rng = np.random.default_rng(0)
    random = rng.integers(-3, 4, (ROWS, ROWS)) * (rng.random((ROWS, ROWS)) < 0.1)
    skewed = random * (np.arange(ROWS)[:, None] < 12)  # the other devices have no entries
    wide = rng.integers(-3, 4, (24, ROWS)) * (rng.random((24, ROWS)) < 0.2)
    return {
        "band": band(),
        "random": random,
        "full": rng.integers(-3, 4, (ROWS, ROWS)),
        "one device has entries": skewed,
        "empty": np.zeros((ROWS, ROWS)),
        "diagonal": np.diag(np.arange(1.0, ROWS + 1)),
        "wide": wide,
        "one column": random * (np.arange(ROWS) == 5),
    }


MATRICES = {name: x.astype(np.float32) for name, x in matrices().items()}


@pytest.fixture(params=[(2, "auto"), (4, "auto"), (4, "explicit")], ids=str)
def mesh(request):
    devices, kind = request.param
    mesh = jax.make_mesh(
        (devices,), ("x",), axis_types=(getattr(AxisType, kind.title()),), devices=jax.devices()[:devices]
    )
    if kind == "auto":
        yield mesh
        return
    with jax.set_mesh(mesh):
        yield mesh


def by_rows(mesh, x):
    return jax.device_put(x, NamedSharding(mesh, P("x")))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MATRICES)
def test_operations(name, mesh):
    dense = MATRICES[name]
    m, n = dense.shape
    S, stored = jsparse.shard(jsparse.asarray(dense, format="csr"), mesh, "x"), dense != 0
    assert (S.shape, S.nse) == (dense.shape, stored.sum())
    x, y = draw(n, WIDTH), draw(m, WIDTH)
    X, Y = by_rows(mesh, x), by_rows(mesh, y)
    run = lambda function, *args: np.asarray(jax.jit(function)(*args))  # noqa: E731
    np.testing.assert_array_equal(run(lambda S, X: S @ X, S, X), dense @ x)
    np.testing.assert_array_equal(S @ X, dense @ x)
    np.testing.assert_array_equal(run(lambda S, X: jsparse.einsum("ab,bc->ac", S, X), S, X), dense @ x)
    np.testing.assert_array_equal(run(lambda S, v: jsparse.einsum("ij,j->i", S, v), S, X[:, 0]), dense @ x[:, 0])
    np.testing.assert_array_equal(run(lambda S, Y: jsparse.einsum("ij,ik->jk", S, Y), S, Y), dense.T @ y)
    np.testing.assert_array_equal(S.gather().todense(), dense)
    np.testing.assert_array_equal(S.sum(1), dense.sum(1))
    np.testing.assert_array_equal(S.sum(0), dense.sum(0))
    sampled = jax.jit(lambda S, X, Y: jsparse.einsum("ij,ik,jk->ij", S, Y, X))(S, X, Y)
    np.testing.assert_array_equal(sampled.gather().todense(), dense * (y @ x.T))
    np.testing.assert_array_equal((2 * S.map(jnp.square)).gather().todense(), 2 * dense**2)
    soft, wanted = jsparse.softmax(S, 1).gather(), jsparse.softmax(jsparse.asarray(dense, format="csr"), 1)
    np.testing.assert_allclose(soft.todense(), wanted.todense(), rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MATRICES)
def test_gradients(name, mesh):
    dense = MATRICES[name]
    A = jsparse.asarray(dense, format="csr")
    S, x = jsparse.shard(A, mesh, "x"), draw(dense.shape[1], WIDTH)

    def loss(values, X):
        return ((S.with_values(values) @ X) ** 2).sum()

    slopes, of_x = jax.jit(jax.grad(loss, (0, 1)))(S.values, by_rows(mesh, x))
    wanted = jax.grad(lambda A, x: ((A @ x) ** 2).sum(), (0, 1))(A, x)
    np.testing.assert_array_equal(S.with_values(slopes).gather().todense(), wanted[0].todense())
    np.testing.assert_array_equal(of_x, wanted[1])


def test_shard_map_of_the_user(mesh):
    dense, x = MATRICES["random"], draw(ROWS, WIDTH)
    S = jsparse.shard(jsparse.asarray(dense, format="csr"), mesh, "x")
    mapped = jax.shard_map(
        lambda S, x: jax.nn.relu(S.block @ S.halo(x)),
        mesh=mesh,
        in_specs=(P("x"), P("x")),
        out_specs=P("x"),
        check_vma=False,
    )
    np.testing.assert_array_equal(jax.jit(mapped)(S, by_rows(mesh, x)), np.maximum(dense @ x, 0))
    inside = jax.shard_map(
        lambda S, x: (S @ x, S.sum(0), S.sum(-1)),
        mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    found = jax.jit(inside)(S, by_rows(mesh, x))
    for a, b in zip(found, (dense @ x, dense.sum(0), dense.sum(1)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_attention(mesh):
    mask = jsparse.pattern.window(ROWS, 4)
    q, k, v = (draw(ROWS, 8) / 4 + n for n in range(3))
    S = jsparse.shard(jsparse.SparseTensor(jnp.ones(mask.nse), mask), mesh, "x")

    def loss(attend, *x):
        out = attend(*x)
        return (out**2).sum(), out

    attend = lambda q, k, v: jsparse.sparse_attention(q, k, v, S)  # noqa: E731
    grad = jax.jit(jax.grad(lambda *x: loss(attend, *x), (0, 1, 2), has_aux=True))
    found = grad(*(by_rows(mesh, x) for x in (q, k, v)))
    whole = lambda q, k, v: jsparse.sparse_attention(q, k, v, mask)  # noqa: E731
    wanted = jax.grad(lambda *x: loss(whole, *x), (0, 1, 2), has_aux=True)(q, k, v)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


PERMUTED = re.compile(r"f32\[(\d+),(\d+)\]\{[^}]*\} collective-permute(?:-start)?\(")


def rmat(scale=12, entries=8):
    """A graph with skewed degrees (Chakrabarti, Zhan and Faloutsos, SDM 2004), with repeated edges merged."""
    rng, coords = np.random.default_rng(0), np.zeros((2, entries << scale), np.int64)
    for _ in range(scale):
        quadrant = rng.choice(4, entries << scale, p=[0.57, 0.19, 0.19, 0.05])
        coords = 2 * coords + np.stack([quadrant // 2, quadrant % 2])
    found = sp.csr_array((np.ones(entries << scale, np.float32), coords), shape=(1 << scale, 1 << scale))
    found.sum_duplicates()
    return found


GRAPHS = {
    "band": lambda: sp.diags_array(
        np.ones((9, 4096), np.float32), offsets=range(-4, 5), shape=(4096, 4096), dtype=np.float32
    ),
    "rmat": rmat,
}


@pytest.mark.parametrize("devices, name, most", [(2, "band", 1), (4, "band", 2), (2, "rmat", 260), (4, "rmat", 425)])
def test_bytes_of_products(devices, name, most):
    kind = (AxisType.Auto,)
    mesh = jax.make_mesh((devices,), ("x",), axis_types=kind, devices=jax.devices()[:devices])
    S = jsparse.shard(GRAPHS[name](), mesh, "x")
    X = by_rows(mesh, np.ones((4096, 64), np.float32))
    text = jax.jit(lambda S, X: S @ X).lower(S, X).compile().as_text()
    moved = sum(int(a) * int(b) * 4 for a, b in PERMUTED.findall(text))
    assert moved == S.layout.exchange.bytes_received(4 * 64) <= most * 1024
    assert set(collectives(text)) == {"collective-permute"}
    explained = jsparse.explain("ij,jk->ik", S, X)
    assert sum(n for _, n in explained.exchanges) == moved
    assert "from others" in str(explained)
    gradient = jax.jit(jax.grad(lambda X, S: ((S @ X) ** 2).sum())).lower(X, S).compile().as_text()
    assert sum(int(a) * int(b) * 4 for a, b in PERMUTED.findall(gradient)) == 2 * moved
    if name == "band":
        assert moved == most * 1024


def test_columns_divided_over_another_axis():
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    dense, x = MATRICES["random"], draw(ROWS, WIDTH)
    with jax.set_mesh(mesh):
        S = jsparse.shard(jsparse.asarray(dense, format="csr"), mesh, "x")
        found = jax.jit(lambda S, X: S @ X)(S, jax.device_put(x, NamedSharding(mesh, P("x", "y"))))
        assert found.sharding.spec == P("x", "y")
        np.testing.assert_array_equal(found, dense @ x)


def test_gradients_of_whole_tensors():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    A, x = jsparse.asarray(MATRICES["random"], format="csr"), draw(ROWS, WIDTH)
    S = jsparse.shard(A, mesh, "x")
    assert [v.shape for v in jax.tree.leaves(jsparse.values({"S": S}))] == [S.values.shape]
    halved = jsparse.with_values(S, S.values / 2).gather()
    np.testing.assert_array_equal(halved.todense(), A.todense() / 2)
    layer = jsparse.fuse(lambda S, X: jax.nn.relu(S @ X + 1))
    np.testing.assert_array_equal(jax.jit(layer)(S, by_rows(mesh, x)), np.maximum(A.todense() @ x + 1, 0))
    found = jsparse.grad(lambda S: ((S @ by_rows(mesh, x)) ** 2).sum())(S)
    wanted = jax.grad(lambda A: ((A @ x) ** 2).sum())(A)
    np.testing.assert_array_equal(S.with_values(found.values).gather().todense(), wanted.todense())


@pytest.mark.parametrize("saved, loaded", [(4, 2), (2, 4), (4, 1)])
def test_checkpoints_on_other_numbers_of_devices(saved, loaded, tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    dense, x = MATRICES["random"], draw(ROWS, WIDTH)

    def place(devices, A, w):
        mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:devices])
        return jsparse.shard(A, mesh, "x"), by_rows(mesh, w)

    loss = jax.jit(lambda S, w: ((S @ w) ** 2).sum())
    S, w = place(saved, jsparse.asarray(dense, format="csr"), x)
    path, state = tmp_path / "state", {"A": S.gather().values, "w": w}
    with checkpoint.StandardCheckpointer() as saver:
        saver.save(path, state)
        saver.wait_until_finished()
        target = {"A": jax.ShapeDtypeStruct((S.nse,), np.float32), "w": jax.ShapeDtypeStruct(x.shape, np.float32)}
        found = saver.restore(path, jax.tree.map(lambda t: np.zeros(t.shape, t.dtype), target))
    again = place(loaded, S.gather().with_values(found["A"]), found["w"])
    assert float(loss(*again)) == float(loss(S, w))


def test_errors(mesh):
    A = jsparse.asarray(MATRICES["random"], format="csr")
    S = jsparse.shard(A, mesh, "x")
    with pytest.raises(jsparse.ShapeError, match="Pad A to 52x52, and X to 52 rows|Pad A to 50x50"):
        jsparse.shard(jsparse.asarray(np.eye(49, dtype=np.float32), format="csr"), mesh, "x")
    with pytest.raises(jsparse.ConfigError, match="an axis of the mesh"):
        jsparse.shard(A, mesh, "rows")
    with pytest.raises(jsparse.PatternError, match="it is traced"):
        jax.jit(lambda v: jsparse.shard(A.with_values(v), mesh, "x").values)(A.values)
    with pytest.raises(jsparse.NotYetSupportedError, match=r"needs the rows of other devices. Gather it: S.gather\(\)"):
        jsparse.einsum("ij,jk->ij", S, draw(ROWS, 3))
    with pytest.raises(jsparse.NotYetSupportedError, match=r"needs the rows of other devices. Gather it: S.gather\(\)"):
        jsparse.transpose(S)
    with pytest.raises(jsparse.ShapeError, match=r"Expected an array \(48,\) or \(48, k\)"):
        S @ draw(ROWS + 1, 3)
    with pytest.raises(jsparse.ShapeError, match="different axes from -2 to 1"):
        S.sum(2)
    with pytest.raises(jsparse.NotYetSupportedError, match="'ii,ij->j' needs the rows of other devices"):
        jsparse.einsum("ii,ij->j", S, draw(ROWS, 3))
    with pytest.raises(jsparse.NotYetSupportedError, match="inside jax.shard_map"):
        S.block  # noqa: B018
    assert "rows over 'x'" in repr(S)
    with pytest.raises(AttributeError, match=r"A.todense needs the rows of other devices. Gather it: S.gather\(\)"):
        S.todense()
