"""Texts that are compared with golden files, which `pytest --update-golden` writes."""

from difflib import unified_diff
from pathlib import Path

import pytest


def compare(path: Path, text: str, request: pytest.FixtureRequest) -> None:
    """Fail with the lines that differ, if the text is not that of the file."""
    if request.config.getoption("update_golden"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: pytest --update-golden writes it"
    golden = path.read_text(encoding="utf-8").split("\n")
    difference = list(unified_diff(golden, text.split("\n"), path.name, "now", n=1, lineterm=""))
    if difference:
        pytest.fail("\n".join([*difference, "If that is right, pytest --update-golden writes it."]), pytrace=False)
