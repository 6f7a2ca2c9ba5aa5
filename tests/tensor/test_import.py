"""`import jsparse` only defines names: it makes no file, thread or import of a slow package."""

import pickle
import subprocess
import sys

import pytest

import jsparse
from jsparse._names import PLACES

PROGRAM = """
import os, pathlib, sys, threading
import jax
import jax.numpy

def everything():
    return sorted(str(path) for path in pathlib.Path(os.environ["HOME"]).rglob("*"))

before, threads, tasks = everything(), threading.active_count(), len(os.listdir("/proc/self/task"))
import jsparse
assert everything() == before, everything()
assert threading.active_count() == threads
assert len(os.listdir("/proc/self/task")) == tasks
for slow in ("scipy.sparse", "jax.experimental.sparse", "jax.extend", "llvmlite", "flax", "optax"):
    assert slow not in sys.modules, slow
assert "jax.experimental.pallas" not in sys.modules
assert not any(name.startswith("jsparse.compiler.schedule") for name in sys.modules)
"""


def test_importing_makes_no_file_and_no_thread(tmp_path):
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


FIRST = {
    "a pickle": "",
    "layers": "import jsparse.nn; from jsparse.ops.reductions import moments",
    "low modules": "import jsparse.formats.levels, jsparse.primitives.lowerings",
}
"""What a program may import before it reads a tensor."""

USES = """
import pickle, sys
import jax, jax.numpy as jnp
{first}
A = pickle.loads(bytes.fromhex(sys.argv[1]))
assert jax.tree.structure(A) and len(jax.tree.leaves(A)) == 1
assert float(jax.jit(lambda A: (A * 2).sum())(A)) == 6
assert (A @ jnp.ones(3)).tolist() == [1, 1, 1]
assert float(A.var()) > 0 and A.coords.shape == (2, 3) and A[1, 1] == 1 and A.reshape(9).shape == (9,)
assert float(jax.grad(lambda v: A.with_values(v).prune(2).values.sum())(A.values).sum()) == 2
"""


@pytest.mark.parametrize("first", FIRST)
def test_a_tensor_is_complete_however_it_is_reached(first):
    A = jsparse.eye(3)
    command = [sys.executable, "-c", USES.format(first=FIRST[first]), pickle.dumps(A).hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


READ = {
    "a pickle": "A = pickle.loads(data.read_bytes())",
    "a file": "import jsparse; A = jsparse.load(data.with_suffix('.npz'))",
    "a pickle, without llvmlite": "sys.modules['llvmlite'] = None; A = pickle.loads(data.read_bytes())",
    "a pickle, after the settings": "import jsparse; jsparse.config.bounds; A = pickle.loads(data.read_bytes())",
}
"""How a program may get its first tensor."""

COUNTS = """
import collections, pathlib, pickle, sys
import jax, jax.numpy as jnp

data, events = pathlib.Path(sys.argv[1]), collections.Counter()
x = jnp.ones(3)
{read}
jax.monitoring.register_event_duration_secs_listener(lambda event, *args, **kwargs: events.update([event]))
traces = []

@jax.jit
def product(A, x):
    traces.append(1)
    return A @ x

for _ in range(3):
    assert product(A, x).tolist() == [1, 1, 1]
print(len(traces), events["/jax/core/compile/backend_compile_duration"])
"""


@pytest.mark.parametrize("read", READ)
def test_the_first_program_is_traced_and_compiled_once(read, tmp_path):
    A, data = jsparse.eye(3), tmp_path / "A.pickle"
    data.write_bytes(pickle.dumps(A))
    jsparse.save(data.with_suffix(".npz"), A)
    command = [sys.executable, "-W", "ignore", "-c", COUNTS.format(read=READ[read]), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "1"], done.stderr


def test_every_name_of_the_list_is_there():
    assert set(dir(jsparse)) == {*jsparse.__all__, "__version__"}
    assert len(jsparse.__all__) == len(set(jsparse.__all__))
    for name, place in PLACES.items():
        found = getattr(jsparse, name)
        assert found is getattr(sys.modules[place], name)
        assert name in jsparse.__doc__
    everything = {}
    exec("from jsparse import *", everything)
    assert set(jsparse.__all__) <= set(everything)


def test_a_private_name_is_no_attribute():
    assert not hasattr(jsparse, "PLACES")


@pytest.mark.parametrize("name", ["nn", "nnx", "linen", "graph", "pattern", "optax", "io"])
def test_subpackages_list_what_is_public(name):
    package = getattr(jsparse, name)
    assert package.__all__
    assert all(hasattr(package, public) for public in package.__all__)


HIDDEN = """
import sys, warnings
sys.modules["llvmlite"] = None
import numpy as np, jax, jax.numpy as jnp
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import jsparse
    assert not found
    dense, x = np.tri(5, dtype=np.float32), jnp.arange(5.0)
    A = jsparse.asarray(dense, format="csr")
    np.testing.assert_array_equal(A @ x, dense @ x)
    assert [str(one.message)[:17] for one in found] == ["Expected llvmlite"], found
    S = jsparse.asarray(dense, format="coo", dynamic=True, nse=20)
    np.testing.assert_array_equal(jax.jit(lambda A: A @ x)(S), dense @ x)
    np.testing.assert_array_equal((A @ A).todense(), dense @ dense)
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, S, nse=30).todense(), dense @ dense)
    np.testing.assert_array_equal(jax.grad(lambda v: (A.with_values(v) @ x).sum())(A.values), x[A.coords[1]])
    assert jsparse.config.backend == "xla" and len(found) == 1
"""


def test_without_llvmlite_programs_are_made_of_xla_operations():
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
