"""Explanations as HTML, for notebooks. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def block(parts: Iterable[str]) -> str:
    """Return an HTML block of `parts`, which are already HTML."""
    return f'<div class="jsparse-explanation">{"".join(parts)}</div>'


def heading(text: str) -> str:
    """Return a line in bold."""
    return f"<p><b>{escape(text)}</b></p>"


def html_item(number: int, part: str) -> str:
    """Return `part`, which is already HTML, with its number in front."""
    return f'<div style="display: flex; gap: 1em"><p><b>{number}.</b></p>{part}</div>'


def html_details(title: str, text: str, is_open: bool = False) -> str:
    """Return text with its line breaks and spaces, below a title that hides or shows the text."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are text."""
    lines = [_row("th", header), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
