"""The figures of the examples: one style, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

__all__ = ["LETTERS", "draw_curves", "new_figure", "save_figure"]

LETTERS = "#7a8591"  # a grey that is read on white and on black: the grounds of figures are transparent


def new_figure(width: float, height: float) -> Figure:
    """Make a figure of this width and height in inches, with room for its labels."""
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure on a transparent ground, its letters and frames in grey."""
    for part in figure.findobj(Text):
        part.set_color(LETTERS)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        axes.tick_params(colors=LETTERS)
        axes.spines[:].set_color(LETTERS)
        axes.spines[["top", "right"]].set_visible(bool(axes.images))
    figure.savefig(path, transparent=True)
    print(f"wrote {path}")


def draw_curves(
    path: Path,
    curves: Mapping[str, Sequence[float] | np.ndarray],
    *,
    every: int = 1,
    levels: Mapping[str, float] | None = None,
    **labels: object,
) -> None:
    """Draw curves whose points are `every` steps apart, and horizontal lines at `levels`, and save the figure."""
    figure = new_figure(7, 4)
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.plot(every * np.arange(1, len(curve) + 1), curve, label=name, lw=1)
    for n, (name, level) in enumerate((levels or {}).items()):
        axes.axhline(level, color=f"C{len(curves) + n}", ls="--", label=name)
    axes.set(**labels)
    axes.legend(frameon=False)
    save_figure(figure, path)
