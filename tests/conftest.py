"""Options of the test run, and its memory."""

import ctypes
import gc
import os
import tempfile
import threading
from pathlib import Path

import pytest
from quick_xla import compile_quickly

# No cache on disk: tests count compilations, and no test depends on an earlier run. Only tests/compiler/cache/ uses it.
# This is set before jsparse is imported, here and in the processes that tests start.
os.environ["JSPARSE_CACHE_DIR"] = ""

OPTIMIZED = os.environ.get("JSPARSE_TEST_OPTIMIZED") == "1"
if os.environ.get("JSPARSE_BACKEND") == "warps":  # a backend of the tests, which workers register, too
    os.environ["JSPARSE_TEST_WARPS"] = os.environ.pop("JSPARSE_BACKEND")
SEVERAL_DEVICES = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")  # as for tests/meshes/

if not OPTIMIZED and "PYTEST_XDIST_WORKER" not in os.environ:  # workers start with the environment as it is here
    compile_quickly()


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
        self.contexts = Contexts()

    def pytest_sessionstart(self):
        if not SEVERAL_DEVICES:
            self.contexts.share()

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

    def clear(self) -> None:
        import jax

        import jsparse

        jax.clear_caches()
        jsparse.clear_cache()
        self.contexts.current = None
        gc.unfreeze()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # the process would keep pages that are partly free


class Garbage:
    """Collections of garbage pass over what is left of earlier files of tests, most of which caches keep.

    Looking through all of it takes half a second, and tests of what is freed do that many times.
    """

    file: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if item.path != self.file:
            self.file = item.path
            gc.collect()
            gc.freeze()


class Contexts(threading.local):
    """Each thread lowers its programs in one context of MLIR, except within the lowering of another program.

    JAX makes one for each program. With all that is set up in it again, that is a fifth of the time of these tests.
    Programs for several devices share none: XLA asks for programs while it compiles one.
    """

    current = None

    def share(self) -> None:
        from jax._src.interpreters import mlir

        if make := getattr(mlir, "make_ir_context", None):  # not a public name
            mlir.make_ir_context = lambda: self.of_thread(make, mlir.ir.Context)

    def of_thread(self, make, kind):
        try:
            within = kind.current is not None
        except ValueError:
            within = False
        if within:  # operations without a place of their own would go to that of the other program
            return make()
        if self.current is None:
            self.current = make()
        return self.current


class Programs:
    """XLA compiles no program twice in a run: JAX keeps them in a folder that all processes of the run share.

    Many tests make the same program, by functions that JAX cannot know to be equal, in several processes, or behind a
    clearing of caches. The folder goes with the run, and programs that tests start do not see it.
    """

    UNFINISHED = "Error reading persistent compilation cache entry"  # another process is writing it; JAX then compiles

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def pytest_sessionstart(self):
        import jax

        jax.config.update("jax_compilation_cache_dir", self.folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["programs"] = self.folder

    @staticmethod
    def folder_of(config) -> str:
        if hasattr(config, "workerinput"):
            return config.workerinput["programs"]
        folder = tempfile.TemporaryDirectory(prefix="jsparse-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        return folder.name


class Optimization:
    """`make test` compiles at LLVM's lowest level, which takes a third of the time of the highest one.

    The tests of the compiler and the random programs choose levels themselves. `make test-optimized` runs all others at
    the highest level, by which users' kernels are compiled.
    """

    CHOOSE = (Path(__file__).parent / "compiler", Path(__file__).parent / "programs")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        from jsparse.compiler.backends import BACKENDS
        from jsparse.compiler.backends.llvm.jit import Llvm

        chooses = any(folder in item.path.parents for folder in self.CHOOSE)
        BACKENDS["llvm"] = Llvm() if chooses else Llvm(level=0)


def pytest_collection_modifyitems(config, items):
    """Tests marked by `sampled`: a part of their cases in `make test`, the others in `make test-long`, which runs no
    other tests of the file unless some take a sample by `programs.amount`.

    A test marked by `sampled(step)` runs every `step`-th case in `make test`, by the sum of the places of its
    parameters among their values: so each value of each parameter occurs, beside other ones of the others. Without an
    argument the test takes its sample itself, by `programs.amount`. A case that is asked for by its name runs in any
    case.
    """
    if any("::" in argument for argument in config.args):
        return
    marked = {item: mark for item in items if (mark := item.get_closest_marker("sampled"))}
    places = _places(item for item, mark in marked.items() if mark.args)
    chosen = {item for item, place in places.items() if place % marked[item].args[0] == 0}
    if os.environ.get("JSPARSE_TEST_LONG") == "1":
        whole = {item.path for item in marked if {"LONG", "amount", "sample"} & vars(item.module).keys()}
        files = {item.path for item in marked} - whole
        left_out = chosen | {item for item in items if item.path in files and item not in marked}
    else:
        left_out = places.keys() - chosen
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _places(items) -> dict[pytest.Item, int]:
    """For each case of a test the sum of the places of its parameters, in the order in which their values occur."""
    seen, found = {}, {}
    for item in items:
        found[item] = 0
        for name, value in item.callspec.params.items():
            values = seen.setdefault((item.path, item.originalname, name), {})
            found[item] += values.setdefault(repr(value), len(values))
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Tests marked by `strict_promotion` run in that mode of JAX."""
    if item.get_closest_marker("strict_promotion") is None:
        return (yield)
    import jax

    with jax.numpy_dtype_promotion("strict"):
        return (yield)


def pytest_configure(config):
    gc.set_threshold(20_000)  # tracing makes so many objects that a collection at every 700 takes 7% of the time
    config.pluginmanager.register(Memory())
    config.pluginmanager.register(Garbage())
    if not SEVERAL_DEVICES:  # some of their tests serialize what XLA has compiled
        config.pluginmanager.register(Programs(Programs.folder_of(config)))
    config.addinivalue_line("filterwarnings", f"ignore:{Programs.UNFINISHED}")
    if os.environ.get("JSPARSE_TEST_WARPS"):
        from native.warps import Refusals

        config.pluginmanager.register(Refusals())
    if not OPTIMIZED:
        config.pluginmanager.register(Optimization())
