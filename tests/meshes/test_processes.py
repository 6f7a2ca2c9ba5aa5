"""Two processes of one program: what a process says about arrays that only both together hold, and how it ends."""

import socket
import subprocess
import sys

START = """
import os, sys
import jax
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), heartbeat_timeout_seconds=10)
import jax.numpy as jnp
import numpy as np
mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

def divided(x, spec=jax.P("x")):
    return jax.make_array_from_callback(x.shape, jax.sharding.NamedSharding(mesh, spec), lambda i: np.asarray(x)[i])
"""

DYING = """
x = divided(np.ones(2, np.float32))
step = jax.jit(lambda x: x + x.sum())
for n in range(10_000):
    x = step(x) / 3
    x.block_until_ready()
    if n == 5 and sys.argv[2] == "1":
        os._exit(3)
"""

READING = """
import pickle
import jsparse

table = np.arange(24, dtype=np.float32).reshape(4, 6) % 4
A = jsparse.asarray(table, format="csr")
S = jsparse.with_values(A, divided(A.values))
D = jax.tree.map(lambda leaf: divided(leaf, jax.P() if len(leaf) % 2 else jax.P("x")), A.dynamic(nse=20))
whole = np.arange(12, dtype=np.float32).reshape(6, 2)
x, expected = divided(whole, jax.P(None, "x")), table @ whole

def local(y):
    (shard,) = y.addressable_shards
    return shard.data, expected[shard.index]

for tensor in (S, D):  # it computes eagerly, as an argument, and in loops that close over it
    np.testing.assert_array_equal(*local(tensor @ x))
    np.testing.assert_array_equal(*local(jax.jit(lambda A, x: A @ x)(tensor, x)))
    found = jax.lax.scan(lambda c, _: (c, tensor @ x), 0.0, None, length=1)[1][0]
    np.testing.assert_array_equal(*local(found))
    assert str(tensor) == repr(tensor)

def message(function, *args):
    try:
        function(*args)
    except (jsparse.ShardingError, AttributeError) as error:
        return str(error)
    raise AssertionError(f"{function} accepted arrays of several processes")

for tensor in (S, D):
    product = lambda x: jsparse.einsum("ij,jk->ik", tensor, x)
    for function in (product, lambda x: tensor @ x, lambda x: (2 * tensor) @ x):
        said = message(jax.jit(function), x)
        assert "closes over it" in said and "argument" in said and "4x6 tensor in csr" in said, said
    assert "in A.to_scipy" in message(tensor.to_scipy)
    assert "process_allgather" in message(pickle.dumps, tensor)
    assert "process_allgather" in message(jsparse.save, os.path.join(os.devnull, "A.npz"), tensor)
assert "closes over it" in message(jax.jit(lambda A: A @ x), A)
assert "index arrays" in message(D.to_coords)
assert "index arrays" in message(D.static)
assert "index arrays" in message(D.validate)
B = jsparse.shard(jsparse.asarray(table[:, :4], format="csr"), mesh, "x")
for name in ("to_coords", "to_scipy", "todense"):
    assert "S.gather()" in message(getattr, B, name)
"""


def statuses(program):
    """The exit statuses of two processes that run one program, and their messages."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-c", START + program, address]
    started = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE, text=True) for n in range(2)]
    messages = [process.communicate(timeout=300)[1] for process in started]
    return [process.returncode for process in started], messages


def test_a_process_that_dies_ends_the_other():
    """The limit is generous: JAX notices it after the time between heartbeats."""
    (survivor, dying), _ = statuses(DYING)
    assert dying == 3  # it began to compute
    assert survivor != 0


def test_arrays_of_several_processes_are_arguments():
    found, messages = statuses(READING)
    assert found == [0, 0], "\n".join(messages)[-4000:]
