"""Checks of an installed wheel, away from the repository: `python installed.py [--no-compiler]`.

It needs nothing but the package and what that requires. With `--no-compiler` it also proves that no compiler and no
build tool is found on the PATH.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path, PurePosixPath

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

import jsparse

TOOLS = ("as", "c++", "cc", "clang", "clang++", "cmake", "g++", "gcc", "ld", "make", "ninja")
PACKAGE = Path(jsparse.__file__).parent
A = sp.random_array((300, 200), density=0.05, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
X = np.random.default_rng(1).normal(size=(200, 16)).astype(np.float32)


def no_compiler() -> None:
    found = {tool: path for tool in TOOLS if (path := shutil.which(tool)) is not None}
    assert not found, f"Expected a PATH without compilers and build tools, but it has {found}"


def the_installed_package_is_imported() -> None:
    assert Path(sysconfig.get_paths()["platlib"]) / "jsparse" == PACKAGE, PACKAGE
    assert jsparse.__version__ == importlib.metadata.version("jsparse") != "0+unknown"


def files_are_those_of_the_package() -> None:
    files = [PurePosixPath(str(file)) for file in importlib.metadata.files("jsparse") or ()]
    extension = f"jsparse/base/_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    info = f"jsparse-{jsparse.__version__}.dist-info"
    strange = [
        str(file)
        for file in files
        if file.parts[0] != info
        and not (file.parts[0] == "jsparse" and file.suffix in (".py", ".pyi", ".pyc"))
        and str(file) not in (extension, "jsparse/py.typed")
    ]
    assert not strange, f"Expected sources, one extension and metadata in the wheel, but it also has {strange}"
    assert {extension, "jsparse/py.typed", "jsparse/base/_native.pyi"} <= {str(file) for file in files}
    names = {file.name for file in files if file.parts[0] == info}
    assert {"LICENSE", "METADATA", "RECORD", "WHEEL"} <= names, names
    assert importlib.util.find_spec("tests") is None


def links_of_the_description_lead_somewhere() -> None:
    description = importlib.metadata.metadata("jsparse").get_payload()
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert len(links) > 20, description[:200]
    lost = [link for link in links if not link.startswith(("https://", "#"))]
    assert not lost, f"Expected links that work on a package index, but the description has {lost}"


def products_agree_with_scipy() -> None:
    tensor = jsparse.asarray(A)
    np.testing.assert_allclose(jax.jit(lambda t, x: t @ x)(tensor, X), A @ X, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((tensor.T @ tensor).todense(), (A.T @ A).toarray(), rtol=1e-4, atol=1e-5)
    sums = jsparse.evaluate("S[i,j] = (A[i,j] + B[i,j]) * exp(-x[j])", A=tensor, B=2 * tensor, x=X[:, 0])
    np.testing.assert_allclose(sums.todense(), 3 * A.toarray() * np.exp(-X[:, 0]), rtol=1e-4, atol=1e-5)


def large_products_use_threads() -> None:
    large = sp.random_array(
        (40_000, 4_000), density=0.005, format="csr", dtype=np.float32, rng=np.random.default_rng(2)
    )
    x = np.random.default_rng(3).normal(size=(4_000, 8)).astype(np.float32)
    np.testing.assert_allclose(jsparse.asarray(large) @ x, large @ x, rtol=1e-3, atol=1e-3)


def gradients_agree_with_dense_arrays() -> None:
    def loss(values: jax.Array, x: jax.Array) -> jax.Array:
        return (jnp.sin(jsparse.SparseTensor(values, tensor.pattern) @ x) ** 2).sum()

    tensor, dense = jsparse.asarray(A), jnp.asarray(A.toarray())
    found = jax.jit(jax.grad(loss, argnums=(0, 1)))(tensor.values, X)
    wanted = jax.grad(lambda a, x: (jnp.sin(a @ x) ** 2).sum(), argnums=(0, 1))(dense, X)
    np.testing.assert_allclose(found[0], wanted[0][tuple(tensor.coords)], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-3, atol=1e-3)


def patterns_may_be_data_of_a_program() -> None:
    @jax.jit
    def product(rows: jax.Array, columns: jax.Array, values: jax.Array, x: jax.Array) -> jax.Array:
        return jsparse.SparseTensor.from_coords((rows, columns), values, shape=A.shape, nse=A.nnz) @ x

    coo = A.tocoo()
    np.testing.assert_allclose(product(*coo.coords, coo.data, X), A @ X, rtol=1e-4, atol=1e-5)


def files_are_read_back() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tensor.npz"
        jsparse.save(path, jsparse.asarray(A))
        assert (jsparse.load(path).todense() == A.toarray()).all()


def kernels_are_kept_for_later_processes() -> None:
    program = "import numpy as np, jsparse; print((jsparse.asarray(np.eye(7)) @ np.ones(7)).sum())"
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"JSPARSE_CACHE_DIR": folder}

        def run(*arguments: str) -> str:
            return subprocess.run(
                [sys.executable, *arguments], env=env, capture_output=True, text=True, check=True
            ).stdout

        assert run("-c", program).strip() == "7.0"
        kept = sorted(Path(folder).glob("*.kernel"))
        assert kept
        assert run("-c", program).strip() == "7.0"
        assert sorted(Path(folder).glob("*.kernel")) == kept
        facts = run("-m", "jsparse", "info")
        assert jsparse.__version__ in facts
        assert f"{len(kept)} kernels, {len(kept)} of them" in facts, facts


CHECKS = (
    the_installed_package_is_imported,
    files_are_those_of_the_package,
    links_of_the_description_lead_somewhere,
    products_agree_with_scipy,
    large_products_use_threads,
    gradients_agree_with_dense_arrays,
    patterns_may_be_data_of_a_program,
    files_are_read_back,
    kernels_are_kept_for_later_processes,
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check an installed wheel of jsparse.")
    parser.add_argument("--no-compiler", action="store_true", help="also prove that the PATH has no compiler")
    options = parser.parse_args()
    for check in (no_compiler, *CHECKS) if options.no_compiler else CHECKS:
        begin = time.perf_counter()
        check()
        print(f"{time.perf_counter() - begin:6.2f} s  {check.__name__.replace('_', ' ')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
