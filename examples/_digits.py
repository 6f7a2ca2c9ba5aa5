"""scikit-learn's handwritten digits as images with labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from _figure import draw_images, new_figure, save_figure
from sklearn.datasets import load_digits

__all__ = ["digits", "draw_pixels"]


def digits(seed: int) -> tuple[jax.Array, ...]:
    """Return images (n, 64) and labels (n,) for training, and then those for the test, a fifth of all."""
    found = load_digits()
    order = np.random.default_rng(seed).permutation(len(found.target))
    x, y = jnp.asarray(found.data[order] / 16, jnp.float32), jnp.asarray(found.target[order])
    size = len(order) * 4 // 5
    return x[:size], y[:size], x[size:], y[size:]


def draw_pixels(path: Path, values: Mapping[str, np.ndarray | jax.Array]) -> None:
    """Draw values of all pixels, (64,) each, as images side by side, by title."""
    figure = new_figure(2.3)
    draw_images(figure, {title: np.reshape(pixels, (8, 8)) for title, pixels in values.items()}, 1, cmap="inferno")
    save_figure(figure, path)
