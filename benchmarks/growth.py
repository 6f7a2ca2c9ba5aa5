"""Time and memory as the problem grows: `python benchmarks/growth.py [--program NAME] [--largest N]`.

- `product`: A X from 10⁵ to 1.2·10⁸ entries, with 64 columns, f32. Every row of A has 52 entries, each at a random
  coordinate in one of 52 strips, so each entry reads a row of X from memory when X is large.
- `attention`, `gradients`: attention from length 1,024 to 65,536, 8 heads of 32, a window of 64 positions each side and
  a global token, f32; and the gradients of its sum of squares in queries, keys and values.

Every size runs in another process. The table has the time of an entry, and the memory that the call needs besides its
inputs, compared with the size of its result. The figure shows the time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from run import RESULTS, environment, limit_threads

COLUMNS, DEGREE = 64, 52
HEADS, DIM, WINDOW = 8, 32, 64
SECONDS = 4.0
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is timed.

    Attributes:
        function: what is compiled.
        arguments: its arrays.
        entries: the number of stored entries, of all heads.
        rows: the number of rows.
        index: the bytes of index arrays.
        check: compares results with an independent computation, and raises AssertionError if they differ.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    entries: int
    rows: int
    index: int
    check: Callable[[Any], None]


def product(entries: int) -> Call:
    """A X, checked at some rows."""
    import jax.numpy as jnp

    import jsparse

    matrix = striped(entries // DEGREE)
    tensor = jsparse.asarray(matrix, format="csr")
    x = jnp.asarray(np.random.default_rng(1).standard_normal((matrix.shape[1], COLUMNS), np.float32))

    def check(out: Any) -> None:
        rows = np.random.default_rng(2).integers(0, matrix.shape[0], 100)
        np.testing.assert_allclose(out[rows], matrix[rows] @ np.asarray(x), rtol=1e-4, atol=1e-4)

    def multiply(values: Any, x: Any) -> Any:
        return jsparse.einsum("ij,jk->ik", tensor.with_values(values), x)

    index = matrix.indices.nbytes + matrix.indptr.nbytes
    return Call(multiply, (tensor.values, x), matrix.nnz, matrix.shape[0], index, check)


def attention(length: int, backward: bool = False) -> Call:
    """Sparse attention, checked at some queries; of gradients, that of queries."""
    import jax
    import jax.numpy as jnp

    import jsparse

    pattern = jsparse.pattern.window(length, WINDOW) | jsparse.pattern.global_(length, 1)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((HEADS, length, DIM), np.float32) for _ in range(3))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return jsparse.sparse_attention(q, k, v, pattern)

    def some(q: Any, rows: np.ndarray) -> Any:
        distance = np.abs(rows[:, None] - np.arange(length))
        mask = (distance <= WINDOW) | (rows[:, None] == 0) | (np.arange(length) == 0)
        scores = jnp.einsum("hid,hjd->hij", q, k) * DIM**-0.5
        return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v

    def check(out: Any) -> None:
        rows = np.r_[0, np.random.default_rng(2).integers(0, length, 20)]
        expected = jax.grad(lambda q: (some(q, rows) ** 2).sum()) if backward else lambda q: some(q, rows)
        found = out[0] if backward else out
        np.testing.assert_allclose(found[:, rows], expected(jnp.asarray(q[:, rows])), rtol=1e-3, atol=1e-4)

    function = jax.grad(lambda *x: (attend(*x) ** 2).sum(), (0, 1, 2)) if backward else attend
    arrays = tuple(map(jnp.asarray, (q, k, v)))
    return Call(function, arrays, HEADS * pattern.nse, length, sum(a.nbytes for a in pattern.arrays), check)


PROGRAMS: dict[str, tuple[str, tuple[int, ...], Callable[[int], Call]]] = {
    "product": (
        f"A X, {COLUMNS} columns, {DEGREE} entries in each row",
        (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 124_000_000),
        product,
    ),
    "attention": (f"attention, {HEADS} heads of {DIM}, window {WINDOW} each side", LENGTHS, attention),
    "gradients": ("attention with its gradients", LENGTHS, lambda length: attention(length, backward=True)),
}


def main() -> None:
    """Print the table, and write it and the figure to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", choices=tuple(PROGRAMS), default="product")
    parser.add_argument("--largest", type=int, metavar="N", help="the largest size")
    parser.add_argument("--one", type=int, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args()
    title, sizes, build = PROGRAMS[options.program]
    if options.one is not None:
        limit_threads()
        print(json.dumps(measured(build(options.one))))
        return
    print("     entries      rows        ms  ns/entry  inputs MB  result MB  call MB   peak")
    rows = []
    for size in (size for size in sizes if options.largest is None or size <= options.largest):
        command = [sys.executable, __file__, "--program", options.program, "--one", str(size)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append(row)
        megabytes = "".join(
            f"{row[name] / 1e6:>{width}.1f}" for name, width in (("inputs", 11), ("result", 11), ("call", 9))
        )
        shown = f"{row['entries']:>12,}{row['rows']:>10,}{row['ms']:>10.3f}{row['ns']:>10.3f}{megabytes}"
        print(f"{shown}{(row['inputs'] + row['call']) / (row['inputs'] + row['result']):>7.2f}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    name = f"growth_{options.program}"
    (RESULTS / f"{name}.json").write_text(json.dumps({"environment": environment(), "rows": rows}, indent=1) + "\n")
    draw(rows, title, RESULTS / f"{name}.png")


def measured(call: Call) -> dict[str, Any]:
    """The median time of a call, and its peak memory: the growth of the process in the first call, or XLA's allocation
    if that is larger."""
    import jax

    program = jax.jit(call.function).lower(*call.arguments).compile()
    jax.block_until_ready(call.arguments)
    before = resident(reset=True)["VmRSS"]
    out = jax.block_until_ready(program(*call.arguments))
    planned = program.memory_analysis()  # the process may reuse memory, and then grows by less
    needed = max(resident()["VmHWM"] - before, planned.output_size_in_bytes + planned.temp_size_in_bytes)
    call.check(out)
    result = sum(x.nbytes for x in jax.tree.leaves(out))
    del out
    times: list[float] = []
    deadline = time.perf_counter() + SECONDS
    while time.perf_counter() < deadline or len(times) < 7:
        start = time.perf_counter()
        jax.block_until_ready(program(*call.arguments))
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times))
    found = {"entries": call.entries, "rows": call.rows, "ms": 1e3 * seconds, "ns": 1e9 * seconds / call.entries}
    inputs = call.index + sum(x.nbytes for x in call.arguments)
    return found | {"inputs": inputs, "result": result, "call": needed}


def striped(rows: int) -> sp.csr_array:
    """A square matrix with an entry in each of `DEGREE` strips of every row."""
    rng = np.random.default_rng(0)
    strip = rows / DEGREE
    columns = np.empty((rows, DEGREE), np.int32)
    for n in range(DEGREE):
        columns[:, n] = np.minimum((n + rng.random(rows)) * strip, np.ceil((n + 1) * strip) - 1)
    values = rng.random(rows * DEGREE, np.float32)
    pointers = np.arange(0, rows * DEGREE + 1, DEGREE, dtype=np.int32)
    return sp.csr_array((values, columns.ravel(), pointers), shape=(rows, rows))


def resident(reset: bool = False) -> dict[str, int]:
    """The resident bytes of this process, now and at their peak since the last reset (on Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) << 10 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}


def draw(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Plot the time of an entry against the number of entries."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    axes.plot([row["entries"] for row in rows], [row["ns"] for row in rows], marker="o")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("stored entries")
    axes.set_ylabel("ns per entry")
    axes.set_title(f"{title}, f32, two threads", fontsize=9, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
