"""Where sparse products overtake dense ones: W x with W in csr and csc, beside XLA's dense product.

W is square with entries at random places. docs/concepts/when_not_sparse.md has the table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from harness import Case, Step
from peers import jitted

import jsparse

from ._data import dense

SIZES, WIDTHS = (1024, 4096), (1, 32, 256)
DENSITIES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)

Function = Callable[[Any, Any], Any]


@functools.lru_cache(maxsize=2)
def _matrix(size: int, density: float) -> sp.csr_array:
    """A matrix whose rows have equally many entries."""
    rng = np.random.default_rng(0)
    each = max(1, round(size * density))
    columns = np.concatenate([np.sort(rng.choice(size, each, replace=False)) for _ in range(size)])
    values = rng.standard_normal(len(columns), dtype=np.float32)
    return sp.csr_array((values, columns, np.arange(size + 1) * each), shape=(size, size))


def _forward(w: Any, x: Any) -> Any:
    """W x, with a width: the product of a graph network."""
    return w @ x


def _gradient(w: Any, x: Any) -> Any:
    """The gradients of the sum of squares of W x in W (its stored entries) and x."""
    found = jax.grad(lambda w, x: ((w @ x) ** 2).sum(), (0, 1))(w, x)
    return getattr(found[0], "values", found[0]), found[1]


def cases() -> list[Case]:
    """The cases: by size, width and density, forward and with gradients."""
    return [
        _case(size, width, density, gradient)
        for size in SIZES
        for density in DENSITIES
        for width in WIDTHS
        for gradient in (False, True)
    ]


def _case(size: int, width: int, density: float, gradient: bool) -> Case:
    function = _gradient if gradient else _forward

    def operand() -> jax.Array:
        return jnp.asarray(dense(size, width))

    def timed(w: Any, x: Any) -> Step:
        """A step, which computes both gradients. They are compared in x, since csc has those in W at other places."""
        step = jitted(function, w, x)
        return (lambda: step()[1]) if gradient else step

    def ours(format: str) -> Callable[[], Step]:
        return lambda: timed(jsparse.asarray(_matrix(size, density), format=format), operand())

    def expected() -> Any:
        matrix, x = _matrix(size, density).astype(np.float64), dense(size, width).astype(np.float64)
        return matrix.T @ (2 * (matrix @ x)) if gradient else matrix @ x

    return Case(
        name=f"crossover_{size}_{100 * density:g}%_{width}{'_grad' if gradient else ''}",
        description=f"W x{', with gradients' * gradient}, W {size:,}² with {density:.1%} entries, {width} columns",
        candidates={
            "csr": ours("csr"),
            "csc": ours("csc"),
            "dense (XLA)": lambda: timed(jnp.asarray(_matrix(size, density).toarray()), operand()),
        },
        expected=expected,
        rounds=30,
    )
