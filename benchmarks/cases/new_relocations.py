"""Eager calls on patterns that were never met before: relocations and indexing, against scipy.sparse.

Every timed call gets matrices of a new seed and a new number of entries. Only the call itself is timed.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from harness import Case, Laps, Step

import jsparse

Operation = Callable[..., Any]
Operands = Callable[[np.random.Generator], tuple[Any, ...]]

SIZES = {"10k": (1_000, 10_000), "100k": (10_000, 100_000)}
_seeds = itertools.count(1)


def cases() -> list[Case]:
    """The cases, at 10,000 and at 100,000 entries."""
    found = []
    for size, (n, entries) in SIZES.items():
        matrix, order = functools.partial(_matrix, n, n, entries), functools.partial(_order, n)
        two, permuted = _all(matrix, matrix), _all(matrix, order)
        points = _all(matrix, functools.partial(_points, n, entries), functools.partial(_points, n, entries))
        some = _all(matrix, functools.partial(_some, n))
        found += [
            _case(f"hstack_{size}", two, lambda a, b: jsparse.hstack([a, b]), lambda a, b: sp.hstack([a, b], "csr")),
            _case(f"vstack_{size}", two, lambda a, b: jsparse.vstack([a, b]), lambda a, b: sp.vstack([a, b], "csr")),
            _case(f"permuted_{size}", permuted, lambda a, p: a[p][:, p], lambda a, p: a[p][:, p]),
            _case(f"outer_{size}", some, lambda a, p: a[p][:, p], lambda a, p: a[np.ix_(p, p)]),
            _case(f"points_{size}", points, lambda a, r, c: a[r, c], lambda a, r, c: np.asarray(a[r, c]).reshape(-1)),
            _case(
                f"kron_{size}",
                _all(matrix, functools.partial(_matrix, 3, 3, 4)),
                jsparse.kron,
                lambda a, b: sp.kron(a, b, "csr"),
            ),
            _case(
                f"self_loops_{size}",
                _all(matrix),
                jsparse.graph.add_self_loops,
                _with_loops,
            ),
        ]
    wide = _all(functools.partial(_matrix, 2_000, 20_000, 400_000))
    found.append(_case("first_todense", wide, lambda a: a.todense(), lambda a: a.toarray(), rounds=8))
    many = _all(
        functools.partial(_matrix, 100_000, 100_000, 1_000_000),
        *[functools.partial(_points, 100_000, 3_000_000)] * 2,
    )
    found.append(
        _case("points_3m", many, lambda a, r, c: a[r, c], lambda a, r, c: np.asarray(a[r, c]).reshape(-1), rounds=8)
    )
    return found


def _case(name: str, operands: Operands, ours: Operation, peer: Operation, rounds: int = 40) -> Case:
    def given() -> tuple[Any, ...]:
        return operands(np.random.default_rng(0))

    return Case(
        name=f"moved_{name}",
        description=f"{name.replace('_', ' ')}: an eager call on matrices that are new each time, f32",
        candidates={
            "jsparse": lambda: _timed(ours, operands, _converted),
            "scipy": lambda: _timed(peer, operands, lambda x: x),
        },
        expected=lambda: _dense(peer(*given())),
        rounds=rounds,
    )


def _timed(operation: Operation, operands: Operands, convert: Callable[[Any], Any]) -> Step:
    checked = _dense(operation(*map(convert, operands(np.random.default_rng(0)))))

    def step() -> Laps:
        given = [convert(x) for x in operands(np.random.default_rng(next(_seeds)))]
        start = time.perf_counter()
        jax.block_until_ready(operation(*given))
        return Laps({"call": time.perf_counter() - start}, checked)

    return step


def _with_loops(a: sp.csr_array) -> Any:
    return a + sp.eye_array(a.shape[0], dtype=np.float32, format="csr")


def _converted(x: Any) -> Any:
    return jsparse.asarray(x, format="csr") if sp.issparse(x) else x


def _dense(x: Any) -> Any:
    """The coordinates and values of a matrix in row-major order, or an array itself."""
    if isinstance(x, jsparse.SparseTensor):
        x = x.to_scipy()
    if not sp.issparse(x):
        return np.asarray(x)
    rows = x.tocsr()
    rows.sort_indices()
    return rows.indptr, rows.indices, rows.data


def _all(*parts: Callable[[np.random.Generator], Any]) -> Operands:
    return lambda rng: tuple(part(rng) for part in parts)


def _matrix(m: int, n: int, entries: int, rng: np.random.Generator) -> sp.csr_array:
    """A matrix of about `entries` entries at random places."""
    entries = min(entries + int(rng.integers(0, 97)), m * n)
    rows, columns = rng.integers(0, m, entries), rng.integers(0, n, entries)
    made = sp.coo_array((rng.random(entries, np.float32) + 1, (rows, columns)), shape=(m, n)).tocsr()
    made.sort_indices()
    return made


def _order(n: int, rng: np.random.Generator) -> Any:
    return rng.permutation(n)


def _some(n: int, rng: np.random.Generator) -> Any:
    return rng.permutation(n)[: n // 10]


def _points(n: int, count: int, rng: np.random.Generator) -> Any:
    return rng.integers(0, n, count)
