"""Every cell of jsparse in the table of docs/coming_from.md gives the result in its first column."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

PAGE = Path(__file__).parents[2] / "docs" / "coming_from.md"


def rows():
    """The first and the last cell of each row."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| result"):
            cells = re.split(r"(?<!\\)\s*\|\s*", line.strip("| \n"))
            yield tuple(cell.replace("\\|", "|") for cell in (cells[0], cells[-1].strip("`")))


def matrix(rng, *shape):
    return np.where(rng.random(shape) < 0.6, rng.integers(-4, 5, shape) / 2, 0).astype(np.float32)


def names():
    """The dense arrays of the page."""
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
    return {**dense, **more, "np": np, "jnp": jnp, "jax": jax, "key": jax.random.key(0)}


def in_words(text, given):
    """The results that the page describes by words."""
    a, s = given["a"], given["s"]
    powers = np.where(a != 0, np.exp(a), 0)
    ones, diagonal = np.zeros((4, 6)), np.zeros((9, 11))
    ones[[0, 2], [1, 3]] = 1
    diagonal[:5, :5], diagonal[5:, 5:] = s, a
    return {
        "ones at (0, 1) and (2, 3)": ones,
        "s and a along the diagonal": diagonal,
        "softmax of the stored entries of each row": powers / powers.sum(1, keepdims=True),
    }[text]


@pytest.mark.parametrize(("result", "code"), list(rows()), ids=lambda cell: cell)
def test_row(result, code, tmp_path):
    given = names()
    want = eval(result.strip("`"), dict(given)) if result.startswith("`") else in_words(result, given)
    tensors = {name.upper(): jsparse.asarray(given[name]) for name in "abst"}
    scope = {**given, **tensors, "jsparse": jsparse, "path": tmp_path / "tensor.npz"}
    *before, last = code.split("; ")
    for statement in before:
        exec(statement, scope)
    found = eval(last, scope)
    found = np.asarray(found.todense() if isinstance(found, jsparse.SparseTensor) else found)
    assert found.shape == np.shape(want)
    np.testing.assert_allclose(found.astype(float), np.asarray(want, float), rtol=1e-4, atol=1e-5)


def test_the_page_states_its_count():
    count = len(list(rows()))
    assert f"{count} rows: " in PAGE.read_text()
    assert f"{count} in jsparse" in PAGE.read_text()
