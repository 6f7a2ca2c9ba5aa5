"""Functions of numpy and jax.numpy that are given a SparseTensor: ours, or an error that names ours."""

import ast
import inspect
import re
import subprocess
import sys

import jax
import jax.experimental.sparse.linalg
import jax.numpy as jnp
import jax.scipy.sparse.linalg
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.tensor import unsupported

X = np.array([[0, 2, 0], [1, 0, 3], [0, 0, 0], [4, 5, 6]], np.float32)
A = jsparse.asarray(X)
ROW = np.arange(3, dtype=np.float32)


def dense(x):
    return np.asarray(x.todense() if isinstance(x, SparseTensor) else x)


SAME = {
    "sum": lambda a: np.sum(a, axis=1), "mean": lambda a: np.mean(a, axis=0, keepdims=True), "max": np.max,
    "amin": lambda a: np.amin(a, axis=1), "std": lambda a: np.std(a, axis=1, ddof=1), "any": np.any, "prod": np.prod,
    "count_nonzero": np.count_nonzero, "argmax": lambda a: np.argmax(a[3:], axis=1), "transpose": np.transpose,
    "concatenate": lambda a: np.concatenate([a, a]), "vstack": lambda a: np.vstack([a, a]),
    "stack": lambda a: np.stack([a, a], axis=1), "dot": lambda a: np.dot(a, ROW),
    "einsum": lambda a: np.einsum("ij,j->i", a, ROW), "tensordot": lambda a: np.tensordot(a, a.T, 1),
    "where": lambda a: np.where(a > 2, a, 0.0), "round": lambda a: np.round(a / 4), "real": np.real,
    "clip": lambda a: np.clip(a, 0, 3), "kron": lambda a: np.kron(a, a), "diagonal": np.diagonal, "trace": np.trace,
    "tril": np.tril, "flip": lambda a: np.flip(a, 0), "roll": lambda a: np.roll(a, 1, axis=0), "sort": np.sort,
    "reshape": lambda a: np.reshape(a, (2, 6)), "ravel": np.ravel, "squeeze": lambda a: np.squeeze(a[:, :1]),
    "expand_dims": lambda a: np.expand_dims(a, 1), "moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "tile": lambda a: np.tile(a, 2), "repeat": lambda a: np.repeat(a, 2, axis=0),
    "norm": lambda a: np.linalg.norm(a, axis=1), "diff": np.diff, "zeros_like": np.zeros_like, "copy": np.copy,
    "nan_to_num": np.nan_to_num, "outer": lambda a: np.outer(a[0], a[1]),
    "broadcast_to": lambda a: np.broadcast_to(a, (2, 4, 3)), "block of rows": lambda a: np.take(a, [1, 3], axis=0),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SAME)
def test_functions_of_numpy(name):
    np.testing.assert_allclose(dense(SAME[name](A)), SAME[name](X), rtol=1e-6)


def test_what_needs_no_values():
    assert np.shape(A) == X.shape
    assert np.ndim(A) == 2
    assert (np.size(A), np.size(A, 1)) == (12, 3)
    assert np.result_type(A.dtype, np.float64) == np.float64


def test_equality_is_of_elements():
    assert np.array_equal(A, A)
    assert np.array_equal(A, X)
    assert not np.array_equal(A, A + A)
    assert np.allclose(A, A.asformat("coo"))


def test_advice_names_calls_that_our_functions_take():
    """For every function of jax.numpy whose name we have, and a few of them are run as they are written."""
    ours = [name for name in dir(jnp) if not name.startswith("_") and callable(getattr(jsparse, name, None))]
    names = [name for name in ours if not isinstance(getattr(jnp, name), type)]
    for name in [*names, "cumsum", "linalg.norm"]:
        advice = unsupported._counterpart(name).removesuffix("; or ")
        call = ast.parse(advice, mode="eval").body
        function = getattr(jsparse, call.func.attr)
        inspect.signature(function).bind(*call.args)
        if name in ("where", "dot", "maximum", "stack", "concatenate", "einsum", "exp", "linalg.norm"):
            eval(advice, {"jsparse": jsparse, "A": A, "B": A.T @ A if name == "einsum" else A, "b": ROW})


@pytest.mark.parametrize("name", ["relu", "softmax", "gelu", "logsumexp", "leaky_relu"])
def test_functions_of_jax_nn_name_ours(name):
    with pytest.raises(jsparse.DTypeError, match=rf"such as {name}, .* Write jsparse\.{name}\(A\);"):
        getattr(jax.nn, name)(A)
    assert callable(getattr(jsparse, name))


def test_solvers_are_named_and_run():
    advice = unsupported._counterpart("jnp.linalg.solve")
    S, b = jsparse.asarray(np.diag([2, 3, 4]).astype(np.float32)).to_bcsr(), ROW
    scope = {"jax": jax, "S": S, "b": b, "A": jsparse.asarray(S)}
    calls = re.findall(r"jax\.[\w.]+\([^)]*\)", advice)
    for call in calls:
        x = eval(call, scope)
        np.testing.assert_allclose(x[0] if isinstance(x, tuple) else x, ROW / [2, 3, 4], rtol=1e-5)
    assert len(calls) == 2


def test_packages_that_need_extras_are_found_on_first_use():
    code = (
        "import sys, jsparse\n"
        "assert jsparse.io is sys.modules['jsparse.io']\n"
        "assert {'nnx', 'linen', 'optax', 'lineax', 'io'} <= set(dir(jsparse))\n"
        "sys.modules['flax'] = None\n"
        "try: jsparse.nnx\n"
        "except AttributeError as error: assert 'jsparse[flax]' in str(error), error\n"
        "else: raise SystemExit('no error')\n"
        "assert not hasattr(jsparse, 'linen')\n"
        "try: jsparse.nothing\n"
        "except AttributeError as error: assert 'nothing' in str(error)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
