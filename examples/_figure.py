"""Figures of curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

__all__ = ["draw_curves"]


def draw_curves(
    path: Path,
    curves: Mapping[str, Sequence[float] | np.ndarray],
    *,
    every: int = 1,
    levels: Mapping[str, float] | None = None,
    **labels: object,
) -> None:
    """Draw curves whose points are `every` steps apart, and horizontal lines at `levels`, and save the figure."""
    figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.plot(every * np.arange(1, len(curve) + 1), curve, label=name, lw=1)
    for n, (name, level) in enumerate((levels or {}).items()):
        axes.axhline(level, color=f"C{len(curves) + n}", ls="--", label=name)
    axes.set(**labels)
    axes.legend(frameon=False)
    figure.savefig(path)
    print(f"wrote {path}")
