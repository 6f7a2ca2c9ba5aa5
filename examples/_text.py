"""A text that comes with Python, by characters, a model of n-grams to compare with, and how a model writes text."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import log
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

__all__ = ["ORDER", "ngram_loss", "text", "write"]

ORDER = 3  # of the n-grams


def text() -> tuple[np.ndarray, np.ndarray]:
    """The codes of all characters, and the characters by code."""
    whole = "\n".join(topics[name] for name in sorted(topics))
    alphabet, codes = np.unique(np.array(list(whole)), return_inverse=True)
    return codes.astype(np.int32), alphabet


def ngram_loss(train: np.ndarray, test: np.ndarray, characters: int) -> float:
    """The mean negative logarithm of an n-gram model's probabilities, interpolated by Witten and Bell's rule (1991)."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    codes = train.tolist()
    for order in range(ORDER):
        for at in range(order, len(codes)):
            counts[tuple(codes[at - order : at])][codes[at]] += 1
    total, given = 0.0, [*codes[-ORDER:], *test.tolist()]
    for at in range(ORDER, len(given)):
        probability = 1 / characters
        for order in range(ORDER):
            found = counts.get(tuple(given[at - order : at]))
            if found is not None:
                seen = found.total()
                probability = (found[given[at]] + len(found) * probability) / (seen + len(found))
        total -= log(probability)
    return total / len(test)


def write(model: nnx.Module, codes: jax.Array, count: int, key: jax.Array, temperature: float = 0.7) -> jax.Array:
    """Continue a text by `count` characters. The model keeps what it has read in a cache, and reads each one once."""
    model.init_cache(len(codes) + count)
    graph, state = nnx.split(model)

    def one(carry: tuple[nnx.State, jax.Array], key: jax.Array) -> tuple[tuple[nnx.State, jax.Array], jax.Array]:
        state, codes = carry
        reader = nnx.merge(graph, state)
        code = jax.random.categorical(key, reader(codes, decode=True)[-1] / temperature)
        return (nnx.state(reader), code[None]), code

    first, *keys = jax.random.split(key, count)
    carry, code = jax.jit(one)((state, codes), first)
    _, others = jax.lax.scan(one, carry, jnp.stack(keys))
    return jnp.concatenate([codes, code[None], others])
