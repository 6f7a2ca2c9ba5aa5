"""`jsparse.profile`: which kernels run, how often, for how long, and how many bytes they move."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property

import jax
import numpy as np

from jsparse import _compat
from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.compiler.runtime.kernel_call import title_of
from jsparse.ops.explanation import html
from jsparse.ops.explanation.measured import MeasuredCalls, recipe_formats
from jsparse.ops.explanation.traffic import as_bytes, as_count, as_time, memory_bandwidth

SHOWN = 20  # the maximum number of kernels in a text
WIDTH = 56  # the maximum number of characters of a statement in a text
COLUMNS = ("kernel", "sparse", "calls", "total", "mean", "bytes a call", "GB/s", "of memory's")

_Counts = dict[tuple[str, str, tuple[int, ...]], tuple[int, int]]


@dataclass(frozen=True)
class ProfiledKernel:
    """One kernel of a profile.

    Attributes:
        statement: the statement that the kernel computes, such as "C[i, k] = A[i, j] * B[j, k]", or a description of a
            routine of the extension.
        formats: a pair (access, format) for each operand, then for the result, such as ("A[i, j]", "csr"). As in the
            explanation of a function, indices are in the order in which the tensor is stored. A routine has no pairs.
        work: the calls of the kernel, grouped by index arrays and shapes.
    """

    statement: str
    formats: tuple[tuple[str, str], ...]
    work: tuple[MeasuredCalls, ...]

    @cached_property
    def calls(self) -> int:
        """How often the kernel ran."""
        return sum(each.calls for each in self.work)

    @cached_property
    def seconds(self) -> float:
        """The time of all calls, in seconds."""
        return sum(each.seconds for each in self.work)

    @property
    def mean(self) -> float:
        """The mean time of a call, in seconds."""
        return self.seconds / self.calls

    @cached_property
    def nbytes(self) -> int:
        """The bytes that all calls move if each call moves each array once, counted as in `explain`."""
        return sum(each.calls * each.nbytes() for each in self.work)

    @property
    def bandwidth(self) -> float:
        """The bytes moved per second."""
        return self.nbytes / max(self.seconds, 1e-9)

    def _cells(self, width: int | None = None) -> tuple[str, ...]:
        named = self.statement
        named = named if width is None or len(named) <= width else f"{named[: width - 1]}…"
        stored = dict.fromkeys((access.partition("[")[0], format) for access, format in self.formats)
        formats = ", ".join(f"{name} {format}" for name, format in stored if format != "dense")
        times = as_time(self.seconds), as_time(self.mean), as_bytes(round(self.nbytes / self.calls))
        share = f"{100 * self.bandwidth / memory_bandwidth():.0f}%"
        return named, formats, f"{self.calls:,}", *times, f"{self.bandwidth / 1e9:.3g}", share


class Profile:
    """The result of a `jsparse.profile()` block. Print it, show it in a notebook, or read its attributes."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._before = _counts()
        self._ended: tuple[float, tuple[ProfiledKernel, ...]] | None = None

    @property
    def kernels(self) -> tuple[ProfiledKernel, ...]:
        """The kernels that ran, sorted by descending time. Inside the block: the kernels that have ended so far."""
        return _kernels(self._before) if self._ended is None else self._ended[1]

    @property
    def seconds(self) -> float:
        """The time that the block took, in seconds; inside the block the time since its start."""
        return time.perf_counter() - self._started if self._ended is None else self._ended[0]

    def _end(self) -> None:
        self._ended = self.seconds, self.kernels

    @property
    def _title(self) -> str:
        kernels, wall = self.kernels, as_time(self.seconds)
        if not kernels:
            return f"no kernel of jsparse ran in {wall}"
        calls, total = sum(k.calls for k in kernels), sum(k.seconds for k in kernels)
        return (
            f"{as_count(len(kernels), 'kernel')} ran {as_count(calls, 'time')} and took {as_time(total)} of {wall}; "
            f"this machine's memory reaches {memory_bandwidth() / 1e9:.2g} GB/s"
        )

    def __str__(self) -> str:
        shown = self.kernels[:SHOWN]
        lines = _align_columns([COLUMNS, *(kernel._cells(WIDTH) for kernel in shown)]) if shown else []
        left = self.kernels[SHOWN:]
        if left:
            lines.append(f"… and {as_count(len(left), 'kernel')} that took {as_time(sum(k.seconds for k in left))}")
        return "\n".join([self._title, *lines])

    def __repr__(self) -> str:
        return f"<Profile: {self._title}>"

    def _repr_html_(self) -> str:
        rows = [kernel._cells() for kernel in self.kernels]
        return html.block([html.heading(self._title), *([html.table(COLUMNS, rows)] if rows else [])])


@contextmanager
def profile() -> Iterator[Profile]:
    """Count and time the kernels that run in a block.

        >>> with jsparse.profile() as p:
        ...     C = A @ X
        >>> p.kernels[0].statement
        'C[i, k] = A[i, j] * B[j, k]'
        >>> p.kernels[0].calls
        1

    `print(p)` and notebooks show a table with a row for each kernel: its statement, the number of calls, the total and
    the mean time, the bytes that a call moves (as `explain` counts them), and the bandwidth, also as a share of the
    bandwidth of this machine's memory. The memory's bandwidth is measured once in a process, when a table is first
    shown. More than 100 % means that caches hold the arrays.

    Kernels are counted on all threads, because they run on XLA's threads. Kernels of programs that were compiled before
    the block are counted, too. Times of kernels that run at once add up. At its start and its end, the block waits for
    the programs that this thread has called, and for all live arrays. Blocks nest. XLA operations and conversions of
    static tensors are not listed, because they are not kernels of jsparse.

    Profiling adds about a microsecond to a call inside a block, and nothing to calls outside of it.

    See `docs/how_to/debugging.md`.
    """
    _wait()
    _native.open_profile()
    try:
        result = Profile()
        try:
            yield result
        finally:
            _wait()
            result._end()
    finally:
        _native.close_profile()


def _wait() -> None:
    """Wait for the programs that this thread has called, and for all arrays of the process that are alive.

    JAX runs the programs of a thread on a CPU in the order of their calls, so one more program ends after all of them.
    An error of a program is raised where its result is read, not here.
    """
    if not _compat.is_eager():
        return
    for device in jax.local_devices():
        _last_program(jax.device_put(np.float32(0), device)).block_until_ready()
    for x in jax.live_arrays():
        with suppress(Exception):
            x.block_until_ready()


@jax.jit
def _last_program(x: jax.Array) -> jax.Array:
    return x + 1


def _counts() -> _Counts:
    return {(recipe, bound, buffers): (calls, ns) for recipe, bound, buffers, calls, ns in _native.counted()}


def _kernels(before: _Counts) -> tuple[ProfiledKernel, ...]:
    """Return the kernels that ran since the counts `before`, one for each recipe, sorted by descending time."""
    by_recipe: dict[str, list[MeasuredCalls]] = defaultdict(list)
    for key, (calls, nanoseconds) in _counts().items():
        earlier = before.get(key, (0, 0))
        if calls > earlier[0]:
            by_recipe[key[0]].append(MeasuredCalls(*key, calls - earlier[0], (nanoseconds - earlier[1]) / 1e9))
    kernels = (ProfiledKernel(title_of(r), recipe_formats(r), tuple(work)) for r, work in by_recipe.items())
    return tuple(sorted(kernels, key=lambda kernel: -kernel.seconds))


def _align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Convert rows to lines of text. The first two columns are aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if n < 2 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
