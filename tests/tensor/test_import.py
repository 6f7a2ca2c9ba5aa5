"""`import jsparse` only defines names: it makes no file, thread or import of a slow package."""

import subprocess
import sys

PROGRAM = """
import os, pathlib, sys, threading
import jax
import {modules}

def everything():
    return sorted(str(path) for path in pathlib.Path(os.environ["HOME"]).rglob("*"))

before, threads, tasks = everything(), threading.active_count(), len(os.listdir("/proc/self/task"))
import jsparse
assert everything() == before, everything()
assert threading.active_count() == threads
assert len(os.listdir("/proc/self/task")) == tasks
for slow in ("scipy.sparse", "jax.experimental.sparse", "flax", "optax"):
    assert slow not in sys.modules, slow
"""


def test_importing_makes_no_file_and_no_thread(tmp_path):
    program = PROGRAM.format(modules="jax.numpy, llvmlite.binding")
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
