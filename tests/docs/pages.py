"""The pages of the documentation, and their code as programs."""

import re
import sys
from pathlib import Path

from docs.examples import failures

__all__ = ["FENCE", "PAGES", "ROOT", "blocks", "run"]

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))  # what builds the site
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^( *)(```+|~~~+) *(\S*)[^\n]*\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)


def blocks(page):
    """The blocks of Python of a page, each with the number of lines before it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found[3] in ("python", "py", "pycon"):
            yield text.count("\n", 0, found.start(4)), found[4]


def run(page):
    """The names that a page defines, run from top to bottom. A block with `>>>` has to give what it shows."""
    scope = {"__name__": "__main__"}
    for line, code in blocks(page):
        if code.startswith(">>>"):
            report = failures(code, scope, page)
            assert not report, report
        else:
            exec(compile("\n" * line + code, ROOT / page, "exec"), scope)  # errors name the line of the page
    return scope
