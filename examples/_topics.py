"""Documents as bags of words, which are drawn from a topic model (Blei et al., 2003)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

__all__ = ["LENGTH", "TOPICS", "documents", "topics"]

TOPICS, LENGTH = 20, 100  # topics, and words in a document


def topics(words: int) -> np.ndarray:
    """The probabilities of all words in each topic, (topics, words)."""
    return np.random.default_rng(0).dirichlet(np.full(words, 0.02), TOPICS)


def documents(seed: int, count: int, words: int) -> list[sp.csr_array]:
    """Both halves of documents, as counts of words."""
    rng, of_topics = np.random.default_rng(seed), topics(words)
    halves: list[list[np.ndarray]] = [[], []]
    for mixture in rng.dirichlet(np.full(TOPICS, 0.1), count):
        probabilities = mixture @ of_topics
        for half in halves:
            half.append(rng.multinomial(LENGTH // 2, probabilities / probabilities.sum()).astype(np.float32))
    return [sp.csr_array(np.stack(half)) for half in halves]
