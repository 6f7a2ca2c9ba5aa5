"""Einsums with one sparse operand, each beside a reference on dense arrays.

Both are functions of (values, *dense). They return an array, which is the values of a sparse result, so any
transformation of one can be compared with the same transformation of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import jsparse
from jsparse import SparseTensor

SIZES = {"i": 5, "j": 7, "k": 4, "l": 3, "r": 6}


@dataclass(frozen=True)
class Case:
    """An einsum with the sparse operand A first. If `sampled`, A is no operand, but its pattern is the result's."""

    subscripts: str
    format: str
    sampled: bool = False

    def __str__(self) -> str:
        return f"{self.subscripts} {self.format}{' sampled' if self.sampled else ''}"

    @property
    def terms(self) -> list[str]:
        """The terms of A and of the dense operands, in this order."""
        left, right = self.subscripts.split("->")
        return [right, *left.split(",")] if self.sampled else left.split(",")

    def tensor(self, dtype: str = "float32") -> SparseTensor:
        """A has small integers, an empty row (or slice), and a stored zero."""
        rng = np.random.default_rng(len(self.subscripts))
        shape = tuple(SIZES[v] for v in self.terms[0])
        x = rng.integers(1, 4, shape) * rng.choice([-1, 1], shape) * (rng.random(shape) < 0.4)
        x[2] = 0
        A = jsparse.asarray(x.astype(dtype), self.format)
        values = np.array(A.values)
        values[1] = 0
        return A.with_values(jax.device_put(values))

    def arrays(self, dtype: str = "float32") -> list[jnp.ndarray]:
        """The dense operands. They are small integers, so sums are exact."""
        rng = np.random.default_rng(7)
        return [jax.device_put(rng.integers(-3, 4, [SIZES[v] for v in t]).astype(dtype)) for t in self.terms[1:]]

    def operands(self, dtype: str = "float32") -> list[jnp.ndarray]:
        """(values, *dense)."""
        return [self.tensor(dtype).values, *self.arrays(dtype)]

    @property
    def sparse_result(self) -> bool:
        """Whether the result is on the pattern of A, or on it with further dense levels."""
        left, right = self.subscripts.split("->")
        return self.sampled or set(left.split(",")[0]) <= set(right)

    def function(self):
        """`f(values, *dense)` by jsparse."""
        A = self.tensor()

        def f(values, *dense):
            tensor = A.with_values(values)
            if self.sampled:
                return jsparse.einsum(self.subscripts, *dense, out_format=tensor).values
            out = jsparse.einsum(self.subscripts, tensor, *dense)
            assert isinstance(out, SparseTensor) == self.sparse_result
            return out.values if self.sparse_result else out

        return f

    @cache  # noqa: B019 - there are few cases, and each function is compiled once
    def reference(self):
        """`f(values, *dense)` by `jnp.einsum` on the dense array of A, as one program."""
        A = self.tensor()
        at = tuple(A.pattern.to_coords())
        where = at
        if not self.sampled and self.sparse_result:
            zeros = [np.zeros([SIZES[v] for v in term], np.float32) for term in self.terms[1:]]
            where = tuple(jsparse.einsum(self.subscripts, A, *zeros).pattern.to_coords())

        @jax.jit
        def f(values, *dense):
            whole = jnp.zeros(A.shape, values.dtype).at[at].set(values, unique_indices=True)
            out = jnp.einsum(self.subscripts, *([] if self.sampled else [whole]), *dense)
            return out[where] if self.sparse_result else out

        return f


MATRIX_FORMATS = ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : compressed, j : dense)"]

CASES = [
    *[Case("ij,j->i", format) for format in MATRIX_FORMATS],
    *[Case("ij,jk->ik", format) for format in MATRIX_FORMATS],
    *[Case("ij,i->j", format) for format in ("csr", "csc", "coo")],
    *[Case("ij,ik->kj", format) for format in ("csr", "dcsr")],
    *[Case("ij,i->ij", format) for format in ("csr", "csc", "coo", MATRIX_FORMATS[-1])],
    *[Case("ij->", format) for format in ("csr", "coo")],
    *[Case("ik,jk->ij", format, sampled=True) for format in MATRIX_FORMATS],
    *[Case("ijk,kr->ijr", format) for format in ("csf", "coo")],
    Case("ijl,jr,lr->ir", "csf"),
    Case("ij,ik,jk->ij", "csr"),
    Case("ij,jk,kl->il", "csr"),
    Case("ij,ik->ijk", "csr"),
]

FEW = [
    Case("ij,jk->ik", "csr"),
    Case("ij,i->j", "csr"),
    Case("ij,i->ij", "coo"),
    Case("ij->", "csc"),
    Case("ik,jk->ij", "dcsr", sampled=True),
    Case("ijl,jr,lr->ir", "csf"),
    Case("ij,jk->ik", MATRIX_FORMATS[-1]),
]
