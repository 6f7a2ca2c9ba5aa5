"""`make test-changed` runs the tests that a change concerns, and all of them where that is not known."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("changed", Path(__file__).parents[2] / "tools" / "changed.py")
changed = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(changed)


@pytest.mark.parametrize(
    "path",
    ["jsparse/errors.py", "jsparse/ops/einsum.py", "jsparse/__init__.py", "csrc/memory/pages.cc", "pyproject.toml"],
)
def test_a_change_of_the_core_concerns_all(path):
    assert changed.concerned_tests(["jsparse/nn/linear.py", path]) == ["tests"]


def test_a_package_concerns_those_above_it():
    assert changed.packages_above("linen") == {"linen"}
    assert changed.packages_above("nn") >= {"nn", "nnx", "linen"}
    assert "graph" not in changed.packages_above("nn")
    assert changed.packages_above("sparsification") >= {"sparsification", "differentiation"}


@pytest.mark.parametrize(
    ("path", "concerned", "others"),
    [
        ("jsparse/graph/edges.py", ["graph/test_edges.py", "nn/test_chebyshev.py"], ["io/test_text.py"]),
        ("jsparse/linen/layers.py", ["nn/test_linen_weights.py"], ["graph/test_edges.py", "io/test_text.py"]),
        ("jsparse/io/text.py", ["io/test_text.py"], ["einsum/test_values.py", "graph/test_links.py"]),
        ("jsparse/sharded/build.py", ["meshes/test_meshes.py"], ["einsum/test_values.py"]),
        ("jsparse/sparsification/rules.py", ["sparsify/test_updates.py"], ["compiler/test_kernels.py"]),
        ("jsparse/pattern.py", ["patterns/test_constructors.py"], ["compiler/test_kernels.py"]),
        ("tests/nn/graphs.py", ["nn/test_chebyshev.py"], ["nn/test_attention.py", "graph/test_edges.py"]),
        ("tests/graph/refusals.txt", ["graph/test_refusals.py"], ["nn/test_refusals.py"]),
        ("docs/how_to/graphs.md", [], ["graph/test_edges.py"]),
    ],
)
def test_a_change_at_the_edge(path, concerned, others):
    tests = changed.concerned_tests([path])
    assert "tests/docs" in tests
    assert {f"tests/{name}" for name in concerned} <= set(tests)
    assert not {f"tests/{name}" for name in others} & set(tests)


def test_no_change_concerns_nothing():
    assert changed.concerned_tests([]) == []
