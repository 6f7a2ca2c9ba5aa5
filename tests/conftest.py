"""Options of the test run, and its memory."""

import ctypes
import gc
import os
from pathlib import Path

import pytest

# Tests that count compilations mean what they say, and none depends on what an earlier run left. Of the cache on disk
# those in tests/compiler/cache/ know. Set before jsparse is imported, here and in the processes that tests start.
os.environ["JSPARSE_CACHE_DIR"] = ""


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


class Memory:
    """What tests compiled is forgotten whenever their process has grown too far.

    A compiled program takes about a megabyte for as long as JAX or jsparse remembers it, and a run compiles some ten
    thousands. Few are used by more than one file of tests, so that little is compiled again.
    """

    LIMIT, GROWTH = 1_200_000_000, 500_000_000  # bytes that a process may have, and may grow by after it forgot

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
                self.forget()
                self.allowed = max(self.LIMIT, self.resident() + self.GROWTH)

    @staticmethod
    def forget() -> None:
        import jax

        import jsparse

        jax.clear_caches()
        jsparse.clear_cache()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free is spread over pages that the process would keep


def pytest_configure(config):
    config.pluginmanager.register(Memory())
