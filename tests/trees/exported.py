"""Functions that close over static patterns, each with the same function of dense arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jsparse

RNG = np.random.default_rng(0)
DENSE = RNG.integers(-2, 3, (9, 12)) * (RNG.random((9, 12)) < 0.4)
STORED = DENSE != 0
A = jsparse.asarray(DENSE.astype(np.float32))
SQUARE = jsparse.asarray(DENSE[:, :9].astype(np.float32), "coo")
WINDOW = jsparse.pattern.window(9, 1)
NEAR = np.abs(np.subtract.outer(np.arange(9), np.arange(9))) <= 1
TO, FROM, KIND = (RNG.integers(0, size, 40) for size in (9, 12, 3))
FAR = jsparse.SparseTensor.from_coords([[7, 2**40, 2**40], [0, 1, 2]], np.ones(3, np.float32), (2**41, 3), "coo")
NOTHING = jsparse.SparseTensor.from_coords(np.zeros((2, 0), int), np.zeros(0, np.float32), (9, 12), "csr")
BLOCKS = jsparse.Schedule().store("P2", "o[p]/4 k[p] p").reorder("m o[p]0 k[p] p o[p] i[p] c")


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def placed(values: Any) -> Any:
    """The dense matrix with these values in the entries of A."""
    return jnp.zeros(DENSE.shape, values.dtype).at[np.nonzero(STORED)].set(values)


def masked_softmax(scores: Any, stored: Any) -> Any:
    return jnp.where(stored, jax.nn.softmax(jnp.where(stored, scores, -jnp.inf), axis=-1), 0)


def repeated(product: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Three steps of a loop around a jitted function in a jitted function."""
    inner = jax.jit(lambda x: jax.jit(product)(x) / 4)
    return lambda x: jax.lax.scan(lambda carry, _: (inner(carry), None), x, None, length=3)[0]


def convolved(x: Any, w: Any) -> Any:
    steps = BLOCKS.split("m", 16).vectorize("m").unroll_and_jam("p", 8)
    text = "out[o[p],m] += x[i[p],c] * w[k[p],c,m]"
    return jsparse.evaluate(text, shape=(9, 20), o=TO, i=FROM, k=KIND, x=x, w=w, schedule=steps)


class Case(NamedTuple):
    function: Callable[..., Any]
    dense: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    derivative: bool = True  # whether its derivative is exported, too


CASES = {
    "product": Case(lambda x: A @ x, lambda x: DENSE @ x, (random(12, 5),)),
    "values, transposed, vmap": Case(
        jax.vmap(lambda v, y: A.with_values(v).T @ y),
        jax.vmap(lambda v, y: placed(v).T @ y),
        (random(3, A.nse), random(3, 9)),
    ),
    "gradient": Case(
        jax.grad(lambda v, x: ((A.with_values(v) @ x) ** 2).sum()),
        jax.grad(lambda v, x: ((placed(v) @ x) ** 2).sum()),
        (random(A.nse), random(12)),
        False,
    ),
    "chain": Case(
        jsparse.fuse(lambda x: jsparse.softmax(A, 1) @ jnp.tanh(x)),
        lambda x: masked_softmax(DENSE.astype(float), STORED) @ jnp.tanh(x),
        (random(12, 4),),
    ),
    "attention": Case(
        lambda q: jsparse.sparse_attention(q, q, q, WINDOW),
        lambda q: masked_softmax(q @ q.T / 2, NEAR) @ q,
        (random(9, 4),),
        False,
    ),
    "maximum": Case(
        lambda x: jsparse.einsum("ij,j->i", A, x, semiring="max_plus"),
        lambda x: jnp.where(STORED, DENSE + x, -jnp.inf).max(1),
        (random(12),),
    ),
    "entries": Case(
        lambda v: jsparse.einsum("ij,kj->ik", A.with_values(v).dynamic(), A, nse=81).todense(),
        lambda v: placed(v) @ DENSE.T,
        (random(A.nse),),
    ),
    "static entries": Case(
        lambda v: (A.with_values(v) @ A.T).todense(), lambda v: placed(v) @ DENSE.T, (random(A.nse),), False
    ),
    "conversion": Case(
        lambda v: A.with_values(v).asformat("csc").values,
        lambda v: placed(v).T[np.nonzero(STORED.T)],
        (random(A.nse),),
        False,
    ),
    "loop": Case(repeated(lambda x: SQUARE @ x), repeated(lambda x: DENSE[:, :9] @ x), (random(9),)),
    "tables, in blocks of rows": Case(
        convolved,
        lambda x, w: jnp.zeros((9, 20), x.dtype).at[TO].add(jnp.einsum("pc,pcm->pm", x[FROM], w[KIND])),
        (random(12, 3), random(3, 3, 20)),
    ),
    "complex": Case(
        lambda x: A @ x, lambda x: DENSE @ x, ((random(12) + 1j * random(12)).astype(np.complex64),), False
    ),
    "int64": Case(lambda x: jsparse.einsum("ij,j->", FAR, x), lambda x: x.sum(), (random(3),), False),
    "nothing stored": Case(lambda x: NOTHING @ x, lambda x: jnp.zeros(9, x.dtype) * x[0], (random(12),), False),
}
