"""Examples are scripts, which import each other from their own folder."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch):
    for package in ("flax", "matplotlib", "optax", "sklearn", "tqdm"):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)
