"""Programs on several devices. A process has the number of devices with which JAX starts, so others run these tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "on_four_devices"


@pytest.mark.sampled
@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("check_*.py")))
def test_four_devices(file):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", str(FOLDER / file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
