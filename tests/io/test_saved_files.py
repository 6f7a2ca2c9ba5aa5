"""Files that versions of jsparse wrote: archives, pickles and exported functions. Each later version loads them, or
refuses them by name.

`python tests/io/test_saved_files.py FOLDER` writes those of the installed version. The files in tests/io/saved/VERSION
are what that version wrote, and are never written again.
"""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import jsparse

MATRIX = np.arange(30).reshape(5, 6) * 7 % 4
CUBE = np.arange(24).reshape(2, 3, 4) * 5 % 3
FORMATS = {
    "csr": MATRIX,
    "csc": MATRIX,
    "dcsr": MATRIX,
    "coo": MATRIX,
    "(i, j) -> (i : dense, j : range)": MATRIX,
    "(i, j) -> (i : dense, j : dense)": MATRIX,
    "csf": CUBE,
    "(i, j, k) -> (k : compressed, i : dense, j : dense)": CUBE,
    "(i) -> (i : compressed)": MATRIX[1],
}
DTYPES = ("bool", "int8", "uint8", "int32", "float16", "bfloat16", "complex64", "int64", "float64", "complex128")
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)


NAMES = (*(f"format{n}" for n in range(len(FORMATS))), *DTYPES, "scalar", "dynamic", "transposed")


def tensor(name: str) -> tuple[jsparse.SparseTensor, np.ndarray]:
    """The tensor of that name, and the same as a dense array. JAX has to have 64 bits for some."""
    if name in DTYPES:
        return jsparse.asarray(MATRIX.astype(np.float64), "csr").astype(name), MATRIX.astype(name)
    if name.startswith("format"):
        format, dense = list(FORMATS.items())[int(name.removeprefix("format"))]
        return jsparse.asarray(dense.astype(np.float32), format), dense
    if name == "scalar":
        return jsparse.asarray(np.float32(3)), np.float32(3)
    A = jsparse.asarray(MATRIX.astype(np.float32), "csr" if name == "dynamic" else "coo").dynamic(25)
    return A if name == "dynamic" else A.with_transpose(), MATRIX


def functions() -> dict[str, Any]:
    """Functions of a matrix: kernels of products, of assemblies, of chains, of a semiring, and routines."""
    closed = jsparse.asarray(MATRIX[:, :5].astype(np.float32) + np.eye(5, dtype=np.float32))
    return {
        "product": lambda A: A @ X,
        "assembly": lambda A: (jsparse.einsum("ij,kj->ik", A, A, nse=25) + 0 * A[:, :5]).todense(),
        "selection": lambda A: A.prune(keep=4).sum(),
        "attention": lambda A: jsparse.sparse_attention(A @ X, X, X, A),
        "semiring": lambda A: jsparse.einsum("ij,jk->ik", A, X, semiring="min_plus"),
        "closed": lambda A: closed @ (A @ X),
    }


def write(folder: Path) -> None:
    """Write all files."""
    with jax.enable_x64(True):
        for name in NAMES:
            A, _ = tensor(name)
            jsparse.save(folder / f"{name}.npz", A)
            (folder / f"{name}.pickle").write_bytes(pickle.dumps((A, A.pattern)))
    static = jsparse.asarray(MATRIX.astype(np.float32))
    for kind, A in (("static", static), ("dynamic", static.dynamic(25))):
        for name, function in functions().items():
            exported = jsparse.export(jax.jit(function))(A)
            (folder / f"{name}_{kind}.exported").write_bytes(exported.serialize(vjp_order=int(name == "product")))


FOLDERS = sorted((Path(__file__).parent / "saved").glob("*"))
WRITERS = {"0.1.0": (0, 10, 2)}  # the release of JAX that exported functions were written with
NO_PATTERN = "jsparse: PatternError: Expected the sparse pattern .* to exist in this process"
REFUSALS = {("0.1.0", name): NO_PATTERN for name in ("closed_static", "closed_dynamic", "assembly_static")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", NAMES)
def test_tensors(folder, name):
    with jax.enable_x64(True):
        A, dense = tensor(name)
        pickled, pattern = pickle.loads((folder / f"{name}.pickle").read_bytes())
        coords, values = A.to_coords()
        want = np.zeros(A.shape, A.dtype)
        want[tuple(coords)] = values if A.ndim else values[0]
        np.testing.assert_array_equal(want, dense)
        for found in (jsparse.load(folder / f"{name}.npz"), pickled, jsparse.SparseTensor(A.values, pattern)):
            assert jax.tree.structure(found) == jax.tree.structure(A)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(A), strict=True):
                np.testing.assert_array_equal(a, b, strict=True)


def attention():
    scores = np.where(MATRIX != 0, np.exp(MATRIX @ X @ X.T / np.sqrt(2)), 0)
    return scores @ X / scores.sum(axis=1, keepdims=True)


EXPECTED = {
    "product": lambda: MATRIX @ X,
    "assembly": lambda: MATRIX @ MATRIX.T,
    "selection": lambda: np.sort(MATRIX, axis=None)[-4:].sum(),
    "attention": attention,
    "semiring": lambda: np.where(MATRIX[:, :, None] != 0, MATRIX[:, :, None] + X, np.inf).min(axis=1),
    "closed": lambda: (MATRIX[:, :5] + np.eye(5)) @ (MATRIX @ X),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", EXPECTED)
def test_exported_functions(folder, name):
    pytest.importorskip("flatbuffers")
    if jax.__version_info__ < WRITERS[folder.name]:
        pytest.skip("an older JAX need not read what a later one has written")
    A = jsparse.asarray(MATRIX.astype(np.float32))
    for kind, given in (("static", A), ("dynamic", A.dynamic(25))):
        loaded = jax.export.deserialize(bytearray((folder / f"{name}_{kind}.exported").read_bytes()))
        try:
            found = loaded.call(given)
        except jax.errors.JaxRuntimeError as error:
            assert re.search(REFUSALS[folder.name, f"{name}_{kind}"], str(error))  # noqa: PT017
            continue
        np.testing.assert_allclose(found, EXPECTED[name](), rtol=1e-5)
        if loaded.has_vjp():
            cotangent = jsparse.grad(lambda A, loaded=loaded: loaded.call(A).sum())(given)
            np.testing.assert_allclose(cotangent.todense(), np.where(MATRIX != 0, X.sum(axis=1), 0), rtol=1e-5)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    write(target)
