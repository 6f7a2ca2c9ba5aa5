"""The output of gcn.py: times of one aggregation step, and a figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.experimental import sparse
from matplotlib.figure import Figure
from numpy.typing import NDArray

import jsparse

__all__ = ["Curves", "aggregation_times", "draw"]

DENSE_LIMIT = 2 << 30
INK, MUTED, ACCENT, SECOND = "#222222", "#8a8a8a", "#1f5f8b", "#c0662b"

Step = Callable[[], Any]


@dataclass(frozen=True)
class Curves:
    """The loss and the accuracies of each epoch. `best` is the epoch with the best validation accuracy."""

    loss: NDArray[np.float32]
    train: NDArray[np.float32]
    val: NDArray[np.float32]
    test: NDArray[np.float32]

    @property
    def best(self) -> int:
        return int(np.argmax(self.val))


def aggregation_times(adjacency: sp.csr_array, width: int, seconds: float = 0.5) -> str:
    """A table of how many ms a product of `adjacency` with `width` columns takes, without and with its gradient."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((adjacency.shape[0], width), dtype=np.float32)
    forward, backward = _candidates(adjacency, hidden)
    out = adjacency @ hidden
    times = [
        _alternate(forward, (out,), seconds),
        _alternate(backward, (out, adjacency.T @ out), seconds),
    ]
    header = f"{'':<22}{'forward':>12}{'ratio':>8}{'forward+backward':>20}{'ratio':>8}"
    rows = (f"{name:<22}{_cells(times[0], name, 12)}{_cells(times[1], name, 20)}".rstrip() for name in forward)
    return "\n".join([header, *rows])


def _candidates(adjacency: sp.csr_array, hidden: NDArray[np.float32]) -> tuple[dict[str, Step], dict[str, Step]]:
    """The steps to time, by name: the product, and the product with its gradient."""
    x = jnp.asarray(hidden)
    products: dict[str, tuple[Any, Callable[[Any, jax.Array], jax.Array]]] = {
        "jsparse": (jsparse.asarray(adjacency, format="csr"), lambda a, b: jsparse.einsum("ij,jk->ik", a, b)),
        "jax sparse (BCOO)": (sparse.BCOO.from_scipy_sparse(adjacency), lambda a, b: a @ b),
        "jax sparse (BCSR)": (sparse.BCSR.from_scipy_sparse(adjacency), lambda a, b: a @ b),
    }
    if 4 * adjacency.shape[0] * adjacency.shape[1] <= DENSE_LIMIT:
        products["jax dense"] = (jnp.asarray(adjacency.toarray()), lambda a, b: a @ b)
    forward: dict[str, Step] = {}
    backward: dict[str, Step] = {}
    for name, (matrix, product) in products.items():
        once, both = jax.jit(product), jax.jit(_with_gradient(product))
        forward[name] = lambda once=once, matrix=matrix: jax.block_until_ready(once(matrix, x))
        backward[name] = lambda both=both, matrix=matrix: jax.block_until_ready(both(matrix, x))
    forward["scipy"] = lambda: adjacency @ hidden
    return forward, backward


def _with_gradient(product: Callable[[Any, jax.Array], jax.Array]) -> Callable[[Any, jax.Array], Any]:
    def both(matrix: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        out, pull = jax.vjp(lambda b: product(matrix, b), x)
        return out, pull(out)[0]

    return both


def _alternate(
    steps: Mapping[str, Step], expected: tuple[NDArray[np.float32], ...], seconds: float
) -> dict[str, float | str]:
    """The median milliseconds of each step, run in turns; or a text, if a step failed or gave a wrong result."""
    results: dict[str, float | str] = {}
    for name, step in steps.items():
        try:
            value = step()
            pairs = zip(value if isinstance(value, tuple) else (value,), expected, strict=True)
            results[name] = 0.0 if all(np.allclose(*pair, rtol=1e-4, atol=1e-4) for pair in pairs) else "wrong"
            if name == "jsparse" and results[name] == "wrong":
                raise ArithmeticError("the aggregation of jsparse differs from that of scipy")
        except (NotImplementedError, TypeError, ValueError) as error:
            if name == "jsparse":
                raise
            results[name] = "unsupported" if isinstance(error, NotImplementedError) else "failed"
    samples: dict[str, list[float]] = {name: [] for name, result in results.items() if not isinstance(result, str)}
    deadline, rounds = time.perf_counter() + seconds * len(samples), 0
    while rounds < 5 or (rounds < 1000 and time.perf_counter() < deadline):
        rounds += 1
        for name, taken in samples.items():
            start = time.perf_counter()
            steps[name]()
            taken.append(1e3 * (time.perf_counter() - start))
    return results | {name: float(np.median(taken)) for name, taken in samples.items()}


def _cells(times: Mapping[str, float | str], name: str, pad: int) -> str:
    value, base = times.get(name, "-"), times["jsparse"]
    if isinstance(value, str) or isinstance(base, str):
        return f"{value:>{pad}}{'':>8}"
    return f"{value:>{pad - 3}.3f} ms{value / base:>7.1f}x"


def draw(path: Path, title: str, curves: Curves, adjacency: sp.csr_array, labels: NDArray[np.int32]) -> None:
    """Write a PNG of accuracy and loss by epoch, and of the adjacency with nodes sorted by class."""
    figure = Figure(figsize=(11, 4.8), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    figure.suptitle(title, fontsize=12, color=INK, x=0.01, ha="left")
    _draw_curves(left, curves)
    _draw_adjacency(right, adjacency, labels)
    figure.savefig(path)


def _draw_curves(axes: Any, curves: Curves) -> None:
    epochs = np.arange(1, curves.loss.size + 1)
    axes.plot(epochs, curves.val, color=ACCENT, lw=1.6, label="validation accuracy")
    axes.plot(epochs, curves.test, color=SECOND, lw=1.6, label="test accuracy")
    best = curves.best
    axes.axvline(best + 1, color=MUTED, lw=0.8, ls=":")
    axes.plot(best + 1, curves.test[best], "o", color=SECOND, ms=5)
    axes.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1.02), xlim=(1, max(2, epochs[-1])))
    axes.set_title(f"Best validation epoch {best + 1}: test accuracy {curves.test[best]:.3f}", fontsize=10, loc="left")
    axes.grid(axis="y", color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)
    loss = axes.twinx()
    loss.plot(epochs, curves.loss, color=MUTED, lw=1, label="training loss")
    loss.set_ylabel("training loss", color=MUTED)
    loss.set_ylim(bottom=0)
    loss.tick_params(colors=MUTED)
    _plain_frame(axes, hidden=("top", "right"))
    _plain_frame(loss, hidden=("top", "left", "bottom"))
    lines = [*axes.get_lines()[:2], *loss.get_lines()]
    axes.legend(lines, [line.get_label() for line in lines], loc="center right", frameon=False, fontsize=9)


def _draw_adjacency(axes: Any, adjacency: sp.csr_array, labels: NDArray[np.int32]) -> None:
    order = np.argsort(labels, kind="stable")
    sorted_matrix = adjacency[order][:, order].tocoo()
    row, col = sorted_matrix.coords
    size = 40 * (1 / max(labels.size, 1)) ** 0.5
    axes.scatter(col, row, s=size, color=ACCENT, linewidths=0, alpha=0.7, rasterized=True)
    counts = np.bincount(labels)
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        axes.axhline(end - 0.5, color="#d0d0d0", lw=0.5, zorder=0)
        axes.axvline(end - 0.5, color="#d0d0d0", lw=0.5, zorder=0)
    axes.set(xlim=(-0.5, labels.size - 0.5), ylim=(labels.size - 0.5, -0.5), aspect="equal")
    ticks, names = ends - counts / 2, [str(c) for c in range(counts.size)]
    axes.set_xticks(ticks, names, fontsize=8)
    axes.set_yticks(ticks, names, fontsize=8)
    axes.tick_params(length=0)
    axes.set(xlabel="nodes, sorted by class", ylabel="")
    axes.set_title(f"Adjacency: {adjacency.nnz:,} entries", fontsize=10, loc="left")
    _plain_frame(axes, hidden=())


def _plain_frame(axes: Any, hidden: Sequence[str]) -> None:
    for side, spine in axes.spines.items():
        spine.set_visible(side not in hidden)
        spine.set_color("#b5b5b5")
