"""`jax.export` of functions that take and return SparseTensors, in this process and in another one."""

import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.formats.serialized import pattern_bytes, read_pattern, read_type, type_bytes

pytest.importorskip("flatbuffers")
DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4
X = np.linspace(-1, 1, 6, dtype=np.float32)
KINDS = {
    "static": lambda: jsparse.asarray(DENSE),
    "dynamic": lambda: jsparse.asarray(DENSE, "coo").dynamic(25),
    "transposed": lambda: jsparse.asarray(DENSE).dynamic(25).with_transpose(),
}


def exported(function, *operands):
    return jsparse.export(jax.jit(function))(*operands)


def several(tree):
    """A function from tensors to tensors: on their patterns, on new ones, and arrays."""
    A = tree["A"]
    return {"same": 2 * A, "product": jsparse.einsum("ij,kj->ik", A, A, nse=25), "largest": A.prune(keep=4), "y": A @ X}


def check(found, A):
    np.testing.assert_array_equal(found["same"].todense(), 2 * DENSE)
    np.testing.assert_array_equal(found["product"].todense(), DENSE @ DENSE.T)
    np.testing.assert_array_equal(found["largest"].todense(), A.prune(keep=4).todense())
    np.testing.assert_allclose(found["y"], DENSE @ X, rtol=1e-6)
    assert jax.tree.structure(found["same"]) == jax.tree.structure(A)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind):
    A = KINDS[kind]()
    loaded = jax.export.deserialize(exported(several, {"A": A}).serialize())
    check(loaded.call({"A": A}), A)
    check(jax.jit(loaded.call)({"A": A}), A)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    A = KINDS[kind]()
    loss = lambda A: ((A @ X) ** 2).sum()  # noqa: E731
    loaded = jax.export.deserialize(exported(loss, A).serialize(vjp_order=1))
    found = jsparse.grad(loaded.call)(A)
    np.testing.assert_allclose(found.todense(), jsparse.grad(loss)(A).todense(), rtol=1e-6)


def test_other_tensors_are_refused():
    A = KINDS["static"]()
    for given, others in ((A, [2 * A.T, A.dynamic()]), (A.dynamic(), [A, A.dynamic().T])):
        loaded = jax.export.deserialize(exported(lambda A: A @ jnp.ones(A.shape[1]), given).serialize())
        for other in others:
            with pytest.raises(ValueError, match="must have the same pytree structure"):
                loaded.call(other)


PROGRAM = """
import pathlib, sys
import jax, jax.export
import numpy as np
import jsparse
for name in sys.argv[1:]:
    loaded = jax.export.deserialize(bytearray(pathlib.Path(name).read_bytes()))
    args, _ = jax.tree.unflatten(loaded.in_tree, [np.ones(x.shape, x.dtype) for x in loaded.in_avals])
    A = args[0]["A"]
    found = loaded.call({"A": A})
    assert isinstance(found["same"], jsparse.SparseTensor)
    print(name[-6:], A.is_dynamic or float(found["same"].sum()))
"""


def test_another_process(tmp_path):
    """The pattern of a static tensor travels with the exported function."""
    files = []
    for kind, make in KINDS.items():
        files.append(tmp_path / kind)
        files[-1].write_bytes(exported(several, {"A": make()}).serialize())
    done = subprocess.run([sys.executable, "-c", PROGRAM, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["static", "44.0", "ynamic", "True", "sposed", "True"]


FORMATS = {
    "csr": (5, 6),
    "csc": (5, 6),
    "coo": (5, 6),
    "(i, j) -> (i : dense, j : range)": (5, 6),
    "(i, j, k) -> (k : compressed, i : dense, j : dense)": (5, 2, 3),
    "(i, j) -> (i : dense, j : dense)": (5, 6),
}


def test_bytes_of_patterns():
    patterns = [jsparse.asarray(DENSE.reshape(shape), format).pattern for format, shape in FORMATS.items()]
    patterns.append(jsparse.asarray(np.float32(1)).pattern)
    patterns.append(jsparse.SparseTensor.from_coords([[2**40]], np.ones(1, np.float32), (2**41,), "coo").pattern)
    for pattern in patterns:
        assert read_pattern(pattern_bytes(pattern)) is pattern
    for kind in ("dynamic", "transposed"):
        pattern = KINDS[kind]().pattern
        for part in (pattern, *pattern.derived):
            assert read_type(type_bytes(part.type)) == part.type


def test_damaged_bytes():
    written = pattern_bytes(KINDS["static"]().pattern)
    rng = np.random.default_rng(0)
    for n in range(60):
        damaged = bytearray(written)
        if n % 3 == 0:
            damaged = damaged[: rng.integers(len(written))]
        else:
            damaged[rng.integers(len(written))] ^= 1 << rng.integers(8)
        try:
            found = read_pattern(bytes(damaged))
        except jsparse.PatternError as error:
            assert "these bytes are damaged" in str(error)  # noqa: PT017
        else:
            assert found is KINDS["static"]().pattern
    for data in (b"", b"{}", b"[1]", b'{"shape": [5], "format": "x", "nse": 3}', b"\xff"):
        with pytest.raises(jsparse.PatternError, match="these bytes are damaged"):
            read_type(data)
