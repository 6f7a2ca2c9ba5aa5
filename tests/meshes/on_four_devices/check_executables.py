"""Programs of a mesh as texts and as executables: equal in all processes, kept, pickled, and not mixed up."""

import os
import pickle
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.sharding import AxisType, NamedSharding
from meshes.programs import COLUMNS, ROWS, P, draw, matrix

import jsparse

PROCESS = """
import hashlib, sys
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
junk = [object() for _ in range(int(sys.argv[2]))]  # other addresses in the second process
from contextlib import nullcontext
from jax.sharding import AxisType, NamedSharding
from meshes.programs import PROGRAMS
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,))
    for name in ("product", "fused layer, gradient", "attention"):
        program = PROGRAMS[name]
        with jax.set_mesh(mesh) if kind == AxisType.Explicit else nullcontext():
            pairs = zip(program.operands, program.specs, strict=True)
            placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in pairs]
            lowered = jax.jit(program.function).lower(*placed)
            before = hits.count("/jax/compilation_cache/cache_hits")
            lowered.compile()(*placed)
            text = hashlib.sha256(lowered.as_text().encode()).hexdigest()
            print(text, hits.count("/jax/compilation_cache/cache_hits") - before)
"""


def test_processes_share_texts_and_the_persistent_cache(tmp_path):
    found, environment = [], {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for junk in ("0", "100000"):
        command = [sys.executable, "-c", PROCESS, str(tmp_path), junk]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        found.append([line.split() for line in done.stdout.splitlines()])
    assert [text for text, _ in found[0]] == [text for text, _ in found[1]]
    assert all(hits != "0" for _, hits in found[1])


@pytest.fixture(params=["auto", "explicit"])
def mesh(request):
    made = jax.make_mesh((4,), ("x",), axis_types=(getattr(AxisType, request.param.title()),))
    with jax.set_mesh(made) if request.param == "explicit" else nullcontext():
        yield made


def placed(mesh, x, spec):
    return jax.device_put(x, NamedSharding(mesh, spec))


def test_patterns_of_equal_size_keep_their_own_results(mesh):
    dense = draw(ROWS, COLUMNS) * (draw(ROWS, COLUMNS) > 1)
    first, second = jsparse.asarray(dense, format="csr"), jsparse.asarray(np.roll(dense, 3, 1), format="csr")
    assert first.nse == second.nse
    x = placed(mesh, draw(COLUMNS, 8), P(None, "x"))
    product = jax.jit(lambda x: (first @ x, second @ x))
    for y, A in zip(product(x), (dense, np.roll(dense, 3, 1)), strict=True):
        np.testing.assert_array_equal(y, A @ draw(COLUMNS, 8))


def test_executables_outlive_caches(mesh):
    x, given = draw(COLUMNS, 8), placed(mesh, draw(COLUMNS, 8), P(None, "x"))
    wanted = matrix().todense() @ x
    compiled = jax.jit(lambda x: matrix() @ x).lower(given).compile()
    jax.clear_caches()
    jsparse.clear_cache()
    np.testing.assert_array_equal(compiled(given), wanted)


LOADED = """
import pickle, sys
import jax, numpy as np
import jsparse
from jax.experimental import serialize_executable
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",), axis_types=(getattr(AxisType, sys.argv[2].title()),))
with open(sys.argv[1], "rb") as file:
    compiled = serialize_executable.deserialize_and_load(*pickle.load(file))
x = jax.device_put(np.load(sys.argv[1] + ".npy"), NamedSharding(mesh, P(None, "x")))
np.save(sys.argv[1] + ".out.npy", compiled(x))
"""


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_executables_run_in_another_process(kind, tmp_path):
    A, x = matrix(format="csr", dynamic=True, nse=500), draw(COLUMNS, 8)
    mesh = jax.make_mesh((4,), ("x",), axis_types=(getattr(AxisType, kind.title()),))
    with jax.set_mesh(mesh) if kind == "explicit" else nullcontext():
        given = placed(mesh, x, P(None, "x"))
        compiled = jax.jit(lambda x: A @ x).lower(given).compile()
        (tmp_path / "program").write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
    np.save(tmp_path / "program.npy", x)
    command = [sys.executable, "-c", LOADED, str(tmp_path / "program"), kind]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "program.out.npy"), A.todense() @ x)


def test_a_shard_map_over_some_axes_leaves_the_others_to_xla():
    """XLA cannot divide our operations inside of it, so they gather, and nothing fails."""
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    A, x = matrix(), draw(COLUMNS, 8)
    mapped = jax.shard_map(lambda x: A @ x, mesh=mesh, in_specs=P(None, "x"), out_specs=P(None, "x"), axis_names={"x"})
    found = jax.jit(mapped)(placed(mesh, x, P(None, ("x", "y"))))
    np.testing.assert_array_equal(found, A.todense() @ x)


def test_exports_are_for_one_device_or_several(mesh):
    pytest.importorskip("flatbuffers")
    A, x = matrix(format="csr", dynamic=True, nse=500), draw(COLUMNS, 8)
    exported = jsparse.export(jax.jit(lambda x: A @ x))(placed(mesh, x, P(None, "x")))
    found = jax.export.deserialize(exported.serialize()).call(placed(mesh, x, P(None, "x")))
    np.testing.assert_array_equal(found, A.todense() @ x)


def test_rows_are_gathered_on_auto_axes():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    A, x = matrix(), draw(COLUMNS, 8)
    np.testing.assert_array_equal(jax.jit(lambda x: A @ x)(placed(mesh, x, P("x", None))), A.todense() @ x)


def test_shardings_that_do_not_fit_are_explained():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
    A, x = matrix(), draw(COLUMNS, 8)
    with jax.set_mesh(mesh):
        by_rows = placed(mesh, x, P("x", None))
        with pytest.raises(jsparse.ShardingError, match="because entries of csr read it by coordinate"):
            jax.jit(lambda x: A @ x)(by_rows)
        features = placed(mesh, draw(ROWS, 8), P(None, "x"))
        sampled = partial(jsparse.einsum, "ij,jk,ik->ij", A, out_format="dense")
        with pytest.raises(jsparse.ShardingError, match="its index k is summed"):
            jax.jit(sampled)(placed(mesh, x, P(None, "x")), features)
        found = jax.jit(partial(sampled, out_sharding=P("x")))(placed(mesh, x, P(None, "x")), features)
        np.testing.assert_array_equal(found, A.todense() * (draw(ROWS, 8) @ x.T))
        with pytest.raises(jsparse.ShardingError, match="are divided in the same way"):
            jax.jit(lambda x, y: jsparse.einsum("ij,jk,jl->ikl", A, x, y))(
                placed(mesh, x, P(None, "x")), placed(mesh, draw(COLUMNS, 12), P(None, "x"))
            )


def test_a_mesh_of_both_kinds_of_axes():
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    A, x = matrix(), draw(COLUMNS, 8)
    with jax.set_mesh(mesh):
        given = placed(mesh, x, P(None, "x"))
        found, slope = jax.jit(lambda x: (A @ x, jax.grad(lambda x: ((A @ x) ** 2).sum())(x)))(given)
    np.testing.assert_array_equal(found, A.todense() @ x)
    np.testing.assert_array_equal(slope, 2 * A.todense().T @ (A.todense() @ x))
