"""Canonical programs: a name, an einsum, its operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from programs.planned import planned_product

from jsparse import SparseTensor, explain
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops import LoopNest
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.schedule import Plan, build_loops
from jsparse.ops.explain import Explanation
from jsparse.primitives.execute import make_plan

__all__ = ["ASSEMBLED", "CASES", "Case", "dense", "planned", "sparse"]


def sparse(*shape: int, format: str = "csr", density: float = 0.2, seed: int = 0) -> SparseTensor:
    """A tensor whose entries are the same in every run."""
    rng = np.random.default_rng(seed)
    coords = np.argwhere(rng.random(shape) < density).T
    return SparseTensor.from_coords(coords, rng.integers(1, 5, coords.shape[1]).astype(np.float32), shape, format)


def dense(*shape: int) -> np.ndarray:
    """An array of small integers."""
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """An einsum."""

    name: str
    subscripts: str
    operands: tuple[object, ...]
    out_format: object = None

    @cached_property
    def plan(self) -> Plan:
        """How it runs."""
        return planned(self.subscripts, *self.operands, out_format=self.out_format)

    @cached_property
    def loops(self) -> LoopNest:
        """The loop nest of its plan."""
        return build_loops(self.plan.problem, self.plan.schedule)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of its plan."""
        return lower(self.loops)


def planned(subscripts: str, *operands: object, out_format: object = None) -> Plan:
    """The plan of an einsum."""
    work, factors = planned_product(subscripts, operands, out_format)
    names = tuple(np.dtype(x.dtype).name for x in factors)
    return make_plan(work.spec, (names[0], *names))[0]


BLOCKED = "(i, j, k) -> (i : dense, j : compressed, k : dense)"
ALL_DENSE_ABOVE = "(i, j, k) -> (i : dense, j : dense, k : compressed)"
CHAIN = "(i, j, k) -> (i : compressed, j : compressed(nonunique), k : singleton)"

A, B = sparse(40, 30), sparse(40, 30, seed=0).with_values(np.ones(sparse(40, 30).nse, np.float32))
T = sparse(12, 10, 8, format="csf")
LONG = sparse(40, 300, density=0.5)

CASES = [
    Case("spmv-csr", "ij,j->i", (A, dense(30))),
    Case("spmv-csc", "ij,j->i", (sparse(40, 30, format="csc"), dense(30))),
    Case("spmv-coo", "ij,j->i", (sparse(40, 30, format="coo"), dense(30))),
    Case("spmv-dcsr", "ij,j->i", (sparse(40, 30, format="dcsr"), dense(30))),
    Case("spmv-transposed", "ij,i->j", (A, dense(40))),
    Case("spmm-csr", "ij,jk->ik", (A, dense(30, 16))),
    Case("spmm-csr-odd", "ij,jk->ik", (A, dense(30, 70))),
    Case("spmm-coo", "ij,jk->ik", (sparse(40, 30, format="coo"), dense(30, 16))),
    Case("spmm-transposed", "ij,ik->jk", (A, dense(40, 16))),
    Case("spmm-right", "ki,ij->kj", (dense(16, 40), A)),
    Case("spmm-batched", "ij,bjk->bik", (A, dense(3, 30, 16))),
    Case("spmm-column-major", "ij,kj->ik", (A, dense(16, 30))),
    Case("row-sums", "ij->i", (A,)),
    Case("column-sums", "ij->j", (A,)),
    Case("total", "ij->", (A,)),
    Case("quadratic-form", "i,ij,j->", (dense(40), A, dense(30))),
    Case("row-sums-times-dense", "ij,ik->ik", (A, dense(40, 16)), "dense"),
    Case("scaled-rows", "ij,i->ij", (A, dense(40))),
    Case("scaled", "ij,->ij", (A, dense())),
    Case("sampled", "ik,jk->ij", (dense(40, 16), dense(30, 16)), A),
    Case("sampled-coo", "ik,jk->ij", (dense(40, 16), dense(30, 16)), sparse(40, 30, format="coo")),
    Case("product-on-one-pattern", "ij,ij->ij", (A, B)),
    Case("inner-product-on-one-pattern", "ij,ij->", (A, B)),
    Case("trace", "ii->", (sparse(30, 30),)),
    Case("diagonal", "ii->i", (sparse(30, 30),), "dense"),
    Case("mttkrp", "ijk,jr,kr->ir", (T, dense(10, 16), dense(8, 16))),
    Case("ttm-blocks", "ijk,kl->ijl", (sparse(12, 10, 8, format=BLOCKED), dense(8, 16)), "dense"),
    Case("dense-above", "ijk,k->ij", (sparse(12, 10, 8, format=ALL_DENSE_ABOVE), dense(8)), "dense"),
    Case("chain", "ijk,k->ij", (sparse(12, 10, 8, format=CHAIN), dense(8)), "dense"),
    Case("spmv-long-rows", "ij,j->i", (LONG, dense(300))),
    Case("spmm-long-rows", "ij,jk->ik", (LONG, dense(300, 16))),
    Case("total-long-rows", "ij->", (LONG,)),
    Case("lanes-summed-over-rows", "ij,jk->k", (LONG, dense(300, 16))),
    Case("column-sums-dynamic", "ij->j", (sparse(100, 30).dynamic(),)),
    Case("to-dense", "ij->ij", (A,), "dense"),
]

C, S = sparse(40, 30, density=0.1, seed=2), sparse(30, 20, seed=3)
DCSR, DCSR2 = sparse(40, 30, format="dcsr"), sparse(40, 30, format="dcsr", density=0.1, seed=2)


def _huge(seed: int) -> SparseTensor:
    """Fifty entries in a matrix of 10^9 rows and columns."""
    coords = np.random.default_rng(seed).integers(0, 10**9, (2, 50))
    return SparseTensor.from_coords(coords, np.ones(50, np.float32), (10**9, 10**9), "dcsr")


ASSEMBLED: dict[str, Explanation] = {
    "product-csr": explain("ij,jk->ik", A, S),
    "product-csc": explain("ij,jk->ik", A.asformat("csc"), S.asformat("csc")),
    "product-to-coo": explain("ij,jk->ik", A, S, out_format="coo"),
    "product-with-transpose": explain("ij,kj->ik", A, A),
    "product-dynamic": explain("ij,jk->ik", A.dynamic(), S.dynamic(), nse=600),
    "product-of-huge-matrices": explain("ij,jk->ik", _huge(0), _huge(1)),
    "three-matrices": explain("ij,jk,lk->il", A, S, sparse(25, 20, density=0.9, seed=4)),
    "elementwise-product": explain("ij,ij->ij", A, C),
    "elementwise-product-dcsr": explain("ij,ij->ij", DCSR, DCSR2),
    "diagonal-sparse": explain("ii->i", sparse(30, 30)),
    "outer-product": explain("i,j->ij", sparse(40, format="coo"), sparse(30, format="coo")),
    "projection": explain("ijk,k->ij", T, sparse(8, density=0.5, format="coo")),
    "sum": explain("C[i,j] = A[i,j] + B[i,j]", A=A, B=C),
    "sum-dcsr": explain("C[i,j] = A[i,j] + B[i,j]", A=DCSR, B=DCSR2),
    "sum-csr-dcsr": explain("C[i,j] = A[i,j] + B[i,j]", A=A, B=DCSR2),
    "sum-of-three": explain("D[i,j] = A[i,j] + B[i,j] - 2 * C[i,j]", A=A, B=C, C=DCSR),
    "sum-of-products": explain("D[i,k] = A[i,j] * S[j,k] - F[i,k]", A=A, S=S, F=sparse(40, 20, seed=5)),
    "sum-times-mask": explain("D[i,j] = (A[i,j] + B[i,j]) * M[i,j]", A=A, B=C, M=DCSR),
    "broadcast-sum": explain("D[i,j] = A[i,j] + v[i]", A=A, v=sparse(40, format="coo")),
    "spmm-min-plus": explain("ij,jk->ik", A, dense(30, 70), semiring="min_plus"),
    "product-max-times": explain("ij,jk->ik", A, S, semiring="max_times"),
    "mttkrp-max-plus": explain(
        "ijk,jr,kr->ir", sparse(12, 10, 8, format="csf", density=0.8), dense(10, 16), dense(8, 16), semiring="max_plus"
    ),
    "mttkrp-factored": explain(
        "ijk,jr,kr->ir", sparse(12, 10, 8, format="csf", density=0.8), dense(10, 16), dense(8, 16)
    ),
}
