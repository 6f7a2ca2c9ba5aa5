"""Compares the format that `auto` chooses with others, and sparse products with dense ones: a part of `formats.py`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from graphs import rmat
from graphs import uniform as uniform_matrix

import jsparse

COLUMNS = (1, 16, 128, 512)
SIZE = 4096
DENSITIES = (1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.3, 0.5)
SECONDS = 0.25  # of the timed runs of a candidate
FILLED = 0.25  # blocks that are filled less are not tried


def print_chosen() -> None:
    """Print the time of A X for each family of matrices and number of columns: in csr, and in others relative to csr.

    The format that auto chooses is compared with the best one and with csr.
    """
    head = f"{'family':<14}{'entries':>9}{'columns':>8}{'csr ms':>9}  {'auto':<18}{'/ best':>7}{'/ csr':>7}  "
    print(f"{head}the others / csr")
    for name, make in FAMILIES.items():
        matrix = sp.csr_array(make())
        matrix.sort_indices()
        A = jsparse.asarray(matrix)
        others = {B.format.name: B for B in _formats(A)}
        for columns in COLUMNS:
            chosen = jsparse.asarray(A, format="auto", uses=[columns])
            x = np.ones((A.shape[1], columns) if columns > 1 else A.shape[1], np.float32)
            tried = others | {chosen.format.name: chosen}
            seconds = fastest({format: product(B, x) for format, B in tried.items()})
            csr, own, best = seconds["csr"], seconds[chosen.format.name], min(seconds.values())
            ratios = ", ".join(f"{format} {s / csr:.2f}" for format, s in seconds.items() if format != "csr")
            line = f"{name:<14}{A.nse:>9,}{columns:>8}{1e3 * csr:>9.3f}  {chosen.format.name:<18}"
            print(f"{line}{own / best:>7.2f}{own / csr:>7.2f}  {ratios}", flush=True)


def print_densities() -> None:
    """For each density print the time of a product with 64 columns: of a uniform matrix by auto, and of an array."""
    print(f"{'density':>8}{'entries':>11}  {'auto':<10}{'sparse ms':>10}{'dense ms':>10}{'auto / better':>14}")
    x = np.ones((SIZE, 64), np.float32)
    for density in DENSITIES:
        matrix = uniform(density)
        A = jsparse.asarray(matrix, format="auto", uses=[64])
        array = jax.numpy.asarray(matrix.toarray())
        found = fastest({"sparse": product(A, x), "dense": product(array, x)})
        sparse, dense = found["sparse"], found["dense"]
        ratio = sparse / min(sparse, dense)
        line = f"{density:>8g}{A.nse:>11,}  {A.format.name:<10}{1e3 * sparse:>10.3f}{1e3 * dense:>10.3f}{ratio:>14.2f}"
        print(line, flush=True)


def _formats(A: Any) -> Iterator[Any]:
    """The matrix in csr, in dcsr, in blocks that are not too empty, and in blocks beside csr."""
    yield A
    yield A.asformat("dcsr")
    for side in (4, 8, 16, 32):
        blocks = A.asformat(f"bsr({side}, {side})")
        if A.nse >= FILLED * blocks.nse:
            yield blocks
            yield A.asformat(f"dbsr({side}, {side})")
        filled = jsparse.block_fill(side, side, 0.8)
        if side >= 8 and 0.2 < filled(A.to_coords()[0]).mean() < 1:
            yield jsparse.decompose(A, [(filled, f"bsr({side}, {side})"), (None, "csr")])


def product(A: Any, x: Any) -> Callable[[], Any]:
    """A step that computes A x by a compiled function."""
    compiled = jax.jit(lambda A, x: A @ x)
    compiled(A, x)
    return lambda: jax.block_until_ready(compiled(A, x))


def fastest(steps: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least seconds of each step. Steps take turns."""
    found = {name: float("inf") for name in steps}
    deadline, rounds = time.perf_counter() + SECONDS * len(steps), 0
    while rounds < 5 or time.perf_counter() < deadline:
        rounds += 1
        for name, step in steps.items():
            step()
            start = time.perf_counter()
            step()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def uniform(density: float, size: int = SIZE) -> Any:
    """Entries at random places."""
    return uniform_matrix((size, size), round(density * size**2))


def blocky(side: int, density: float, size: int = 2 * SIZE) -> Any:
    """Full blocks at random places."""
    return sp.csr_array(sp.kron(uniform(density, size // side).astype(bool), np.ones((side, side), np.float32)))


def pruned(side: int, kept: float) -> Any:
    """Normal weights, of whose blocks the largest are kept."""
    weights = np.random.default_rng(0).normal(size=(SIZE // side, side, SIZE // side, side))
    norms = np.abs(weights).sum((1, 3), keepdims=True)
    weights = weights * (norms >= np.quantile(norms, 1 - kept))
    return sp.csr_array(weights.reshape(SIZE, SIZE).astype(np.float32))


def hypersparse() -> Any:
    """Entries in few rows."""
    rng, size = np.random.default_rng(0), 1 << 17
    return _ones(rng.choice(size // 50, 100_000) * 50, rng.integers(0, size, 100_000), size)


def _ones(rows: Any, columns: Any, size: int) -> Any:
    found = sp.csr_array(sp.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(size, size)))
    found.sum_duplicates()
    return found


def _band(size: int, width: int) -> Any:
    offsets = range(-width, width + 1)
    return sp.diags_array([np.ones(size - abs(n), np.float32) for n in offsets], offsets=list(offsets))


FAMILIES: Mapping[str, Callable[[], Any]] = {
    "uniform": lambda: uniform(0.02),
    "power law": lambda: rmat(1 << 14, 300_000, 14),
    "banded": lambda: _band(16 * 1024, 8),
    "wide band": lambda: _band(4 * 1024, 40),
    "blocky": lambda: blocky(16, 0.01),
    "and single": lambda: blocky(16, 0.01, SIZE) + uniform(0.003),
    "pruned": lambda: pruned(1, 0.05),
    "pruned blocks": lambda: pruned(16, 0.05),
    "hypersparse": hypersparse,
    "few blocks": lambda: sp.kron(sp.kron(uniform(0.01, 256), _ones([0], [0], 16)), np.ones((16, 16), np.float32)),
    "triangular": lambda: sp.csr_array(np.tril(np.ones((1024, 1024), np.float32))),
}
