"""The examples in docstrings of layers, and what they say of errors."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from docs.examples import PARSER, failures

import jsparse
import jsparse.linen
import jsparse.nnx

ROOMS = {"nn": jsparse.nn, "nnx": jsparse.nnx, "linen": jsparse.linen}
DOCUMENTED = {
    f"{room}.{name}": item
    for room, module in ROOMS.items()
    for name, item in vars(module).items()
    if callable(item) and not name.startswith("_")
}
QUIET = {"nn.Projection", "nn.EdgeAttention", "nn.KVCache", "nn.Routing", "nnx.KernelSummary", "nnx.PruningSummary"}
QUIET |= {f"nnx.{name}" for name in ("Mask", "PrunedLinear", "SparseIndex", "SparseParam", "TransformerBlock")}


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name not in QUIET])
def test_docstrings(name):
    text = inspect.getdoc(DOCUMENTED[name])
    assert PARSER.get_examples(text)
    assert re.search(r"[Rr]aises? \w+Error", text)
    given = {"jsparse": jsparse, "jax": jax, "jnp": jnp, "np": np}
    assert not failures(text, given, name)
