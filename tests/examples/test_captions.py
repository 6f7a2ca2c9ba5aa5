"""Each figure of the gallery belongs to an example, whose docstring says what it shows."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("tools_examples", ROOT / "tools" / "examples.py")
tools = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = tools  # where dataclasses look for the annotations of their module
SPEC.loader.exec_module(tools)


def test_figures_have_captions():
    captions = {example.name: example.caption for example in tools.examples()}
    figures = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.webp")}
    assert {name for name, caption in captions.items() if caption} == figures
    for name in figures:
        assert captions[name].endswith("."), name
        assert "On two cores" in captions[name], name
