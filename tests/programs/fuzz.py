"""Runs random programs on every core: `python tests/programs/fuzz.py --count 1000`. Exits with 1 on failure."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))

from fusion.chains import random_chain
from fusion.check_chain import check_chain
from programs.check import FAST, THOROUGH, Effort, WrongResultError, check_dynamic, check_program
from programs.check_statements import check_statements
from programs.derivatives import check_derivatives
from programs.evaluation import Evaluation
from programs.generate import random_program
from programs.indirect import random_indirect
from programs.program import Program
from programs.statements import random_statements
from programs.sums import random_sum
from quick_xla import compile_quickly

import jsparse
from jsparse.program_settings import CHOICES, PORTABLE

BLOCK = 25  # programs that a process runs between two reports
BLOCKS_EACH = 50  # blocks that a process runs before a new one replaces it, since compiled programs take memory
JAX_EVERY = 40  # one program in JAX_EVERY is compiled with XLA, which takes as long as all other checks
PORTABLE_EVERY = 5  # the same, where XLA compiles all programs
CYCLE = 8  # of CYCLE consecutive programs, these are sums of products, and sums with tables:
SUMS, INDIRECT = (3, 7), (1, 5)

Check = Callable[[int, int], None]  # draws the program of a seed and a number; raises WrongResultError if it is wrong

_begun: Any = None  # in a worker: for each block, the number of its programs that have begun


def main() -> int:
    """Print a reproducer of each failure, and the first wrong stage."""
    options = _options()
    if options.backend == PORTABLE or options.derivatives:
        compile_quickly()
    stop = options.start + options.count
    blocks = [range(first, min(first + BLOCK, stop)) for first in range(options.start, stop, BLOCK)]
    failures = 0
    print(f"programs {options.start:,} to {stop - 1:,} of seed {options.seed}")
    with tqdm(total=options.count, unit="program", mininterval=1, dynamic_ncols=True) as bar:
        for first in range(0, len(blocks), BLOCKS_EACH * options.jobs):
            for done, messages in _results(options, blocks[first : first + BLOCKS_EACH * options.jobs]):
                failures += len(messages)
                for message in messages:
                    bar.write(message)
                bar.update(done)
                bar.set_postfix(failures=failures, refresh=False)
    print(f"{bar.n:,} programs of seed {options.seed}, {failures:,} failures")
    return 1 if failures else 0


def _results(options: argparse.Namespace, blocks: list[range]) -> Iterator[tuple[int, list[str]]]:
    """The number of programs and the messages of failures, for each block. New processes run the blocks."""
    context = multiprocessing.get_context("spawn")
    begun = context.RawArray("i", len(blocks))
    effort = replace(THOROUGH if options.thorough else FAST, portable=options.backend == PORTABLE)
    with ProcessPoolExecutor(options.jobs, context, _initialize, (begun, options.backend)) as pool:
        check = _differentiate if options.derivatives else partial(_compare, effort)
        check = _check_statements if options.statements else _check_chain if options.chains else check
        futures = {pool.submit(_run_block, check, options.seed, n, block): n for n, block in enumerate(blocks)}
        try:
            for future in as_completed(futures):
                yield len(blocks[futures[future]]), future.result()
        except BrokenProcessPool:
            unfinished = [n for future, n in futures.items() if future.exception() is not None and begun[n]]
            died = [blocks[n][begun[n] - 1] for n in unfinished]
            yield 0, [f"a process died in one of the programs {died} of seed {options.seed}"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="the number of programs")
    today = int(date.today().strftime("%Y%m%d"))
    parser.add_argument("--seed", type=int, default=today, help="the seed of all programs, by default today's date")
    parser.add_argument("--start", type=int, default=0, help="the number of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--thorough", action="store_true", help="run each program in several ways, like the tests")
    parser.add_argument("--statements", action="store_true", help="draw programs of several statements instead")
    parser.add_argument("--chains", action="store_true", help="draw chains of operations, and fuse them, instead")
    parser.add_argument("--derivatives", action="store_true", help="check derivatives of the programs instead")
    parser.add_argument("--backend", choices=CHOICES["backend"], default="llvm", help="how programs of JAX run")
    return parser.parse_args()


def _initialize(begun: Any, backend: str) -> None:
    global _begun
    _begun = begun
    jsparse.config.backend = backend


def _run_block(check: Check, seed: int, number: int, block: range) -> list[str]:
    failures = []
    for done, n in enumerate(block):
        _begun[number] = done + 1
        try:
            check(seed, n)
        except WrongResultError as wrong:
            failures.append(f"program {n} of seed {seed} failed\n{wrong}")
    return failures


def _compare(effort: Effort, seed: int, n: int) -> None:
    program = _drawn(seed, n)
    every = PORTABLE_EVERY if effort.portable else JAX_EVERY
    through_jax = n // CYCLE % every == n % CYCLE % every  # equally many of each kind
    check_program(program, through_jax, effort)
    if through_jax:
        check_dynamic(program, batched=n % 3 == 0)


def _differentiate(seed: int, n: int) -> None:
    program = _drawn(seed, n)
    try:
        check_derivatives(program)
    except Exception as error:
        raise WrongResultError(program, "derivatives", f"{type(error).__name__}: {error}") from error


def _check_statements(seed: int, n: int) -> None:
    program = random_statements(seed, n)
    try:
        check_statements(program, level=3 if n % 10 == 0 else 0)
    except Exception as error:
        raise WrongResultError(program, "statements", f"{type(error).__name__}: {error}") from error


def _check_chain(seed: int, n: int) -> None:
    chain = random_chain(seed, n)
    try:
        check_chain(chain, n)
    except Exception as error:
        raise WrongResultError(chain, "fusion", f"{type(error).__name__}: {error}") from error


def _drawn(seed: int, n: int) -> Program | Evaluation:
    if n % CYCLE in INDIRECT:
        return random_indirect(seed, n)
    return random_sum(seed, n) if n % CYCLE in SUMS else random_program(seed, n)


if __name__ == "__main__":
    sys.exit(main())
