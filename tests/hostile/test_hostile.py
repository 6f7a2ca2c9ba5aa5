"""A sample of the hostile cases; `make test-hostile` runs thousands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from programs.amount import amount

RUN = Path(__file__).parent / "run.py"


@pytest.mark.sampled
def test_no_case_crashes_is_wrong_or_reads_foreign_memory():
    command = [sys.executable, RUN, "--count", str(amount(12, 90)), "--recipes", str(amount(4, 24)), "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


BUFFER = """
from native import kernels
compiled = kernels.Compiled(kernels.DOUBLE)
x, y = np.ones({there}, np.float32), np.ones(4, np.float32)  # the kernel writes as many elements as it reads
"""
WORKSPACE = """
from jsparse.compiler.backends.llvm.jit import compile_kernel
from jsparse.compiler.kernel.algebra import const
from jsparse.compiler.kernel.nodes import Borrow, Buffer, Load, Store
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.dtypes import Type
I32 = Type("int32")
X, Y, W = Buffer("x", I32, 0), Buffer("y", I32, 1, True), Buffer("w", I32, -1)
compiled = compile_kernel(Kernel((X, Y), Borrow(W, const(3), Store(Y, const(0), Load(W, Load(X, const(0)))))))
x, y = np.full(1, {there} - 2, np.int32), np.zeros(1, np.int32)
"""


@pytest.mark.parametrize("made", [BUFFER, WORKSPACE])
@pytest.mark.parametrize("there, code", [(4, 0), (5, -11)])
def test_the_guard_sees_a_read_past_the_end(made, there, code):
    """Without the guard, the other test would not notice such a read."""
    program = """
import sys, numpy as np
sys.path.insert(0, {tests!r})
from jsparse.base import _native
{made}
_native.set_guard(True)
_native.run(compiled.address, [x, y])
"""
    text = program.format(tests=str(Path(__file__).parents[1]), made=made.format(there=there))
    assert subprocess.run([sys.executable, "-c", text], capture_output=True).returncode == code
