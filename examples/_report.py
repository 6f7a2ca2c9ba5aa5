"""The output of gcn.py: times of one aggregation step, and a figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from _figure import LETTERS, draw_curve, new_figure, save_figure
from jax.experimental import sparse
from numpy.typing import NDArray

import jsparse

__all__ = ["Curves", "aggregation_times", "draw"]

DENSE_LIMIT = 2 << 30

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


def draw(path: Path, curves: Curves, adjacency: sp.csr_array, labels: NDArray[np.int32]) -> None:
    """Draw the adjacency with nodes sorted by class, and the accuracies by epoch."""
    figure = new_figure(2.9)
    left, right = figure.subplots(1, 2)
    ends = np.cumsum(np.bincount(labels))
    order = np.argsort(labels, kind="stable")
    row, col = adjacency[order][:, order].tocoo().coords
    same = labels[order][row] == labels[order][col]
    left.scatter(col[~same], row[~same], 0.6, LETTERS, linewidths=0)
    left.scatter(col[same], row[same], 0.3, labels[order][row][same], cmap="tab10", linewidths=0)
    names = [str(number) for number in range(ends.size)]
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks(ends - np.bincount(labels) / 2, names)
        axis.set_tick_params(length=0)
    left.set(xlim=(0, labels.size), ylim=(labels.size, 0), aspect="equal", title="edges, by class")
    right.axhline(curves.test[curves.best], color=LETTERS, lw=0.8, ls=":")
    draw_curve(right, curves.test, f"accuracy {curves.test[curves.best]:.3f}", "tab:orange")
    draw_curve(right, curves.loss / curves.loss[0], "loss", "tab:blue")
    right.set(xlabel="epoch", ylim=(0, 1.1), title="test accuracy, relative loss")
    save_figure(figure, path)
