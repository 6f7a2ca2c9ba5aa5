"""Runs thousands of hostile cases with guarded memory: `python tests/hostile/run.py --count 3000 --recipes 2000`.

Cases run in other processes, so that a crash is detected and its case is named.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

BLOCK = 90  # cases in one process
LONGEST = 300  # seconds for one case: no case takes more than a few


def run_block(kind: str, seed: int, first: int, stop: int, results: Any) -> None:
    """Run cases with guarded memory. Sends the number of each case before it runs, and a description if it fails."""
    from hostile.kinds import CASES

    from jsparse.base import _native

    _native.set_guard(True)
    for number in range(first, stop):
        results.send((number, None))
        text = "making the case"
        try:
            drawn = CASES[kind](seed, number)
            text = drawn.text
            drawn.check()
        except Exception as error:
            detail = "".join(traceback.format_exception(error)[-3:])
            results.send(
                (number, f"{kind} case {number} of seed {seed} ({text}): {type(error).__name__}: {error}\n{detail}")
            )
    results.send((stop, None))


def failures(kind: str, seed: int, first: int, stop: int) -> list[str]:
    """Descriptions of the failures of these cases. If a case ends its process, a new process runs the next ones."""
    context, found = multiprocessing.get_context("spawn"), list[str]()
    while first < stop:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=run_block, args=(kind, seed, first, stop, sender))
        process.start()
        sender.close()
        begun = None
        try:
            while receiver.poll(LONGEST):
                begun, wrong = receiver.recv()
                found += [] if wrong is None else [wrong]
            end = f"took more than {LONGEST} seconds"
            process.kill()
        except EOFError:
            process.join()
            end = f"ended its process with exit code {process.exitcode}"
        if begun is None:
            raise RuntimeError("A process ended before it ran its first case.")
        if begun >= stop:
            break
        found.append(f"{kind} case {begun} of seed {seed} {end}")
        first = begun + 1
    return found


def main() -> int:
    """Run the cases and print the failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="cases of corrupt input")
    parser.add_argument("--recipes", type=int, default=2000, help="programs with edited recipes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from hostile.attacks import ATTACKS

    wrong = 0
    for kind, count in (("corrupt", options.count), ("attacks", len(ATTACKS)), ("recipes", options.recipes)):
        for first in range(0, count, BLOCK):
            stop = min(first + BLOCK, count)
            for text in failures(kind, options.seed, first, stop):
                print(text)
                wrong += 1
            print(f"{stop:,} of {kind}, {wrong} wrong", file=sys.stderr)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
