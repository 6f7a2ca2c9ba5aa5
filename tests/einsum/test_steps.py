"""Products of three or more operands, computed in one nest, in one nest with a factored sum, or in steps."""

import jax
import numpy as np
import pytest

import jsparse
from jsparse.planning.plan import DenseOutput
from jsparse.planning.planned import plan_einsum

RNG = np.random.default_rng(0)


def sparse(*shape, density=0.05):
    dense = np.where(RNG.random(shape) < density, RNG.integers(1, 4, shape), 0).astype(np.float32)
    return jsparse.asarray(dense, "csr" if len(shape) == 2 else "csf")


def dense(*shape):
    return RNG.integers(-2, 3, shape).astype(np.float32)


def whole(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


def steps(text, operands):
    *before, _ = plan_einsum(text, operands, None).plan.sums
    targets = [("".join(work.terms[0].assignment.target.indices), work.output) for work in before]
    return [(indices, isinstance(output, DenseOutput)) for indices, output in targets]


CASES = [
    ("ij,ik,jk->ij", lambda: (sparse(100, 120), dense(100, 16), dense(120, 16)), []),
    ("ij,ik,jk->ij", lambda: (sparse(60, 50, density=0.9), dense(60, 100), dense(50, 100)), []),
    ("ijk,jr,kr->ir", lambda: (sparse(30, 40, 50), dense(40, 16), dense(50, 16)), []),
    ("ij,jk,kl->il", lambda: (sparse(100, 90), sparse(90, 100), sparse(100, 100, density=0.2)), [("ik", False)]),
    ("ij,jk,kl->il", lambda: (sparse(100, 100, density=0.3), dense(100, 16), dense(16, 64)), [("ik", True)]),
    ("ij,ik,kl,jl->ij", lambda: (sparse(99, 120), dense(99, 64), dense(64, 64), dense(120, 64)), [("il", True)]),
    ("ij,ik,kl->ijl", lambda: (sparse(10, 12, density=0.3), dense(10, 5), dense(5, 7)), None),
    ("i,ij,j->", lambda: (dense(50), sparse(50, 50), dense(50)), None),
    ("ij,jk,ik->", lambda: (sparse(60, 60), sparse(60, 60), sparse(60, 60)), None),
    ("ij,jk,,kl->il", lambda: (sparse(60, 60), sparse(60, 60), dense(), sparse(60, 60)), None),
    ("ij,ij,jk,kl->il", lambda: (sparse(60, 60), sparse(60, 60), dense(60, 8), dense(8, 8)), None),
    ("ij,jk,kl,lm,mn,no->io", lambda: [sparse(50, 50, density=0.1) for _ in range(6)], None),
    ("ab,bc,cd,de,ef,fg,gh->ah", lambda: [sparse(20, 20, density=0.1) for _ in range(7)], None),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text, make, expected", CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_values_and_steps(text, make, expected):
    operands = make()
    if expected is not None:
        assert steps(text, operands) == expected
    wanted = np.einsum(text, *map(whole, operands), optimize=True)
    np.testing.assert_array_equal(whole(jsparse.einsum(text, *operands)), wanted)


def test_the_entries_of_a_sparse_result_depend_on_all_operands():
    A, B, C = (sparse(40, 40) for _ in range(3))
    found = jsparse.einsum("ij,jk,kl->il", A, B, C)
    stored = [x.with_values(np.ones(x.nse, np.float32)).todense() for x in (A, B, C)]
    assert found.nse == np.count_nonzero(np.einsum("ij,jk,kl->il", *stored))


def test_gradients_go_through_all_steps():
    A, B, X = sparse(40, 40), sparse(40, 40), dense(40, 8)
    Y = dense(8, 8)

    def total(values, x, multiply):
        return (multiply("ij,jk,kl,lm->im", A.with_values(values), B, x, Y) ** 2).sum()

    def by_dense(text, *operands):
        return jax.numpy.einsum(text, *(x.todense() if isinstance(x, jsparse.SparseTensor) else x for x in operands))

    found = jax.grad(total, (0, 1))(A.values, X, jsparse.einsum)
    wanted = jax.grad(total, (0, 1))(A.values, X, by_dense)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("density", [0.3, 0.002])  # a start of a short sum costs less than the products that it saves
def test_the_inner_sum_of_a_product_of_matrices_is_factored(density):
    loops = str(
        jsparse.explain("ijk,jr,kr->ir", sparse(30, 40, 50, density=density), dense(40, 16), dense(50, 16)).loops
    )
    assert "sub[r] += A[i, j, k] * C[k, r]" in loops
    assert "acc[r] += sub[r] * B[j, r]" in loops


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [2, 3, 16, 40, 70, 100])
@pytest.mark.parametrize("text", ["ijk,jr,kr->ir", "ijk,jr,kr->jr", "ijk,ir,kr->ir", "ijk,jr,kr->ijr"])
def test_factored_sums_of_any_width(text, columns):
    T = sparse(5, 6, 17, density=0.7)
    sizes = {"i": 5, "j": 6, "k": 17, "r": columns}
    operands = [T, *(dense(*(sizes[v] for v in term)) for term in text.split("->")[0].split(",")[1:])]
    wanted = np.einsum(text, T.todense(), *operands[1:])
    np.testing.assert_array_equal(whole(jsparse.einsum(text, *operands)), wanted)


def test_dynamic_operands():
    A, X = sparse(40, 40), dense(40, 8)
    compute = jax.jit(lambda a, b, x: jsparse.einsum("ij,ij,jk->ik", a, b, x))
    D = A.todense()
    np.testing.assert_array_equal(compute(A.dynamic(), A.dynamic(A.nse + 5), X), (D * D) @ X)
    cube = jsparse.einsum("ij,jk,kl->il", *[A.dynamic()] * 3, nse=1600)
    np.testing.assert_array_equal(cube.todense(), D @ D @ D)
