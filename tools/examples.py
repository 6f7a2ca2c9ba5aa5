"""The examples as parts: what they say of themselves, their code, and the modules of examples/ that they import.

The gallery of the site shows these parts, and `python tools/examples.py build/notebooks` writes them as notebooks.
`python tools/examples.py docs/gallery --figures build/examples` compresses the figures of `make examples` for it.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Example:
    """A program of examples/.

    Attributes:
        name: the name of its file, without the suffix.
        about: its docstring.
        code: what follows the docstring, up to the call of `main`.
        modules: the modules beside it that it imports, by name, as texts.
    """

    name: str
    about: str
    code: str
    modules: dict[str, str]

    @property
    def title(self) -> str:
        """The first sentence of the docstring, without its full stop."""
        return self.about.partition("\n")[0].rstrip(".")

    @property
    def caption(self) -> str:
        """The paragraph of the docstring that says what the figure shows and what it took; empty if there is none."""
        paragraphs = (" ".join(text.split()) for text in self.about.split("\n\n"))
        return next((text for text in paragraphs if text.startswith("The figure ")), "")


def example(path: Path) -> Example:
    """Read a program. It ends with `if __name__ == "__main__":`, where it calls `main`."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    first, last = tree.body[0], tree.body[-1]
    if not (isinstance(first, ast.Expr) and isinstance(last, ast.If) and first.end_lineno):
        raise ValueError(f"{path} has to begin with a docstring and to end with `if __name__ == ...`.")
    return Example(
        path.stem,
        ast.get_docstring(tree) or "",
        "".join(lines[first.end_lineno : last.lineno - 1]).strip() + "\n",
        _modules(tree),
    )


def _modules(tree: ast.Module) -> dict[str, str]:
    """The modules beside an example that it imports, and those that they import, after them."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (path := FOLDER / f"{node.module}.py").exists():
            text = path.read_text(encoding="utf-8")
            found |= {path.stem: text, **_modules(ast.parse(text))}
    return found


def examples() -> list[Example]:
    """All programs of examples/, by name."""
    return [example(path) for path in sorted(FOLDER.glob("[!_]*.py"))]


def notebook(one: Example) -> NotebookNode:
    """The example as one notebook: its first cells write the modules that it imports, its last ones call `main`."""
    import jupytext
    from nbformat.v4 import new_code_cell, new_markdown_cell

    found = jupytext.reads(one.code, fmt="py:light")
    title, _, about = one.about.partition("\n")
    before = [new_markdown_cell(f"# {title}\n{about}")]
    before += [new_code_cell(f"%%writefile {name}.py\n{text}") for name, text in one.modules.items()]
    after = ['assert not main(["--output", "figure.png"])', 'from IPython.display import Image\n\nImage("figure.png")']
    found.cells = [*before, *found.cells, *map(new_code_cell, after)]
    found.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return found


def compress_figures(folder: Path, to: Path, most: int = 60_000) -> None:
    """Write figures NAME.png of a folder as NAME.webp, of at most so many bytes each.

    Many small points are smaller without loss, but with fewer colours, than as webp compresses photographs.
    """
    from PIL import Image

    for path in sorted(folder.glob("*.png")):
        image, target = Image.open(path).convert("RGBA"), to / f"{path.stem}.webp"
        image.thumbnail((800, 800))  # twice the width of a card
        for quality, colors in ((90, 256), (80, 128), (70, 64)):
            image.save(target, quality=quality, method=6)
            if target.stat().st_size <= most:
                break
            image.quantize(colors).convert("RGBA").save(target, lossless=True)
            if target.stat().st_size <= most:
                break
        else:
            raise ValueError(f"{target} has {target.stat().st_size:,} bytes, more than {most:,}.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the examples as notebooks.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--execute", nargs="*", default=[], metavar="NAME", help="examples that are run")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write these figures for the gallery instead")
    options = parser.parse_args()
    if options.figures:
        compress_figures(options.figures, options.folder)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    import nbformat  # needed here alone: the site is built without the extra `notebooks`
    from nbclient import NotebookClient

    for one in examples():
        found = notebook(one)
        if one.name in options.execute:
            NotebookClient(found, timeout=600, resources={"metadata": {"path": options.folder}}).execute()
        path = options.folder / f"{one.name}.ipynb"
        nbformat.write(found, path)
        print(f"wrote {path}" + (", executed" if one.name in options.execute else ""))


if __name__ == "__main__":
    main()
