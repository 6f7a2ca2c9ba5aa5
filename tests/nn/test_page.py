"""The page on layers: its code runs, and it names every function."""

import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

import jsparse
import jsparse.linen
import jsparse.nnx

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "layers.md"


def test_page():
    given = {"jax": jax, "jnp": jnp, "jsparse": jsparse, "partial": partial}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    for text in blocks:
        exec(text, given)
    assert given["logits"].shape == given["by_itself"].shape == (5, 3)
    assert given["of_seeds"].shape == (2, 3)
    assert given["dropped"].shape == given["attended"].shape == (5, 8)
    assert given["means"].shape == (2, 4)
    assert given["sparse"].kernel.tensor.nse == 205
    assert given["mixed"].shape == (16, 8)
    assert given["bags"].shape == (2, 8)
    assert given["few"].shape == (16, 3)
    moved = {name: jax.numpy.nonzero((given["params"][name] != 1).any(1))[0].tolist() for name in ("users", "words")}
    assert moved == {"users": [7, 123], "words": [0, 3, 5, 19_999]}
    assert given["of_counts"].shape == (8, 32)
    assert given["of_words"].shape == (5, 3)
    assert given["of_multi"].shape == (5, 4)
    assert {name: one.shape for name, one in given["of_types"].items()} == {"paper": (5, 4), "author": (2, 4)}
    assert given["pruned"].kernel.tensor.nse == 200
    assert any(jax.numpy.any(leaf) for leaf in jax.tree.leaves(given["slopes"]))


def test_all_layers_are_named():
    text = PAGE.read_text(encoding="utf-8")
    functions = [name for name in vars(jsparse.nn) if name.islower() and callable(getattr(jsparse.nn, name))]
    modules = [
        name
        for name in (*vars(jsparse.nnx), *vars(jsparse.linen))
        if name.endswith(("Conv", "Block", "Linear", "Encoder"))
    ]
    assert len(functions) > 15
    assert len(modules) > 15
    assert not [name for name in (*functions, *modules) if name not in text and name != "basis_kernel"]
