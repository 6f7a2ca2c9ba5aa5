"""A chart of a run: the time of each peer in each case, as a multiple of jsparse's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import Row

__all__ = ["draw"]


def _whole(row: Row) -> bool:
    """Whether the row is the time of a candidate, not of one of its phases."""
    return ": " not in row.candidate or row.candidate.endswith(": total")


def _milliseconds(time: float) -> str:
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"


def draw(results: Sequence[tuple[str, Sequence[Row]]], path: Path, title: str) -> None:
    """Write a logarithmic horizontal bar chart with a group of bars for each case. It needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.fonttype"] = "none"  # letters stay text, in a tenth of the bytes
    mpl.rcParams["svg.hashsalt"] = "jsparse"  # so that equal pictures are equal files
    from matplotlib import pyplot as plt

    timed = [(case, [row for row in rows if row.ratio is not None and _whole(row)]) for case, rows in results]
    timed = [(case, rows) for case, rows in timed if rows]
    peers = list(dict.fromkeys(row.candidate for _, rows in timed for row in rows))
    colours = dict(zip(peers, plt.get_cmap("tab20").colors * (1 + len(peers) // 20), strict=False))
    bars = sum(len(rows) + 1 for _, rows in timed)
    figure, axes = plt.subplots(figsize=(9, 0.24 * bars + 1.2), layout="constrained")
    place, ticks = 0.0, []
    for case, rows in timed:
        ticks.append((place + (len(rows) - 1) / 2, case))
        for row in rows:
            axes.barh(place, row.ratio, color=colours[row.candidate], height=0.85)
            label = f" {row.candidate}: {_milliseconds(row.median or 0)} ms, {row.ratio:.2g}x"
            axes.text(max(row.ratio or 0, 1.0), place, label, va="center", fontsize=7)
            place += 1
        place += 1
    axes.set_yticks([at for at, _ in ticks], [case for _, case in ticks], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    for formatter in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        formatter("{x:.3g}")
    axes.set_xlim(right=axes.get_xlim()[1] * 6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("median time, multiples of jsparse (right of the line: slower than jsparse)")
    axes.set_title(title, fontsize=9, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
