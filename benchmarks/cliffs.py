"""Looks for cliffs: `python benchmarks/cliffs.py [--count N] [--first N] [--orders N] [--json FILE]`.

Random einsums of one to six operands, sparse, dense and patterns without values, static and dynamic, over families of
patterns whose degrees differ, are timed against the best of many spellings by hand: pairs of operands in random orders,
with what belongs to one operand alone summed first or not; such a chain under `fuse`; and one nest over all operands.
What takes more than 1.5 times as long as the best spelling is printed, with the price that decided. Times are the least
of several runs, in turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from math import prod
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from run import limit_threads

FAMILIES = ("rmat", "rows", "columns", "arrow", "band", "blocks", "uniform")
SIZES = (256, 1024, 4096)
DEGREE = 8  # entries of a row, on average
NARROW = (4, 16)  # the sizes of index variables that only dense operands have
MOST_TUPLES = 1e7  # the combinations of entries that a step of a spelling by hand may visit
MOST_DENSE = 3e7  # the numbers of a dense result
ROUNDS = 7
RETRIES = 4  # of what seems slow, which another process may have disturbed
FAR = 20  # a spelling is not timed if its price is so many times that of the einsum
SLOW, CLIFF = 1.5, 3.0
PLANNER = "jsparse.planning.planner.contraction_path"


class EmptyError(Exception):
    """No combination of entries meets in a program."""


@dataclass
class Program:
    """A random einsum with its operands."""

    number: int
    text: str
    operands: list[Any]
    kinds: list[str]
    times: dict[str, float] = field(default_factory=dict)
    planned: float = 0.0
    price: float = 0.0
    nest: float = 0.0
    is_dense: bool = False  # its result

    @property
    def ratio(self) -> float:
        """The time of the einsum, over that of the best spelling by hand."""
        others = [seconds for name, seconds in self.times.items() if name != "einsum"]
        return self.times["einsum"] / min(others) if others else 1.0

    def __str__(self) -> str:
        best = min((name for name in self.times if name != "einsum"), key=self.times.__getitem__, default="")
        taken = (f"{1e3 * seconds:9.3f} ms" for seconds in (self.times["einsum"], self.times.get(best, 0.0)))
        figures = f"{self.ratio:6.2f}  {'  '.join(taken)}  {self.price:9.3g}  {1e3 * self.planned:5.1f} ms"
        return f"{self.number:4d}  {figures}  {self.text}  ({', '.join(self.kinds)})  best: {best}"


def coordinates(rng: np.random.Generator, family: str, rows: int, columns: int) -> np.ndarray:
    """The distinct coordinates of a pattern, sorted by row."""
    count = DEGREE * rows
    if family == "rmat":
        found = np.zeros((2, 2 * count), np.int64)
        for _ in range(int(np.log2(rows))):
            draw = rng.random(2 * count)
            found = 2 * found + np.stack([draw >= 0.76, ((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95)])
    elif family in ("rows", "columns"):
        weights = (1 + np.arange(rows)) ** -0.9
        heavy = rng.choice(rows, count, p=rng.permutation(weights / weights.sum()))
        found = np.stack([heavy, rng.integers(0, columns, count)])
        found = found if family == "rows" else found[::-1]
    elif family == "arrow":
        n = np.arange(rows)
        found = np.stack([np.concatenate([n, n, 0 * n]), np.concatenate([n, 0 * n, n])])
    elif family == "band":
        n = np.arange(rows)
        found = np.stack([np.tile(n, DEGREE), np.concatenate([n + d - DEGREE // 2 for d in range(DEGREE)])])
        found = found[:, (found[1] >= 0)]
    elif family == "blocks":
        side, n = DEGREE, np.arange(rows)
        found = np.stack([np.repeat(n, side), (np.repeat(n, side) // side) * side + np.tile(np.arange(side), rows)])
    else:
        found = rng.integers(0, rows, (2, count))
    keys = np.unique(found[0] % rows * columns + found[1] % columns)
    return np.stack([keys // columns, keys % columns])


def program(number: int) -> Program:
    """The einsum of that number, which determines it."""
    import jax.numpy as jnp

    import jsparse

    rng = np.random.default_rng(number)
    operands_drawn = int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.04, 0.2, 0.26, 0.24, 0.16, 0.1]))
    wide, narrow = int(rng.choice(SIZES)), int(rng.choice(NARROW))
    names: list[str] = list("ij")
    size = dict.fromkeys("ij", wide)
    terms: list[str] = []
    operands: list[Any] = []
    kinds: list[str] = []
    for n in range(operands_drawn):
        is_sparse = n == 0 or rng.random() < 0.65
        # most operands share an index variable with an earlier one; few stand alone
        shared = str(rng.choice(names)) if n and rng.random() < 0.95 else None
        letters = [] if shared is None else [shared]
        rank = 2 if is_sparse else int(rng.choice([1, 2], p=[0.35, 0.65]))
        while len(letters) < rank:
            old = [v for v in names if v not in letters and (not is_sparse or size[v] == wide)]
            if old and rng.random() < 0.45:
                letters.append(str(rng.choice(old)))
                continue
            new = next(v for v in "ijklmnopqrstuv" if v not in names or (not n and v not in letters and v in "ij"))
            if new not in names:
                names.append(new)
                size[new] = wide if is_sparse or rng.random() < 0.3 else narrow
            letters.append(new)
        rng.shuffle(letters)
        if is_sparse and all(size[v] == wide for v in letters):
            family = str(rng.choice(FAMILIES))
            coords = coordinates(rng, family, wide, wide)
            values = rng.uniform(0.5, 1, coords.shape[1]).astype(np.float32)
            format = str(rng.choice(["csr", "csc", "coo"], p=[0.6, 0.2, 0.2]))
            made: Any = jsparse.SparseTensor.from_coords(coords, values, (wide, wide), format)
            bare, dynamic = rng.random() < 0.1, number % 5 == 0
            made = made.dynamic(made.nse) if dynamic else made
            operands.append(made.pattern if bare else made)
            kinds.append(f"{family} {format}{' pattern' if bare else ''}{' dynamic' if dynamic else ''}")
        else:
            operands.append(jnp.asarray(rng.uniform(0.5, 1, [size[v] for v in letters]), jnp.float32))
            kinds.append("dense")
        terms.append("".join(letters))
    used = sorted({v for term in terms for v in term})
    kept = [str(v) for v in rng.permutation(used)[: int(rng.choice([0, 1, 2], p=[0.25, 0.35, 0.4]))]]
    return Program(number, f"{','.join(terms)}->{''.join(kept)}", operands, [f"n = {wide}", *kinds])


Order = tuple[tuple[tuple[int, ...], str], ...]
"""Steps by hand: the numbers of their operands, those of earlier results after the program's, and their text."""


def order(program: Program, rng: np.random.Generator, sums_first: bool) -> Order:
    """A random sequence of products of two operands."""
    inputs, kept = program.text.split("->")
    left = dict(enumerate(inputs.split(",")))
    steps: list[tuple[tuple[int, ...], str]] = []
    number = len(left)

    def add(chosen: tuple[int, ...]) -> None:
        nonlocal number
        terms = [left.pop(n) for n in chosen]
        needed = set(kept).union(*left.values())
        result = "".join(dict.fromkeys(v for term in terms for v in term if v in needed)) if left else kept
        steps.append((chosen, f"{','.join(terms)}->{result}"))
        left[number] = result
        number += 1

    for n in list(left) if sums_first and len(left) > 1 else []:
        others = set(kept).union(*(term for m, term in left.items() if m != n))
        if not set(left[n]) <= others:
            add((n,))
    while len(left) > 1:
        pairs = [(m, n) for m in left for n in left if m < n and set(left[m]) & set(left[n])]
        add(pairs[rng.integers(len(pairs))] if pairs else tuple(sorted(left))[:2])
    return tuple(steps) or (((0,), program.text),)


def in_steps(steps: Order, values: Sequence[Any], is_dense: bool) -> Any:
    """The result of a program in these steps. `is_dense`: the last step has a dense result, as the program has."""
    import jsparse

    made = list(values)
    for n, (chosen, text) in enumerate(steps, 1):
        kind = {"out_format": "dense"} if is_dense and n == len(steps) else {}
        made.append(jsparse.einsum(text, *(made[n] for n in chosen), **kind))
    return made[-1]


def is_small(steps: Order, values: Sequence[Any], most: float, known: dict[Any, Any]) -> bool:
    """Whether the steps visit and store few enough numbers, by a run of them that counts before each step.

    Args:
        most: the combinations of entries that a step may visit.
        known: the results of steps that other orders began with.
    """
    import jsparse

    made = list(values)
    done: list[Any] = list(range(len(values)))
    for chosen, text in steps:
        key = tuple(done[m] for m in chosen), text
        done.append(key)
        if key not in known:
            inputs, result = text.split("->")
            terms, given = inputs.split(","), [made[m] for m in chosen]
            size = {v: n for x, term in zip(given, terms, strict=True) for v, n in zip(term, x.shape, strict=True)}
            if not is_sparse_result(chosen, terms, result, made) and prod(size[v] for v in result) > MOST_DENSE:
                return False
            if tuples(given, terms, size) > most:
                return False
            try:
                known[key] = jsparse.einsum(text, *given)
            except jsparse.errors.JsparseError:  # a dynamic result without a bound of its entries
                return False
        made.append(known[key])
    return True


def is_sparse_result(chosen: Sequence[int], terms: Sequence[str], result: str, made: Sequence[Any]) -> bool:
    """Whether a step's result is sparse, by the rules for results."""
    sparse = [term for m, term in zip(chosen, terms, strict=True) if hasattr(made[m], "nse")]
    return any(set(term) <= set(result) for term in sparse) or (
        len(result) >= 2 and set(result) <= set("".join(sparse))
    )


def tuples(operands: Sequence[Any], terms: Sequence[str], size: dict[str, int]) -> float:
    """The index tuples at which all operands store something: for two matrices that share one index, exactly."""
    stored = [x.nse if hasattr(x, "nse") else prod(x.shape) for x in operands]
    if len(terms) == 1:
        return float(stored[0])
    shared = [v for v in terms[0] if v in terms[1]]
    if len(shared) != 1:
        return float(stored[0]) * stored[1] if not shared else float(max(stored))
    one, other = (degrees(x, term.index(shared[0])) for x, term in zip(operands, terms, strict=True))
    return float(one.astype(float) @ other)


def degrees(x: Any, dim: int) -> np.ndarray:
    """The entries with each coordinate in a dimension."""
    if not hasattr(x, "nse"):
        return np.full(x.shape[dim], prod(x.shape) / x.shape[dim])
    from jsparse.graph.graphs import of_ones

    coords = np.asarray((x if hasattr(x, "values") else of_ones(x)).coords)[dim]
    return np.bincount(coords[coords < x.shape[dim]], minlength=x.shape[dim])


def spellings(program: Program, orders: int) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The einsum, and all ways to write it by hand that are small enough."""
    import jsparse

    def one_nest(*values: Any) -> Any:
        with mock.patch(PLANNER, return_value=()):
            return jsparse.einsum(program.text + " ", *values)  # another text, so that another plan is made

    yield "einsum", lambda *values: jsparse.einsum(program.text, *values)
    rng = np.random.default_rng(program.number)
    found = dict.fromkeys(order(program, rng, sums_first=bool(n % 2)) for n in range(4 * orders))
    known: dict[Any, Any] = {}
    most = min(MOST_TUPLES, FAR * max(program.price, 1e5))
    small = [steps for steps in list(found)[: 2 * orders] if is_small(steps, program.operands, most, known)][:orders]
    known.clear()
    for steps in small:
        name = "; ".join(text for _, text in steps)
        yield name, lambda *values, steps=steps: in_steps(steps, values, program.is_dense)
    if small:
        yield "fused", jsparse.fuse(lambda *values: in_steps(small[0], values, program.is_dense))
    if program.nest < FAR * max(program.price, 1e5):
        yield "one nest", one_nest


@contextmanager
def priced(program: Program) -> Iterator[None]:
    """Record the prices that decide about a program, and the time that it takes to compare them."""
    from jsparse.planning.path import search

    def path(product: Any, *others: Any) -> Any:
        start = time.thread_time()
        found = search.contraction_path(product, *others)
        if len(product.operands) == len(program.operands) and not program.planned:
            program.planned = time.thread_time() - start
            program.price, program.nest = search.prices(product, *others[:1])
        return found

    with mock.patch(PLANNER, path):
        yield


def measure(program: Program, orders: int) -> None:
    """Time all spellings of a program that store the same entries. Raises AssertionError if two of them disagree."""
    import jax

    arrays, runs = jax.tree.flatten(program.operands)[0], dict[str, Callable[[], Any]]()
    tree = jax.tree.structure(program.operands)
    expected, entries = None, 0
    for name, spelled in spellings(program, orders):
        compiled = jax.jit(lambda arrays, spelled=spelled: spelled(*jax.tree.unflatten(tree, arrays)))
        with priced(program) if name == "einsum" else nullcontext():
            found = jax.block_until_ready(compiled(arrays))
        if name == "einsum":
            expected, program.is_dense = whole(found), isinstance(found, jax.Array)
            if expected is not None and not expected.any():
                raise EmptyError  # XLA computes nothing of what is known to be empty
            entries = stored(found)
        elif whole(found) is not None and expected is not None:
            scale = float(np.abs(expected).max(initial=0.0))
            np.testing.assert_allclose(whole(found), expected, 1e-3, 1e-4 * scale, err_msg=f"{program.text}: {name}")
        if stored(found) != entries:
            continue
        runs[name] = lambda compiled=compiled: jax.block_until_ready(compiled(arrays))
    for _ in range(RETRIES):
        taken = timed(runs)
        program.times = {name: min(seconds, program.times.get(name, seconds)) for name, seconds in taken.items()}
        if program.ratio < SLOW:
            return


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least time of each, in turns. A preempted thread takes milliseconds, so that a median would tell less."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    repeats: dict[str, int] = {}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            if min(taken[name], default=0.0) > 0.3 * FAR * min(min(x, default=1.0) for x in taken.values()):
                continue  # far slower than another one
            start = time.perf_counter()
            for _ in range(repeats.get(name, 1)):
                run()
            taken[name].append((time.perf_counter() - start) / repeats.get(name, 1))
            repeats[name] = max(1, min(100, round(1e-3 / taken[name][-1])))
    return {name: min(x) for name, x in taken.items()}


def stored(x: Any) -> int:
    """The entries that a result stores."""
    return prod(x.shape) if not hasattr(x, "nse") else int(x.pattern.count) if x.is_dynamic else x.nse


def whole(x: Any) -> np.ndarray | None:
    """A result as a dense array; None if it is large."""
    if hasattr(x, "todense"):
        return np.asarray(x.todense()) if prod(x.shape) < MOST_DENSE else None
    return np.asarray(x)


def main() -> None:
    """Print what is slow, and the shares of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="einsums (default: 500)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of einsums to measure")
    parser.add_argument("--orders", type=int, default=10, help="orders by hand of each (default: 10)")
    parser.add_argument("--all", action="store_true", help="print all einsums")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times to FILE, too")
    options = parser.parse_args()
    limit_threads()
    import jax

    from jsparse.base.memo import forget_everything
    from jsparse.errors import PatternError

    made = list[Program]()
    print("  no.   ratio     einsum          best     price  planning")
    for number in options.only or count(options.first):
        drawn = program(number)
        try:
            measure(drawn, options.orders)
        except (PatternError, EmptyError):  # nothing bounds the entries of a dynamic result, or there are none
            continue
        finally:
            jax.clear_caches()
            forget_everything()
        drawn.operands.clear()
        made.append(drawn)
        if options.all or drawn.ratio > SLOW:
            print(drawn, flush=True)
        if len(made) == options.count:
            break
    ratios, planned = np.array([x.ratio for x in made]), 1e3 * np.array([x.planned for x in made])
    print(
        f"{len(made)} einsums: {np.mean(ratios > SLOW):.1%} over {SLOW}, {np.mean(ratios > CLIFF):.1%} over {CLIFF}, "
        f"at most {ratios.max():.2f}, median {np.median(ratios):.2f}; planning takes at most "
        f"{planned.max():.1f} ms, in the median {np.median(planned):.2f} ms"
    )
    if options.json:
        options.json.write_text(json.dumps([vars(x) | {"operands": None} for x in made], indent=1) + "\n")


if __name__ == "__main__":
    main()
