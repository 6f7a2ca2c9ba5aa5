"""Every row of docs/array_api.md gives the result in its second column, and each name of the standard has a row."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

PAGE = Path(__file__).parents[2] / "docs" / "array_api.md"


def rows():
    """The name, the result and the code of each row with three cells."""
    for line in PAGE.read_text().splitlines():
        cells = [x.replace("\\|", "|").strip(" `") for x in re.split(r"(?<!\\)\|", line.strip("| "))]
        if line.startswith("| `") and len(cells) == 3:
            yield tuple(cells)


def matrix(rng, *shape):
    return np.where(rng.random(shape) < 0.6, rng.integers(-4, 5, shape) / 2, 0).astype(np.float32)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(("name", "result", "code"), list(rows()), ids=lambda cell: cell)
def test_row(name, result, code):
    rng = np.random.default_rng(0)
    given = {name: matrix(rng, *shape) for name, shape in zip("abst", ((4, 6), (4, 6), (5, 5), (3, 4, 5)), strict=True)}
    given |= {"i": rng.integers(-3, 4, (4, 6)), "j": rng.integers(0, 3, (4, 6))}
    given = {name: x.astype(np.int32) if x.dtype == np.int64 else x for name, x in given.items()}
    tensors = {name.upper(): jsparse.asarray(x) for name, x in given.items()}
    more = {"v": np.array([1, -2, 3, 4, -5, 6], np.float32), "x": rng.random((4, 6), np.float32) + 1}
    more |= {"k": rng.integers(0, 6, (4, 2)), "np": np, "jnp": jnp, "jsparse": jsparse}
    want = np.asarray(eval(result, {**given, **more}))
    found = eval(code, {**given, **more, **tensors})
    found = np.asarray(found.todense() if isinstance(found, jsparse.SparseTensor) else found)
    assert found.shape == want.shape
    np.testing.assert_allclose(found.astype(float), want.astype(float), rtol=1e-5, atol=1e-6)
    assert f"{name}(" in code or name in ("empty", "empty_like", "ones_like")


def test_the_page_states_its_count():
    names = [name for name, _, _ in rows()]
    others = re.findall(r"`(\w+)`", "".join(x.split(" | ")[0] for x in PAGE.read_text().splitlines()[-8:]))
    assert len(set(names) | set(others)) == len(names) + len(others)
    assert f"{len(names)} of {len(names) + len(others)} names" in PAGE.read_text()
