"""Compares formats that jsparse chooses with others: `python benchmarks/formats.py [chosen] [densities] [results]`.

    chosen      the format of `format="auto"` for families of matrices, and the time of products in each format
    densities   products of matrices of many densities with 64 columns, sparse and dense
    results     for products and sums of matrices of several sizes, shapes and densities the bytes of the result, the
                time to compute it, and the time of a product with it, each as a ratio to the best of all formats

Without arguments it prints all tables.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from run import limit_threads

FORMATS = ("csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)")
ROUNDS = 15
COLUMNS = 16
# name, rows, columns, density of each operand, distribution of entries over rows
OPERANDS = (
    ("uniform 0.01 %", 20_000, 20_000, 1e-4, "uniform"),
    ("uniform 0.1 %", 4_000, 4_000, 1e-3, "uniform"),
    ("uniform 1 %", 2_000, 2_000, 1e-2, "uniform"),
    ("uniform 10 %", 600, 600, 0.1, "uniform"),
    ("uniform 50 %", 300, 300, 0.5, "uniform"),
    ("full, 99.5 %", 300, 300, 0.995, "uniform"),
    ("few rows", 20_000, 2_000, 1e-3, "few rows"),
    ("few columns", 2_000, 20_000, 1e-3, "few columns"),
    ("huge, hypersparse", 10**9, 10**9, 50 / 1e18, "coordinates"),
)


def main(names: Sequence[str]) -> None:
    """Print the tables of these names."""
    limit_threads()
    import choices

    tables = {"chosen": choices.print_chosen, "densities": choices.print_densities, "results": print_results}
    for name in names or tables:
        print(f"{name}, load {os.getloadavg()[0]:.2f}")
        tables[name]()


def print_results() -> None:
    """Print the table of results."""
    import jsparse

    head = f"{'operands':<20}{'result':<8}{'nse':>10}  {'inferred':<10}{'bytes':>7}{'compute':>9}{'next':>7}"
    head += "   best by bytes / compute / next"
    print(head + "\n" + "-" * len(head))
    for name, rows, columns, density, kind in OPERANDS:
        for title, operator in (("A @ B", lambda a, b: a @ b), ("A + B", lambda a, b: a + b)):
            inner = columns if title == "A + B" else rows
            a = matrix(rows, columns, density, kind, 0)
            b = (
                matrix(rows, columns, density, kind, 1)
                if title == "A + B"
                else matrix(columns, inner, density, kind, 1)
            )
            print(line(name, title, a, b, operator, jsparse), flush=True)


def matrix(rows: int, columns: int, density: float, kind: str, seed: int) -> Any:
    """A random matrix in its default format."""
    import jsparse

    rng = np.random.default_rng(seed)
    count = max(1, round(rows * columns * density))
    if kind == "coordinates":
        coords = rng.integers(0, 100, (2, count)) * (rows // 128)
    else:
        coords = np.stack(np.unravel_index(rng.choice(rows * columns, count, replace=False), (rows, columns)))
    if kind in ("few rows", "few columns"):
        axis = 0 if kind == "few rows" else 1
        coords[axis] = coords[axis] // 100 * 100
    values = rng.uniform(0.1, 1, count).astype(np.float32)
    return jsparse.SparseTensor.from_coords(coords, values, (rows, columns), "dcsr" if rows > 10**6 else "csr")


def line(name: str, title: str, a: Any, b: Any, operator: Callable[[Any, Any], Any], jsparse: Any) -> str:
    """One row of the table."""
    text = "ij,jk->ik" if title == "A @ B" else "C[i,j] = A[i,j] + B[i,j]"

    def compute(format: str | None) -> Any:
        if title == "A @ B":
            return jsparse.einsum(text, a, b, out_format=format)
        return jsparse.evaluate(text, A=a, B=b, out_format=format)

    inferred = compute(None)
    formats = [inferred.format.name, *(f for f in FORMATS if f != inferred.format.name and fits(inferred, f))]
    results = {f: compute(f) for f in formats}
    sizes = {f: size(c) for f, c in results.items()}
    first = {
        f: stepped(lambda v, w, f=f: compute_values(jsparse, text, a, b, v, w, f), a.values, b.values) for f in formats
    }
    computing = medians(first)
    following = (
        medians({f: follow(c) for f, c in results.items()}) if a.shape[1] <= 10**6 else dict.fromkeys(formats, 1.0)
    )
    chosen = formats[0]
    ratios = [table[chosen] / min(table.values()) for table in (sizes, computing, following)]
    best = " / ".join(min(table, key=table.__getitem__)[:24] for table in (sizes, computing, following))
    shown = "".join(f"{ratio:>{width}.2f}" for ratio, width in zip(ratios, (7, 9, 7), strict=True))
    return f"{name:<20}{title:<8}{inferred.nse:>10,}  {chosen[:9]:<10}{shown}   {best}"


def compute_values(jsparse: Any, text: str, a: Any, b: Any, v: Any, w: Any, format: str) -> Any:
    """The values of the result."""
    a, b = a.with_values(v), b.with_values(w)
    if "=" in text:
        return jsparse.evaluate(text, A=a, B=b, out_format=format).values
    return jsparse.einsum(text, a, b, out_format=format).values


def fits(result: Any, format: str) -> bool:
    """Whether a format's dense levels fit in memory."""
    dense = {"csr": 0, "csc": 1}.get(format)
    if dense is not None:
        return result.shape[dense] <= 10**7
    return "dense" not in format or result.shape[1] <= 10**5


def size(tensor: Any) -> int:
    """The bytes of values and index arrays."""
    return tensor.values.nbytes + sum(array.nbytes for array in tensor.pattern.arrays)


def follow(tensor: Any) -> Callable[[], Any]:
    """A step that computes the product with a dense matrix."""
    x = np.ones((tensor.shape[1], COLUMNS), np.float32)
    return stepped(lambda v: tensor.with_values(v) @ x, tensor.values)


def stepped(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """A step that calls a jitted function, which is already compiled."""
    compiled = jax.jit(function)
    compiled(*arguments)
    return lambda: jax.block_until_ready(compiled(*arguments))


def medians(steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median seconds of each step. Steps take turns."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - start)
    return {name: float(np.median(seconds)) for name, seconds in taken.items()}


if __name__ == "__main__":
    main(sys.argv[1:])
