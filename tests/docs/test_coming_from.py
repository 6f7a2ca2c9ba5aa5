"""Every cell of jsparse in the tables of the two pages gives the first cell's result."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

DOCS = Path(__file__).parents[2] / "docs"
COMING_FROM, ARRAY_API = DOCS / "how_to" / "coming_from.md", DOCS / "concepts" / "array_api.md"


def rows(page):
    """The cells of each row of the tables that begin with a result."""
    for table in page.read_text().split("\n\n| result |")[1:]:
        for line in table.partition("\n\n")[0].splitlines()[2:]:
            yield [x.replace("\\|", "|").strip() for x in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def matrix(rng, *shape):
    return np.where(rng.random(shape) < 0.6, rng.integers(-4, 5, shape) / 2, 0).astype(np.float32)


def names():
    """The dense arrays of the pages."""
    rng = np.random.default_rng(0)
    a, b, s, t = (matrix(rng, *shape) for shape in ((4, 6), (4, 6), (5, 5), (3, 4, 5)))
    dense = {
        "a": a,
        "b": b,
        "s": s,
        "t": t,
        "v": np.arange(1, 7, dtype=np.float32),
        "w": np.arange(1, 5, dtype=np.float32),
    }
    more = {"x": rng.random((4, 6)).astype(np.float32), "f": rng.random((4, 2)), "g": rng.random((5, 2))}
    more |= {"i": rng.integers(-3, 4, (4, 6), np.int32), "j": rng.integers(0, 3, (4, 6), np.int32)}
    more |= {"k": rng.integers(0, 6, (4, 2))}
    points = rng.random((6, 2)) * 2
    more |= {"points": points, "distances": np.linalg.norm(points[:, None] - points, axis=2)}
    more |= {"edges": np.array([[0, 1, 2, 0, 3, 0], [1, 2, 3, 3, 4, 1]]), "features": rng.random((6, 2))}
    return {**dense, **more, "np": np, "jnp": jnp, "jax": jax, "key": jax.random.key(0)}


def in_words(text, given):
    """The results that the page describes by words."""
    a, s = given["a"], given["s"]
    powers = np.where(a != 0, np.exp(a), 0)
    logarithms = np.where(a != 0, a - np.log(powers.sum(1, keepdims=True)), 0)
    counts = np.bincount(given["k"].ravel(), minlength=6)[:, None] * np.ones(4)
    ones, diagonal, features = np.zeros((4, 6)), np.zeros((9, 11)), given["features"]
    ones[[0, 2], [1, 3]] = 1
    updated = a.copy()
    updated[1, 2] = 7
    diagonal[:5, :5], diagonal[5:, 5:] = s, a
    return {
        "ones at (0, 1) and (2, 3)": ones,
        "s and a along the diagonal": diagonal,
        "gradient of the rows `k` of a table": counts,
        "that gradient, divided by how often a row is looked up": (counts > 0) * 1,
        "a step of lazy Adam by it": given["x"].T - 0.1 * (counts > 0),
        "a with 7 at (1, 2)": updated,
        "softmax of the stored entries of each row": powers / powers.sum(1, keepdims=True),
        "its logarithm, with the digits of large entries": logarithms,
        "features of equal edges, their maxima": [np.maximum(features[0], features[5]), *features[[1, 3, 2, 4]]],
        "the nodes from which two steps lead to node 3": [0, 1, 2, 3],
    }[text]


CELLS = [(cells[0], cells[-1].strip("`")) for page in (COMING_FROM, ARRAY_API) for cells in rows(page)]


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(("result", "code"), CELLS, ids=lambda cell: cell)
def test_row(result, code, tmp_path):
    given = names()
    want = eval(result.strip("`"), dict(given)) if result.startswith("`") else in_words(result, given)
    tensors = {name.upper(): jsparse.asarray(given[name]) for name in "abstij"}
    scope = {**given, **tensors, "jsparse": jsparse, "path": tmp_path / "tensor.npz"}
    *before, last = code.split("; ")
    for statement in before:
        exec(statement, scope)
    found = eval(last, scope)
    found = np.asarray(found.todense() if isinstance(found, jsparse.SparseTensor) else found)
    assert found.shape == np.shape(want)
    np.testing.assert_allclose(found.astype(float), np.asarray(want, float), rtol=1e-4, atol=1e-5)


def test_the_pages_state_their_counts():
    count = len(list(rows(COMING_FROM)))
    assert f"{count} rows: " in COMING_FROM.read_text()
    assert f"{count} in jsparse" in COMING_FROM.read_text()
    names = [name.strip("`") for _, name, _ in rows(ARRAY_API)]
    last = ARRAY_API.read_text().rpartition("|---|---|\n")[2]
    others = [x for line in last.splitlines() for x in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert len({*names, *others}) == len(names) + len(others)
    assert f"{len(names)} of {len(names) + len(others)} names" in ARRAY_API.read_text()


def test_rows_of_the_array_api_call_the_function_of_their_name():
    for _, name, code in rows(ARRAY_API):
        assert f"{name.strip('`')}(" in code or name in ("`empty`", "`empty_like`", "`ones_like`")
