"""What Python asks the system of its machine, wherever Linux and macOS answer differently.

The extension's questions are in `csrc/memory/pages.cc`, and LLVM's in `compiler/backends/llvm/cpu.py`.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["cpu_name", "is_arm", "usable_threads"]


def is_arm() -> bool:
    """Whether this is a 64-bit ARM CPU."""
    return platform.machine() in ("aarch64", "arm64")


def usable_threads() -> int:
    """How many of the machine's hardware threads this process may use."""
    if sys.platform == "linux":
        count: int | None = len(os.sched_getaffinity(0))
    else:  # macOS binds no process to a part of them
        count = os.cpu_count()
    return count or 1


def cpu_name() -> str:
    """The name that the system gives the CPU, such as "Apple M2" or "AMD EPYC 9R14"."""
    found = None
    with suppress(OSError):
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        else:
            stated = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
            found = stated[1] if stated else None
    return found or platform.processor() or platform.machine()
