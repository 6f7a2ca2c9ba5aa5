"""Repeated indices in einsums as XLA operations: diagonals, their gradients, and results off a diagonal."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_tensors import RNG, both, draw, of, same, whole

import jsparse
from jsparse.compiler.semiring import Semiring
from jsparse.primitives.portable import summed
from jsparse.primitives.portable.einsum import compute_einsum
from jsparse.primitives.portable.summed import Machine
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec


@pytest.fixture(autouse=True)
def _portable():
    with jsparse.config(backend="xla"):
        yield


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_diagonals(is_dynamic):
    d, x = draw(6, 6), whole(6, 6)
    A = both(d)[is_dynamic]
    same(of("ii->i", A), np.diag(d))
    same(of("ii,ij->j", A, x), np.diag(d) @ x)
    same(jax.jit(jax.grad(lambda x: jsparse.einsum("ij,kk->i", A, x).sum()))(x), d.sum() * np.eye(6))


BLOCKS = "(i, j, k, l) -> (i : dense, j : compressed, k : dense, l : dense)"
DIAGONALS = {  # the einsum, the format and shape of A, the shape of x, and the einsums that take their diagonals
    "of blocks": ("ijkk,jk->i", BLOCKS, (4, 5, 3, 3), (5, 3), "ijkk->ijk", "jk->jk"),
    "of an array": ("ij,jkk->ik", "csr", (4, 5), (5, 3, 3), "ij->ij", "jkk->jk"),
    "of two pairs": ("ij,kkjj->ik", "csr", (4, 5), (3, 3, 5, 5), "ij->ij", "kkjj->kj"),
}


@pytest.mark.parametrize("semiring", ["plus_times", "max_times"])
@pytest.mark.parametrize("name", DIAGONALS)
def test_gradients_of_diagonals(name, semiring):
    text, format, shape, other, *diagonals = DIAGONALS[name]
    d = np.where(RNG.random(shape[:2] + (1,) * (len(shape) - 2)) < 0.6, RNG.integers(1, 9, shape), 0)
    A, x = jsparse.asarray(d.astype(np.float32), format), RNG.integers(1, 9, other).astype(np.float32)
    kept = text.partition("->")[2]

    def dense(D, x):
        terms = [diagonal.partition("->")[2] for diagonal in diagonals]
        space = kept + "".join(sorted(set("".join(terms)) - set(kept)))
        product = 1
        for array, term, diagonal in zip((D, x), terms, diagonals, strict=True):
            array = jnp.einsum(f"{diagonal.partition('->')[0]}->{''.join(v for v in space if v in term)}", array)
            product = product * array[tuple(slice(None) if v in term else None for v in space)]
        axes = tuple(range(len(kept), len(space)))
        return product.sum(axes) if semiring == "plus_times" else jnp.where(product > 0, product, -jnp.inf).max(axes)

    def ours(values, x):
        return jsparse.einsum(text, A.with_values(values), x, semiring=semiring, out_format="dense")

    def total(f, *arguments):
        found = f(*arguments)
        return jnp.where(jnp.isfinite(found), found, 0).sum()

    of_values, of_x = jax.jit(jax.grad(partial(total, ours), (0, 1)))(A.values, x)
    of_dense, expected = jax.grad(partial(total, dense), (0, 1))(jnp.asarray(d, np.float32), x)
    np.testing.assert_allclose(of_x, expected, rtol=1e-6)
    np.testing.assert_allclose(A.with_values(of_values).todense(), np.where(d, of_dense, 0), rtol=1e-6)


OFF_DIAGONALS = {"of slots": ((), 0, ()), "of blocks": ((), 0, ("k", "k")), "of an array": (("k", "i", "k"), None, ())}


@pytest.mark.parametrize(("add", "dtype"), [("min", "float32"), ("max", "int8"), ("*", "float32"), ("+", "int8")])
@pytest.mark.parametrize("name", OFF_DIAGONALS)
def test_results_off_diagonals_are_sums_of_nothing(name, add, dtype):
    """Only padding is 0."""
    d, x = draw(6, 6) != 0, whole(6, 3, 2, dtype=dtype)
    d[[0, 2, 3], [0, 2, 3]] = [True, True, False]
    least, most = (-np.inf, np.inf) if dtype == "float32" else (-128, 127)
    empty = {"+": 0, "*": 1, "min": most, "max": least}[add]
    reduce = {"+": np.sum, "*": np.prod, "min": np.min, "max": np.max}[add]
    before, on, behind = OFF_DIAGONALS[name]
    sums = reduce(x, 2) if "k" in (*before, *behind) else reduce(x, (1, 2))[:, None]
    blocks = np.full((6, *sums.shape[1:] * 2), empty)  # a block for each i
    blocks[:, range(sums.shape[1]), range(sums.shape[1])] = sums
    rows, columns = np.nonzero(d)
    for A, spare in zip(both(d), (0, 3), strict=True):
        pattern, index = (A.pattern, ()) if spare == 0 else (A.pattern.type, A.pattern.arrays)
        terms = (ArrayAccess(("i", "k", "s")),), ArrayAccess(before, on, behind)
        sizes = (("i", 6), ("k", 3), ("s", 2))
        spec = Spec(*terms, (PatternAccess(("i", "i"), pattern),), sizes, semiring=Semiring(add, "*"))
        if on is None:
            want = np.where(np.diag(d)[:, None, None], blocks, empty).transpose(1, 0, 2)
        else:
            want = np.where((rows == columns)[:, None, None], blocks[rows], empty).reshape(-1)
            want = np.append(want, np.zeros(spare * blocks[0].size))
        for machine in (summed.CPU, Machine(64, sums_by_products=True, uses_order=True)):
            found = jax.jit(partial(compute_einsum, spec=spec, machine=machine))(x, *index)
            assert found.dtype == dtype
            same(found, want.astype(dtype))
