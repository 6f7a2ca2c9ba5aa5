"""Builds of the extension by a sanitizer can be loaded: the loader calls nothing that the sanitizer instruments."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
LOADED = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded')"

FOLDERS = ["memory", "sort", "threads"]
"""The folders of functions that have several versions and of their callers, and the folders that these need."""


@pytest.mark.parametrize("sanitizer, runtime", [("address", "libasan.so"), ("thread", "libtsan.so")])
def test_functions_in_several_versions_load_under(sanitizer: str, runtime: str, tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no compiler")
    library = tmp_path / "clones.so"
    files = [str(file) for folder in FOLDERS for file in (CSRC / folder).glob("*.cc")]
    flags = ["-std=c++17", "-pthread", "-shared", "-fPIC", f"-I{CSRC}", f"-fsanitize={sanitizer}"]
    command = [compiler, *flags, "-o", str(library), *files]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip("no sanitizers")
    assert built.returncode == 0, built.stderr
    where = subprocess.run([compiler, f"-print-file-name={runtime}"], capture_output=True, text=True).stdout.strip()
    environment = {"LD_PRELOAD": where, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([sys.executable, "-c", LOADED, str(library)], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stdout + done.stderr


def test_versions_of_functions_are_declared_in_one_file() -> None:
    files = [file for file in CSRC.glob("*/*") if "target_clones" in file.read_text()]
    assert {file.parent.name for file in CSRC.glob("*/*.cc") if "JSPARSE_CLONES" in file.read_text()} <= {*FOLDERS}
    assert [str(file.relative_to(CSRC)) for file in files] == ["sort/clones.h"]
