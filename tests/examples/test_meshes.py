"""The examples for meshes, in one process and in two."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def losses(name, *options):
    command = [sys.executable, str(EXAMPLES / name), "--steps", "20", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [float(x) for x in re.findall(r"step \d+: loss (\S+)", done.stdout)]


@pytest.mark.parametrize("name", ["sharded_gcn.py", "data_parallel_gcn.py"])
def test_two_processes_compute_what_one_does(name):
    if name.startswith("data"):
        pytest.importorskip("flax")
    one, two = losses(name), losses(name, "--processes", "2")
    assert len(one) == len(two) == 20
    assert two == pytest.approx(one, rel=1e-5)
    assert sum(one[-5:]) < sum(one[:5])


DYING = """
import os, sys, time
import jax
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), heartbeat_timeout_seconds=10)
import jax.numpy as jnp
from jax.sharding import NamedSharding
mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.make_array_from_callback((2,), NamedSharding(mesh, jax.P("x")), lambda i: jnp.ones(1))
step = jax.jit(lambda x: x + x.sum())
for n in range(10_000):
    x = step(x) / 3
    x.block_until_ready()
    if n == 5 and sys.argv[2] == "1":
        os._exit(3)
"""


def test_a_process_that_dies_ends_the_other():
    """The limit is generous: JAX notices it after the time between heartbeats."""
    import socket

    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    started = [
        subprocess.Popen([sys.executable, "-c", DYING, address, str(n)], stderr=subprocess.DEVNULL) for n in range(2)
    ]
    survivor, dying = (process.wait(timeout=300) for process in started)
    assert dying == 3  # it began to compute
    assert survivor != 0
