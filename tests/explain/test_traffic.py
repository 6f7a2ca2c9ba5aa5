"""What explanations count: numbers written by hand, and dense arrays of zeros and ones."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.formats import Pattern
from jsparse.ops.explanation import points
from jsparse.ops.explanation.points import count_points, most_points, relation_of
from jsparse.ops.explanation.traffic import Traffic, as_bytes, memory_bandwidth

RNG = np.random.default_rng(0)

# 4 x 5, six entries; column 2 and row 3 are empty.
DENSE = np.array([[1, 2, 0, 0, 0], [0, 0, 0, 3, 0], [4, 0, 0, 0, 5], [0, 0, 0, 0, 6]], np.float32)


def traffic(text, *operands, **options):
    return jsparse.explain(text, *operands, **options).kernels[-1].traffic


def ones(*shape):
    return np.ones(shape, np.float32)


def random(*shape, density=0.3, seed=0):
    return np.where(np.random.default_rng(seed).random(shape) < density, 1, 0).astype(np.float32)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_matrix_times_matrix(format):
    (kernel,) = jsparse.explain("ij,jk->ik", jsparse.asarray(DENSE, format), ones(5, 8)).kernels
    index, moved = {"csr": 4 * (5 + 6), "csc": 4 * (6 + 6), "coo": 4 * (2 + 6 + 6)}[format], 0
    if kernel.plan.given.walks != kernel.plan.problem.walks:  # values are read, written, and their numbers are read
        index, moved = 4 * (5 + 6), 3 * 4 * 6
    four_rows = 4 * 8 * 4  # of the five rows of the dense matrix: no entry selects row 2
    assert kernel.traffic == Traffic(6 * 8, (("A", 6 * 4), ("B", four_rows)), index, 4 * 8 * 4, moved)
    assert kernel.traffic.nbytes == 24 + 128 + index + 128 + moved


def test_a_product_of_three():
    A = jsparse.asarray(random(4, 5, 6), "csf")
    i, j, k = np.nonzero(random(4, 5, 6))
    found = traffic("ijk,jr,kr->ir", A, ones(5, 3), ones(6, 3).astype(np.float16))
    assert found.operations == 2 * 3 * len(i)
    assert dict(found.operands) == {"A": 4 * len(i), "B": 12 * len(set(j)), "C": 6 * len(set(k))}
    assert found.results == 4 * 4 * 3


def test_a_sampled_product_writes_its_pattern():
    A = jsparse.asarray(DENSE)
    found = traffic("ik,jk->ij", ones(4, 7), ones(5, 7), out_format=A)
    assert found == Traffic(6 * 7, (("A", 4 * 7 * 4), ("B", 4 * 7 * 4)), 4 * (5 + 6), 6 * 4)


def test_a_sum_reads_each_operand():
    A, B = jsparse.asarray(DENSE), jsparse.asarray(random(4, 5))
    found = jsparse.explain("C[i,j] = A[i,j] + 2 * B[i,j]", A=A, B=B).kernels[-1].traffic
    either = np.count_nonzero((DENSE != 0) | (random(4, 5) != 0))
    assert found.operations == 6 + B.nse
    assert sorted(size for _, size in found.operands) == sorted([24, 4 * B.nse])
    assert (found.index, found.results) == (4 * (5 + 6 + 5 + B.nse), 4 * either)
    assert not found.meets


def test_a_sparse_product_counts_the_entries_that_meet():
    left, right = random(30, 40), random(40, 20, seed=1)
    found = traffic("ij,jk->ik", jsparse.asarray(left), jsparse.asarray(right))
    assert found.operations == (left @ right).sum()
    assert found.results == 4 * np.count_nonzero(left @ right)
    assert found.meets
    assert found.most is None
    assert "if all entries are read" in found.limit(1e9)


def test_a_diagonal():
    square = random(20, 20)
    found = traffic("ii,ij->j", jsparse.asarray(square), ones(20, 3))
    assert found.operations == 3 * np.count_nonzero(np.diag(square))


def test_permuted_values_and_transposed_arrays_are_counted():
    A = jsparse.asarray(random(60, 70), "csr")
    kernels = [
        jsparse.explain(text, A, *operands).kernels[0]
        for text, operands in {"ij,i->j": [ones(60)], "ij,kj->ki": [ones(9, 70)], "ij,kij->": [ones(4, 60, 70)]}.items()
    ]
    for kernel in kernels:
        given, stated = kernel.plan.given, kernel.plan.problem
        values = 2 * 4 * A.nse + 4 * A.nse if given.walks != stated.walks else 0
        sizes = dict(stated.sizes)
        dense = 0
        for tensor in given.tensors:
            if tensor.positions is None and stated.type_of[tensor.name].axes != tensor.axes:
                access = next(a for a in stated.accesses if a.tensor == tensor.name)
                dense += 2 * 4 * np.prod([sizes[v] for v in access.variables()])
        assert kernel.traffic.moved == values + dense
    assert any(kernel.traffic.moved for kernel in kernels)


@pytest.mark.parametrize(
    "names, counts, most",
    [
        (["ij", "jk"], [10, 20], 200),  # all in one column and in one row
        (["ij", "jk"], [1000, 2000], 1000 * 100),  # one of them with a whole dimension of the other
        (["ij", "jk", "ki"], [100, 100, 100], 1000),  # triangles: the root of the product
        (["ij", "ij"], [30, 20], 20),
        (["ij", "jk"], [0, 20], 0),
    ],
)
def test_sizes_bound_the_points(names, counts, most):
    found = most_points(list(zip(names, counts, strict=True)), dict.fromkeys("ijk", 100))
    assert found == pytest.approx(most, rel=1e-6)


def test_products_of_dynamic_patterns_are_bounded():
    star = np.eye(50)
    star[0] = star[:, 0] = 1  # far more products than evenly spread entries have
    A = jsparse.asarray(star).dynamic(160)
    found, products = traffic("ij,jk->ik", A, A, nse=2500), star @ star
    assert found.operations < products.sum() <= found.most == 160 * 50
    assert "up to 8e+03" in str(found)


def test_dynamic_patterns_are_counted_by_their_capacity():
    A = jsparse.asarray(DENSE).dynamic(10)
    found = traffic("ij,jk->ik", A, ones(5, 8))
    assert found == Traffic(10 * 8, (("A", 40), ("B", 5 * 8 * 4)), 4 * (5 + 10), 4 * 8 * 4, by_capacity=True)
    assert "capacity" in str(found)
    assert "capacity" not in str(traffic("ij,jk->ik", jsparse.asarray(DENSE), ones(5, 8)))


def test_dynamic_patterns_that_meet_are_estimated():
    A, B = (jsparse.asarray(random(30, 30, seed=seed)).dynamic(300) for seed in (0, 1))
    kernels = jsparse.explain("ij,jk->ik", A, B, nse=900).kernels
    assert [kernel.traffic.operations for kernel in kernels] == [300 * 300 // 30] * len(kernels)
    assert "about 3,000 multiply-adds" in str(kernels[-1].traffic)
    pattern = 0 if len(kernels) > 1 else 4 * (31 + 900)  # found by an earlier kernel, or together with the values
    assert kernels[-1].traffic.results == 4 * 900 + pattern


def test_a_batch_of_dynamic_patterns():
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[jsparse.asarray(DENSE).dynamic(10)] * 3)
    (kernel,) = jsparse.explain(jax.vmap(lambda A: A @ ones(5, 8)))(stack).kernels
    assert kernel.traffic.operations == 3 * 10 * 8
    assert kernel.traffic.index == 3 * 4 * (5 + 10)
    assert dict(kernel.traffic.operands)["A"] == 3 * 40


def test_an_assembly_counts_combinations():
    left, right = random(6, 7), random(7, 8, seed=1)
    first = jsparse.explain("ij,jk->ik", jsparse.asarray(left), jsparse.asarray(right), out_format="coo").kernels[0]
    assert first.traffic.operations == (left @ right).sum()


EXPRESSIONS = ["ij", "ij,jk", "ij,jk,ik", "ij,kl", "ij,ij", "ij,jk,kl", "ij,jk,kl,li", "ii,ij", "i,ij,j", "ijk,jk,kl"]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_points_are_those_of_a_dense_einsum(text):
    terms = text.split(",")
    sizes = dict(zip("ijkl", (5, 6, 7, 4), strict=True))
    for seed in range(3):
        arrays = [random(*(sizes[v] for v in term), density=0.4, seed=10 * seed + n) for n, term in enumerate(terms)]
        patterns = [Pattern.from_coordinates(np.argwhere(x).T, x.shape, "coo")[0] for x in arrays]
        found = count_points(relation_of(p, term) for p, term in zip(patterns, terms, strict=True))
        assert found == round(np.einsum(f"{text}->", *map(np.float64, arrays)))


def test_too_many_points_are_estimated(monkeypatch):
    arrays = [random(20, 20, density=0.5, seed=seed) for seed in range(3)]
    operands = [jsparse.asarray(x) for x in arrays]
    relations = [relation_of(x.pattern, names) for x, names in zip(operands, ("ij", "jk", "ik"), strict=True)]
    assert count_points(relations) == round(np.einsum("ij,jk,ik->", *arrays))
    monkeypatch.setattr(points, "LARGEST", 100)
    assert count_points(relations) is None


def test_tuples_are_the_distinct_ones():
    x = random(9, 8, 7)
    relation = relation_of(jsparse.asarray(x, "coo").pattern, "ijk")
    for count in (1, 2, 3):
        for kept in itertools.combinations(range(3), count):
            summed = tuple(dim for dim in range(3) if dim not in kept)
            assert relation.tuples(["ijk"[dim] for dim in kept]) == np.count_nonzero(x.any(summed))


def test_the_text():
    found = Traffic(1_234_567, (("A", 9_200_000), ("B", 1_100_000)), 2_000_000, 6_700)
    assert str(found) == (
        "1,234,567 multiply-adds\nmoves 12.3 MB: A 9.2 MB, B 1.1 MB, index arrays 2 MB, results 6.7 kB"
    )
    reached = "at the 17 GB/s that this machine's memory reaches, that takes at least 0.724 ms"
    assert found.limit(17e9) == f"{reached} (less for arrays that a cache holds)"
    assert [as_bytes(n) for n in (0, 999, 1000, 999_949, 12_340_000, 999_960_000, 5 * 10**12)] == [
        "0 bytes", "999 bytes", "1 kB", "1 MB", "12.3 MB", "1 GB", "5 TB"
    ]  # fmt: skip


def test_the_bandwidth_is_measured_once():
    first = memory_bandwidth()
    assert 1e8 < first < 1e13
    assert memory_bandwidth() == first


def test_an_operand_that_positions_of_a_transposed_pattern_read():
    """Entries are walked by the kernel that they choose, and each reads its own element of v."""
    rng, count = np.random.default_rng(0), 3_000
    tables = {name: rng.integers(0, size, count).astype(np.int32) for name, size in (("o", 400), ("i", 400), ("k", 5))}
    arrays = {
        "v": np.ones(count, np.float32),
        "x": np.ones((400, 16), np.float32),
        "w": np.ones((5, 16, 16), np.float32),
    }
    schedule = jsparse.Schedule.parse("store P2 'k[p]' p")
    text = "out[o[p],m] += v[p] * x[i[p],c] * w[k[p],c,m]"
    found = jsparse.explain(text, shape=(400, 16), schedule=schedule, **tables, **arrays).kernels[-1]
    assert "'k[p]' p" in str(found.plan.schedule)
    assert dict(found.traffic.operands)["A"] == 4 * count
