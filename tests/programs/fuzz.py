"""Runs random programs at every stage: `python tests/programs/fuzz.py --count 1000`. Exits with 1 on failure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from programs.check import WrongResultError, check_program
from programs.generate import random_program

JAX_EVERY = 10  # compiling a program with XLA takes as long as all else


def main() -> int:
    """Print a reproducer of each failure and the stage at which it first went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="programs of another seed are others")
    parser.add_argument("--start", type=int, default=0, help="the number of the first program")
    options = parser.parse_args()
    failures = 0
    bar = tqdm(range(options.start, options.start + options.count), unit="program", mininterval=1, dynamic_ncols=True)
    for n in bar:
        try:
            check_program(random_program(options.seed, n), through_jax=n % JAX_EVERY == 0)
        except WrongResultError as wrong:
            failures += 1
            bar.write(f"program {n} of seed {options.seed} failed\n{wrong}")
        bar.set_postfix(failures=failures, refresh=False)
    print(f"{options.count:,} programs, {failures:,} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
