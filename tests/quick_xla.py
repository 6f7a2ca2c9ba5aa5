"""Flags by which XLA compiles small programs quickly."""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
from pathlib import Path

__all__ = ["compile_quickly"]


def compile_quickly() -> None:
    """Set flags of XLA, which compiles thousands of small programs for the tests, most of them as references.

    Optimising them takes longer than running them, and so does what its emitters of fusions set up for each. XLA ends
    the process at a flag that it does not know, and the second one may go with those emitters.
    """
    spec = importlib.util.find_spec("jaxlib")
    libraries = Path(spec.origin).parent.glob("*.so") if spec and spec.origin else ()
    optional = "xla_cpu_use_fusion_emitters"
    known = any(_contains(library, f"\0{optional}\0".encode()) for library in libraries)  # not as a reserved name
    flags = ["--xla_backend_optimization_level=0", *([f"--{optional}=false"] if known else [])]
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()


def _contains(file: Path, text: bytes) -> bool:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return re.search(re.escape(text), content) is not None
