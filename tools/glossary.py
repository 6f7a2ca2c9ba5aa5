"""The terms of docs/concepts/glossary.md, and links to them from other pages.

The glossary has in bold which terms other pages link to. A page links to a term where it first uses it, but not in
headings, code, other links, and words in italics, which the page defines itself.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "glossary.md"

ROW = re.compile(r"^\| \*\*(?P<term>[\w ]+)\*\*(?=[^|]*\| (?P<meaning>[^|]*) \|)", re.MULTILINE)
HEADING, INDENTED, CODE, TAG = "^#.*$", r"^(?: {4}|\t).*$", "`[^`]*`", "<[^>]*>"
LINK, ITALICS = r"!?\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])", r"(?<!\*)\*[^*\s][^*]*\*(?!\*)"
ELSEWHERE = re.compile(f"({'|'.join((HEADING, INDENTED, CODE, LINK, TAG, ITALICS))})", re.MULTILINE)


@cache
def terms() -> dict[str, str]:
    """What each term in bold means."""
    return {found["term"]: found["meaning"] for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


def with_anchors(text: str) -> str:
    """The text of the glossary with an anchor for each term in bold."""
    return ROW.sub(lambda row: f"{row[0]}{{ #{_anchor(row['term'])} }}", text)


def with_links(parts: list[str], address: str) -> list[str]:
    """Parts of a page, each second one code, with links to the glossary at this address."""
    forms = {form: term for term in terms() for form in _forms(term)}
    words = re.compile(rf"\b(?<![-.])({'|'.join(sorted(forms, key=len, reverse=True))})\b(?!-)", re.IGNORECASE)
    used = set()

    def linked(found: re.Match[str]) -> str:
        term = forms[found[0].lower()]
        if term in used:
            return found[0]
        used.add(term)
        title = re.sub(r"[`*]", "", terms()[term]).replace('"', "'")
        return f'[{found[0]}]({address}#{_anchor(term)} "{title}")'

    def with_links_of(text: str) -> str:
        return "".join(x if n % 2 else words.sub(linked, x) for n, x in enumerate(ELSEWHERE.split(text)))

    return [part if n % 2 else with_links_of(part) for n, part in enumerate(parts)]


def _forms(term: str) -> tuple[str, str]:
    """A term in singular and plural: the first word of several is the noun."""
    noun, space, others = term.partition(" ")
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return term, f"{plural}{space}{others}"


def _anchor(term: str) -> str:
    return term.replace(" ", "-")
