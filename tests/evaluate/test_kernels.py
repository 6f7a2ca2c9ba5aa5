"""The kernels of TACO's documentation, with all combinations of formats, or a sample if there are too many."""

import itertools

import numpy as np
import pytest
from einsum.structure import all_formats, check_structure, dense_array, integers, stored_in, structural_nonzeros
from programs.amount import sample

import jsparse
from jsparse import SparseTensor

SIZES = {"i": 5, "j": 4, "k": 3, "l": 4, "r": 2, "n": 4}
E = np.einsum
SAMPLE = 10  # the largest number of combinations of formats for a kernel

# name: (statement, the same by numpy, the indices of each tensor, the tensors that are dense arrays)
KERNELS = {
    "SpMV": ("y[i] = A[i,j] * x[j]", lambda A, x: A @ x, {"A": "ij", "x": "j"}, "x"),
    "SpMSpV": ("y[i] = A[i,j] * x[j]", lambda A, x: A @ x, {"A": "ij", "x": "j"}, ""),
    "transposed SpMV": ("y[j] = a * A[i,j] * x[i] + b * z[j]", lambda a, A, x, b, z: a * x @ A + b * z,
                        {"a": "", "A": "ij", "x": "i", "b": "", "z": "j"}, "axbz"),
    "SpMM": ("C[i,r] = A[i,j] * B[j,r]", lambda A, B: A @ B, {"A": "ij", "B": "jr"}, "B"),
    "SpGEMM": ("C[i,k] = A[i,j] * B[j,k]", lambda A, B: A @ B, {"A": "ij", "B": "jk"}, ""),
    "SDDMM": ("C[i,j] = B[i,j] * X[i,r] * Y[r,j]", lambda B, X, Y: B * (X @ Y),
              {"B": "ij", "X": "ir", "Y": "rj"}, "XY"),
    "sparse SDDMM": ("C[i,j] = B[i,j] * X[i,r] * Y[r,j]", lambda B, X, Y: B * (X @ Y),
                     {"B": "ij", "X": "ir", "Y": "rj"}, ""),
    "plus3": ("D[i,j] = A[i,j] + B[i,j] + C[i,j]", lambda A, B, C: A + B + C, {"A": "ij", "B": "ij", "C": "ij"}, ""),
    "MATTRANSMUL": ("y[i] = 2 * A[j,i] * x[j] + 3 * z[i]", lambda A, x, z: 2 * x @ A + 3 * z,
                    {"A": "ji", "x": "j", "z": "i"}, "xz"),
    "residual": ("y[i] = b[i] - A[i,j] * x[j]", lambda b, A, x: b - A @ x, {"b": "i", "A": "ij", "x": "j"}, "bx"),
    "TTV": ("A[i,j] = B[i,j,k] * c[k]", lambda B, c: B @ c, {"B": "ijk", "c": "k"}, "c"),
    "TTV of a sparse vector": ("A[i,j] = B[i,j,k] * c[k]", lambda B, c: B @ c, {"B": "ijk", "c": "k"}, ""),
    "TTM": ("A[i,j,l] = B[i,j,k] * C[k,l]", lambda B, C: E("ijk,kl->ijl", B, C), {"B": "ijk", "C": "kl"}, "C"),
    "TTM of a sparse matrix": ("A[i,j,l] = B[i,j,k] * C[k,l]", lambda B, C: E("ijk,kl->ijl", B, C),
                               {"B": "ijk", "C": "kl"}, ""),
    "MTTKRP": ("A[i,r] = B[i,k,l] * C[k,r] * D[l,r]", lambda B, C, D: E("ikl,kr,lr->ir", B, C, D),
               {"B": "ikl", "C": "kr", "D": "lr"}, "CD"),
    "sparse MTTKRP": ("A[i,r] = B[i,k,l] * C[k,r] * D[l,r]", lambda B, C, D: E("ikl,kr,lr->ir", B, C, D),
                      {"B": "ikl", "C": "kr", "D": "lr"}, ""),
    "inner product": ("s = A[i,j,k] * B[i,j,k]", lambda A, B: (A * B).sum(), {"A": "ijk", "B": "ijk"}, ""),
    "sum of tensors": ("C[i,j,k] = A[i,j,k] + B[i,j,k]", lambda A, B: A + B, {"A": "ijk", "B": "ijk"}, ""),
}  # fmt: skip


def combinations(sparse, rng):
    """Formats for the sparse tensors: all combinations, or a sample."""
    options = [all_formats(len(indices)) for indices in sparse]
    count = int(np.prod([len(of_one) for of_one in options]))
    if count <= SAMPLE:
        return list(itertools.product(*options))
    return [tuple(of_one[rng.integers(len(of_one))] for of_one in options) for _ in range(SAMPLE)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sample(list(KERNELS), 0, 3))
def test_kernels(name):
    statement, function, tensors, dense = KERNELS[name]
    rng = np.random.default_rng(len(name))
    arrays = {n: integers(rng, [SIZES[v] for v in indices], 1 if n in dense else 0.4) for n, indices in tensors.items()}
    sparse = [n for n in tensors if n not in dense]
    results = set()
    for formats in combinations([tensors[n] for n in sparse], rng):
        given = {**arrays, **{n: stored_in(arrays[n], f) for n, f in zip(sparse, formats, strict=True)}}
        operands = list(given.values())
        found = jsparse.evaluate(statement, **given)
        np.testing.assert_array_equal(dense_array(found), function(*map(dense_array, operands)), f"{given}")
        results.add(isinstance(found, SparseTensor))
        if isinstance(found, SparseTensor):
            check_structure(found, structural_nonzeros(function, operands))
    assert len(results) == 1  # whatever the formats
