"""The matricised tensor times Khatri-Rao product, the kernel of a CP decomposition."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from harness import Case, Step
from peers import import_torch, jitted

import jsparse

from ._data import dense

SHAPE, STORED, RANK = (1_000, 2_000, 3_000), 500_000, 16
TEXT = "ijk,jr,kr->ir"


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="mttkrp",
            description=f"{TEXT}, {' x '.join(f'{n:,}' for n in SHAPE)}, {STORED:,} entries, rank {RANK}, f32",
            candidates={
                "jsparse": _ours("csf"),
                "jsparse, coo": _ours("coo"),
                "jax gather and segment_sum": _jax,
                "torch gather and index_add": _torch,
            },
            expected=_expected,
        )
    ]


@functools.cache
def _tensor() -> tuple[np.ndarray, np.ndarray]:
    """Distinct sorted coordinates (3, entries), and values."""
    rng = np.random.default_rng(0)
    places = np.sort(rng.choice(np.prod(SHAPE), STORED, replace=False))
    return np.array(np.unravel_index(places, SHAPE)), rng.uniform(0.1, 1.1, STORED).astype(np.float32)


def _factors() -> tuple[np.ndarray, np.ndarray]:
    return dense(SHAPE[1], RANK), dense(SHAPE[2], RANK, seed=2)


def _ours(format: str) -> Callable[[], Step]:
    def factory() -> Step:
        tensor = jsparse.SparseTensor.from_coords(*_tensor(), SHAPE, format=format)
        return jitted(lambda t, b, c: jsparse.einsum(TEXT, t, b, c), tensor, *map(jnp.asarray, _factors()))

    return factory


def _jax() -> Step:
    def run(coords: Any, values: Any, b: Any, c: Any) -> Any:
        i, j, k = coords
        return (
            jnp.zeros((SHAPE[0], RANK), values.dtype).at[i].add(values[:, None] * b[j] * c[k], indices_are_sorted=True)
        )

    coords, values = _tensor()
    return jitted(run, jnp.asarray(coords, jnp.int32), jnp.asarray(values), *map(jnp.asarray, _factors()))


def _torch() -> Step:
    torch = import_torch()
    (i, j, k), values = _tensor()
    i, j, k = (torch.from_numpy(x.astype(np.int64)) for x in (i, j, k))
    v, (b, c) = torch.from_numpy(values.copy()), (torch.from_numpy(x.copy()) for x in _factors())

    def step() -> np.ndarray:
        products = v[:, None] * b.index_select(0, j) * c.index_select(0, k)
        return torch.zeros(SHAPE[0], RANK).index_add_(0, i, products).numpy()

    return step


def _expected() -> np.ndarray:
    (i, j, k), values = _tensor()
    b, c = _factors()
    out = np.zeros((SHAPE[0], RANK))
    np.add.at(out, i, values[:, None].astype(np.float64) * b[j] * c[k])
    return out.astype(np.float32)
