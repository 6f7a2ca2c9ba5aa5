"""Time and memory of a product from 10⁵ to 1.2·10⁸ entries: `python benchmarks/growth.py [--largest N]`.

The product is A X with 64 columns, f32. Every row of A has 52 entries, each at a random coordinate in one of 52 strips,
so each entry reads a row of X from memory when X is large. Every size runs in another process. The table has the time
of an entry, and the memory that the call needs besides its inputs, compared with the size of its result. The figure
shows the time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from run import RESULTS, environment, limit_threads

COLUMNS, DEGREE = 64, 52
SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 124_000_000)
SECONDS = 4.0


def main() -> None:
    """Print the table, and write it and the figure to the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="N", help="entries of the largest product")
    parser.add_argument("--one", type=int, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measured(options.one)))
        return
    limit_threads()
    print("     entries      rows        ms  ns/entry  inputs MB  result MB  call MB   peak")
    rows = []
    for size in (size for size in SIZES if size <= options.largest):
        command = [sys.executable, __file__, "--one", str(size)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append(row)
        megabytes = "".join(
            f"{row[name] / 1e6:>{width}.1f}" for name, width in (("inputs", 11), ("result", 11), ("call", 9))
        )
        shown = f"{row['entries']:>12,}{row['rows']:>10,}{row['ms']:>10.3f}{row['ns']:>10.3f}{megabytes}"
        print(f"{shown}{(row['inputs'] + row['call']) / (row['inputs'] + row['result']):>7.2f}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "growth.json").write_text(json.dumps({"environment": environment(), "rows": rows}, indent=1) + "\n")
    draw(rows, RESULTS / "growth.png")


def measured(entries: int) -> dict[str, Any]:
    """The median time of a product, and the peak memory of a call: the growth of the process in the first call, or
    XLA's allocation if that is larger."""
    limit_threads()
    import jax
    import jax.numpy as jnp

    import jsparse

    matrix = striped(entries // DEGREE)
    tensor = jsparse.asarray(matrix, format="csr")
    x = jnp.asarray(np.random.default_rng(1).standard_normal((matrix.shape[1], COLUMNS), np.float32))
    program = (
        jax.jit(lambda v, x: jsparse.einsum("ij,jk->ik", tensor.with_values(v), x)).lower(tensor.values, x).compile()
    )
    jax.block_until_ready((tensor.values, x))
    before = resident(reset=True)["VmRSS"]
    out = jax.block_until_ready(program(tensor.values, x))
    planned = program.memory_analysis()  # the process may reuse memory, and then grows by less
    call = max(resident()["VmHWM"] - before, planned.output_size_in_bytes + planned.temp_size_in_bytes)
    rows = np.random.default_rng(2).integers(0, matrix.shape[0], 100)
    np.testing.assert_allclose(out[rows], matrix[rows] @ np.asarray(x), rtol=1e-4, atol=1e-4)
    del out
    times: list[float] = []
    deadline = time.perf_counter() + SECONDS
    while time.perf_counter() < deadline or len(times) < 7:
        start = time.perf_counter()
        jax.block_until_ready(program(tensor.values, x))
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times))
    inputs = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes + x.nbytes
    found = {"entries": matrix.nnz, "rows": matrix.shape[0], "ms": 1e3 * seconds, "ns": 1e9 * seconds / matrix.nnz}
    return found | {"inputs": inputs, "result": 4 * matrix.shape[0] * COLUMNS, "call": call}


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


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot the time of an entry against the number of entries."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    axes.plot([row["entries"] for row in rows], [row["ns"] for row in rows], marker="o")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"stored entries, {DEGREE} in each row")
    axes.set_ylabel("ns per entry")
    axes.set_title(f"A X, {COLUMNS} columns, f32, two threads", fontsize=9, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
