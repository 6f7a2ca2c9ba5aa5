"""Links from pages to the terms of the glossary."""

import re

import pytest
from docs.pages import ROOT
from glossary import terms, with_anchors, with_links


def links(*parts):
    """Parts of a page with links, without their titles."""
    return [re.sub(r' "[^"]+"\)', ")", part) for part in with_links([*parts], "glossary.md")]


def link(word, term):
    return f"[{word}](glossary.md#{term})"


def test_terms_are_linked_where_they_are_first_used():
    slot, entry = link("slots", "slot"), link("Entries", "entry")
    assert links("Entries have slots, one slot each.") == [f"{entry} have {slot}, one slot each."]


@pytest.mark.parametrize(
    "text", ["# A slot", "`slot`", "[a slot](other.md)", "a *slot* is", "    slot", "<p slot>", "slot-like"]
)
def test_no_link(text):
    assert links(text) == [text]
    assert links(f"{text}\n\nslot") == [f"{text}\n\n{link('slot', 'slot')}"]


def test_code_has_no_links():
    assert links("", "```python\nslot\n```", " a slot")[1:] == ["```python\nslot\n```", f" a {link('slot', 'slot')}"]


def test_each_term_has_an_anchor():
    text = with_anchors((ROOT / "docs/concepts/glossary.md").read_text(encoding="utf-8"))
    assert {"slot", "run of columns", "static"} < terms().keys()
    assert all(f"**{term}**{{ #{term.replace(' ', '-')} }}" in text for term in terms())
