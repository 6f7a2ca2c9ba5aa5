"""llms.txt and llms-full.txt of the site (https://llmstxt.org): a list of its pages, and all of their text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from public import first_sentence, pages, text_of

HEADING = re.compile(r"^# (.*)$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
LEAD = re.compile(r'<p class="lead" markdown>(.*?)</p>', re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
REFERENCES = re.compile(r"\s\((?:\[[^\]]*\]\([^)]*\)[,;\s]*)+\)")
NO_SENTENCE = re.compile(r"[#|<!>-]|    ")
CODE = re.compile(r"^ *```.*?^ *```+ *$", re.DOTALL | re.MULTILINE)

Listed = Sequence[tuple[str, str, str, str]]
"""Pages in the order of the navigation: the tab, the path of the file in docs/, the address, and the Markdown."""


def title_of(text: str) -> str:
    """The title of a page, without what follows a colon."""
    found = HEADING.search(text)
    return found[1].replace("`", "").partition(": ")[0] if found else ""


def summary_of(text: str) -> str:
    """The first sentence of a page, without references in parentheses."""
    lead, body = LEAD.search(text), CODE.sub("", text)
    start = HEADING.search(body)
    blocks = [lead[1]] if lead else body[start.end() if start else 0 :].split("\n\n")
    plain = next((block for block in blocks if block.strip() and not NO_SENTENCE.match(block.strip("\n"))), "")
    words = LINK.sub(r"\1", first_sentence(REFERENCES.sub("", plain)))
    return re.sub(r"\*+([^*`]+)\*+", r"\1", re.sub(r"[:,]$", ".", words))


def index(name: str, listed: Listed) -> str:
    """The pages by tabs, each with its address and its first sentence."""
    parts = [f"# {name}", f"> {summary_of(listed[0][3])}"]
    tabs = dict.fromkeys(tab for tab, *_ in listed)
    for tab in tabs:
        rows = [(title_of(text), url, summary_of(text)) for at, _, url, text in listed if at == tab]
        parts.append(f"## {tab}\n\n" + "\n".join(f"- [{title}]({url}): {summary}" for title, url, summary in rows))
    return "\n\n".join(parts) + "\n"


def full(listed: Listed) -> str:
    """The Markdown of all pages, and the docstrings of all public names."""
    parts = []
    for _, path, _, text in listed:
        parts.append(FRONT_MATTER.sub("", text).strip())
        folder, _, file = path.rpartition("/")
        names = [name for group in pages()[file].values() for name in group] if folder == "reference" else []
        parts += [f"## {name}\n\n{text_of(name)}" for name in names]
    return "\n\n".join(parts) + "\n"
