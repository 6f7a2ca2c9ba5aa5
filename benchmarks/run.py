"""Run the benchmarks: `python benchmarks/run.py [--case NAME] [--json FILE]`.

They run in one process with two threads. Candidates take turns, and the tables have medians and ratios to jsparse.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

THREADS = 2
RESULTS = Path(__file__).parent / "results"
PEERS = ("torch", "python-graphblas", "suitesparse-graphblas")  # packages that may be absent


def limit_threads() -> None:
    """Restrict this process to `THREADS` cores. It must be called before any library starts threads."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(THREADS)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


def environment() -> dict[str, str]:
    """A description of the machine, its load, and the versions of the candidates, on which the times depend."""
    versions = {}
    for package in ("jsparse", "jax", "jaxlib", "numpy", "scipy", *PEERS):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "absent"
    machine = {"processor": _processor(), "threads": str(THREADS), "load": f"{os.getloadavg()[0]:.2f}"}
    return machine | {"python": platform.python_version()} | versions


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Time jsparse against its peers.")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="a case or a file of cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE, too")
    parser.add_argument("--seconds", type=float, default=2.0, help="the seconds spent on each candidate (default: 2)")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and exit")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen cases. Returns 1 if a candidate was wrong or jsparse did not run, and 2 for an unknown case."""
    options = arguments(argv)
    limit_threads()
    from cases import select
    from figure import draw
    from harness import Row, means, measure, table

    try:
        chosen = select(options.case)
    except LookupError as error:
        print(f"error: {error.args[0]}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{case.name:<16}{case.description}" for case in chosen))
        return 0
    results: list[dict[str, Any]] = []
    drawn: list[tuple[str, Sequence[Row]]] = []
    healthy, machine = True, environment()
    RESULTS.mkdir(exist_ok=True)
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    if missing := [name for name in PEERS if machine[name] == "absent"]:
        print(f"Candidates are left out, because these packages are not installed: {', '.join(missing)}.")
    for case in chosen:
        rows = measure(case, options.seconds)
        print(f"\n{case.description}\n{table([(case.name, rows)])}", flush=True)
        drawn.append((case.name, rows))
        healthy = healthy and rows[0].status == "ok" and all(row.status != "WRONG" for row in rows)
        record = {"case": case.name, "description": case.description, "environment": machine}
        results.append(record | {"rows": [row.as_json() for row in rows]})
        (RESULTS / f"{case.name}.json").write_text(json.dumps(results[-1], indent=1) + "\n")
    if len(drawn) > 1:
        print(f"\ngeometric means of ratios\n{means(drawn)}")
    picture = RESULTS / "benchmarks.png"
    draw(drawn, picture, ", ".join(f"{name} {machine[name]}" for name in ("processor", "threads", "jax", "load")))
    print(f"\nwrote {len(drawn)} files of figures and {picture.name} to {RESULTS.name}/")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
