"""Exported functions carry the patterns that they close over. Sizes that are symbols are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from trees.exported import CASES, WINDOW, A, random

import jsparse

pytest.importorskip("flatbuffers")

PROGRAM = """
import json, pathlib, sys
import jax, jax.export, jax.numpy as jnp, numpy as np
import jsparse
folder = pathlib.Path(sys.argv[1])
for name, derivative in json.loads((folder / "cases").read_text()):
    arguments = list(np.load(folder / f"{name}.npz").values())
    loaded = jax.export.deserialize(bytearray((folder / name).read_bytes()))
    try:
        out = loaded.call(*arguments)
        if derivative:
            again, back = jax.vjp(jax.jit(lambda *x: jax.jit(loaded.call)(*x)), *arguments)
            assert bool((again == out).all())
            out = [out, *back(jnp.ones_like(out))]
        np.savez(folder / f"{name}.out.npz", *(out if derivative else [out]))
    except jax.errors.JaxRuntimeError as error:
        (folder / f"{name}.error").write_text(str(error))
"""


def exported(function: Callable[..., Any], *operands: Any) -> Any:
    return jsparse.export(jax.jit(function))(*operands)


class Loaded:
    """What another process computed of exported functions."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cases = folder, list[tuple[str, bool]]()

    def add(self, name: str, data: bytes | bytearray, arguments: tuple[Any, ...], derivative: bool) -> None:
        (self.folder / name).write_bytes(data)
        np.savez(self.folder / f"{name}.npz", *arguments)
        self.cases.append((name, derivative))

    def run(self) -> None:
        (self.folder / "cases").write_text(json.dumps(self.cases))
        command = [sys.executable, "-c", PROGRAM, str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def results(self, name: str) -> list[np.ndarray]:
        error = self.error(name)
        assert error is None, error
        return list(np.load(self.folder / f"{name}.out.npz").values())

    def error(self, name: str) -> str | None:
        path = self.folder / f"{name}.error"
        return path.read_text() if path.exists() else None


def corruptions(data: bytes) -> dict[str, bytes]:
    """The exported function with other numbers in the index arrays that it carries."""
    rng, made = np.random.default_rng(1), {}
    for which, array in enumerate(A.pattern.arrays):
        raw = array.tobytes()
        assert data.count(raw) == 1, "the module should have each index array once"
        for n, number in enumerate((-1, 12, 2**31 - 1, -(2**31), 0, 1)):
            changed = array.copy()
            at = rng.integers(1, len(array))
            changed[at] = number if changed[at] != number else number + 1
            made[f"array {which}, corruption {n}"] = data.replace(raw, changed.tobytes())
    digest = A.pattern.digest
    for n, (text, other) in enumerate({"9x12": "9x13", "d0c1": "d1c0", f"2 {digest}": f"3 {digest}"}.items()):
        made[f"text, corruption {n}"] = data.replace(text.encode(), other.encode())
        assert made[f"text, corruption {n}"] != data
    made["text, corruption 3"] = data.replace(f"2 {digest}".encode(), f"1 {digest}".encode())
    return made


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """All functions, computed by one process, which has never made their patterns."""
    found = Loaded(tmp_path_factory.mktemp("exported"))
    x = random(12)
    several = exported(lambda x: A @ x + A @ (A.T @ (A @ x)), x).serialize()
    for name, data in corruptions(bytes(several)).items():  # before the process has the pattern
        found.add(name, data, (x,), derivative=False)
    for name, case in CASES.items():
        data = exported(case.function, *case.arguments).serialize(vjp_order=int(case.derivative))
        found.add(name, data, case.arguments, case.derivative)
    found.run()
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_another_process_needs_no_pattern(loaded: Loaded, name: str) -> None:
    case = CASES[name]
    expected = [case.dense(*case.arguments)]
    if case.derivative:
        expected += jax.vjp(case.dense, *case.arguments)[1](jnp.ones_like(expected[0]))
    for out, wanted in zip(loaded.results(name), expected, strict=True):
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_changed_index_arrays_are_refused(loaded: Loaded) -> None:
    """No kernel runs on them: each is compared with what the pattern should be."""
    names = [name for name, _ in loaded.cases if "corruption" in name]
    assert len(names) == 16
    for name in names:
        assert ("jsparse: PatternError" if "array" in name else "jsparse: ") in str(loaded.error(name)), name


def test_programs_that_are_not_exported_have_no_index_arrays() -> None:
    text = jax.jit(lambda x: A @ x).lower(random(12)).as_text()
    assert "carried" not in text
    assert "jsparse_index" not in text


SYMBOLIC: dict[str, tuple[str, Callable[..., Any]]] = {
    "product": ("12, b", lambda x: A @ x),
    "vmap": ("b, 12", jax.vmap(lambda x: A @ x)),
    "values": (f"b, {A.nse}", jax.vmap(lambda v: A.with_values(v).todense())),
    "evaluate": ("b, 4", lambda x: jsparse.evaluate("C[p,n] = X[cols[p],n]", cols=np.array([0, 0]), X=x)),
    "attention": ("b, 9, 4", lambda q: jsparse.sparse_attention(q, q, q, WINDOW)),
    "coordinates": ("2, b", lambda c: jsparse.SparseTensor.from_coords(c.astype(int), c[0], (9, 9), nse=9).todense()),
    "indices": ("b", lambda i: A[i.astype(int)].todense()),
    "layer": ("b, 7", lambda x: jsparse.nn.pool(x, x[:, 0].astype(int), 3)),
    "sparsify": ("12, b", lambda x: jsparse.sparsify(lambda A, x: (A @ x).sum())(A, x)),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name: str) -> None:
    shape, function = SYMBOLIC[name]
    sizes = jax.export.symbolic_shape(shape)
    with pytest.raises(jsparse.NotYetSupportedError, match="where b is a symbol.*export a program for each size"):
        exported(function, jax.ShapeDtypeStruct(sizes, jnp.float32))
