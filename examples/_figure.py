"""The style of all figures of the examples, and figures of curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

__all__ = ["LETTERS", "draw_curves", "new_figure", "save_figure"]

LETTERS = "#7a8591"  # a grey that is legible on white and on black, because figures have a transparent background


def new_figure(width: float, height: float) -> Figure:
    """Make a figure of this width and height in inches, with room for its labels."""
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure with a transparent background, and with grey letters and frames."""
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
    """Draw curves with a point every `every` steps and horizontal lines at `levels`, and save the figure."""
    figure = new_figure(7, 4)
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.plot(every * np.arange(1, len(curve) + 1), curve, label=name, lw=1)
    for n, (name, level) in enumerate((levels or {}).items()):
        axes.axhline(level, color=f"C{len(curves) + n}", ls="--", label=name)
    axes.set(**labels)
    axes.legend(frameon=False)
    save_figure(figure, path)
