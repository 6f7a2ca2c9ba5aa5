"""Outside jit, operands on new patterns are computed by kernels that were planned for others of their kind."""

import operator

import jax
import numpy as np
import pytest
import scipy.sparse
from compilations import COMPILED

import jsparse
from jsparse import einsum
from jsparse.ops.elementwise import operators
from jsparse.planning import planned
from jsparse.planning.host.kinds import MEETINGS

N = 40
# Each expression for sparse matrices, and for dense ones of integers.
EXPRESSIONS = {
    "sum": (lambda a, b, x: a + b,) * 2,
    "difference": (lambda a, b, x: a - 2 * b,) * 2,
    "product": (lambda a, b, x: a @ b,) * 2,
    "transposed product": (lambda a, b, x: a.T @ b,) * 2,
    "square": (lambda a, b, x: a @ a,) * 2,
    "elementwise": (lambda a, b, x: a * b,) * 2,
    "vector": (lambda a, b, x: a @ x,) * 2,
    "vector transposed": (lambda a, b, x: a.T @ x,) * 2,
    "rows scaled": (lambda a, b, x: a * x[:, None],) * 2,
    "on a pattern": (
        lambda a, b, x: einsum("ij,j->ij", a, x, out_format=b.pattern),
        lambda a, b, x: a * x * (b != 0),
    ),
    "sampled": (lambda a, b, x: einsum("ij,i,j->ij", a, x, x), lambda a, b, x: a * np.outer(x, x)),
    "csc result": (lambda a, b, x: einsum("ij,jk->ik", a, b, out_format="csc"), lambda a, b, x: a @ b),
    "coo result": (lambda a, b, x: einsum("ij,jk->ik", a, b, out_format="coo"), lambda a, b, x: a @ b),
    "dense result": (lambda a, b, x: einsum("ij,jk->ik", a, b, out_format="dense"), lambda a, b, x: a @ b),
    "three indices": (lambda a, b, x: einsum("ij,ik->ijk", a, b), lambda a, b, x: np.einsum("ij,ik->ijk", a, b)),
}


def matrix(seed, format="csr", dtype=np.int32, entries=300):
    """A matrix with small integers, of about this number of entries and of a pattern that no other seed has."""
    rng = np.random.default_rng(seed)
    where = rng.choice(N * N, entries + seed % 20, replace=False)
    dense = np.zeros(N * N, dtype)
    dense[where] = rng.integers(1, 4, len(where)).astype(dtype)
    return jsparse.asarray(dense.reshape(N, N), format)


def array(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


def plans():
    """The plans that memos have. Those made later are `plans() - before`, whatever was evicted for them."""
    return {entry.number for memo in (planned._of_einsum, planned._of_statement) for entry in [*memo.known.values()]}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("format", "dtype"),
    [*(("csr", dtype) for dtype in ("int32", "float32", "bfloat16", "uint8", "bool")), ("csc", "float32"),
     ("coo", "float32"), ("dcsr", "bfloat16")],
)  # fmt: skip
@pytest.mark.parametrize("name", [*EXPRESSIONS])
def test_values_are_right_for_every_pattern(name, format, dtype):
    if (name, dtype) == ("difference", "bool"):
        return  # numpy has none
    dtype = jax.numpy.dtype(dtype)
    compute, reference = EXPRESSIONS[name]
    x = (np.arange(N) % 3).astype(dtype)
    for seed in range(3):
        a, b = (matrix(2 * seed + k, format, dtype) for k in (0, 1))
        expected = reference(*(array(operand).astype(np.int64) for operand in (a, b, x)))
        np.testing.assert_array_equal(array(compute(a, b, x)), expected.astype(dtype))


@pytest.mark.parametrize("name", [*EXPRESSIONS])
def test_results_are_stored_as_by_their_own_plan(name):
    compute, x = EXPRESSIONS[name][0], np.arange(N, dtype=np.float32)
    compute(matrix(100, dtype=np.float32), matrix(101, dtype=np.float32), x)
    for seed in range(3):
        a, b = (matrix(seed + k, dtype=np.float32, entries=300) for k in (0, 50))
        results = [compute(a, b, x) for _ in range(MEETINGS + 2)]
        for other in results[1:]:
            assert type(other) is type(results[0])
            assert array(other).dtype == array(results[0]).dtype
            if isinstance(other, jsparse.SparseTensor):
                assert other.pattern == results[0].pattern
            np.testing.assert_array_equal(array(other), array(results[0]))


def test_a_kind_is_planned_once():
    x = np.ones(N, np.float32)
    pairs = [
        (matrix(2 * n, dtype=np.float32, entries=600), matrix(2 * n + 1, dtype=np.float32, entries=600))
        for n in range(8)
    ]
    for name in ("sum", "product", "elementwise", "vector", "csc result"):
        compute = EXPRESSIONS[name][0]
        compute(*pairs[0], x)
        before = plans()
        for pair in pairs[1:]:
            compute(*pair, x)
        assert not plans() - before, name


def test_operands_that_come_back_get_a_plan_of_their_own():
    # No other test has these patterns: how often patterns met is remembered beyond their tensors.
    a, b = matrix(107, dtype=np.float32, entries=700), matrix(108, dtype=np.float32, entries=700)
    matrix(109, dtype=np.float32, entries=700) @ matrix(110, dtype=np.float32, entries=700)
    before = plans()
    for _ in range(MEETINGS):
        a @ b
    assert not plans() - before
    a @ b
    assert len(plans() - before) == 1


def test_a_result_that_lies_on_an_operand_by_chance():
    identity = jsparse.asarray(scipy.sparse.eye_array(N, format="csr", dtype=np.float32))
    shifted = jsparse.asarray(np.eye(N, k=1, dtype=np.float32) + np.eye(N, k=-39, dtype=np.float32))
    other = jsparse.asarray(np.eye(N, k=2, dtype=np.float32) + np.eye(N, k=-38, dtype=np.float32))
    for left, right in [
        (identity, shifted),
        (shifted, identity),
        (identity, identity),
        (shifted, other),
        (other, shifted),
    ]:
        for compute in (lambda a, b: a @ b, lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a.T @ b):
            expected = compute(array(left), array(right))
            assert np.array_equal(array(compute(left, right)), expected)


def test_operands_with_few_and_with_many_rows_that_have_entries():
    """The result's format depends on the number of entries, and so may be another than for the first of the kind."""
    rng = np.random.default_rng(0)

    def tall(rows):
        dense = np.zeros((4000, 30), np.float32)
        dense[rng.choice(rows, 500), rng.integers(0, 30, 500)] = 1
        return jsparse.asarray(dense)

    square = jsparse.asarray(np.eye(30, dtype=np.float32) + np.eye(30, k=3, dtype=np.float32))
    sparse = jsparse.asarray(
        np.diag(np.r_[np.ones(1), np.zeros(29)]).astype(np.float32) + np.eye(30, k=29, dtype=np.float32)
    )
    for rows in (4000, 20, 4000, 300):
        a = tall(rows)
        for b in (square, sparse):
            results = [a @ b for _ in range(MEETINGS + 1)]
            assert all(result.pattern == results[-1].pattern for result in results)
            assert np.array_equal(array(results[0]), array(a) @ array(b))


def test_shared_operands_are_a_kind_of_their_own():
    first = matrix(11, entries=450)
    assert np.array_equal(array(first + first), 2 * array(first))
    for seed in (12, 13):
        a, b = matrix(seed, entries=450), matrix(seed + 20, entries=450)
        assert np.array_equal(array(a + b), array(a) + array(b))
        assert np.array_equal(array(a + a), 2 * array(a))


def test_errors_are_the_same_for_a_new_pattern():
    a, b = matrix(1), matrix(2)
    a @ b
    wide = jsparse.asarray(np.eye(N, N + 1, dtype=np.int32))
    for _ in range(2):
        with pytest.raises(jsparse.ShapeError, match="40"):
            wide @ a


OPERATORS = {"sum": operator.add, "difference": operator.sub, "elementwise": operator.mul, "product": operator.matmul}


def known_operations(entries):
    """Make the host programs of all operators for the kind of matrices with this number of entries."""
    for seed in (60, 62, 64):
        a, b = matrix(seed, dtype=np.float32, entries=entries), matrix(seed + 1, dtype=np.float32, entries=entries)
        for compute in OPERATORS.values():
            compute(a, b)
    return matrix(70, dtype=np.float32, entries=entries), matrix(71, dtype=np.float32, entries=entries)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_known_operation_is_not_read_again(name, monkeypatch):
    a, b = known_operations(520)
    for function in ("broadcast_add", "broadcast_multiply", "einsum"):
        monkeypatch.setattr(operators, function, None)
    assert np.array_equal(array(OPERATORS[name](a, b)), OPERATORS[name](array(a), array(b)))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_known_operation_checks_its_operands(name):
    a, b = known_operations(560)
    short = jax.tree.map(lambda x: x[:-1], a)
    for pair in ((short, b), (b, short)):
        with pytest.raises(jsparse.LeafError):
            OPERATORS[name](*pair)
    cut = jax.tree.map(lambda x: x.astype(np.int32)[None], a)
    with pytest.raises(jsparse.LeafError):
        OPERATORS[name](cut, b)
    deleted = jax.tree.map(jax.numpy.copy, a)
    deleted.values.delete()
    with pytest.raises(jsparse.DeletedArrayError):
        OPERATORS[name](deleted, b)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_known_operation_is_traced_and_differentiated(name):
    a, b = known_operations(590)
    compute = OPERATORS[name]
    expected = compute(array(a), array(b))
    assert np.array_equal(array(jax.jit(compute)(a, b)), expected)
    slope = jax.grad(lambda values: compute(a.with_values(values), b).values.sum())(a.values)
    moved = a.with_values(a.values + 1)
    assert np.isclose(float(slope.sum()), float((compute(array(moved), array(b)) - expected).sum()), rtol=1e-6)


def test_a_known_operation_follows_the_settings():
    a, b = known_operations(620)
    mixed = b.astype(np.int32)
    for _ in range(3):
        assert (a + mixed).dtype == np.float32
    with jax.numpy_dtype_promotion("strict"), pytest.raises((TypeError, jsparse.DTypeError), match="does not promote"):
        a + mixed
    with jax.enable_x64(True):
        wide = jsparse.asarray(array(a).astype(np.float64))
        assert (wide + wide.T).dtype == np.float64
    with jsparse.config(backend="xla"):
        assert np.array_equal(array(a + b), array(a) + array(b))
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        (a * np.float32(np.nan)) @ b


def test_searches_for_nan_are_made():
    a = matrix(3, dtype=np.float32, entries=500)
    a @ a
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        (matrix(4, dtype=np.float32, entries=500) * np.nan) @ np.ones(N, np.float32)


@pytest.mark.parametrize("name", ["sum", "product", "elementwise", "vector"])
def test_no_program_is_compiled_for_a_new_pattern(name):
    x, compute = np.ones(N, np.float32), EXPRESSIONS[name][0]
    pairs = [[matrix(9 * n + k, dtype=np.float32, entries=800) for k in (0, 1)] for n in range(6)]
    compute(*pairs[0], x)
    before = len(COMPILED)
    for pair in pairs[1:]:
        for _ in range(MEETINGS):
            compute(*pair, x)
    assert len(COMPILED) == before
