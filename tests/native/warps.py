"""The backend "warps", for tests: kernels as programs of warps, which a simulator runs on the CPU.

JSPARSE_BACKEND=warps runs any test with it (`make test-interpret BACKEND=warps`), and JSPARSE_WARP_ORDER=reversed runs
the threads of a warp from the last to the first one.
"""

import collections
import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

import jsparse
from jsparse import program_settings
from jsparse.compiler.backends import BACKENDS, Interpreter
from jsparse.compiler.backends.llvm.jit import compile_module
from jsparse.compiler.backends.warps.distribute import NoWarpProgramError
from jsparse.compiler.backends.warps.emit import emit_warps

refusals = collections.Counter()
"""How many kernels were refused, by reason; None for those that were compiled."""


@functools.cache
def simulator():
    """Compile and load the simulator, whose functions kernels find in the process."""
    folder = tempfile.TemporaryDirectory(prefix="jsparse-warps-", ignore_cleanup_errors=True)
    library = Path(folder.name) / "warp.so"
    source = Path(__file__).parent / "warp.c"
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL), folder


class Warps:
    """The backend. Kernels that are no programs of warps go to the interpreter."""

    name = "warps"
    title = "simulated warps"
    linker = None

    def compile(self, kernel, buffers):
        simulator()
        try:
            module = emit_warps(kernel)
        except NoWarpProgramError as error:
            refusals[str(error)] += 1
            return Interpreter().compile(kernel, buffers)
        refusals[None] += 1
        return compile_module(module, level=1)

    def listing(self, kernel):
        return str(emit_warps(kernel))


def register():
    """List the backend, and let `jsparse.config.backend` name it."""
    BACKENDS["warps"] = Warps()
    names = program_settings.CHOICES["backend"]
    program_settings.CHOICES["backend"] = (*dict.fromkeys((*names, "warps")),)


class Refusals:
    """Runs all tests by this backend, and reports how many kernels it refused, and why."""

    def __init__(self):
        register()
        jsparse.config.backend = "warps"
        self.total = collections.Counter()

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["refusals"] = [(reason, count) for reason, count in refusals.items()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.total.update(dict(node.workeroutput["refusals"]))

    def pytest_terminal_summary(self, terminalreporter):
        total = self.total + refusals
        compiled = total.pop(None, 0)
        terminalreporter.line(f"kernels as programs of warps: {compiled}, refused: {total.total()}, {dict(total)}")
