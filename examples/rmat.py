"""Split a power-law graph into dense blocks, long rows and the rest, and find out whether that pays.

    python examples/rmat.py

R-MAT (Chakrabarti et al., 2004) draws an edge by choosing one quarter of the adjacency matrix, one quarter of that, and
so on. With the probabilities of Graph500, a few nodes get thousands of neighbours, and most get fewer than ten. If you
sort the nodes by degree, the upper left corner of the matrix is dense. `jsparse.decompose` stores 8 x 8 blocks that are
at least half full as blocks, and of what remains, rows with more than 64 entries as long rows. One kernel adds the
products of all parts. `jsparse.choose_format` estimates which format is the fastest.

The figure shows how dense the matrix is, from one entry in a million to a full tile: as it was drawn, and sorted by
degree, on logarithmic axes. The third picture has the part to which most entries of a tile belong. On two cores it
takes about 20 seconds and 0.9 GB. Products of the parts, and a PageRank from them, agree with SciPy within 1e-4. The
parts do not pay here: they take 14.6 MB and csr 14.8 MB, and a product takes about twice as long as in csr with one
column, and 1 to 1.4 times as long with 64. `choose_format` says the same: it chooses csr.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _figure import new_figure, save_figure
from matplotlib.colors import LogNorm, to_rgb

import jsparse
from jsparse import graph

QUARTERS, EDGES = (0.57, 0.19, 0.19, 0.05), 16  # their probabilities, and how many edges are drawn for each node
TILES, COLUMNS, ROUNDS, BAR = 128, (1, 64), 20, 1e-4
LONG = jsparse.row_length(64)
PARTS = {
    "blocks": (jsparse.block_fill(8, 8, 0.5), "bsr(8, 8)"),
    "long rows": (lambda coords: ~LONG(coords), "dcsr"),
    "rest": (None, "csr"),
}
COLORS = "tab:orange", "tab:blue", "tab:green"


def rmat(scale: int, seed: int) -> Any:
    """An undirected graph of 2 ** scale nodes, whose edges have the weight 1."""
    rng = np.random.default_rng(seed)
    ends = np.zeros((2, EDGES << scale), np.int64)
    for _ in range(scale):
        ends = 2 * ends + np.divmod(rng.choice(4, ends.shape[1], p=QUARTERS), 2)
    return graph.symmetrize(graph.from_edges(*ends, nodes=1 << scale, duplicates="max"))


@jax.jit
def product(A: Any, X: jax.Array) -> jax.Array:
    """Run the kernel for the format of the matrix."""
    return A @ X


def milliseconds(matrices: dict[str, Any], columns: int) -> tuple[dict[str, float], float]:
    """Median times of products, which run in turns, and the greatest relative difference from SciPy's products."""
    rng, wrong = np.random.default_rng(0), 0.0
    taken: dict[str, list[float]] = {name: [] for name in matrices}
    for number in range(ROUNDS + 1):
        X = rng.random((matrices["csr"].shape[1], columns), dtype=np.float32)
        for name, A in matrices.items():
            start = time.perf_counter()
            found = product(A, jnp.asarray(X)).block_until_ready()
            taken[name].append(1e3 * (time.perf_counter() - start))
            if number == 0:
                expected = A.asformat("csr").to_scipy() @ X
                wrong = max(wrong, float(np.abs(found - expected).max() / expected.max()))
    return {name: float(np.median(times[1:])) for name, times in taken.items()}, wrong


def pagerank(A: Any, degrees: np.ndarray, rounds: int = 40) -> np.ndarray:
    """Where a random walk is that follows an edge in 17 of 20 steps, and goes to any node in the others."""
    shares = np.full(len(degrees), 1 / len(degrees), np.float32)
    for _ in range(rounds):
        stuck = shares[degrees == 0].sum()
        followed = np.asarray(A @ (shares / np.maximum(degrees, 1))) + stuck / len(degrees)
        shares = 0.85 * followed + np.float32(0.15 / len(degrees))
    return shares


def tiles(coords: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The share of stored entries in each tile between bounds of rows and columns."""
    return np.histogram2d(*coords, (bounds, bounds))[0] / np.outer(np.diff(bounds), np.diff(bounds))


def draw(path: Path, drawn: np.ndarray, ordered: np.ndarray, nodes: int) -> None:
    """Draw the density of tiles in both orders, and to which parts their entries belong."""
    figure = new_figure(2.25)
    left, middle, right = figure.subplots(1, 3)
    ranks = np.unique(np.round(np.geomspace(8, nodes + 8, TILES + 1) - 8))
    whole, left_over, of_parts = tiles(ordered, ranks), ordered, []
    for which, _ in PARTS.values():
        chosen = np.ones(left_over.shape[1], bool) if which is None else which(left_over)
        of_parts.append(tiles(left_over[:, chosen], ranks))
        left_over = left_over[:, ~chosen]
    even = np.linspace(0, nodes, TILES + 1)
    for axes, density, title in ((left, tiles(drawn, even), "as drawn"), (middle, whole, "by degree")):
        axes.imshow(np.where(density > 0, density, np.nan), norm=LogNorm(1e-6, 1), cmap="inferno", extent=(0, 1, 1, 0))
        axes.set_title(title)
    image = np.zeros((*whole.shape, 4))
    image[..., :3] = np.stack(of_parts, -1) / np.maximum(whole, 1e-9)[..., None] @ np.array([to_rgb(c) for c in COLORS])
    image[..., 3] = np.where(whole > 0, np.clip(1 + np.log10(np.maximum(whole, 1e-9)) / 8, 0.3, 1), 0)
    right.imshow(image.clip(0, 1), extent=(0, 1, 1, 0))
    for name, of_part in zip(PARTS, of_parts, strict=True):
        y, x = np.argwhere(of_part > whole / 2).mean(0) / len(whole)
        right.text(x, y, name, color="white", size=11, ha="center", va="center")
    right.set_title("parts")
    for axes in (left, middle, right):
        axes.set(xticks=[], yticks=[])
    save_figure(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example. The exit code is 1 if products or PageRanks are not those of SciPy."""
    parser = argparse.ArgumentParser(description="Split a power-law graph into blocks, long rows and the rest.")
    parser.add_argument("--scale", type=int, default=16, help="the binary logarithm of the number of nodes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("rmat.png"), metavar="PNG")
    options = parser.parse_args(argv)
    drawn = rmat(options.scale, options.seed)
    A = graph.permute(drawn, graph.reorder(drawn, "degree"))
    degrees = np.asarray(graph.degree(A))
    matrices = {"csr as drawn": drawn, "csr": A, "parts": jsparse.decompose(A, list(PARTS.values()))}
    print(f"{A.shape[0]:,} nodes, {A.nse:,} entries, at most {int(degrees.max()):,} in a row")
    for name, part in zip(PARTS, matrices["parts"].parts, strict=True):
        print(f"  {name:<10} {part.format.name:<10} {part.nse:>10,} entries, {part.nbytes / 1e6:6.2f} MB")
    wrong = []
    for columns in COLUMNS:
        taken, difference = milliseconds(matrices, columns)
        wrong.append(difference)
        print(f"A @ X, columns of X: {columns}, choose_format: {jsparse.choose_format(A, uses=[columns]).chosen.name}")
        for name, one in matrices.items():
            print(f"  {name:<14} {one.nbytes / 1e6:6.2f} MB {taken[name]:8.2f} ms {taken[name] / taken['csr']:6.2f} x")
    expected = pagerank(A.to_scipy(), degrees)
    wrong.append(float(np.abs(pagerank(matrices["parts"], degrees) / expected - 1).max()))
    print(f"differences from SciPy: {max(wrong[:-1]):.1e} in products, {wrong[-1]:.1e} in PageRank ({BAR} is allowed)")
    draw(options.output, *(np.stack(one.pattern.to_coords()) for one in (drawn, A)), A.shape[0])
    return int(max(wrong) > BAR)


if __name__ == "__main__":
    sys.exit(main())
