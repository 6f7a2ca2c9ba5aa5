"""Memory that runs out in the extension: an error, and the next call is right. This needs a C++ compiler and glibc."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("g++") is None, reason="no compiler, or no glibc")
def test_each_allocation_may_fail(tmp_path: Path) -> None:
    library = tmp_path / "allocations.so"
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, "-o", str(library), str(HERE / "allocations.cc")], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(
        [sys.executable, str(HERE / "allocations.py")], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("errors of") >= 10
