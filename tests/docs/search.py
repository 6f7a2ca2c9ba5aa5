"""The search of the site: its sections, and the order in which it shows pages for some words.

Material for MkDocs gives lunr each section as a document. Titles count a thousand times as much as text, no length
is normalised, and each word of a query stands for all words that begin with it. First sections of pages, and sections
with more of the words, come before others (integrations/search/_/index.ts in its sources).
"""

import inspect
import re

import yaml
from docs.pages import FENCE, ROOT
from lunr.builder import Builder
from lunr.pipeline import Pipeline
from lunr.query import Query
from lunr.stop_word_filter import stop_word_filter
from public import item_of, methods, pages, text_of

__all__ = ["Search", "sections", "settings"]

HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
MARKUP = re.compile(r"^---\n.*?^---\n|<[^>\n]+>|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE)


class Search:
    """The index of sections: tuples of the address, the title, the text and a factor of the score."""

    def __init__(self, documents, separator):
        self.separator = re.compile(separator)
        builder = Builder()
        if "stopWordFilter" not in Pipeline.registered_functions:
            Pipeline.register_function(stop_word_filter, "stopWordFilter")
        builder.pipeline.add(stop_word_filter)
        builder.b(0)
        builder.ref("address")
        builder.field("title", boost=1000)
        builder.field("text")
        for address, title, text, boost in documents:
            words = {"title": self.words(title), "text": self.words(text)}
            builder.add({"address": address, **words}, {"boost": boost})
        self.index = builder.build()

    def words(self, text):
        return [word for word in self.separator.split(text) if word]

    def pages(self, query):
        """The pages that the search shows, best first, with the address of their best section and its score."""
        terms = [word.lower() for word in self.words(query)]
        asked = self.index.create_query()
        for term in terms:
            asked.term(term, wildcard=Query.WILDCARD_TRAILING, use_pipeline=False)
        scores = []
        for hit in self.index.query(asked):
            words = list(hit["match_data"].metadata)
            share = sum(any(word.startswith(term) for word in words) for term in terms) / len(terms)
            scores.append((hit["score"] * (1 + (share + ("#" not in hit["ref"])) ** 2), hit["ref"]))
        best = {}
        for score, address in sorted(scores, key=lambda pair: -pair[0]):
            best.setdefault(address.partition("#")[0], (address, score))
        return best


def settings():
    """The separator of words, and how much the pages of a folder count, from mkdocs.yml."""
    loader = type("Loader", (yaml.SafeLoader,), {})
    loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    found = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), loader)
    (search,) = (plugin["search"] for plugin in found["plugins"] if "search" in plugin and isinstance(plugin, dict))
    return search["separator"], found["extra"]["search_boost"]


def sections(boosts):
    """The sections of all pages in docs/, by headings. A page of the reference also has one for each public name."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        boost = boosts.get(path.parent.name, 1)
        text = MARKUP.sub(" ", path.read_text(encoding="utf-8"))
        code = [slice(*found.span()) for found in FENCE.finditer(text)]
        starts = [found for found in HEADING.finditer(text) if not any(s.start < found.start() < s.stop for s in code)]
        entries = list(_entries(path.name)) if path.parent.name == "reference" else []
        for n, (found, end) in enumerate(zip(starts, [*(s.start() for s in starts[1:]), len(text)], strict=True)):
            names = "" if n else " ".join(title for title, _ in entries)
            yield page + (f"#{n}" if n else ""), found[1], text[found.end() : end] + names, boost
        for title, about in entries:
            yield f"{page}#{title}", title, about, boost


def _entries(page):
    """The groups of names on a page of the reference, the names, and the members of classes, with their docstrings."""
    for group, names in pages()[page].items():
        yield group, ""
        for name in names:
            yield name, text_of(name)
            if inspect.isclass(item := item_of(name)):
                for member in methods(item):
                    yield f"{name}.{member}", inspect.getdoc(getattr(item, member)) or ""
