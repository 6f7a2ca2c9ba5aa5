"""The routines on garbage under AddressSanitizer and UndefinedBehaviorSanitizer. This needs a C++ compiler."""

import shutil
import subprocess
from pathlib import Path

import pytest
from programs.amount import amount

HERE = Path(__file__).parent
ROUNDS = amount(300, 3000)
FOLDERS = ["arrays", "assembly", "kernel", "levels", "memory", "random", "routines", "sort", "threads"]


def test_garbage_under_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler")
    csrc = HERE.parents[1] / "csrc"
    program = tmp_path / "stress"
    sources = [csrc / "execution/host_executor.cc", *(file for name in FOLDERS for file in (csrc / name).glob("*.cc"))]
    files = [str(file) for file in (HERE / "stress.cc", *sources)]
    flags = ["-std=c++17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread", f"-I{csrc}"]
    built = subprocess.run([compiler, *flags, "-o", str(program), *files], capture_output=True, text=True)
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip("no sanitizers")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program), str(ROUNDS)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
