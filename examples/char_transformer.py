"""Train a character-level transformer with sparse attention on 2,048 characters at a time.

    python examples/char_transformer.py

Each character attends to the 32 characters before it and to every 32nd character further back (Child et al.,
"Generating long sequences with sparse transformers", 2019). The mask stores 6 % of the lower triangle. Attention is one
fused kernel forward and one backward, and its time grows with the number of stored entries.

The text is the help on the language that comes with Python, `pydoc_data.topics`; nothing is downloaded. On two cores,
training takes about two minutes. The loss on the last tenth of the text is lower than the loss of an interpolated
trigram model on the same characters, which is 1.71 nats.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log
from pathlib import Path
from pydoc_data.topics import topics

import jax
import numpy as np
import optax
from _figure import draw_curves
from flax import nnx
from tqdm import tqdm

import jsparse
import jsparse.nnx

LENGTH, STRIDE, WIDTH, HEADS, BLOCKS, ORDER = 2048, 32, 128, 4, 2, 3


class Transformer(nnx.Module):
    """Pre-norm blocks with sparse attention, and biases by relative position."""

    def __init__(self, characters: int, length: int, rngs: nnx.Rngs) -> None:
        mask = jsparse.pattern.strided(length, STRIDE)
        self.embedding = nnx.Embed(characters, WIDTH, rngs=rngs)
        options = {"max_distance": STRIDE, "rngs": rngs}
        blocks = [jsparse.nnx.TransformerBlock(mask, HEADS, WIDTH, **options) for _ in range(BLOCKS)]
        self.blocks = nnx.List(blocks)
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, characters, rngs=rngs)

    def __call__(self, codes: jax.Array) -> jax.Array:
        """The logits of the next characters, (..., length, characters)."""
        x = self.embedding(codes)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def text() -> tuple[np.ndarray, int]:
    """The codes of all characters, and the number of different ones."""
    whole = "\n".join(topics[name] for name in sorted(topics))
    known, codes = np.unique(np.array(list(whole)), return_inverse=True)
    return codes.astype(np.int32), len(known)


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


def loss_of(model: Transformer, codes: jax.Array) -> jax.Array:
    """The mean cross-entropy of each next character, in nats."""
    return optax.softmax_cross_entropy_with_integer_labels(model(codes[..., :-1]), codes[..., 1:]).mean()


@nnx.jit
def step(model: Transformer, optimizer: nnx.Optimizer, codes: jax.Array) -> jax.Array:
    """Take one step of the optimizer, and return the loss before it."""
    loss, slopes = nnx.value_and_grad(loss_of)(model, codes)
    optimizer.update(model, slopes)
    return loss


def train(steps: int, length: int = LENGTH, seed: int = 0, progress: bool = True) -> tuple[list[float], float, float]:
    """Train a model. Return the losses of all steps, the held-out loss, and the loss of the n-gram model."""
    codes, characters = text()
    held = len(codes) // 10
    model = Transformer(characters, length, nnx.Rngs(seed))
    schedule = optax.warmup_cosine_decay_schedule(0, 6e-3, steps // 10, steps, 1e-4)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    optimizer, rng, losses = nnx.Optimizer(model, tx, wrt=nnx.Param), np.random.default_rng(seed), []
    with tqdm(range(steps), desc="step", disable=not progress) as bar:
        for _ in bar:
            at = rng.integers(0, len(codes) - held - length - 1)
            losses.append(float(step(model, optimizer, codes[at : at + length + 1])))
            bar.set_postfix_str(f"loss {np.mean(losses[-50:]):.3f}", refresh=False)
    starts = range(len(codes) - held, len(codes) - length, length)
    evaluate = nnx.jit(loss_of)
    found = float(np.mean([evaluate(model, codes[at : at + length + 1]) for at in starts]))
    return losses, found, ngram_loss(codes[:-held], codes[-held:], characters)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example. The exit code is 1 if the model is not better than the n-gram model."""
    parser = argparse.ArgumentParser(description="Train a character-level transformer with sparse attention.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("char_transformer.png"), metavar="PNG")
    options = parser.parse_args(argv)
    losses, found, of_ngrams = train(options.steps, seed=options.seed)
    print(f"held-out loss {found:.3f} nats a character; interpolated {ORDER}-grams {of_ngrams:.3f}")
    levels = {"held out": found, f"{ORDER}-grams, held out": of_ngrams}
    draw_curves(options.output, {"training": losses}, levels=levels, xlabel="step", ylabel="nats a character")
    return int(found >= of_ngrams)


if __name__ == "__main__":
    sys.exit(main())
