"""What docs/internals/extending.md says that a new thing touches, beside where the examples stand in the package."""

import re
from pathlib import Path

import pytest

import jsparse

PACKAGE = Path(jsparse.__file__).parent
PAGE = (PACKAGE.parent / "docs/internals/extending.md").read_text(encoding="utf-8")
EXAMPLES = {  # section: the names of its example, and its own file
    "A function": (["hypot"], None),
    "A layer": (["ChebConv", "cheb_conv"], "nn/convolutions/cheb.py"),
}


@pytest.mark.parametrize("section", EXAMPLES)
def test_an_example_touches_the_files_that_the_page_names(section: str) -> None:
    names, own = EXAMPLES[section]
    table = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {path for row in rows for path in row.split("`")[1::2]}
    assert named
    said = {path.removeprefix("jsparse/") for path in named if "<name>" not in path} | ({own} if own else set())
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name in path.read_text(encoding="utf-8") for name in names)
    }
    assert found == said


def test_no_file_asks_for_a_level_kind_by_name() -> None:
    """Formats, loops and shape functions ask for properties, so that a new kind needs no branch there."""
    asked = re.compile(r"kind is (not )?[A-Z]{2}|kind (not )?in \([A-Z]{2}|kind [!=]= [A-Z]{2}")
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "levels.py"]
    assert not [str(path) for path in files if asked.search(path.read_text(encoding="utf-8"))]
