"""Whole models beside the same models in torch and in plain JAX: `make bench-models` writes the table of
docs/internals/benchmarks.md, and draws a part of it as docs/images/models.svg."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from run import environment, limit_threads

PAGE = Path(__file__).parent.parent / "docs" / "internals" / "benchmarks.md"
BEGIN, END = "<!-- models: written by make bench-models -->", "<!-- end of models -->"
PICTURE = PAGE.parents[1] / "images" / "models.svg"
PICTURED = ("a training step", "95 % zeros")  # the rows of the table that the picture shows, by a part of their names
FILES = ("models", "graph_attention", "transformer")
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def main(argv: Sequence[str] | None = None) -> int:
    """Time all models, and replace the table. Returns 1 if a candidate is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="the seconds spent on each candidate (default: 2)")
    parser.add_argument("--draw", action="store_true", help="draw the table as it is, and time nothing")
    options = parser.parse_args(argv)
    if options.draw:
        draw_table()
        return 0
    limit_threads()
    from cases import select
    from harness import measure, table
    from shares import shares

    machine = environment()
    lines = ["| model | jsparse | share | peer | time | ratio |", "|---|---|---|---|---|---|"]
    healthy = True
    for case in select(list(FILES)):
        ours, *peers = measure(case, options.seconds)
        print(f"\n{case.description}\n{table([(case.name, [ours, *peers])])}", flush=True)
        healthy = healthy and all(row.status == "ok" for row in (ours, *peers))
        share = shares(*_programs()[case.name]())
        first = [case.description, _figure(ours.median), str(share)]
        for row in peers:
            lines.append(f"| {' | '.join(first)} | {row.candidate} | {_figure(row.median)} | {_figure(row.ratio)} |")
            first = ["", "", ""]
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    which = f"{machine['processor']}, {machine['threads']} threads, jax {machine['jax']}, torch {machine['torch']}"
    PAGE.write_text("\n".join([before + BEGIN, "", f"{which}.", "", *lines, "", END + after]))
    draw_table()
    return 0 if healthy else 1


def draw_table() -> None:
    """Draw the pictured rows of the table."""
    from figure import draw
    from harness import Row

    machine, _, _, _, *lines = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip().split("\n")
    results: list[tuple[str, list[Row]]] = []
    for line in lines:
        name, _, _, peer, time, ratio = (cell.strip() for cell in line.strip("|").split("|"))
        if name:
            results.append((name.removesuffix(", f32"), []))
        results[-1][1].append(Row(peer, "ok", float(time.replace(",", "")), ratio=float(ratio)))
    pictured = [one for one in results if any(part in one[0] for part in PICTURED)]
    PICTURE.parent.mkdir(exist_ok=True)
    draw(pictured, PICTURE, f"Whole models, time of each peer as a multiple of jsparse's\n{machine}")


def _figure(number: float | None) -> str:
    """A figure with three digits."""
    return "-" if number is None else f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _programs() -> dict[str, Callable[[], Program]]:
    """Our program of each case."""
    from cases import graph_attention, models, transformer

    found: dict[str, Callable[[], Program]] = {
        "gcn": lambda: models.gcn_program(False),
        "gcn_step": lambda: models.gcn_program(True),
        "gat_step": graph_attention.program,
        "transformer_step": lambda: transformer.program(transformer.TRAINED[0], True),
    }
    for percent in (80, 95, 99):
        found[f"autoencoder_{percent}"] = lambda percent=percent: models.autoencoder_program(percent)
    for length in transformer.LENGTHS:
        found[f"transformer_{length}"] = lambda length=length: transformer.program(length, False)
    return found


if __name__ == "__main__":
    sys.exit(main())
