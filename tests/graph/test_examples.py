"""The examples in docstrings, what they say of errors, and the code of docs/graphs.md."""

import doctest
import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import graph

PAGE = Path(__file__).parents[2] / "docs" / "graphs.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DOCUMENTED = {name: item for name, item in vars(graph).items() if not name.startswith("_") and callable(item)}
PARSER = doctest.DocTestParser()


class Checker(doctest.OutputChecker):
    """Compares the output of an example only where the docstring shows one."""

    def check_output(self, want, got, optionflags):
        return not want or super().check_output(want, got, optionflags)


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
    report = []
    test = PARSER.get_doctest(text, scope(), name, None, 0)
    result = doctest.DocTestRunner(Checker(), verbose=False, optionflags=FLAGS).run(test, out=report.append)
    assert not result.failed, "".join(report)
    assert inspect.isclass(DOCUMENTED[name]) or re.search(r"Raises \w+Error", text)


def test_docstring_of_the_package():
    test = PARSER.get_doctest(graph.__doc__, {"jsparse": jsparse}, "graph", None, 0)
    assert not doctest.DocTestRunner(Checker(), verbose=False).run(test).failed
