"""Collects facts about an installation for a bug report: versions, machine, settings, cache and extension."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import jaxlib

from jsparse._version import __version__
from jsparse.base import _native
from jsparse.compiler import cache
from jsparse.compiler.backends.llvm.cpu import host_cpu
from jsparse.compiler.backends.llvm.jit import llvm_version
from jsparse.errors import CacheError
from jsparse.settings import NAMES, config

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "llvmlite", "flax", "optax", "equinox", "lineax")  # some may be absent
WIDTH = 110  # the characters of a line

Section = dict[str, Any]


def installation() -> dict[str, Section]:
    """Return all facts about the installation as JSON values, grouped by section."""
    major, minor = _native.FFI_VERSION
    ffi = f"{major}.{minor}"
    return {
        "versions": _versions(),
        "machine": _machine(),
        "settings": {name: getattr(config, name) for name in NAMES},
        "cache": {"state": cache_state()},
        "extension": {"loads": True, "ffi": ffi, "jaxlib_ffi": _jaxlibs_ffi(), "kernel_abi": _native.ABI},
    }


def as_text(facts: dict[str, Section]) -> str:
    """Format the facts as lines of text, and wrap long lists."""
    width = max(len(name) for section in facts.values() for name in section) + 4
    lines: list[str] = []
    for title, section in facts.items():
        lines.append(title)
        for name, value in section.items():
            first, *others = _wrap_lines(value, WIDTH - width)
            lines += [f"  {name:<{width - 2}}{first}", *(f"{'':<{width}}{line}" for line in others)]
    return "\n".join(lines)


def cache_state() -> str:
    """Describe the state of the folder of compiled kernels in one line."""
    folder = cache.location.cache_dir
    if folder is None:
        return "no folder: kernels are kept in memory only"
    try:
        report = cache.report()
    except CacheError as error:
        return str(error)
    used = f"{report.nbytes:,} bytes of at most {cache.location.cache_bytes:,}"
    return f"{report.entries:,} kernels, {report.usable:,} of them for these versions and this CPU; {used}"


def _versions() -> Section:
    versions: Section = {"jsparse": __version__, "python": platform.python_version(), "llvm": llvm_version()}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _machine() -> Section:
    name, features = host_cpu()
    return {
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "llvm_cpu": name,
        "features": sorted(feature[1:] for feature in features.split(",") if feature.startswith("+")),
        "cores": os.cpu_count() or 1,
        "threads": _usable_threads(),
    }


def _jaxlibs_ffi() -> str:
    """Read the FFI version of jaxlib's XLA from a header file of jaxlib."""
    header = Path(str(jaxlib.__file__)).parent / "include/xla/ffi/api/c_api.h"
    text = header.read_text() if header.exists() else ""
    parts = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    return ".".join(part[1] if part else "?" for part in parts)


def _wrap_lines(value: Any, width: int) -> list[str]:
    """Convert a value to lines of text, wrapped at `width` characters."""
    words = [str(part) for part in value] if isinstance(value, list) else [_format_value(value)]
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)


def _usable_threads() -> int:
    """Return how many of the machine's hardware threads this process may use."""
    if sys.platform == "linux":
        count: int | None = len(os.sched_getaffinity(0))
    else:  # macOS binds no process to a part of them
        count = os.cpu_count()
    return count or 1


def _cpu_name() -> str:
    """The name that the system gives the CPU, such as "Apple M2" or "AMD EPYC 9R14"."""
    name = None
    with suppress(OSError):
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            name = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        else:
            stated = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
            name = stated[1] if stated else None
    return name or platform.processor() or platform.machine()
