"""Many processes use one folder, and some of them are killed.

The processes are copies of one that has loaded the cache and nothing of JAX, whose threads do not survive copying.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jsparse

LIGHT = f"""
import os, random, resource, signal, sys, time, types
package = types.ModuleType("jsparse")
package.__path__ = [{str(Path(jsparse.__file__).parent)!r}]
sys.modules["jsparse"] = package
from jsparse.compiler.cache.entry import Key, StoredKernel, read_entry, write_entry
from jsparse.compiler.cache.folder import Folder
assert "jax" not in sys.modules

def digest(n):
    return n.to_bytes(32, "little")

def key(n):
    return Key(digest(7), digest(n))

def kernel(n):
    return StoredKernel(random.Random(n).randbytes(500 + n), [n, n + 1])

def save(folder, n):
    folder.write(key(n).name, write_entry(key(n), kernel(n)))

def load(folder, n):
    '''None, or what was saved.'''
    data = folder.read(key(n).name)
    found = None if data is None else read_entry(key(n), data)
    assert data is None or found == kernel(n)
    return found

def forked(work):
    '''A process that ends by itself, with 0 if the work raises nothing.'''
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)

def ended(children):
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
"""


def run(program: str, folder: Path) -> None:
    """Run a program with `folder`, which is not there yet."""
    text = f"{LIGHT}\nplace = {str(folder)!r}\nfolder = Folder(place, 1 << 24)\n{program}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_sixteen_processes_fill_one_folder(tmp_path: Path) -> None:
    program = """
start = time.time() + 0.2
def work():
    while time.time() < start: pass
    for n in random.Random(os.getpid()).sample(range(60), 60):
        if load(folder, n) is None:
            save(folder, n)
        assert load(folder, n)
ended([forked(work) for _ in range(16)])
assert len(os.listdir(place)) == 61, os.listdir(place)
assert all(load(folder, n) for n in range(60))
"""
    run(program, tmp_path / "cache")


def test_processes_killed_while_they_write(tmp_path: Path) -> None:
    program = """
def work():
    for n in range(1_000_000):
        save(folder, n % 200)
found = 0
for _ in range(100):
    child = forked(work)
    time.sleep(random.uniform(0.001, 0.008))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    found += sum(load(folder, n) is not None for n in range(200))
assert found
parts = [name for name in os.listdir(place) if name.endswith(".part")]
for n in range(200):
    save(folder, n)
    assert load(folder, n)
for name in parts:  # nobody goes on writing them
    os.utime(f"{place}/{name}", (1, 1))
small = Folder(place, 1 << 20)
for n in range(200):
    save(small, n)
assert not any(name.endswith(".part") for name in os.listdir(place))
"""
    run(program, tmp_path / "cache")


def test_a_bound_that_many_writers_keep(tmp_path: Path) -> None:
    program = """
bounded = Folder(place, 200_000)
def work():
    own = random.Random(os.getpid())
    for _ in range(400):
        n = own.randrange(2000)
        save(bounded, n)
        load(bounded, own.randrange(2000))
def reads():
    for _ in range(100):
        for n in range(0, 2000, 40):
            load(bounded, n)
children = [forked(work) for _ in range(4)] + [forked(reads)]
most = 0
while True:
    most = max(most, bounded.summary()[0])
    done, code = os.waitpid(-1, os.WNOHANG)
    if done:
        assert code == 0
        children.remove(done)
        if not children: break
assert 100_000 < most <= 200_000, most
assert 100_000 < bounded.summary()[0] <= 200_000
"""
    run(program, tmp_path / "cache")


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    program = """
bounded = Folder(place, 50_000)
for n in range(100):
    save(bounded, n)
    os.utime(f"{place}/{key(n).name}.kernel", (n, n))
    assert load(bounded, 0)
left = [n for n in range(100) if load(bounded, n)]
assert left[0] == 0 and left[1:] == list(range(101 - len(left), 100)), left
assert 30 < len(left) < 80
"""
    run(program, tmp_path / "cache")


@pytest.mark.parametrize("limit", [0, 100, 600])
def test_a_disk_that_is_full(limit: int, tmp_path: Path) -> None:
    program = f"""
def work():
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
    try:
        save(folder, 500)
    except OSError as error:
        assert error.strerror == "File too large", error
    else:
        raise AssertionError("it was written")
save(folder, 1)
before = sorted(os.listdir(place))
ended([forked(work)])
assert sorted(os.listdir(place)) == before
assert load(folder, 500) is None
"""
    run(program, tmp_path / "cache")


def test_emptying_while_others_write(tmp_path: Path) -> None:
    """Neither fails, nor does one that removes the folder."""
    program = """
def work():
    for n in range(300):
        save(folder, n)
        load(folder, n)
def remove():
    import shutil
    for _ in range(20):
        shutil.rmtree(place, ignore_errors=True)
        time.sleep(0.005)
children = [forked(work) for _ in range(2)] + [forked(remove)]
for _ in range(30):
    folder.clear()
    time.sleep(0.005)
ended(children)
save(folder, 1)
assert load(folder, 1)
folder.clear()
assert os.listdir(place) == []
"""
    run(program, tmp_path / "cache")
