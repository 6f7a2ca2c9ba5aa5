"""A chart of a run: the time of each peer in each case, as a multiple of jsparse's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import Row

__all__ = ["draw"]

LETTERS = "#7a8591"  # a grey with enough contrast on white and on black
SLOWER, FASTER = "#e8590c", "#3b82c4"  # bars of peers that take longer than jsparse, and of those that take less


def _whole(row: Row) -> bool:
    """Whether the row is the time of a candidate, not of one of its phases."""
    return ": " not in row.candidate or row.candidate.endswith(": total")


def _milliseconds(time: float) -> str:
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"


def draw(results: Sequence[tuple[str, Sequence[Row]]], path: Path, title: str) -> None:
    """Write a logarithmic horizontal bar chart with a group of bars for each case. It needs matplotlib.

    The ground is transparent, and the letters are read on a light and on a dark page.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.fonttype"] = "none"  # letters stay text, in a tenth of the bytes
    mpl.rcParams["svg.hashsalt"] = "jsparse"  # so that equal pictures are equal files
    from matplotlib import pyplot as plt

    timed = [(case, [row for row in rows if row.ratio is not None and _whole(row)]) for case, rows in results]
    timed = [(case, rows) for case, rows in timed if rows]
    height = 0.2 * sum(len(rows) + 1.3 for _, rows in timed) + 0.9
    figure, axes = plt.subplots(figsize=(7, height), layout="constrained")
    axes.set_xscale("log")
    place = 0.0
    for case, rows in timed:
        axes.text(0, place, case, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5, color=LETTERS)
        for row in rows:
            place += 1
            ratio = row.ratio or 0.0
            axes.barh(place, ratio - 1, left=1, color=SLOWER if ratio >= 1 else FASTER, height=0.8)
            label = f"{ratio:.2g}x  {row.candidate}, {_milliseconds(row.median or 0)} ms"
            axes.annotate(label, (max(ratio, 1.0), place), (4, 0), textcoords="offset points", va="center",
                          fontsize=8, color=LETTERS)  # fmt: skip
        place += 1.3
    axes.set_yticks([])
    axes.set_ylim(place - 0.7, -0.9)
    for formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        formatter("{x:.3g}")
    axes.set_xlim(right=axes.get_xlim()[1] * 4)
    axes.axvline(1, color=LETTERS, linewidth=0.8)
    axes.set_xlabel("median time, multiples of jsparse", fontsize=8, color=LETTERS)
    axes.set_title(title, fontsize=9, loc="left", color=LETTERS)
    axes.tick_params(which="both", colors=LETTERS, labelsize=7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LETTERS)
    axes.patch.set_visible(False)
    dated = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=130, metadata=dated, transparent=True, bbox_inches="tight")
    plt.close(figure)
