"""Times cases: candidates take turns, and the table has medians and ratios to the first candidate."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Case", "Laps", "NotInstalledError", "Row", "Step", "UnavailableError", "agree", "means", "measure", "table"]

SETTLE = 0.05  # seconds of untimed runs of a candidate before its timed runs

Step = Callable[[], Any]
"""One run of a candidate, which is finished when it returns. It returns the result, or `Laps`."""


class UnavailableError(Exception):
    """A candidate cannot run here. Its factory raises this error, and the table contains the short message."""


class NotInstalledError(Exception):
    """A candidate's library is not installed. Its factory raises this error, and tables leave the candidate out."""


@dataclass(frozen=True, slots=True)
class Laps:
    """The result of a step that times its own phases, with the seconds of each phase."""

    seconds: Mapping[str, float]
    result: Any


@dataclass(frozen=True, slots=True)
class Case:
    """Candidates and the result that all of them must give. Ratios are to the first candidate.

    A factory prepares a candidate (conversions, compilation) and returns the step that is timed. `tolerance` is an
    argument of `agree`.
    """

    name: str
    description: str
    candidates: Mapping[str, Callable[[], Step]]
    expected: Callable[[], Any]
    rounds: int = 100
    tolerance: float = 1e-4


@dataclass(frozen=True, slots=True)
class Row:
    """The times of one candidate in milliseconds, or a status that says why there are none."""

    candidate: str
    status: str = "ok"
    median: float | None = None
    minimum: float | None = None
    ratio: float | None = None
    samples: Sequence[float] = field(default=(), repr=False)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(case: Case, seconds: float = 2.0) -> list[Row]:
    """Check every candidate once, then time them in turns for about `seconds` per candidate (at least 5 rounds)."""
    steps, failures = _prepare(case)
    repeats = {name: _repeats(step) for name, step in steps.items()}
    samples: dict[str, list[float]] = {}
    deadline, rounds = time.perf_counter() + seconds * len(steps), 0
    while steps and (rounds < 5 or (rounds < case.rounds and time.perf_counter() < deadline)):
        rounds += 1
        for name, step in steps.items():
            for row, sample in _sample(name, step, repeats[name]).items():
                samples.setdefault(row, []).append(sample)
    return _rows(case, samples, failures)


def _prepare(case: Case) -> tuple[dict[str, Step], dict[str, str]]:
    """The steps whose results are right, and the reasons why other installed candidates cannot be timed."""
    steps: dict[str, Step] = {}
    failures: dict[str, str] = {}
    expected = case.expected()
    for name, factory in case.candidates.items():
        try:
            step = factory()
            result = step()
        except NotInstalledError:
            continue
        except UnavailableError as reason:
            failures[name] = str(reason)
        except Exception as error:
            failures[name] = f"failed: {type(error).__name__}: {_first_line(error)}"
        else:
            if agree(result.result if isinstance(result, Laps) else result, expected, case.tolerance):
                steps[name] = step
            else:
                failures[name] = "WRONG"
    return steps, failures


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:70] if lines else ""


def agree(result: Any, expected: Any, tolerance: float = 1e-4) -> bool:
    """Whether all arrays of `result` equal those of `expected` up to `tolerance` of the largest finite magnitude."""
    got, want = _arrays(result), _arrays(expected)
    return len(got) == len(want) and all(_close(a, b, tolerance) for a, b in zip(got, want, strict=True))


def _close(got: NDArray[Any], want: NDArray[Any], tolerance: float) -> bool:
    if got.shape != want.shape:
        return False
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0)) or 1.0
    return bool(np.allclose(got, want, rtol=tolerance, atol=tolerance * scale))


def _arrays(value: Any) -> list[NDArray[Any]]:
    return [np.asarray(part) for part in (value if isinstance(value, (tuple, list)) else [value])]


def _repeats(step: Step, target: float = 2e-3) -> int:
    """The number of runs of `step` in one sample, so that a sample takes about `target` seconds."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return max(1, min(1000, math.ceil(target / max(min(times), 1e-7))))


def _sample(name: str, step: Step, repeats: int) -> dict[str, float]:
    """The seconds of one run, by row of the table.

    Untimed runs come first, so that the previous candidate has no effect: its threads may spin for some milliseconds,
    and the system may still be reclaiming gigabytes of its memory.
    """
    settled = time.perf_counter() + SETTLE
    step()
    while time.perf_counter() < settled:
        step()
    start = time.perf_counter()
    for _ in range(repeats):
        result = step()
    elapsed = (time.perf_counter() - start) / repeats
    if isinstance(result, Laps):
        return {f"{name}: {phase}": seconds for phase, seconds in result.seconds.items()}
    return {name: elapsed}


def _rows(case: Case, samples: Mapping[str, list[float]], failures: Mapping[str, str]) -> list[Row]:
    base = next(iter(case.candidates))
    medians = {name: statistics.median(taken) for name, taken in samples.items()}
    rows = []
    for name in case.candidates:
        if name in failures:
            rows.append(Row(name, status=failures[name]))
        for row, taken in samples.items():
            if row == name or row.startswith(f"{name}: "):
                reference = medians.get(base + row.removeprefix(name))
                ratio = medians[row] / reference if reference else None
                milliseconds = [1e3 * sample for sample in taken]
                rows.append(Row(row, "ok", 1e3 * medians[row], min(milliseconds), ratio, milliseconds))
    return rows


def table(results: Iterable[tuple[str, Sequence[Row]]], base: str = "jsparse") -> str:
    """An aligned table of cases and their rows."""
    cells = [["case", "candidate", "median ms", "min ms", f"ratio vs {base}"]]
    for name, rows in results:
        for position, row in enumerate(rows):
            cells.append([name if position == 0 else "", row.candidate, *_figures(row)])
    complete = [line for line in cells if len(line) == len(cells[0])]
    widths = [max(map(len, column)) for column in zip(*complete, strict=True)]
    widths[:2] = (max(len(line[column]) for line in cells) for column in (0, 1))
    lines = [_aligned(line, widths) for line in cells]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def means(results: Iterable[tuple[str, Sequence[Row]]]) -> str:
    """For each candidate, the number of cases, and the geometric mean, the least and the largest of its ratios."""
    ratios: dict[str, list[float]] = {}
    for _, rows in results:
        for row in rows[1:]:
            if row.ratio is not None:
                ratios.setdefault(row.candidate, []).append(row.ratio)
    width = max(map(len, ratios), default=0)
    lines = []
    for name, found in ratios.items():
        mean, extremes = statistics.geometric_mean(found), f"{min(found):.2f} to {max(found):.2f}"
        lines.append(f"{name:<{width}}  {len(found):3} cases  {mean:.2f}  ({extremes})")
    return "\n".join(lines)


def _figures(row: Row) -> list[str]:
    if row.median is None or row.minimum is None:
        return [row.status]
    return [_milliseconds(row.median), _milliseconds(row.minimum), "-" if row.ratio is None else f"{row.ratio:.2f}"]


def _milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    """A line of the table, with names aligned left and numbers aligned right. A status is not padded."""
    cells = [f"{cell:<{width}}" for cell, width in zip(line[:2], widths, strict=False)]
    if len(line) == 3:
        return "  ".join([*cells, line[2]])
    return "  ".join(cells + [f"{cell:>{width}}" for cell, width in zip(line[2:], widths[2:], strict=True)])
