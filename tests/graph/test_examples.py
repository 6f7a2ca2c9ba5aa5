"""The examples in docstrings, what they say of errors, and the code of docs/how_to/graphs.md."""

import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from docs.examples import PARSER, failures

import jsparse
from jsparse import graph

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "graphs.md"
DOCUMENTED = {name: item for name, item in vars(graph).items() if not name.startswith("_") and callable(item)}


def scope():
    """What examples use besides libraries: A, a matrix, and S, a square one."""
    A, S = (jsparse.random(jax.random.key(n), (100, size), density=0.05) for n, size in ((0, 80), (1, 100)))
    return {"jsparse": jsparse, "jax": jax, "jnp": jnp, "np": np, "key": jax.random.key(2), "A": A, "S": S}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings(name):
    text = inspect.getdoc(DOCUMENTED[name])
    assert PARSER.get_examples(text)
    if "import networkx" in text:
        pytest.importorskip("networkx")
    assert not failures(text, scope(), name)
    assert inspect.isclass(DOCUMENTED[name]) or re.search(r"Raises \w+Error", text)


def test_docstring_of_the_package():
    assert not failures(graph.__doc__, {"jsparse": jsparse}, "graph")


def names():
    """What the page uses."""
    rng = np.random.default_rng(0)
    X, W, W2 = (jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((4, 5), (5, 6), (6, 2)))
    libraries = {"jsparse": jsparse, "jax": jax, "jnp": jnp, "np": np}
    return libraries | {"key": jax.random.key(0), "X": X, "W": W, "W2": W2, "b": jnp.zeros(6)}


def test_page():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    given = names()
    x = np.asarray(given["X"])
    for text in blocks:
        exec(text, given)
    np.testing.assert_array_equal(given["edge_index"], [[0, 1, 0, 2], [1, 2, 3, 3]])
    np.testing.assert_array_equal(given["pooled"][:, 0], [2, 2, 0, 0])
    near = given["near"]
    np.testing.assert_array_equal(near.todense(), np.asarray(given["A"].todense())[given["order"]][:, given["order"]])
    np.testing.assert_allclose(given["Y"], given["A"].todense() @ x, rtol=1e-5, atol=1e-6)
    rows, columns = given["P"].to_coords()
    np.testing.assert_allclose(given["squares"].values, ((x[rows] - x[columns]) ** 2).sum(1), rtol=1e-5)
    assert given["near_each_other"].nse == 2 * sum(
        (np.linalg.norm(p[:, None] - p, axis=2) <= 0.4)[np.triu_indices(25, 1)].sum()
        for p in np.split(given["points"], 4)
    )
    assert (given["nearest"].nse, given["nearest"].trace()) == (400, 100)
    np.testing.assert_array_equal(given["largest"], [[5], [2]])
    np.testing.assert_array_equal(given["heaviest"].values, [5, 2])
    np.testing.assert_allclose(given["of_three"], given["A"].todense()[3:4] @ x, rtol=1e-5)
    assert not given["A"].at_coords(jnp.stack([given["target"], given["source"]])).any()
    assert np.isfinite(given["losses"]).all()
    assert [one.shape for one in (given["first"], given["second"], *given["empty"])] == [(2, 2), (3, 3), (0, 0), (0, 0)]


def test_page_names_all_functions():
    text = PAGE.read_text()
    assert not [name for name in DOCUMENTED if name.islower() and name not in text]
