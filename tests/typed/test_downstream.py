"""Type checkers see the types that the documentation promises, as a program that uses jsparse does."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "downstream.py"

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="one release of Python is enough")


def test_it_runs():
    runpy.run_path(str(PROGRAM))


def test_mypy():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", str(PROGRAM.relative_to(ROOT))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright(tmp_path):
    pytest.importorskip("pyright")
    copy = shutil.copy(PROGRAM, tmp_path)
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "--project",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, copy
    assert not found["generalDiagnostics"], done.stdout
