"""Timing of the compiler's stages. Stages report their times to the active collector."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["collect", "stage"]

_collecting: ContextVar[dict[str, float] | None] = ContextVar("collecting", default=None)


@contextmanager
def collect() -> Iterator[dict[str, float]]:
    """Collect the seconds by stage that this thread spends on compiling inside the block."""
    seconds: dict[str, float] = {}
    token = _collecting.set(seconds)
    try:
        yield seconds
    finally:
        _collecting.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Report the time that the body takes as the time of stage `name`."""
    seconds = _collecting.get()
    start = time.perf_counter()
    try:
        yield
    finally:
        if seconds is not None:
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
