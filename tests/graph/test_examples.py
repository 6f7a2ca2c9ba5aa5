"""The examples in docstrings, and what they say of errors."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from docs.examples import PARSER, failures

import jsparse
from jsparse import graph

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
