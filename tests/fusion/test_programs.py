"""Fused functions in programs: control flow, several devices, checkpoints, exports, donation, pickles, threads."""

import os
import pickle
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.operands import close, masked_softmax, normal, pattern, squared
from jax import checkpoint_policies as policies
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jsparse
from jsparse import SparseTensor

H, L, WIDTH = 2, 8, 3
ALLOWED = np.random.default_rng(9).random((L, L)) < 0.4
ALLOWED[2] = False
MASK = pattern(mask=ALLOWED)
DYNAMIC = SparseTensor(jnp.ones(MASK.nse), MASK).dynamic(MASK.nse + 4)
OTHER = jsparse.asarray(ALLOWED.T.astype(np.float32)).dynamic(MASK.nse + 4)
Q, K, V = (normal(H, L, WIDTH, seed=n) for n in range(3))
SHARED, WHOLE = PartitionSpec("d"), PartitionSpec()


def attention(q, k, v, mask=MASK):
    return jsparse.sparse_attention(q, k, v, mask)


def dense_attention(q, k, v, allowed=ALLOWED):
    return masked_softmax(q @ k.swapaxes(-1, -2) * WIDTH**-0.5, allowed) @ v


def gradient(f):
    return jax.jit(jax.grad(squared(f), (0, 1, 2)))


@pytest.mark.parametrize("kind", ["constant", "carried", "stacked"])
def test_scan_over_layers(kind):
    """Masks are the same in all layers, carried, or different ones."""
    masks = jax.tree.map(lambda *x: jnp.stack(x), DYNAMIC, OTHER)

    def layer(carry, own):
        q, mask = carry
        mask = own if kind == "stacked" else DYNAMIC if kind == "constant" else mask
        return (attention(q, K, V, mask), mask), q.sum()

    def ours(q, k, v):
        return jax.lax.scan(layer, (q, DYNAMIC), masks)[0][0] + k + v

    def dense(q, k, v):
        second = ALLOWED.T if kind == "stacked" else ALLOWED
        return dense_attention(dense_attention(q, K, V), K, V, second) + k + v

    close(ours(Q, K, V), dense(Q, K, V))
    close(gradient(ours)(Q, K, V), gradient(dense)(Q, K, V), 1e-4)


def test_loops_and_branches():
    def twice(f, q):
        return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1], K, V)), (0, q))[1]

    found, wanted = (jax.jvp(partial(twice, f), (Q,), (K,)) for f in (attention, dense_attention))
    close(found, wanted, 1e-4)
    branches = [lambda q: attention(q, K, V, DYNAMIC), lambda q: q]
    chosen = jax.jit(jax.grad(lambda q, n: squared(lambda q: jax.lax.switch(n, branches, q))(q)))
    close(chosen(Q, 0), jax.grad(squared(lambda q: dense_attention(q, K, V)))(Q), 1e-4)
    close(chosen(Q, 1), 2 * Q)


def fused_operations(f, *operands):
    return str(jax.make_jaxpr(f)(*operands)).count("jsparse_fused[")


def test_policies_see_one_operation():
    """Its results have the name that those of all kernels have, and those that users give them; others are inside."""

    @jsparse.fuse
    def rows(q, k, v):
        weights = jsparse.softmax(jsparse.einsum("id,jd->ij", q, k, out_format=MASK), 1)
        weights = weights.with_values(checkpoint_name(weights.values, "weights"))
        return checkpoint_name(weights @ v, "rows")

    def model(q, k, v):
        return jnp.tanh(rows(jnp.sin(q[0]), k[0], v[0]))

    def count(policy):
        found = jax.grad(squared(jax.checkpoint(model, policy=policy)), (0, 1, 2))
        close(found(Q, K, V), jax.grad(squared(model), (0, 1, 2))(Q, K, V))
        return fused_operations(found, Q, K, V)

    def saved(policy):
        residuals = jax.vjp(jax.checkpoint(model, policy=policy), Q, K, V)[1]
        return sum(x.shape == (L, WIDTH) for x in jax.tree.leaves(residuals))

    assert count(policies.nothing_saveable) == 3
    assert count(policies.everything_saveable) == 2
    assert count(policies.save_only_these_names(jsparse.CHECKPOINT_NAME)) == 2
    assert count(policies.save_only_these_names("weights")) == 3
    by_primitive = lambda prim, *_, **__: prim.name == "jsparse_fused"  # noqa: E731
    assert count(by_primitive) == 2
    names = ("weights", "rows")
    assert [saved(policies.save_only_these_names(name)) for name in names] == [0, 1]


def exported(function, *operands, order=0):
    written = jsparse.export(jax.jit(function))(*operands).serialize(vjp_order=order)
    return jax.export.deserialize(written)


@pytest.mark.parametrize("mask", [MASK, DYNAMIC], ids=["static", "dynamic"])
def test_export(mask):
    pytest.importorskip("flatbuffers")
    if mask is MASK:
        loaded = exported(attention, Q, K, V, order=1)
        close(gradient(loaded.call)(Q, K, V), gradient(dense_attention)(Q, K, V), 1e-4)
    else:
        loaded = partial(exported(attention, Q, K, V, mask).call)
        close(loaded(Q, K, V, OTHER), dense_attention(Q, K, V, ALLOWED.T))
        loaded = exported(lambda q, k, v: attention(q, k, v, mask), Q, K, V)
    close(loaded.call(Q, K, V), dense_attention(Q, K, V))


EXPORTED = """
import pathlib, sys
import jax, jax.export, jsparse
import numpy as np
loaded = jax.export.deserialize(bytearray(pathlib.Path(sys.argv[1]).read_bytes()))
np.save(sys.argv[2], loaded.call(*(np.asarray(x) for x in np.load(sys.argv[3]))))
"""


def test_another_process_runs_an_export(tmp_path):
    """It rebuilds the kernel of the chain, and the pattern bound to it."""
    pytest.importorskip("flatbuffers")
    fused = jax.jit(lambda q, k, v: attention(q, k, v, DYNAMIC))
    (tmp_path / "program").write_bytes(jsparse.export(fused)(Q, K, V).serialize())
    np.save(tmp_path / "given.npy", np.stack([Q, K, V]))
    names = [str(tmp_path / name) for name in ("program", "found.npy", "given.npy")]
    done = subprocess.run([sys.executable, "-c", EXPORTED, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    close(np.load(tmp_path / "found.npy"), dense_attention(Q, K, V))


def check_sharded_heads(kind):
    """Check attention whose heads are divided over all devices: mapped by `shard_map`, and by types alone."""
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(kind,))
    placed = lambda x, spec=SHARED: jax.device_put(x, NamedSharding(mesh, spec))  # noqa: E731
    given, mask = tuple(map(placed, (Q, K, V))), jax.tree.map(lambda x: placed(x, WHOLE), DYNAMIC)
    wanted, slopes = dense_attention(Q, K, V), gradient(dense_attention)(Q, K, V)
    functions = [attention, lambda q, k, v: attention(q, k, v, mask)]
    for check in (True, False):
        mapped = partial(jax.shard_map, mesh=mesh, out_specs=SHARED, check_vma=check)
        whole = mapped(attention, in_specs=(SHARED, SHARED, SHARED))
        with_mask = mapped(attention, in_specs=(SHARED, SHARED, SHARED, WHOLE))
        functions += [whole, lambda q, k, v, f=with_mask: f(q, k, v, mask), jsparse.fuse(whole)]
        keys_everywhere = mapped(attention, in_specs=(SHARED, WHOLE, WHOLE))  # cotangents of keys are summed
        queries = jnp.stack([Q[0], 2 * Q[0]])
        heads = lambda q, k, v: jnp.stack([dense_attention(x, k[0], v[0]) for x in q])  # noqa: E731
        found = gradient(keys_everywhere)(placed(queries), placed(K[:1], WHOLE), placed(V[:1], WHOLE))
        close(found, gradient(heads)(queries, K[:1], V[:1]), 1e-4)
    for f in functions:
        close(jax.jit(f)(*given), wanted)
        close(gradient(f)(*given), slopes, 1e-4)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_one_device(kind):
    check_sharded_heads(kind)


def test_two_devices():
    program = textwrap.dedent("""
        import sys
        sys.path.insert(0, sys.argv[1])
        import jax
        from fusion.test_programs import AxisType, check_sharded_heads
        assert jax.device_count() == 2
        check_sharded_heads(AxisType.Auto)
        check_sharded_heads(AxisType.Explicit)
    """)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", program, str(Path(__file__).parents[1])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_donated_operands():
    def step(q, k, v):
        slopes = jax.grad(squared(attention), (0, 1, 2))(q, k, v)
        return jax.tree.map(lambda x, slope: x - 0.1 * slope, (q, k, v), slopes)

    given = tuple(map(jnp.array, (Q, K, V)))
    found = jax.jit(step, donate_argnums=(0, 1, 2))(*given)
    assert all(x.is_deleted() for x in given)
    slopes = gradient(dense_attention)(Q, K, V)
    close(found, [x - 0.1 * slope for x, slope in zip((Q, K, V), slopes, strict=True)], 1e-4)


def test_operands_from_a_pickle():
    mask, dynamic, values = pickle.loads(pickle.dumps((MASK, DYNAMIC, jsparse.asarray(ALLOWED.astype(np.float32)))))
    for given in (mask, dynamic, values):
        close(attention(Q, K, V, given), dense_attention(Q, K, V))


def test_threads():
    """Each traces and compiles functions of its own and shared ones, while memos are emptied."""
    failed = []

    def scaled(n, q, k, v):
        return jsparse.softmax(jsparse.einsum("id,jd->ij", q, k, out_format=MASK) * n, 1) @ v

    functions = [jsparse.fuse(partial(scaled, n)) for n in range(3)]

    def run(number):
        try:
            for n, f in enumerate(functions):
                own = jsparse.fuse(partial(scaled, n))
                wanted = masked_softmax(Q[0] @ K[0].T * n, ALLOWED) @ V[0]
                for g in (f, own):
                    close(g(Q[0], K[0], V[0]), wanted)
                    jax.grad(squared(g))(Q[0], K[0], V[0])
                if number == 0:
                    jsparse.clear_cache()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_without_jit_and_with_checks_of_nans():
    with jax.disable_jit():
        close(attention(Q, K, V), dense_attention(Q, K, V))
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        attention(Q.at[0, 0].set(jnp.nan), K, V)


def test_constants_of_jitted_functions():
    """A jitted function that closes over a NumPy array has it as a constant of its own."""
    A = jsparse.asarray(np.eye(4, dtype=np.float32) + np.tri(4, dtype=np.float32))
    weights = np.arange(A.nse, dtype=np.float32)

    @jax.jit
    def loss(values):
        return (jsparse.softmax(A.with_values(values)).values * weights).sum()

    for function in (loss, jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(jsparse.fuse(function)(A.values), function(A.values), rtol=1e-5, atol=1e-6)
