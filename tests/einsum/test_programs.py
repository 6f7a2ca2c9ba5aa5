"""The life of compiled programs: they are released, cached on disk, loaded by other processes, and exported."""

import gc
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import Case

import jsparse
from jsparse import SparseTensor
from jsparse.base import _native
from jsparse.compiler.runtime.kernel_call import clear_cache


def run(program, *arguments, **environment):
    """The output of a Python program in a new process."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)]
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_calls_end_with_their_programs():
    jax.clear_caches()
    gc.collect()
    clear_cache()
    before = _native.live_calls()
    x = jnp.ones(30)
    for n in range(20):
        A = SparseTensor.from_coords([[n], [n + 1]], [1.0], (25 + n, 30), "csr")
        for _ in range(8):  # the first calls need no program
            assert (A @ x).sum() == 1
        assert jax.jit(lambda A: (A * 2).T @ jnp.ones(A.shape[0]))(A).sum() == 2
    assert _native.live_calls() > before
    del A
    jax.clear_caches()
    clear_cache()
    gc.collect()
    assert _native.live_calls() <= before


def test_a_program_outlives_its_patterns():
    """A compiled program keeps the index arrays alive, even if nothing else does."""
    make = lambda: SparseTensor.from_coords([[0, 2], [1, 3]], [1.0, 2.0], (77, 88), "csr")  # noqa: E731
    f = jax.jit(lambda v, x: make().with_values(v) @ x).lower(jnp.ones(2), jnp.ones(88)).compile()
    g = jax.jit(lambda v, x: x @ make().with_values(v)).lower(jnp.ones(2), jnp.ones(77)).compile()
    jax.clear_caches()
    clear_cache()
    gc.collect()
    junk = [np.full(100_000, -1, np.int32) for _ in range(20)]
    assert f(jnp.array([3.0, 4.0]), jnp.ones(88))[:3].tolist() == [3, 0, 4]
    assert g(jnp.array([3.0, 4.0]), jnp.ones(77))[:4].tolist() == [0, 3, 0, 4]
    del junk


PRODUCT = """
    import sys, jax, jax.numpy as jnp, numpy as np, jsparse
    D = (np.arange(35).reshape(5, 7) % 3).astype(np.float32)
    A = jsparse.asarray(D, "csr")
    def loss(A, X):
        return (jsparse.einsum("ij,jk->ik", A, X) ** 2).sum()
    X = jnp.arange(14.0).reshape(7, 2)
    program = jax.jit(jax.value_and_grad(loss, (0, 1)))
    def check(value, gradients):
        dA, dX = gradients
        assert value == ((D @ X) ** 2).sum()
        np.testing.assert_array_equal(dA.values, (2 * (D @ X) @ X.T)[tuple(A.pattern.to_coords())])
        np.testing.assert_array_equal(dX, 2 * D.T @ (D @ X))
"""


def test_the_persistent_cache_of_jax(tmp_path):
    """A second process loads the program. Its kernels are bound while lowering, or made from recipes when XLA loads."""
    program = (
        PRODUCT
        + """
    import jax.monitoring, jsparse.primitives.kernel
    from jsparse.compiler.runtime import kernel_call as runtime
    events, asked = [], []
    jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
    jsparse.base._native.set_resolver(lambda *request: (asked.append(request[0]), runtime.resolve(*request)))
    if sys.argv[1] == "unbound":
        jsparse.primitives.kernel.bind = lambda call: type("Unbound", (), {"check_operands": lambda *_: None})()
    check(*program(A, X))
    print(events.count("/jax/compilation_cache/cache_hits"), len(asked))
    """
    )
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
    }
    outputs = [run(program, how, **settings).split() for how in ("bound", "bound", "unbound")]
    assert outputs[0] == ["0", "0"]
    assert int(outputs[1][0]) > 0
    assert outputs[1][1] == "0"
    assert outputs[2][0] == outputs[1][0]
    assert int(outputs[2][1]) >= 3


def test_serialized_executables(tmp_path):
    """A process that never lowered the program makes the kernels from its recipes, if it knows the pattern."""
    run(PRODUCT + """
    import pickle, pathlib
    from jax.experimental.serialize_executable import serialize
    pathlib.Path(sys.argv[1]).write_bytes(pickle.dumps(serialize(program.lower(A, X).compile())))
    """, tmp_path / "program")  # fmt: skip
    load = """
    import pickle, pathlib
    from jax.experimental.serialize_executable import deserialize_and_load
    payload, *trees = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    """
    run(PRODUCT + load + """
    check(*deserialize_and_load(payload, *trees)(A, X))
    """, tmp_path / "program")  # fmt: skip


def test_a_program_whose_pattern_is_unknown(tmp_path):
    """Loading or running it raises an error that says what is missing."""
    run(PRODUCT + """
    import pickle, pathlib
    from jax.experimental.serialize_executable import serialize
    product = jax.jit(lambda v, X: A.with_values(v) @ X).lower(A.values, X).compile()
    pathlib.Path(sys.argv[1]).write_bytes(pickle.dumps(serialize(product)))
    """, tmp_path / "program")  # fmt: skip
    message = run("""
    import pickle, pathlib, sys, numpy as np, jax, jsparse
    from jax.experimental.serialize_executable import deserialize_and_load
    parts = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    try:
        deserialize_and_load(*parts)(np.ones(23, np.float32), np.ones((7, 2), np.float32))
    except jax.errors.JaxRuntimeError as error:
        print(error)
    """, tmp_path / "program")  # fmt: skip
    assert "NOT_FOUND" in message
    assert "Expected the sparse pattern" in message


def test_programs_are_the_same_in_any_process():
    """They contain nothing of the process or the machine, so caches and jobs of many hosts can share them."""
    program = (
        PRODUCT
        + """
    junk = [object() for _ in range(int(sys.argv[1]))]
    print(program.lower(A, X).compile().as_text())
    """
    )
    texts = [run(program, n, PYTHONHASHSEED=str(n)) for n in (1, 1000)]
    assert texts[0].count("jsparse_kernel") >= 3
    assert texts[0] == texts[1]


def exported():
    case = Case("ij,jk->ik", "csr")
    f, operands = case.function(), case.operands()
    loss = jax.jit(lambda *o: (f(*o) ** 2).sum())
    return jsparse.export(loss)(*operands), loss, operands


def test_export():
    """A function of the leaves is exported, and called in this process, where the patterns are known."""
    program, loss, operands = exported()
    assert program.call(*operands) == loss(*operands)
    assert jax.jit(program.call)(*operands) == loss(*operands)
    found = program.vjp().call(*operands, jnp.float32(1))
    for a, b in zip(found, jax.grad(loss, (0, 1))(*operands), strict=True):
        np.testing.assert_array_equal(a, b)
    unchecked = jax.export.export(loss)
    with pytest.raises(ValueError, match="jsparse_kernel"):
        unchecked(*operands)


def test_serialized_exports():
    pytest.importorskip("flatbuffers")
    program, loss, operands = exported()
    loaded = jax.export.deserialize(bytearray(program.serialize(vjp_order=1)))
    assert loaded.call(*operands) == loss(*operands)
    found = jax.grad(loaded.call, (0, 1))(*operands)
    for a, b in zip(found, jax.grad(loss, (0, 1))(*operands), strict=True):
        np.testing.assert_array_equal(a, b)
