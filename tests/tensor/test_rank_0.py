"""SparseTensors of rank 0 as operands: a result of rank 0 stores its one element, whatever its operands store."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

SUBSCRIPTS = ["ij,i,->", ",ij,i->", "ij,,->", "ij,j,->i", "i,i,,->", ",->", ",,->", "ij,ij,->", "ij,,->ij", "i,ij,->j"]
SHAPES = {"": (), "i": (4,), "j": (5,), "ij": (4, 5)}


def arrays(subscripts, dtype=np.int32, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [SHAPES[term] for term in subscripts.split("->")[0].split(",")]
    return [np.asarray(rng.integers(1, 3, s) * (rng.random(s) < (0.6 if s else 1)), dtype) for s in shapes]


def tensors(given, format=None, dynamic=False):
    made = [jsparse.asarray(x, format=format if x.ndim == 2 else None) for x in given]
    return [x.dynamic(x.nse + 2) if dynamic and x.ndim else x for x in made]


def dense(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, "bfloat16", np.complex64])
def test_products(subscripts, dynamic, dtype):
    given = arrays(subscripts)
    expected = np.einsum(subscripts, *given)
    nse = 20 if dynamic and expected.ndim else None
    found = jsparse.einsum(subscripts, *tensors([x.astype(dtype) for x in given], "csr", dynamic), nse=nse)
    assert isinstance(found, jsparse.SparseTensor)
    np.testing.assert_array_equal(dense(found), expected)


@pytest.mark.parametrize("out_format", [None, "dense", "()->()"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_programs_and_statements(dynamic, out_format):
    given = arrays("ij,i,->")
    A, v, s = tensors(given, "csr", dynamic)
    expected = np.einsum("ij,i,->", *given)
    by_einsum = jax.jit(lambda *x: jsparse.einsum("ij,i,->", *x, out_format=out_format))
    np.testing.assert_array_equal(dense(by_einsum(A, v, s)), expected)
    text = "y = 2 * A[i,j] * v[i] * s + s - s * v[i]"
    by_statement = jax.jit(lambda A, v, s: jsparse.evaluate(text, A=A, v=v, s=s, out_format=out_format))
    np.testing.assert_array_equal(dense(by_statement(A, v, s)), 2 * expected + given[2] * (1 - given[1].sum()))
    fused = jax.jit(jsparse.fuse(lambda A, v, s: jsparse.einsum("ij,i,->", A, v, s)))
    np.testing.assert_array_equal(dense(fused(A, v, s)), expected)


def test_nothing_reached():
    A, v, s = tensors([np.zeros((4, 5), np.float32), np.ones(4, np.float32), np.float32(3)], "csr")
    np.testing.assert_array_equal(dense(jsparse.einsum("ij,i,->", A, v, s)), 0)
    np.testing.assert_array_equal(dense(jsparse.einsum("ij,i,->", A, v, s, semiring="min_plus")), np.inf)


def test_derivatives():
    given = arrays("ij,i,->", np.float32)
    A, v, s = tensors(given, "csr")
    of_a, of_v, of_s = jax.grad(lambda *x: jsparse.einsum("ij,i,->", *x).todense(), (0, 1, 2))(A, v, s)
    a, b, c = given
    np.testing.assert_array_equal(of_a.values, (b[:, None] * np.ones_like(a) * c)[tuple(A.pattern.to_coords())])
    np.testing.assert_array_equal(of_v.values, (a.sum(1) * c)[b != 0])
    np.testing.assert_array_equal(of_s.todense(), (a.sum(1) * b).sum())


@pytest.mark.parametrize("format", [None, "()->()"])
def test_kron(format):
    s, t = (jsparse.asarray(np.float32(x)) for x in (3, 4))
    found = jsparse.kron(s, t, format=format)
    assert found.shape == ()
    assert dense(found) == 12
    assert dense(jax.jit(jsparse.kron)(s, t)) == 12
    A = jsparse.asarray(np.eye(3, dtype=np.float32))
    np.testing.assert_array_equal(dense(jsparse.kron(s, A)), 3 * np.eye(3))
    np.testing.assert_array_equal(dense(jsparse.kron(A, s)), 3 * np.eye(3))


def test_nonzero_is_refused_as_by_jax():
    with pytest.raises(ValueError, match="0d arrays"):
        jnp.nonzero(jnp.float32(3))
    with pytest.raises(jsparse.ShapeError, match="Expected a tensor with dimensions for jsparse.nonzero"):
        jsparse.nonzero(jsparse.asarray(np.float32(3)))
