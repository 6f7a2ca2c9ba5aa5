"""The examples in docstrings, and the pictures of docs/concepts/patterns.md."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import jax
import numpy as np
import pytest
from patterns.masks import mask_of

import jsparse
from jsparse import pattern

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "patterns.md"
PICTURES = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("module", ["bands", "blocks", "masks"])
def test_docstrings(module):
    found = import_module(f"jsparse.ops.patterns.{module}")
    results = doctest.testmod(found, extraglobs={"jsparse": jsparse, "jax": jax})
    assert results.attempted >= 3
    assert not results.failed


def test_pictures():
    """A picture is a line of calls, and below each of them its rows."""
    seen = 0
    for text in PICTURES:
        head, *rows = text.splitlines()
        starts = [found.start() for found in re.finditer(r"(?:^|  )\b[a-z]", head)]
        for start, stop in zip(starts, [*starts[1:], None], strict=True):
            mask = mask_of(eval(head[start:stop], vars(pattern) | {"key": jax.random.key(0)}))
            shown = [row[start:stop].split() for row in rows]
            assert [line for line in shown if line] == [list(np.where(line, "x", ".")) for line in mask]
            seen += 1
    assert seen >= 9
