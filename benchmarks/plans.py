"""Compares the chosen plan with all others: `python benchmarks/plans.py [--json FILE]`.

For programs of many kinds and densities, every candidate of the scheduler is compiled and run as a jitted call, which
includes relayouts of values. Candidates take turns. The table has the time of the chosen candidate, and its ratio to
the best one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from run import limit_threads

SECONDS = 1.5  # for each candidate of a program, except those far slower than the best
FAR = 4.0  # a candidate whose first run takes this multiple of the best one's is not run again
SETTLE = 2  # untimed runs before each timed one

BLOCKS = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"

# name, einsum, shape of the sparse operand, density, columns, format
PROGRAMS: tuple[tuple[str, str, tuple[int, ...], float, int, str], ...] = (
    ("matrix-vector 0.01 %", "ij,j->i", (60_000, 60_000), 1e-4, 0, "csr"),
    ("matrix-vector 1 %", "ij,j->i", (4_000, 4_000), 1e-2, 0, "csr"),
    ("matrix-vector 50 %", "ij,j->i", (1_500, 1_500), 0.5, 0, "csr"),
    ("matrix-vector 99 %", "ij,j->i", (1_500, 1_500), 0.99, 0, "csr"),
    ("transposed matrix-vector 0.1 %", "ij,i->j", (20_000, 20_000), 1e-3, 0, "csr"),
    ("8 columns, 0.1 %", "ij,jk->ik", (20_000, 20_000), 1e-3, 8, "csr"),
    ("64 columns, 0.01 %", "ij,jk->ik", (50_000, 50_000), 1e-4, 64, "csr"),
    ("64 columns, 1 %", "ij,jk->ik", (4_000, 4_000), 1e-2, 64, "csr"),
    ("256 columns, 10 %", "ij,jk->ik", (2_000, 2_000), 0.1, 256, "csr"),
    ("512 columns, 20 %", "ij,jk->ik", (1_024, 4_096), 0.2, 512, "csr"),
    ("64 columns, 99 %", "ij,jk->ik", (700, 700), 0.99, 64, "csr"),
    ("coordinates, 64 columns", "ij,jk->ik", (20_000, 20_000), 5e-4, 64, "coo"),
    ("transposed product, 0.1 %", "ij,ik->jk", (20_000, 20_000), 1e-3, 64, "csr"),
    ("dense first, 1 %", "ki,ij->kj", (3_000, 3_000), 1e-2, 300, "csr"),
    ("bilinear form", "ij,i,j->", (20_000, 20_000), 1e-3, 0, "csr"),
    ("column sums", "ij->j", (20_000, 20_000), 1e-3, 0, "csr"),
    ("scaled on both sides", "ij,i,j->ij", (20_000, 20_000), 1e-3, 0, "csr"),
    ("tensor times vector", "ijk,k->ij", (200, 300, 400), 1e-2, 0, "csf"),
    ("MTTKRP, 0.01 %", "ijk,jr,kr->ir", (1_000, 2_000, 3_000), 1e-4, 16, "csf"),
    ("MTTKRP, 10 %", "ijk,jr,kr->ir", (60, 70, 500), 0.1, 32, "csf"),
    ("sampled product, 64 columns", "ik,jk,ij->ij", (20_000, 20_000), 5e-4, 64, "csr"),
    ("layer of 1,024 samples, 2 %", "ki,ij->kj", (4_096, 4_096), 2e-2, 1_024, "csc"),
    ("layer of 1,024 samples, 5 %", "ki,ij->kj", (4_096, 4_096), 5e-2, 1_024, "csc"),
    ("layer of 256 samples, 5 %", "ki,ij->kj", (4_096, 4_096), 5e-2, 256, "csc"),
    ("small layer of 1,024 samples, 5 %", "ki,ij->kj", (1_024, 1_024), 5e-2, 1_024, "csc"),
    ("blocks of 8 x 8, 2 %", "ijab,jbk->iak", (500, 500, 8, 8), 3.1e-4, 128, BLOCKS),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times to FILE, too")
    options = parser.parse_args()
    limit_threads()
    print(f"{'program':<32}{'candidates':>11}{'chosen ms':>11}{'ratio':>7}   chosen; best", flush=True)
    every = {}
    for program in PROGRAMS:
        times = measured(*program[1:])
        every[program[0]] = times
        chosen, best = next(iter(times)), min(times, key=times.__getitem__)
        ratio = times[chosen] / times[best]
        shown = chosen if best == chosen else f"{chosen}; {best}"
        print(f"{program[0]:<32}{len(times):>11}{1e3 * times[chosen]:>11.3f}{ratio:>7.2f}   {shown}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(every, indent=1))


def measured(text: str, shape: tuple[int, ...], density: float, columns: int, format: str) -> dict[str, float]:
    """The seconds of each candidate by name. The chosen one is first."""
    import jsparse

    operands = drawn(jsparse, text, shape, density, columns, format)
    steps: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}
    for name, forced in candidates_of(jsparse, text, operands):
        with forced:
            step = compiled(jsparse, text, operands)
        start = time.perf_counter()
        step()
        first[name] = time.perf_counter() - start
        steps[name] = step
    near = {name: step for name, step in steps.items() if first[name] <= FAR * min(first.values())}
    samples: dict[str, list[float]] = {name: [] for name in near}
    deadline = time.perf_counter() + SECONDS * len(near)
    while time.perf_counter() < deadline or len(next(iter(samples.values()))) < 5:
        for name, step in near.items():
            for _ in range(SETTLE):
                step()
            start = time.perf_counter()
            step()
            samples[name].append(time.perf_counter() - start)
    return {name: float(np.median(samples[name])) if name in near else first[name] for name in steps}


def drawn(jsparse: Any, text: str, shape: tuple[int, ...], density: float, columns: int, format: str) -> list[Any]:
    """The operands. The one whose indices begin with `ij` is sparse."""
    rng = np.random.default_rng(0)
    terms = text.split("->")[0].split(",")
    number = next(n for n, term in enumerate(terms) if len(term) == len(shape) and term.startswith("ij"))
    count = round(density * float(np.prod(shape)))
    coords = np.stack(np.unravel_index(rng.choice(int(np.prod(shape)), count, replace=False), shape))
    sizes = dict(zip(terms[number], shape, strict=True))
    values = rng.uniform(0.1, 1, count).astype(np.float32)
    tensor = jsparse.SparseTensor.from_coords(coords, values, shape, format)
    shapes = [[sizes.get(v, columns) for v in term] for term in terms]
    return [
        tensor if n == number else jax.numpy.asarray(rng.uniform(0.1, 1, shape), np.float32)
        for n, shape in enumerate(shapes)
    ]


def out_format(text: str) -> str | None:
    """The format of the result: that of the sparse operand if it has the same indices, else dense."""
    terms, result = text.split("->")
    return None if result in terms.split(",") else "dense"


def candidates_of(jsparse: Any, text: str, operands: list[Any]) -> Iterator[tuple[str, Any]]:
    """The name of each candidate, and a context in which it is chosen. They are sorted by estimated cost."""
    from jsparse.compiler.schedule.prices.cost import Prices
    from jsparse.compiler.schedule.search import candidates
    from jsparse.compiler.schedule.search.cheapest import candidate_name, plan_as

    kernels = jsparse.explain(text, *operands, out_format=out_format(text)).kernels
    kernel = next(kernel for kernel in kernels if kernel.plan is not None and kernel.plan.patterns)
    given, patterns = kernel.plan.given, tuple(walk.scheduler_pattern for walk in kernel.work.spec.walks)
    stands_innermost = candidates._stands_innermost
    candidates._stands_innermost = lambda *_: False  # includes loops without lanes
    prices = Prices(patterns)
    priced = [(prices.of(c), n, c) for n, c in enumerate(candidates.candidates(given, patterns))]
    candidates._stands_innermost = stands_innermost
    for number, (cost, _, candidate) in enumerate(sorted(priced, key=lambda entry: entry[:2])):
        plan = plan_as(candidate, cost, patterns)
        first = " sums first" * candidate.sums_in_lanes
        yield f"{candidate_name(candidate)}{first}{'' if number == 0 else f' #{number}'}", forced(given, plan)


@contextmanager
def forced(problem: Any, plan: Any) -> Iterator[None]:
    """A context in which this is the plan of a problem."""
    from jsparse.primitives import execute

    chosen = execute.wide_accumulation_plan
    execute.make_plan.clear()
    execute.wide_accumulation_plan = lambda asked, *rest, **named: (
        plan if asked == problem else chosen(asked, *rest, **named)
    )
    try:
        yield
    finally:
        execute.wide_accumulation_plan = chosen
        execute.make_plan.clear()


def compiled(jsparse: Any, text: str, operands: list[Any]) -> Callable[[], Any]:
    """A step that calls the jitted einsum. The values of the sparse operand are an argument of the program."""
    place = next(n for n, x in enumerate(operands) if isinstance(x, jsparse.SparseTensor))
    tensor = operands[place]

    def run(values: Any, *rest: Any) -> Any:
        every = [*rest[:place], tensor.with_values(values), *rest[place:]]
        out = jsparse.einsum(text, *every, out_format=out_format(text))
        return out.values if isinstance(out, jsparse.SparseTensor) else out

    program = jax.jit(run).lower(tensor.values, *(x for x in operands if x is not tensor)).compile()
    arguments = (tensor.values, *(x for x in operands if x is not tensor))
    return lambda: jax.block_until_ready(program(*arguments))


if __name__ == "__main__":
    main()
