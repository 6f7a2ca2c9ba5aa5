"""The examples for meshes, in one process and in two."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def losses(name, *options):
    command = [sys.executable, str(EXAMPLES / name), "--steps", "20", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [float(x) for x in re.findall(r"step \d+: loss (\S+)", done.stdout)]


@pytest.mark.parametrize("name", ["sharded_gcn.py", "data_parallel_gcn.py"])
def test_two_processes_compute_what_one_does(name):
    if name.startswith("data"):
        pytest.importorskip("flax")
    one, two = losses(name), losses(name, "--processes", "2")
    assert len(one) == len(two) == 20
    assert two == pytest.approx(one, rel=1e-5)
    assert sum(one[-5:]) < sum(one[:5])
