"""Pages that are programs: their blocks run from top to bottom, in an empty folder and in one namespace."""

import re
import warnings
from pathlib import Path

import jax
import pytest

import jsparse

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    "concepts/dense_or_not.md",
    "concepts/messages.md",
    "concepts/static_or_dynamic.md",
    "concepts/when_not_sparse.md",
    "how_to/custom_layers.md",
    "how_to/finite_elements.md",
    "how_to/mini_batches.md",
    "how_to/node_classification.md",
    "how_to/recommender.md",
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def restored():
    """Begin without plans, as a new process does, and undo the settings that a page changes."""
    jsparse.clear_cache()
    x64 = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", x64)
    jsparse.config.log_compiles = False


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path, monkeypatch, restored):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks
    scope = {"__name__": page}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="orbax")  # of its own deprecations, and of shardings
        for block in blocks:
            line = text.count("\n", 0, block.start(1))
            exec(compile("\n" * line + block[1], DOCS / page, "exec"), scope)
