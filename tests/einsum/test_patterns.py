"""Patterns as operands of einsum: tensors of ones without values, compared with dense matrices of zeros and ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stored import closure

import jsparse
from jsparse import Format, Pattern, SparseTensor
from jsparse.planning.planned import plan_einsum

pytestmark = pytest.mark.semantics

RNG = np.random.default_rng(0)
RANGE = "(i, j) -> (i : dense, j : range)"
ROWS = "(i, j) -> (i : compressed, j : dense)"
BLOCKS = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"
FORMATS = ["csr", "csc", "coo", "dcsr", RANGE, ROWS, "dense"]


def pattern(*shape, format="csr", density=0.4):
    """A pattern, and the dense integers that it stands for: 1 where it stores an entry, fill included."""
    format = Format.of(format, len(shape))
    mask = RNG.random(shape) < density
    mask = mask & mask.any(tuple(range(2, mask.ndim)), keepdims=True)
    made = jsparse.asarray(mask.astype(np.int8), format)
    return made.pattern, closure(mask, format).astype(np.int32)


def integers(*shape):
    return RNG.integers(-4, 5, shape).astype(np.int32)


def whole(x):
    return np.asarray(x.todense() if isinstance(x, SparseTensor) else x)


# A pattern (5, 6), then further operands. Results are dense, on the pattern, or on a new one.
CASES = [
    ("ij,jk->ik", (6, 3)),
    ("ij,j->i", (6,)),
    ("ij,i->j", (5,)),
    ("ij->i",),
    ("ij->j",),
    ("ij->",),
    ("ij->ij",),
    ("ij->ji",),
    ("ij,i->ij", (5,)),
    ("ij,k->ikj", (3,)),
    ("ij,k->i", (3,)),
    ("ij,ij->ij", (5, 6)),
    ("ij,ik,jk->ij", (5, 2), (6, 2)),
    ("ij,ik,jk->", (5, 2), (6, 2)),
    ("...j,j->...", (6,)),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_one_pattern(format):
    P, ones = pattern(5, 6, format=format)
    for text, *shapes in CASES:
        others = [integers(*shape) for shape in shapes]
        found = jsparse.einsum(text, P, *others)
        np.testing.assert_array_equal(whole(found), np.einsum(text, ones, *others), err_msg=text)
        assert found.dtype == np.int32


def test_the_fill_of_blocks_is_stored():
    P, p = pattern(4, 5, 2, 3, format=BLOCKS, density=0.2)
    assert p.sum() == P.nse == 6 * np.count_nonzero(p.any((2, 3)))
    X, y = integers(5, 3), integers(5)
    for text, *others in [
        ("ijab,jb->ia", X), ("ijab,j->i", y), ("ijab,j->ia", y), ("ijab,j,b->i", y, X[0]), ("ijab->ij",),
        ("ijab->",), ("ijab->ab",), ("ijab->b",), ("ijab->abij",),
    ]:  # fmt: skip
        np.testing.assert_array_equal(
            whole(jsparse.einsum(text, P, *others)), np.einsum(text, p, *others), err_msg=text
        )
    np.testing.assert_array_equal(whole(jsparse.einsum("ijab,kjab->ik", P, P)), np.einsum("ijab,kjab->ik", p, p))
    least = jsparse.einsum("ijab,j->i", P, y, semiring="min_plus")
    np.testing.assert_array_equal(least, np.where(p.any((2, 3)), y, 2**31 - 1).min(1))


def test_scalars_and_empty_dimensions():
    one = jsparse.asarray(np.ones((), np.float32)).pattern
    assert whole(jsparse.einsum("->", one)) == 1
    np.testing.assert_array_equal(whole(jsparse.einsum(",i->i", one, [1, 2])), [1, 2])
    P = jsparse.asarray(np.zeros((3, 2, 0), np.float32), "(i, j, k) -> (i : dense, j : compressed, k : dense)").pattern
    stored = Pattern.from_coordinates([[0, 1], [1, 1]], (3, 2))[0].extended((0,))
    for Q in (P, stored, Pattern((3, 2, 0), "dense", [])):
        assert jsparse.einsum("ijk->i", Q).tolist() == [0, 0, 0]
        assert jsparse.einsum("ijk,i->i", Q, jnp.full(3, jnp.nan), out_format="dense").tolist() == [0, 0, 0]
        assert jsparse.einsum("ijk->", Q, semiring="max_plus") == -(2**31)


SEMIRINGS = {
    "min_plus": (lambda at, x: np.where(at, x, 2**31 - 1).min(1)),
    "max_plus": (lambda at, x: np.where(at, x, -(2**31)).max(1)),
    "max_times": (lambda at, x: np.where(at, x, -(2**31)).max(1)),
    "or_and": (lambda at, x: np.bitwise_or.reduce(np.where(at, x, 0), 1)),
}


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("format", ["csr", "coo", "dense"])
def test_an_entry_is_the_one_of_the_semiring(semiring, format):
    P, p = pattern(8, 6, format=format)
    x = integers(6)
    found = jsparse.einsum("ij,j->i", P, x, semiring=semiring)
    np.testing.assert_array_equal(found, SEMIRINGS[semiring](p != 0, x))
    D = jsparse.asarray(np.diag(x))
    found = jsparse.einsum("ij,jk->ik", P, D, semiring=semiring)
    at = (p != 0) & (x != 0)
    assert found.nse == at.sum()
    np.testing.assert_array_equal(np.sort(found.values), np.sort(np.broadcast_to(x, at.shape)[at]))


def test_semirings_of_patterns_alone():
    (P, p), (Q, q) = pattern(5, 6), pattern(6, 5)
    reached = jsparse.einsum("ij,jk->ik", P, Q, semiring="or_and")
    assert reached.dtype == bool
    np.testing.assert_array_equal(reached.todense(), (p @ q) != 0)
    hops = jsparse.einsum("ij,jk->ik", P, Q, semiring="min_plus", out_format="dense")
    np.testing.assert_array_equal(hops, np.where(p @ q, 0, 2**31 - 1))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "uint8", "bool", "complex64"])
def test_a_pattern_promotes_nothing(dtype):
    P, p = pattern(5, 6)
    x = jnp.asarray(RNG.integers(0, 3, 6)).astype(dtype)
    found = jsparse.einsum("ij,j->i", P, x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, jnp.asarray(p @ np.asarray(x.real).astype(np.int32)).astype(dtype))
    assert jsparse.einsum("ij,j->ij", P, x).dtype == dtype


def test_dtypes_of_counts():
    P, p = pattern(5, 6)
    for dtype in ("float32", "bfloat16", "int8", "complex64"):
        found = jsparse.einsum("ij->i", P, preferred_element_type=dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, jnp.asarray(p.sum(1)).astype(dtype))
    weak = jnp.asarray(1.0) * 2  # weakly typed, as Python's numbers are
    assert jsparse.einsum("ij,->i", P, weak).dtype == np.float32
    with jax.enable_x64(True):
        assert jsparse.einsum("ij->i", P).dtype == np.int64
    assert jsparse.einsum("ij->i", P).dtype == np.int32


def test_products_in_steps():
    (P, p), (Q, q), (R, r) = (pattern(*shape, density=0.05) for shape in ((130, 110), (110, 130), (130, 130)))
    X, W = integers(130, 64), integers(64, 64)
    A, a = jsparse.asarray((r * 3).astype(np.int32)), 3 * r
    for text, operands, dense, before in [
        ("ij,jk,kl->il", (P, Q, R), (p, q, r), 1),
        ("ij,jk,kl->il", (P, Q, A), (p, q, a), 1),
        ("ij,jk,kl->il", (R, X, W), (r, X, W), 1),
        ("ij,jk,kl->il", (P, Q, X), (p, q, X), None),
        ("ij,jk,ik->", (P, Q, R), (p, q, r), 1),  # planning finds where all three meet
    ]:
        found = jsparse.einsum(text, *operands)
        np.testing.assert_array_equal(whole(found), np.einsum(text, *dense, optimize=True), err_msg=text)
        assert before in (None, len(plan_einsum(text, operands, None).plan.sums) - 1)
    reached = jsparse.einsum("ij,jk,kl->il", P, Q, R, semiring="min_plus")
    assert reached.nse == np.count_nonzero(p @ q @ r)
    assert not reached.values.any()


def test_a_pattern_is_an_argument_of_jitted_functions():
    traces = []

    @jax.jit
    def count(P, x):
        traces.append(P)
        return jsparse.einsum("ij,j->i", P, x)

    (P, p), (Q, q) = pattern(5, 6), pattern(5, 6)
    x = integers(6)
    for R, r in ((P, p), (Q, q), (Pattern(P.shape, P.format, P.arrays), p)):
        np.testing.assert_array_equal(count(R, x), r @ x)
    assert traces == [P, Q]


def test_no_values_are_read():
    P, _ = pattern(5, 6)
    X = np.ones((6, 8), np.float32)
    for text, operands, read in (("ij,jk->ik", (P, X), 4 * X.size), ("ij->i", (P,), 0)):
        (kernel,) = jsparse.explain(text, *operands).kernels
        assert sum(size for _, size in kernel.traffic.operands) <= read
        assert kernel.formats[0] == ("A[i, j]", "csr")
    jaxpr = jax.make_jaxpr(lambda: jsparse.einsum("ij->i", P))()
    assert not jaxpr.consts
    (kernel,) = jsparse.explain(lambda X: jsparse.einsum("ij,jk->ik", P, X))(X).kernels
    assert kernel.title == "einsum 'ij,jk->ik', a dense result"
    assert kernel.formats[0] == ("P0[i, j]", "csr")


def test_schedules_and_lists_of_indices():
    P, p = pattern(5, 6)
    X = integers(6, 3)
    schedule = jsparse.Schedule().reorder("j i k")
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", P, X, schedule=schedule), p @ X)
    np.testing.assert_array_equal(jsparse.einsum(P, [0, 1], X, [1, 2], [0, 2]), p @ X)
    assert jsparse.explain("ij,jk->ik", P, X, schedule=schedule).schedule.steps[: len(schedule.steps)]
    assert jsparse.einsum("ij,jk->ik", P, P.transposed((1, 0)), nse=25).nse <= 25


def test_large_dimensions():
    side = 10**9
    coords = RNG.integers(0, side, (2, 50))
    P = Pattern.from_coordinates(coords, (side, side), "dcsr")[0]
    found = jsparse.einsum("ij,ij->ij", P, P)
    assert found.pattern is P
    assert found.values.tolist() == [1] * 50
    np.testing.assert_array_equal(jsparse.einsum("ij->", P), 50)
    two = jsparse.einsum("ij,kj->ik", P, P)
    assert int(two.values.sum()) == 50


def test_patterns_have_no_operators_of_tensors():
    with pytest.raises(TypeError, match="unsupported operand"):
        pattern(5, 6)[0] @ jnp.ones(6)
