"""Options of the test run, and its memory."""

import ctypes
import gc
import os
from pathlib import Path

import pytest

# No cache on disk: tests count compilations, and no test depends on an earlier run. Only tests/compiler/cache/ uses it.
# This is set before jsparse is imported, here and in the processes that tests start.
os.environ["JSPARSE_CACHE_DIR"] = ""

# XLA compiles thousands of small programs for the tests, most of them as references. Optimising them takes longer than
# running them.
OPTIMIZED = os.environ.get("JSPARSE_TEST_OPTIMIZED") == "1"
if not OPTIMIZED:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0".strip()


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


class Memory:
    """Clears all caches of compiled programs whenever the test process has grown too large.

    A compiled program takes about a megabyte as long as JAX or jsparse caches it, and a run compiles some ten thousand.
    Few are used by more than one file of tests, so little is compiled again.
    """

    LIMIT, GROWTH = 1_200_000_000, 500_000_000  # bytes: of the process, and of its growth since caches were cleared

    def __init__(self) -> None:
        self.allowed = self.LIMIT

    @staticmethod
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self):
        try:
            return (yield)
        finally:
            if self.resident() > self.allowed:
                self.clear()
                self.allowed = max(self.LIMIT, self.resident() + self.GROWTH)

    @staticmethod
    def clear() -> None:
        import jax

        import jsparse

        jax.clear_caches()
        jsparse.clear_cache()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # the process would keep pages that are partly free


class Optimization:
    """`make test` compiles at LLVM's lowest level, which takes a third of the time of the highest one.

    The tests of the compiler and the random programs choose levels themselves. `make test-optimized` runs all others at
    the highest level, by which users' kernels are compiled.
    """

    CHOOSE = (Path(__file__).parent / "compiler", Path(__file__).parent / "programs")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        from jsparse.compiler.backends.llvm.backend import Llvm
        from jsparse.compiler.backends.table import BACKENDS

        chooses = any(folder in item.path.parents for folder in self.CHOOSE)
        BACKENDS["llvm"] = Llvm() if chooses else Llvm(level=0)


def pytest_configure(config):
    config.pluginmanager.register(Memory())
    if not OPTIMIZED:
        config.pluginmanager.register(Optimization())
