"""Kernels that earlier processes compiled: found where everything is the same, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from compiler.cache.kernel import EXPECTED, LINKER, RECIPE, A, X, compiled, files

import jsparse
from jsparse.compiler import cache
from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.backends.llvm import jit
from jsparse.compiler.backends.llvm.jit import Llvm
from jsparse.compiler.cache import entry
from jsparse.compiler.runtime import kernel_call as runtime


def test_the_second_time_nothing_is_compiled(folder):
    assert compiled()
    (file,) = files(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    written = file.stat().st_mtime_ns, file.read_bytes()
    assert not compiled()
    assert (file.stat().st_mtime_ns, file.read_bytes()) == written
    with pytest.raises(ValueError, match=r"Expected buffer 1 of a kernel to be float32 of shape \[5, 3\]"):
        runtime.run_recipe(RECIPE, [np.asarray(A.values), X[:4], *A.pattern.arrays, EXPECTED.copy()])


PROGRAM = """
import sys
import jax, numpy as np
import jsparse
from jsparse.compiler.runtime.kernel_call import collect
A = jsparse.asarray(np.diag(np.arange(1, 6, dtype=np.float32)), format="csr")
X = np.arange(15, dtype=np.float32).reshape(5, 3)
with collect() as stages:
    found = jax.jit(lambda A, X: jsparse.einsum("ij,jk->ik", A, X))(A, X)
np.testing.assert_array_equal(found, np.arange(1, 6)[:, None] * X)
print(*stages)
"""


def test_processes(folder):
    """Two that begin at once with no folder, and one behind them."""
    environment = {**os.environ, "JSPARSE_CACHE_DIR": str(folder), "JAX_PLATFORMS": "cpu"}

    def begun():
        return subprocess.Popen([sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM], env=environment,
                                stdout=subprocess.PIPE, text=True)  # fmt: skip

    both = [begun(), begun()]
    assert all("disk cache" in process.communicate()[0] for process in both)
    last = begun()
    stages = last.communicate()[0].split()
    assert [process.returncode for process in (*both, last)] == [0, 0, 0]
    assert "disk" in stages
    assert "LLVM" not in stages
    assert len(files(folder)) == 1
    assert not compiled()  # this process asks for the same


def changed(monkeypatch, module, name, value):
    monkeypatch.setattr(module, name, value)
    entry.environment.cache_clear()


@pytest.mark.parametrize(
    "module, name, value",
    [
        (jit, "host_cpu", lambda: ("z80", "")),
        (jit, "host_cpu", lambda: (jit.llvm.get_host_cpu_name(), "+none")),
        (jit.llvm, "llvm_version_info", (1, 2, 3)),
        (jit.llvmlite, "__version__", "0.1"),
        (entry, "FORMAT", 99),
        (entry._native, "ABI", 99),
        (entry, "_sources", entry.Sources(str(Path(jsparse.__file__).parent / "notation" / ".."))),
    ],
)
def test_entries_of_others_stay_beside(folder, monkeypatch, module, name, value):
    assert compiled()
    with monkeypatch.context() as patch:
        changed(patch, module, name, value)
        if name == "_sources":
            vars(value)["digest"] = "another"
        runtime.clear_cache()
        assert cache.load(RECIPE, LINKER) is None
        kernel = runtime.kernel_of(RECIPE)
        assert cache.load(RECIPE, LINKER).signature == kernel.signature
    entry.environment.cache_clear()
    assert len(files(folder)) == 2
    assert not compiled()


def test_another_level_of_optimisation_is_another_kernel(folder, monkeypatch):
    monkeypatch.setitem(BACKENDS, "llvm", Llvm(level=0))
    assert compiled()
    monkeypatch.undo()
    assert cache.load(RECIPE, Llvm(level=0))
    jsparse.config.cache_dir = folder
    assert compiled()
    assert cache.load(RECIPE, LINKER).object_code != cache.load(RECIPE, Llvm(level=0)).object_code


def test_sources_that_change_while_a_process_runs(folder, tmp_path, monkeypatch):
    """What is in memory is not what is on disk: nothing is read, nothing is kept."""
    root = tmp_path / "package"
    for package in entry.PACKAGES:
        (root / package / "inner").mkdir(parents=True)
        (root / package / "inner" / "a.py").write_text("1")
    sources = entry.Sources(str(root))
    file = root / "compiler" / "inner" / "a.py"
    first, times = entry.Sources(str(root)).digest, file.stat()
    assert sources.are_those_loaded()
    file.write_text("2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert entry.Sources(str(root)).digest != first
    assert entry.Sources(str(tmp_path)).digest is None
    old = entry.Sources(str(root), loaded=file.stat().st_ctime - 1)
    assert not old.are_those_loaded()
    changed(monkeypatch, entry, "_sources", old)
    assert compiled()
    assert compiled()
    assert not folder.exists()


def test_jitted_functions_trace_once_whatever_the_folder(folder):
    traces = []
    f = jax.jit(lambda x: traces.append(1) or A @ x)
    f(X)
    jsparse.config.cache_dir = None
    np.testing.assert_array_equal(f(X), EXPECTED)
    assert len(traces) == 1


def test_threads(folder):
    """All need the same kernel, from disk."""
    assert compiled()
    runtime.clear_cache()
    found = []
    threads = [threading.Thread(target=lambda: found.append(runtime.kernel_of(RECIPE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
