"""What the site of docs/ has besides its pages: entries of the reference, the gallery of examples, links of terms.

mkdocs calls the functions `on_…`; mkdocs.yml names this file.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict
from importlib.metadata import metadata
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

import llms
from glossary import with_anchors, with_links
from mkdocs.structure.files import File
from packaging.version import Version
from public import first_sentence, item_of, kind_of, methods, pages, public, text_of
from reference import documentation

from examples import Example, examples
from jsparse._supported import NEWEST, OLDEST

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Give mkdocstrings what is public, and add a page for each example to the gallery."""
    handler = config.plugins["mkdocstrings"].get_handler("python")
    collection = handler._modules_collection  # what is in it is not loaded
    collection["jsparse"] = documentation(collection, asdict(handler.get_options({}).docstring_options))
    for example in examples():
        files.append(File.generated(config, f"gallery/{example.name}.md", content=_example(example)))


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Add llms.txt and llms-full.txt."""
    listed = []
    for page in nav.pages:
        tab = page.ancestors[-1].title if page.ancestors else "Start"
        listed.append((tab, page.file.src_uri, page.canonical_url or page.url or ".", page.file.content_string))
    for name, text in (("llms.txt", llms.index(config.site_name, listed)), ("llms-full.txt", llms.full(listed))):
        files.append(File.generated(config, name, content=text))


def _figure(example: Example) -> str:
    """The figure of an example as Markdown, if docs/gallery/ has one."""
    path = GALLERY / f"{example.name}.webp"
    return f"![{example.caption.partition('. ')[0].rstrip('.')}]({path.name})" if path.exists() else ""


def _example(example: Example) -> str:
    """The page of an example: what it says of itself, its figure, its code, and the modules that it imports."""
    _, _, about = example.about.partition("\n")
    modules = "".join(f"## _{name}.py_\n\n{_fenced(text)}\n\n" for name, text in example.modules.items())
    parts = [f"# {example.name}.py", f"{example.title}.", about, _figure(example), _fenced(example.code), modules]
    return "\n\n".join(parts)


def _fenced(code: str) -> str:
    return f"````python\n{code.strip()}\n````"


def _facts() -> str:
    """A line about the package for the start page: version, licence, where it runs, and the repository."""
    about = metadata("jsparse")
    urls = dict(url.split(", ") for url in about.get_all("Project-URL", []))
    oldest, newest = (".".join(map(str, release)) for release in (OLDEST, NEWEST))
    classifiers = re.findall(r"Python :: (3\.\d+)", " ".join(about.get_all("Classifier", [])))
    parts = [
        f"Version {Version(about['Version']).base_version}",
        f"[{about['License-Expression']}]({urls['Source']}/blob/main/LICENSE)",
        f"Linux, Python {classifiers[0]} to {classifiers[-1]}, JAX {oldest} to {newest}",
        "kernels on CPUs, [XLA operations](concepts/platforms.md) on GPUs and TPUs",
        f"[repository]({urls['Source']})",
    ]
    return f'<p class="facts" markdown>{" · ".join(parts)}</p>'


def _gallery() -> str:
    """A card for each example, those with a figure first."""
    cards = [
        f"-   {_figure(example)}\n\n    **[{example.name}.py]({example.name}.md)**\n\n    {example.title}."
        + (f"\n\n    {example.caption}" if example.caption else "")
        for example in sorted(examples(), key=lambda example: not example.caption)
    ]
    return '<div class="grid cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add what is generated, and read Markdown as it is read on GitHub.

    Links that are named after files have the titles of pages, and public names lead to the reference. Titles end at
    their colon in links and in the navigation.
    """
    source = Path(page.file.src_uri)
    page.meta.setdefault("search", {"boost": config.extra["search_boost"].get(source.parent.name, 1)})
    if not page.is_homepage:
        page.meta.setdefault("title", llms.title_of(markdown))
    parts = [part if n % 2 else _linked(part, source, files) for n, part in enumerate(FENCES.split(markdown))]
    if page.file.src_uri == "concepts/glossary.md":
        parts = [with_anchors(part) for part in parts]
    elif source.parent.name in ("concepts", "how_to"):
        parts = with_links(parts, "../concepts/glossary.md")
    text = "".join(parts)
    if page.is_homepage:
        text = text.replace("</p>", f"</p>\n\n{_facts()}", 1)
    if source.parent.name == "reference":
        text += _reference(pages()[source.name])
    return text + "\n" + _gallery() if page.file.src_uri == "gallery/index.md" else text


def _reference(groups: dict[str, list[str]]) -> str:
    """A page of the reference below its introduction: a table of its names by groups, and the entry of each name."""
    names = [name for group in groups.values() for name in group]
    if len(names) == 1 and kind_of(names[0]) == 1:
        return f"\n\n{_members(names[0])}\n\n::: {names[0]}"
    if len(groups) == 1:
        return f"\n\n{_table(names)}" + "".join(f"\n\n::: {name}" for name in names)
    tables = "".join(f"\n\n**{group}**\n\n{_table(names)}" for group, names in groups.items())
    option = "\n    options:\n      heading_level: 3"
    entries = [f"## {group}\n\n" + "\n\n".join(f"::: {x}{option}" for x in names) for group, names in groups.items()]
    return f"{tables}\n\n" + "\n\n".join(entries)


def _members(owner: str) -> str:
    """Tables of what a class has: what makes an instance, what an instance can do, and what it knows."""
    of_class = item_of(owner)
    assert isinstance(of_class, type)
    groups: dict[str, list[str]] = {"Make": [], "Methods": [], "Properties": []}
    for name in methods(of_class):
        getattr(of_class, name)  # methods are imported when they are first looked up
        item = inspect.getattr_static(of_class, name)
        kind = "Make" if isinstance(item, classmethod | staticmethod) else "Methods"
        if name != "__init__":
            groups["Properties" if isinstance(item, property) else kind].append(f"{owner}.{name}")
    return "\n\n".join(f"**{group}**\n\n{_table(names)}" for group, names in groups.items() if names)


def _table(names: list[str]) -> str:
    """A row for each name, with the first sentence of its docstring."""
    rows = []
    for name in names:
        in_class = name not in public()
        owner, _, last = name.rpartition(".")
        about = first_sentence((inspect.getdoc(getattr(item_of(owner), last)) or "") if in_class else text_of(name))
        rows.append(f"| [`{last}`][{name}] | {SPECIAL.sub(_escaped, about)} |")
    return "| name | what it does |\n|---|---|\n" + "\n".join(rows)


SPECIAL = re.compile(r"`[^`]*`|[|*_<]")  # code is left as it is


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0][0] == "`" else f"&#{ord(found[0])};"


FENCES = re.compile(r"(^ *```.*?^ *```+ *$)", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"(?<!\[)`(jsparse(?:\.\w+)+)(\([^`]*\))?`(?!\])")


def _linked(text: str, source: Path, files: Files) -> str:
    """Markdown without fenced code: titles of pages in links, and links of public names."""

    def titled(found: re.Match[str]) -> str:
        file = files.get_file_from_path(normpath(source.parent / found[1]))
        return f"[{llms.title_of(file.content_string)}]({found[1]}{found[2]})" if file else found[0]

    def referred(line: str) -> str:
        known = public()
        return NAME.sub(lambda found: f"[{found[0]}][{found[1]}]" if found[1] in known else found[0], line)

    text = re.sub(r"`[^`\n]+`", lambda found: found[0].replace("\\|", "|"), text)
    text = re.sub(r"\[\w+\.md\]\(([\w./]+\.md)(#[^)]*|)\)", titled, text)
    return "\n".join(line if line.startswith("#") else referred(line) for line in text.split("\n"))
