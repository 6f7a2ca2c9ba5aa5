"""Products with a matrix for each stored entry go over the entries one by one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import Pattern, SparseTensor
from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED
from jsparse.planning.plan import EntryCoordinates, EntryValues
from jsparse.planning.planned import plan_einsum

RELATIONS, TARGETS, SOURCES, IN, OUT = 3, 13, 11, 4, 5
RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((RELATIONS, TARGETS, SOURCES)) < 0.06, RNG.integers(1, 4, (RELATIONS, TARGETS, SOURCES)), 0)
X = RNG.integers(-3, 4, (SOURCES, IN)).astype(np.float32)
W = RNG.integers(-3, 4, (RELATIONS, IN, OUT)).astype(np.float32)
EINSUM = "rij,jc,rcf->if"


def graph(format: Any = "csf", dense: np.ndarray = DENSE) -> SparseTensor:
    return jsparse.asarray(dense.astype(np.float32)).asformat(format)


def tables(text: str, *operands: Any, **options: Any) -> list[Any]:
    """The instructions of an einsum's plan that take a tensor apart into entries."""
    plan = plan_einsum(text, operands, options.pop("out_format", None), **options).plan
    return [x for x in plan.instructions if isinstance(x, EntryCoordinates | EntryValues)]


@pytest.mark.semantics
@pytest.mark.parametrize("format", ["csf", "coo", Format(tuple(Level(COMPRESSED, dim) for dim in (2, 0, 1)))])
def test_values_are_exact(format: Any) -> None:
    A = graph(format)
    assert len(tables(EINSUM, A, X, W)) == 4
    np.testing.assert_array_equal(jsparse.einsum(EINSUM, A, X, W), np.einsum(EINSUM, DENSE, X, W))
    ones = (DENSE != 0).astype(int)
    assert len(tables(EINSUM, A.pattern, X, W)) == 3
    np.testing.assert_array_equal(jsparse.einsum(EINSUM, A.pattern, X, W), np.einsum(EINSUM, ones, X, W))


@pytest.mark.semantics
def test_gradients_in_all_operands() -> None:
    A = graph()

    def ours(values: Any, x: Any, w: Any) -> Any:
        return (jsparse.einsum(EINSUM, SparseTensor(values, A.pattern), x, w) ** 2).sum()

    def dense(values: Any, x: Any, w: Any) -> Any:
        whole = jnp.zeros(DENSE.shape).at[tuple(A.pattern.to_coords())].set(values)
        return (jnp.einsum(EINSUM, whole, x, w) ** 2).sum()

    operands = (A.values, jnp.asarray(X), jnp.asarray(W))
    found, wanted = (jax.grad(f, (0, 1, 2))(*operands) for f in (ours, dense))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    second = [jax.jacfwd(jax.grad(f, 1), 2)(*operands) for f in (ours, dense)]
    np.testing.assert_allclose(*second, rtol=1e-5, atol=1e-3)


def test_batches_and_programs() -> None:
    A, xs = graph(), np.stack([X, -X, 2 * X])
    found = jax.jit(jax.vmap(lambda x: jsparse.einsum(EINSUM, A, x, W)))(xs)
    np.testing.assert_array_equal(found, np.einsum("rij,bjc,rcf->bif", DENSE, xs, W))
    y = jsparse.evaluate("y[i,f] = A[r,i,j] * x[j,c] * W[r,c,f] - 2 * z[i,f]", A=A, x=X, W=W, z=np.ones((TARGETS, OUT)))
    np.testing.assert_array_equal(y, np.einsum(EINSUM, DENSE, X, W) - 2)
    B = graph(dense=DENSE * (DENSE != 2))
    text = "y[i,f] = A[r,i,j] * x[j,c] * W[r,c,f] + B[r,i,j] * x[j,c] * W[r,c,f]"
    found = jax.jit(lambda A, B: jsparse.evaluate(text, A=A, B=B, x=X, W=W))(A, B)
    assert B.nse != A.nse
    np.testing.assert_array_equal(found, np.einsum(EINSUM, DENSE + np.asarray(B.todense()), X, W))


def test_blocks_on_the_diagonal() -> None:
    x, w = X.reshape(SOURCES, 2, 2), W[:, :, :4].reshape(RELATIONS, 2, 2, 4)
    text = "rij,jbc,rbcf->ibf"
    assert len(tables(text, graph(), x, w)) == 4
    np.testing.assert_array_equal(jsparse.einsum(text, graph(), x, w), np.einsum(text, DENSE, x, w))


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("rij,jf,rf->if", (X, W[:, 0, :IN])),  # the factors have no matrix for each entry
        ("rij,jc,cf->if", (X, W[0])),  # the matrix is the same for all entries
        ("rij,jc,rci->r", (X, np.ones((RELATIONS, IN, TARGETS)))),  # the matrix has no index of the result of its own
    ],
)
def test_other_products_follow_the_levels(text: str, operands: tuple[Any, ...]) -> None:
    assert not tables(text, graph(), *operands)
    np.testing.assert_allclose(jsparse.einsum(text, graph(), *operands), np.einsum(text, DENSE, *operands))


def test_long_segments_follow_the_levels() -> None:
    """One product with a matrix serves all entries of a segment."""
    full = np.ones((RELATIONS, TARGETS, SOURCES))
    assert not tables(EINSUM, graph(dense=full), X, W)
    np.testing.assert_array_equal(jsparse.einsum(EINSUM, graph(dense=full), X, W), np.einsum(EINSUM, full, X, W))


def test_other_operands_follow_the_levels() -> None:
    """Patterns that are known at run time only, and sparse results."""
    A = graph()
    assert not tables(EINSUM, A.dynamic(), X, W)
    assert not tables("rij,jc,rcf->if", A, X, W, out_format="csr")
    mask, _ = Pattern.from_coordinates(np.array([[0, 3], [1, 2]]), (TARGETS, OUT), "csr")
    assert not tables(EINSUM, A, X, W, out_format=mask)
    sampled = jsparse.einsum(EINSUM, A, X, W, out_format=mask)
    np.testing.assert_array_equal(sampled.values, np.einsum(EINSUM, DENSE, X, W)[tuple(mask.to_coords())])


def test_an_explanation_names_the_operand() -> None:
    text = str(jsparse.explain(EINSUM, graph(), X, W))
    assert "D[i, f] = B[j, c] * C[r, c, f] * A[p], over the entries of A[r, i, j] one by one, a dense result" in text
