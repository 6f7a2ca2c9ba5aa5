"""The figure of molecules.py: formulas with predicted and true charges, and all predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _figure import LETTERS, new_figure, save_figure
from _hueckel import Molecule, double_bonds
from matplotlib.axes import Axes

__all__ = ["draw"]

ELEMENTS = " NNOO"  # by kind; no letter for carbon
SHOWN = 8


def draw(path: Path, found: Sequence[Molecule], charges: np.ndarray, gaps: np.ndarray) -> None:
    """Draw the molecules with the most kinds of atoms, and all predictions over the true values."""
    figure = new_figure(2.9)
    formulas, right = figure.subfigures(1, 2, width_ratios=(3.2, 1))
    of_each = np.split(charges, np.cumsum([len(one.kinds) for one in found])[:-1])
    shown = sorted(range(len(found)), key=lambda n: -len(set(found[n].kinds)))
    for n, axes in zip(shown, formulas.subplots(2, SHOWN // 2).flat, strict=False):
        _draw_formula(axes, found[n], of_each[n])
    above, below = right.subplots(2, 1)
    true = np.concatenate([one.charges for one in found])
    for axes, x, y, name, ticks, limits in (
        (above, true, charges, "charge", (-0.5, 0.5), (-0.95, 0.75)),
        (below, [one.gap for one in found], gaps, "gap", (0.5, 1), (0.4, 1.45)),
    ):
        axes.axline((0, 0), slope=1, color=LETTERS, lw=0.8, zorder=0)
        axes.scatter(x, y, 3, "tab:orange", linewidths=0, alpha=0.5)
        axes.set(title=name, aspect="equal", xticks=ticks, yticks=ticks, xlim=limits, ylim=limits)
    save_figure(figure, path)


def _draw_formula(axes: Axes, one: Molecule, charges: np.ndarray) -> None:
    """Draw each atom as a disc coloured by its predicted charge, with a ring coloured by its true charge."""
    _, turns = np.linalg.eigh(np.cov(one.places.real, one.places.imag))
    x, y = turns.T @ [one.places.real, one.places.imag]  # upright: cells of the grid are narrow
    places, doubled = x + 1j * y, set(double_bonds(one))
    for a, b in np.argwhere(np.triu(one.matrix, 1)):
        ends = places[[a, b]]
        aside = 0.11j * (ends[1] - ends[0])
        for line in (ends - aside, ends + aside) if (a, b) in doubled else (ends,):
            axes.plot(line.real, line.imag, color=LETTERS, lw=1, zorder=0)
    for values, area in ((one.charges, 80), (charges, 36)):
        axes.scatter(x, y, area, values, cmap="coolwarm_r", vmin=-0.6, vmax=0.6, linewidths=0)
    for kind, place in zip(one.kinds, places, strict=True):
        text = {"size": 6.5, "color": "black", "ha": "center", "va": "center_baseline"}
        axes.text(place.real, place.imag, ELEMENTS[kind], **text)
    axes.set(aspect="equal", xlim=(x.mean() - 3.2, x.mean() + 3.2), ylim=(y.min() - 0.6, y.max() + 0.6))
    axes.set_axis_off()
