"""All arguments in float32 of the functions of one: `make test-functions` prints the largest error of each.

The reference is numpy in float64. A function takes one to two minutes of a core; `--stride n` takes only every n-th
argument.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).parents[1]))

from functions.measure import BOUNDS, applied, ulps

from jsparse.compiler.operations import meaning_of

BLOCK = 1 << 15
UNARY = [name for name in BOUNDS if name != "pow"]
EXACT = ["floor", "ceil", "trunc", "round", "abs", "neg", "sign"]


def largest_error(name: str, stride: int = 1) -> tuple[float, float]:
    """The largest error of a function in ulp, and an argument that has it; all bits of arguments count from 0 on."""
    worst, where = -1.0, 0.0
    reference = (
        getattr(special, name) if name.startswith("erf") else meaning_of(name)
    )  # that of the table calls math.erf for each number
    for first in range(0, 1 << 32, BLOCK * stride):
        numbers = np.arange(first, min(first + BLOCK * stride, 1 << 32), stride, dtype=np.uint32)
        x = np.resize(numbers, -(-len(numbers) // 16) * 16).view(np.float32)
        with np.errstate(all="ignore"):
            error = ulps(applied(name, x, lanes=16), reference(x.astype(np.float64)))
        place = int(np.argmax(error))
        if error[place] > worst:
            worst, where = float(error[place]), float(x[place])
    return worst, where


def report(name: str, stride: int) -> tuple[str, bool]:
    """A line about a function, and whether its errors are below the bound."""
    start = time.perf_counter()
    error, where = largest_error(name, stride)
    bound, seconds = BOUNDS[name][0], time.perf_counter() - start
    return f"{name:10} {error:.4f} ulp at {where!r} (bound {bound}), {seconds:.0f} s", error <= bound


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("functions", nargs="*", default=UNARY)
    arguments = parser.parse_args()
    is_right = True
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for line, is_below in pool.map(partial(report, stride=arguments.stride), arguments.functions):
            print(line, flush=True)
            is_right &= is_below
    sys.exit(0 if is_right else "errors are above the bound")


if __name__ == "__main__":
    main()
