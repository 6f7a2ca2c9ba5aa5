"""Threads that call kernels of many kinds while others clear all caches: `python stress.py CALLS`."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jsparse

DENSE = np.random.default_rng(0).integers(-2, 3, (9, 12)).astype(np.float32)
X = np.arange(12, dtype=np.float32)
A, B = jsparse.asarray(DENSE), jsparse.asarray(DENSE.T.copy(), "coo")


def windowed(x: Any) -> Any:
    """A product with a pattern that no tensor holds."""
    return jsparse.einsum("ij,j->i", jsparse.pattern.window(12, 2), x)


BAND = (np.abs(np.subtract.outer(np.arange(12), np.arange(12))) <= 2).astype(np.float32)
MIXED: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "live operand": (jax.jit(lambda A=A: A @ X), DENSE @ X),
    "closed over": (jax.jit(lambda x=X: A.T @ (A @ x)), DENSE.T @ (DENSE @ X)),
    "new pattern": (jax.jit(lambda v=A.values: (A.with_values(v) @ B).todense()), DENSE @ DENSE.T),
    "pattern of the program": (jax.jit(lambda x=X: windowed(x)), BAND @ X),
    "chain": (jax.jit(jsparse.fuse(lambda x=X: (2 * A) @ x)), 2 * DENSE @ X),
    "eager": (lambda: A @ X, DENSE @ X),
    "eager, transposed": (lambda: A.T @ jnp.ones(9), DENSE.sum(0)),
    "gradient": (lambda: jax.grad(lambda v: (A.with_values(v) @ X).sum())(A.values), X[np.nonzero(DENSE)[1]]),
    "conversion": (lambda: A.asformat("csc").todense(), DENSE),
}


def clear(chosen: random.Random) -> None:
    try:
        chosen.choice([jax.clear_caches, jsparse.clear_cache, gc.collect])()
    except RuntimeError as error:  # JAX lists its caches while other threads add some
        if "changed size during iteration" not in str(error):
            raise


def stress(calls: int, threads: int = 16, pause: float = 0.5) -> list[str]:
    """Make that many calls in all, and return what went wrong. Two more threads clear caches, at random times."""
    failures, left, done = list[str](), iter(range(calls)), threading.Event()

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        for _ in left:
            name = chosen.choice(list(MIXED))
            function, expected = MIXED[name]
            try:
                np.testing.assert_allclose(function(), expected, rtol=1e-4)
            except Exception as error:
                failures.append(f"{name}: {error!r}")

    def disturb(seed: int) -> None:
        chosen = random.Random(-seed)
        while not done.wait(pause * chosen.random()):
            clear(chosen)

    disturbing = [threading.Thread(target=disturb, args=(n,)) for n in (1, 2)]
    working = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in (*disturbing, *working):
        thread.start()
    for thread in working:
        thread.join()
    done.set()
    for thread in disturbing:
        thread.join()
    return failures


if __name__ == "__main__":
    start = time.perf_counter()
    found = stress(int(sys.argv[1]))
    print(f"{sys.argv[1]} calls in {time.perf_counter() - start:.0f} s: {len(found)} failures", *found[:5], sep="\n")
    sys.exit(bool(found))
