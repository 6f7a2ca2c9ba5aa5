"""All kinds of hostile cases."""

from __future__ import annotations

import numpy as np
from hostile import attacks, chains, corruptions, recipes
from hostile.corruptions import Case

KINDS = (
    corruptions.index_arrays,
    corruptions.index_arrays,
    corruptions.leaves,
    corruptions.casts,
    corruptions.pickles,
    corruptions.foreign,
    corruptions.jax_sparse,
    corruptions.tables,
    corruptions.coordinates,
)
CHAINS = (chains.garbled, chains.garbled, chains.padded, chains.batches, chains.wide, chains.empty)
SHARED = 90  # neighbouring cases with the same programs, which are compiled once


def corrupted(seed: int, number: int) -> Case:
    """The case of corrupt input with these numbers, which determine it."""
    rng, kind = np.random.default_rng((seed, number)), number % (len(KINDS) + len(CHAINS))
    if kind < len(KINDS):
        return KINDS[kind](rng)
    return CHAINS[kind - len(KINDS)](rng, (1000 * seed + number) // SHARED)


CASES = {"corrupt": corrupted, "attacks": attacks.attack, "recipes": recipes.edited}
