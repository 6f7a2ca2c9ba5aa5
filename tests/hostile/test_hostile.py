"""A sample of the hostile cases; `make test-hostile` runs thousands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).parent / "run.py"


def test_no_case_crashes_is_wrong_or_reads_foreign_memory():
    done = subprocess.run([sys.executable, RUN, "--count", "90", "--seed", "7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_guard_sees_a_read_past_the_end():
    """Without the guard, the other test would not notice such a read."""
    code = """
import sys, numpy as np
sys.path.insert(0, {tests!r})
from native import kernels
from jsparse import _native
_native.set_guard(True)
compiled = kernels.Compiled(kernels.DOUBLE)
x, y = np.ones(5, np.float32), np.ones(4, np.float32)  # the kernel writes as many elements as it reads
_native.run(compiled.address, [x, y])
"""
    text = code.format(tests=str(Path(__file__).parents[1]))
    assert subprocess.run([sys.executable, "-c", text], capture_output=True).returncode == -11
