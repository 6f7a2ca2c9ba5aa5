"""Index variables that occur together become one: results and derivatives, against dense integers."""

import jax
import numpy as np
import pytest

import jsparse
from jsparse.planning.plan import OnLevels
from jsparse.planning.planned import plan_einsum

SIZES = {"i": 12, "j": 9, "k": 7, "l": 5, "m": 4}


def drawn(rng, shape, share):
    return np.where(rng.random(shape) < share, rng.integers(1, 4, shape), 0)


def formats(ndim):
    return ["csf", "coo"] + (["(i, j, k) -> (i : dense, j : compressed, k : range)"] if ndim == 3 else [])


def operands(text, format, seed=0, share=0.3):
    """Dense and sparse operands. Terms in capital letters are sparse."""
    rng = np.random.default_rng(seed)
    dense = [drawn(rng, [SIZES[v] for v in term.lower()], share) for term in text.split("->")[0].split(",")]
    made = []
    for term, x in zip(text.split("->")[0].split(","), dense, strict=True):
        own = "csr" if x.ndim == 2 else "coo" if x.ndim > 3 and format not in ("csf", "coo") else format
        made.append(jsparse.asarray(x, format=own) if term.isupper() else x)
    return dense, made


def collapsed(text, *values):
    """The operands on collapsed levels. The last instruction may put a dense result on a pattern."""
    return sum(isinstance(x, OnLevels) for x in plan_einsum(text, values, None).plan.instructions[:-1])


def whole(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


CASES = [
    ("IJK,IJL->kl", 2),
    ("IJK,IJL->", 2),
    ("IJK,IJLM,k->lm", 2),
    ("IJK,IJK->k", 2),
    ("IJK,IJ->k", 2),
    ("IJK,IJ,kl->l", 2),
    ("IJK,IJL,IJM->klm", 2),
    ("IJKL,IJKM->lm", 4),
    ("IJK->", 1),
    ("IJK->i", 1),
    ("IJKL->ij", 1),
    ("IJK,il->l", 1),
    ("IJI,IJK->k", 0),  # the diagonal of i would be lost
    ("IJI->", 0),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text, count", CASES)
@pytest.mark.parametrize("format", formats(3))
def test_results(text, count, format):
    dense, sparse = operands(text, format)
    expected = np.einsum(text.lower(), *dense)
    np.testing.assert_array_equal(whole(jsparse.einsum(text.lower(), *sparse)), expected)
    np.testing.assert_array_equal(whole(jax.jit(lambda *x: jsparse.einsum(text.lower(), *x))(*sparse)), expected)
    if format == "csf":
        assert collapsed(text.lower(), *sparse) == count


@pytest.mark.parametrize("text", ["IJK,IJL->kl", "IJK->i"])
def test_derivatives(text):
    dense, sparse = operands(text, "csf")
    sparse = [x.astype(np.float32) for x in sparse]

    def squares(*values):
        found = jsparse.einsum(text.lower(), *(x.with_values(v) for x, v in zip(sparse, values, strict=True)))
        return ((found.values if isinstance(found, jsparse.SparseTensor) else found) ** 2).sum()

    def of_dense(*values):
        return (jax.numpy.einsum(text.lower(), *values) ** 2).sum()

    every = tuple(range(len(sparse)))
    expected = jax.grad(of_dense, every)(*(x.astype(np.float32) for x in dense))
    for found, wanted, x in zip(jax.grad(squares, every)(*(x.values for x in sparse)), expected, sparse, strict=True):
        np.testing.assert_allclose(found, np.asarray(wanted)[tuple(x.pattern.to_coords())], rtol=1e-5)
    rows = jax.vmap(squares)(*(np.stack([x.values, 2 * x.values]) for x in sparse))
    np.testing.assert_allclose(rows, [of_dense(*dense), of_dense(*(2 * x for x in dense))], rtol=1e-5)


@pytest.mark.parametrize("semiring", ["min_plus", "max_times"])
def test_semirings(semiring):
    _, (A, B) = operands("IJK,IJL->kl", "csf")
    found = jsparse.einsum("ijk,ijl->kl", A, B, semiring=semiring)
    a, b, c, d = A.coords, B.coords, A.values, B.values
    reduce, combine = (np.minimum, np.add) if semiring == "min_plus" else (np.maximum, np.multiply)
    expected = {}
    for (i, j, k), x in zip(np.asarray(a).T.tolist(), np.asarray(c).tolist(), strict=True):
        for (p, q, m), y in zip(np.asarray(b).T.tolist(), np.asarray(d).tolist(), strict=True):
            if (i, j) == (p, q):
                value = combine(x, y)
                expected[k, m] = reduce(expected.get((k, m), value), value)
    entries = zip(np.asarray(found.coords).T.tolist(), np.asarray(found.values).tolist(), strict=True)
    assert {tuple(at): value for at, value in entries} == expected


def test_bare_patterns():
    _, (A, B) = operands("IJK,IJL->kl", "csf")
    expected = np.einsum("ijk,ijl->kl", *(whole(x) != 0 for x in (A, B)), dtype=int)
    np.testing.assert_array_equal(whole(jsparse.einsum("ijk,ijl->kl", A.pattern, B.pattern)), expected)


@pytest.mark.parametrize("text", ["IJK,ij->k", "IJK,JIL->kl", "IJK,IJL->ikl", "IJ,IJ->", "IJ->"])
def test_what_stays(text):
    """A dense operand has both indices, they are in another order, one is kept, or nothing is stored below."""
    dense, sparse = operands(text, "csf")
    np.testing.assert_array_equal(whole(jsparse.einsum(text.lower(), *sparse)), np.einsum(text.lower(), *dense))
    assert not collapsed(text.lower(), *sparse)


def test_operands_of_very_different_sizes_stay():
    """The tuples of the larger one would be numbered for a few that meet."""
    few = jsparse.SparseTensor.from_coords([[0, 3], [1, 2], [4, 4]], np.ones(2, np.int32), (12, 9, 7), "csf")
    _, (many,) = operands("IJL->", "csf")
    assert not collapsed("ijk,ijl->kl", few, many)
    np.testing.assert_array_equal(
        whole(jsparse.einsum("ijk,ijl->kl", few, many)), np.einsum("ijk,ijl->kl", whole(few), whole(many))
    )


@pytest.mark.parametrize("backend", ["llvm", "xla"])
def test_more_tuples_than_integers_stay(backend):
    """64 bits cannot number the tuples of two dimensions of 2^40."""
    shape = (1 << 40, 1 << 40, 5)
    A = jsparse.SparseTensor.from_coords([[3, 1 << 39], [1 << 39, 4], [1, 2]], np.array([2, 3], np.int32), shape, "csf")
    with jsparse.config(backend=backend):
        found = jsparse.einsum("ijk,ijl->kl", A, A)
    assert not collapsed("ijk,ijl->kl", A, A)
    np.testing.assert_array_equal(whole(found), np.diag([0, 4, 9, 0, 0]))


SUMS = [
    "IJ,IJKL->ij",  # a later term has two index variables to collapse
    "IJKL,IJ,IJKL->ij",  # two terms collapse the same two variables, of patterns with other numbers of tuples
    "IJKL,IJML,JIK->ij",
    "IJKL,IJKLM->ij",  # more than two variables
    "IJKL,IJLK->ji",
]


def sum_of(text, names="ABC"):
    """The sum of operands as a statement: `IJ,IJK->ij` is `y[i,j] = A[i,j] + B[i,j,k]`."""
    terms, kept = text.lower().split("->")
    read = [f"{name}[{','.join(term)}]" for name, term in zip(names, terms.split(","), strict=False)]
    return f"y[{','.join(kept)}] = {' + '.join(read)}"


@pytest.mark.parametrize("text", SUMS)
@pytest.mark.parametrize("format", ["csf", "coo"])
def test_sums_with_a_sparse_result(text, format):
    dense, sparse = operands(text, format, share=0.02)
    named = dict(zip("ABC", (x.astype(np.float32) for x in sparse), strict=False))
    terms, kept = text.lower().split("->")
    expected = sum(np.einsum(f"{term}->{kept}", x) for term, x in zip(terms.split(","), dense, strict=True))
    found = jsparse.evaluate(sum_of(text), **named)
    assert isinstance(found, jsparse.SparseTensor)
    np.testing.assert_array_equal(found.todense(), expected)
    assert found.nse == np.count_nonzero(expected)
    np.testing.assert_array_equal(
        whole(jax.jit(lambda given: jsparse.evaluate(sum_of(text), **given))(named)), expected
    )

    def squares(given):
        return (jsparse.evaluate(sum_of(text), **given).values ** 2).sum()

    for (name, x), term in zip(named.items(), terms.split(","), strict=False):
        of_entry = np.einsum(f"{kept},{term}->{term}", 2 * expected, np.ones([SIZES[v] for v in term]))
        np.testing.assert_array_equal(jax.grad(squares)(named)[name].values, of_entry[tuple(x.pattern.to_coords())])
