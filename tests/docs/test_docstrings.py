"""Every public name of jsparse has examples in its docstring, and they run."""

import inspect
import re
import warnings
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import optax
import pytest
import scipy.sparse
from docs.examples import PARSER, failures

import jsparse
from jsparse.adapters.accelerate_jax_sparse.register import accelerated
from jsparse.base.memo import Owned
from jsparse.formats.levelled import KnownArrays

CLASSES = [jsparse.SparseTensor, jsparse.Pattern, jsparse.Format]


def documented():
    """The public objects with docstrings by name: functions, classes, methods and properties."""
    public = {name: item for name in jsparse.__all__ if callable(item := getattr(jsparse, name))}
    found = {**public, "config": type(jsparse.config)}
    for owner in CLASSES:
        for name in dir(owner):
            getattr(owner, name)  # methods are imported when they are first looked up
            item = inspect.getattr_static(owner, name)
            item = item.__func__ if isinstance(item, staticmethod | classmethod) else item
            item = item.fget if isinstance(item, property) else item
            if not name.startswith("_") and inspect.isfunction(item) and not is_internal(item):
                found[f"{owner.__name__}.{name}"] = item
    return found


def is_internal(item):
    """Whether a method of a public class belongs to a base that serves the package alone."""
    return item.__qualname__.partition(".")[0] in (Owned.__name__, KnownArrays.__name__)


DOCUMENTED = documented()


def matrix(key, shape=(1000, 800)):
    return jsparse.random(jax.random.key(key), shape, density=0.01)


@cache
def scope():
    """The names that examples use besides the libraries': A and B are sparse matrices, S a square one, T a tensor."""
    rng = np.random.default_rng(0)
    A, B, W = matrix(0), matrix(1), matrix(2)
    libraries = {
        "jsparse": jsparse,
        "warnings": warnings,
        "Path": Path,
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "scipy": scipy,
        "optax": optax,
    }
    tensors = {
        "A": A,
        "B": B,
        "S": matrix(3, (100, 100)),
        "T": jsparse.random(jax.random.key(4), (20, 30, 40), density=0.01),
        "W": W,
        "mu": matrix(5),
        "v": jsparse.asarray(np.eye(1, 800, 3, dtype=np.float32)[0]),
        "w": jsparse.asarray(np.eye(1, 50, 7, dtype=np.float32)[0]),
        "scores": matrix(6),
        "C": A.dynamic(20_000),
        "stacked": jax.tree.map(lambda *leaves: jnp.stack(leaves), A.dynamic(), B.dynamic()),
    }
    arrays = {
        "x": jnp.ones(800),
        "b": jnp.ones(1000),
        "X": jnp.asarray(rng.random((800, 64)), jnp.float32),
        "Y": jnp.asarray(rng.random((1000, 64)), jnp.float32),
        "gradient": jnp.asarray(rng.random((1000, 800)), jnp.float32),
        "key": jax.random.key(7),
        "rows": jnp.array([3, 1]),
        "k": 5,
    }
    params = {"W": W, "bias": jnp.zeros(64)}
    trees = {"params": params, "gradients": params, "average": jsparse.values(params)}
    return {**libraries, **tensors, **arrays, **trees, "SparseTensor": jsparse.SparseTensor, "loss": loss}


def loss(params, A, X):
    return ((A * params["W"]) @ X + params["bias"]).sum()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    assert PARSER.get_examples(text), f"the docstring of {name} has no example"
    for line, library in (("from flax import", "flax.nnx"), ("import torch", "torch"), ("import cupy", "cupy")):
        if line in text:
            pytest.importorskip(library)
    with accelerated() if name == "accelerate_jax_sparse" else nullcontext():  # which undoes it
        assert not failures(text, dict(scope()), name)


RAISES = re.compile(r"[Rr]aise|[Ss]ee `|by the rules of")
QUIET = {"CacheWarning", *(f"Pattern.{name}" for name in ("identity", "nbytes", "rows", "to_coords")), "Format.repeats"}


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name not in QUIET])
def test_functions_say_what_they_raise(name):
    """Properties and tests of them raise nothing; functions say what they raise, or of which function they have it."""
    owner, _, attribute = name.partition(".")
    is_property = attribute and isinstance(inspect.getattr_static(getattr(jsparse, owner), attribute), property)
    is_error = isinstance(DOCUMENTED[name], type) and issubclass(DOCUMENTED[name], Exception)
    text = inspect.getdoc(DOCUMENTED[name])
    assert is_property or is_error or RAISES.search(text), text
