"""What the site of docs/ has besides its pages: the entries of the reference, and the gallery of examples.

mkdocs calls the functions `on_…`; mkdocs.yml names this file.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from importlib.metadata import metadata
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File
from packaging.version import Version
from reference import documentation, pages, public

from examples import Example, examples
from jsparse._supported import NEWEST, OLDEST

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Give mkdocstrings what is public, and add a page for each example to the gallery."""
    handler = config.plugins["mkdocstrings"].get_handler("python")
    collection = handler._modules_collection  # what is in it is not loaded
    collection["jsparse"] = documentation(collection, asdict(handler.get_options({}).docstring_options))
    for example in examples():
        files.append(File.generated(config, f"gallery/{example.name}.md", content=_example(example)))


def _figure(example: Example) -> str:
    """The figure of an example as Markdown, if docs/gallery/ has one."""
    path = GALLERY / f"{example.name}.webp"
    return f"![What the example draws]({path.name})" if path.exists() else ""


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
    parts = [
        f"Version {Version(about['Version']).base_version}",
        f"[{about['License-Expression']}]({urls['Source']}/blob/main/LICENSE)",
        f"Linux, Python {about['Requires-Python'].removeprefix('>=')} or later, JAX {oldest} to {newest}",
        "kernels on CPUs, [XLA operations](concepts/platforms.md) on GPUs and TPUs",
        f"[repository]({urls['Source']})",
    ]
    return f'<p class="facts" markdown>{" · ".join(parts)}</p>'


def _gallery() -> str:
    """A card for each example."""
    cards = [
        f"-   {_figure(example)}\n\n    **[{example.name}.py]({example.name}.md)**\n\n    {example.title}."
        for example in examples()
    ]
    return '<div class="grid cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add what is generated, and read Markdown as it is read on GitHub.

    Links that are named after files have the titles of pages, and public names lead to the reference.
    """
    source = Path(page.file.src_uri)
    text = "".join(part if n % 2 else _linked(part, source, files) for n, part in enumerate(FENCES.split(markdown)))
    if page.is_homepage:
        text = text.replace("</p>", f"</p>\n\n{_facts()}", 1)
    if source.parent.name == "reference":
        text += "".join(f"\n\n::: {name}" for name in pages()[source.name])
    return text + "\n" + _gallery() if page.file.src_uri == "gallery/index.md" else text


FENCES = re.compile(r"(^ *```.*?^ *```+ *$)", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"(?<!\[)`(jsparse(?:\.\w+)+)(\([^`]*\))?`(?!\])")


def _linked(text: str, source: Path, files: Files) -> str:
    """Markdown without fenced code: titles of pages in links, and links of public names."""

    def titled(found: re.Match[str]) -> str:
        file = files.get_file_from_path(normpath(source.parent / found[1]))
        title = file and re.search(r"^# (.*)$", file.content_string, re.MULTILINE)
        return f"[{title[1]}]({found[1]}{found[2]})" if title else found[0]

    def referred(line: str) -> str:
        known = public()
        return NAME.sub(lambda found: f"[{found[0]}][{found[1]}]" if found[1] in known else found[0], line)

    text = re.sub(r"`[^`\n]+`", lambda found: found[0].replace("\\|", "|"), text)
    text = re.sub(r"\[\w+\.md\]\(([\w./]+\.md)(#[^)]*|)\)", titled, text)
    return "\n".join(line if line.startswith("#") else referred(line) for line in text.split("\n"))
