"""The figures of the examples: one style, which is read on white and on dark grounds, and maps of points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.patheffects import withStroke

__all__ = ["LETTERS", "draw_curve", "draw_images", "draw_map", "new_figure", "save_figure"]

LETTERS = "#7a8591"  # a grey that is read on white and on black: the grounds of figures are transparent
WIDTH = 6.0  # inches: in a card of the gallery, which is 360 pixels wide, a letter of 12 points has 10 pixels

rcParams.update({
    "axes.edgecolor": LETTERS,
    "axes.facecolor": "none",
    "axes.labelcolor": LETTERS,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": LETTERS,
    "axes.titlesize": 12,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.dpi": 200,
    "font.size": 12,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "savefig.transparent": True,
    "text.color": LETTERS,
    "xtick.color": LETTERS,
    "ytick.color": LETTERS,
})  # fmt: skip


def new_figure(height: float) -> Figure:
    """Make a figure of this height in inches, with room for its labels."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure and say so. Images have no frame."""
    for axes in figure.axes:
        if axes.images:
            axes.spines[:].set_visible(False)
    figure.savefig(path)
    print(f"wrote {path}")


def draw_curve(axes: Axes, values: np.ndarray, label: str, color: str) -> None:
    """Draw a curve of one value an epoch, with its name at its end."""
    axes.plot(np.arange(1, len(values) + 1), values, color=color, lw=2)
    axes.annotate(label, (len(values), values[-1]), (0, 6), textcoords="offset points", color=color, ha="right")


def draw_images(figure: FigureBase, images: Mapping[str, np.ndarray], rows: int, **options: object) -> None:
    """Draw images by title, in rows. Options are those of `Axes.imshow`."""
    grid = figure.subplots(rows, -(-len(images) // rows), squeeze=False)
    for (title, image), axes in zip(images.items(), grid.flat, strict=False):
        axes.imshow(image, **options)
        axes.set(title=title, xticks=[], yticks=[])


def draw_map(axes: Axes, points: np.ndarray, edges: np.ndarray, classes: np.ndarray, wrong: np.ndarray) -> None:
    """Draw a graph whose nodes are placed by t-SNE: those with similar `points` (nodes, features) are neighbours.

    Args:
        axes: where to draw.
        points: see above.
        edges: the ends of the edges, (2, edges).
        classes: the class of each node, which is its colour. Each class has its number in its middle.
        wrong: a mask of the nodes that get a ring.
    """
    from sklearn.manifold import TSNE

    places = TSNE(init="pca", random_state=0).fit_transform(points)
    axes.plot(*places[edges].transpose(2, 0, 1), color=LETTERS, lw=0.3, alpha=0.15, zorder=0)
    axes.scatter(*places.T, 7, classes, cmap="tab10", linewidths=0)
    axes.scatter(*places[wrong].T, 20, facecolors="none", edgecolors=LETTERS, linewidths=0.6)
    outline = [withStroke(linewidth=3, foreground="#333333")]
    for number in np.unique(classes):
        x, y = np.median(places[classes == number], axis=0)
        axes.text(x, y, str(number), size=18, color="white", ha="center", va="center", path_effects=outline)
    axes.set_axis_off()
