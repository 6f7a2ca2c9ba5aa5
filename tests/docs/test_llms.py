"""Each page begins with a sentence, which llms.txt lists."""

import pytest
from docs.pages import PAGES, ROOT
from llms import full, index, summary_of, title_of


def page(title, text):
    return f"---\nhide: [toc]\n---\n\n# {title}\n\n{text}\n"


def test_title_and_first_sentence():
    text = page(
        "Files: save", "```python\n# no title\n```\n\n| a |\n|---|\n\nRead *all* ([x](x.md)) of [it](x.md). Then more."
    )
    assert (title_of(text), summary_of(text)) == ("Files", "Read all of it.")


def test_list_of_pages():
    listed = [("Start", "index.md", ".", page("A", "One. Two.")), ("How-to", "how_to/b.md", "b/", page("B", "Three:"))]
    assert index("name", listed) == "# name\n\n> One.\n\n## Start\n\n- [A](.): One.\n\n## How-to\n\n- [B](b/): Three.\n"
    assert "# B\n\nThree:\n" in full(listed)


@pytest.mark.parametrize("path", [path for path in PAGES if path.startswith("docs/")])
def test_page_begins_with_a_sentence(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert title_of(text)
    assert len(summary_of(text)) > 20
    assert summary_of(text).endswith((".", "?"))
