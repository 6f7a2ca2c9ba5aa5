"""Progress on the terminal: a line on stderr once work has taken two seconds.

Work is reported by `working`, and steps of the work by the function that `working` yields. These calls read the clock
and show the line, so no thread is needed. If one call of the extension or of LLVM does all of the work, it reports no
steps meanwhile. Such work is reported with `is_long=True`, and then a timer shows the line. Pieces of work that follow
each other closely, such as the kernels of one program, count as one. The line is erased when a piece of work ends.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

AFTER = 2.0  # seconds of work before a line is shown
PAUSE = 1.0  # seconds between two pieces of work that count as one, at most
EVERY = 0.1  # seconds between two changes of a line


class _Work(threading.local):
    """Whether a thread is at work, when the work began (`since`), and when it last ended (`last`).

    If several pieces of work count as one, the work began with the first piece.
    """

    is_working = False
    since = last = float("-inf")


class _Setting:
    """Whether progress is shown, the setting `jsparse.config.progress`."""

    progress: bool = True


progress = _Setting()
_work = _Work()


@contextmanager
def working(what: str, total: int | None = None, is_long: bool = False) -> Iterator[Callable[[int], None]]:
    """Show `what` if the block takes long. Yields a function that records how much of `total` is done so far.

    Args:
        is_long: the block may take seconds without a step.
    """
    if _work.is_working or not progress.progress or not _is_terminal():
        yield lambda done: None
        return
    start = time.perf_counter()
    _work.since = _work.since if start - _work.last < PAUSE else start
    _work.is_working = True
    line = _Line(what, total, _work.since)
    timer = threading.Timer(max(_work.since + AFTER - start, 0), line.show) if is_long else None
    try:
        if timer is not None:
            timer.daemon = True
            timer.start()
        line.step(0)
        yield line.step
    finally:
        if timer is not None:
            timer.cancel()
        line.erase()
        _work.is_working, _work.last = False, time.perf_counter()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


class _Line:
    """A line of text, or a progress bar of tqdm if the total is known and tqdm is installed."""

    def __init__(self, what: str, total: int | None, since: float) -> None:
        self.what, self.total, self.since = what, total, since
        self.changed, self.done = float("-inf"), 0
        self.bar: _Bar | None = None
        self.is_shown = self.is_over = False
        self.lock = threading.Lock()

    def step(self, done: int) -> None:
        """Record the work done so far, and show it if enough time has passed."""
        now, self.done = time.perf_counter(), done
        if now - self.since > AFTER and now - self.changed > EVERY:
            self.changed = now
            self.show()

    def show(self) -> None:
        """Write the line. Any thread may call it."""
        with self.lock:
            if self.is_over:
                return
            if not self.is_shown and self.total:
                self.bar = _bar(self.what, self.total)
            self.is_shown = True
            if self.bar is not None:
                self.bar.update(self.done - self.bar.n)
                return
            part = f", {100 * self.done / self.total:.0f}%" if self.total else ""
            _write(f"\r\x1b[Kjsparse: {self.what[:100]} ({time.perf_counter() - self.since:.0f} s{part})")

    def erase(self) -> None:
        """Remove the line, and do not show it again."""
        with self.lock:
            self.is_over = True
            if self.bar is not None:
                self.bar.close()
            elif self.is_shown:
                _write("\r\x1b[K")


class _Bar(Protocol):
    """The attributes of a progress bar of tqdm that this module uses."""

    n: float

    def update(self, n: float) -> object: ...
    def close(self) -> object: ...


def _bar(what: str, total: int) -> _Bar | None:
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None
    return tqdm(total=total, desc=f"jsparse: {what[:60]}", leave=False, unit_scale=True, unit="B")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # the terminal is gone
        progress.progress = False
