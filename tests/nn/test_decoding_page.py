"""The page on decoding: its code runs, and the model writes the text that it was trained on."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "decoding.md"


def test_page():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 4
    given = {}
    for text in blocks:
        exec(text, given)
    assert given["tokens"].shape == (2, 50)
    written = "".join(given["letters"][given["tokens"][0]])
    assert written.startswith("the quick brown fox jumps")
