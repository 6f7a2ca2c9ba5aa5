"""The order of the reference, and what its tables say of each name."""

import pytest
from docs.pages import ROOT
from public import first_sentence, item_of, kind_of, methods, pages, public, text_of

for library in ("equinox", "flax", "lineax", "optax"):  # whose packages are in the reference, too
    pytest.importorskip(library)


@pytest.fixture(params=sorted(path.name for path in (ROOT / "docs/reference").glob("*.md")))
def page(request):
    return request.param


def test_each_name_is_on_one_page():
    names = [name for groups in pages().values() for group in groups.values() for name in group]
    assert sorted(names) == sorted(public())


def test_functions_come_before_classes(page):
    for names in pages()[page].values():
        kinds = [kind_of(name) for name in names]
        assert kinds == sorted(kinds)


def test_pages_begin_with_what_makes_things():
    assert pages()["graph.md"]["Make graphs"][:2] == ["jsparse.graph.from_edges", "jsparse.graph.from_edge_index"]
    assert list(pages()["graph.md"])[-1] == "Results"
    assert list(pages()["meshes.md"]) == ["Functions", "Classes"]


def test_no_heading_is_twice_on_a_page(page):
    lines = (ROOT / "docs/reference" / page).read_text(encoding="utf-8").split("\n")
    (title,) = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    names = [name for group in pages()[page].values() for name in group]
    members = [f"{name}.{member}" for name in names if kind_of(name) == 1 for member in methods(item_of(name))]
    headings = [title, *pages()[page], *names, *members]
    assert len(headings) == len({*headings})


def test_tables_say_what_each_name_is():
    said = {name: first_sentence(text_of(name)) for name in public()}
    assert not [name for name, text in said.items() if not text.endswith(".") or "\n" in text]


def test_a_sentence_ends_at_a_full_stop():
    assert first_sentence("One (Xu et al., 2019), e.g. this.\nTwo.") == "One (Xu et al., 2019), e.g. this."
    assert first_sentence("One\nline. jsparse is two.\n\nThree.") == "One line."
