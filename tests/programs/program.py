"""A program: one einsum with its operands as a value, which prints as Python source that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from interpreters.scalars import NUMPY, as_stored
from stored import closure

import jsparse
from jsparse import Format
from jsparse.compiler.semiring import Semiring, semiring_named

__all__ = ["DenseOperand", "Program", "SparseOperand", "by_semiring", "promoted", "reached_by", "representable"]


def exact_dtype(dtype: str) -> type:
    """The dtype in which numpy computes exactly with integers of a dtype."""
    return np.complex128 if dtype.startswith("complex") else np.int64


def representable(integers: np.ndarray, dtype: str) -> np.ndarray:
    """Integers that a dtype can represent: magnitudes for unsigned ones; for bool, 1 where an integer is not 0."""
    if dtype == "bool":
        return (integers != 0).astype(np.int64)
    return abs(integers) if dtype.startswith("uint") else integers


def promoted(
    operands: Sequence[SparseOperand | DenseOperand], is_x64: bool, numbers: Sequence[complex] = ()
) -> np.dtype:
    """The dtype to which operands and numbers promote. `is_x64` says whether JAX keeps 64-bit dtypes."""
    with jax.enable_x64(is_x64):
        return np.dtype(jnp.result_type(*(jnp.dtype(operand.dtype) for operand in operands), *numbers))


def is_wide(dtype: str) -> bool:
    """Whether JAX must keep 64-bit dtypes."""
    return dtype in ("float64", "int64", "uint64", "complex128")


@dataclass(frozen=True)
class SparseOperand:
    """The arguments of `SparseTensor.from_coords`. `coords` has a row for each dimension."""

    coords: tuple[tuple[int, ...], ...]
    values: tuple[complex, ...]
    shape: tuple[int, ...]
    format: str
    dtype: str

    @cached_property
    def array(self) -> np.ndarray:
        """The dense array of the same entries."""
        dense = np.zeros(self.shape, exact_dtype(self.dtype))
        if not self.shape:
            return np.asarray(dense + sum(self.values))
        np.add.at(dense, tuple(np.array(row, int) for row in self.coords), np.array(self.values, dense.dtype))
        return dense

    @cached_property
    def stored(self) -> np.ndarray:
        """A mask of the stored elements, which include the gaps of dense and range levels."""
        mask = np.zeros(self.shape, bool)
        mask[tuple(np.array(row, int) for row in self.coords)] = True
        return closure(mask, Format.of(self.format, len(self.shape)))

    def tensor(self) -> jsparse.SparseTensor:
        """The operand."""
        coords = np.array(self.coords, np.int64).reshape(len(self.shape), len(self.values))
        return jsparse.SparseTensor.from_coords(coords, np.array(self.values, self.dtype), self.shape, self.format)

    def taken(self, tensor: jsparse.SparseTensor) -> object:
        """What the program takes in place of the tensor: the tensor itself, unless it takes its pattern alone."""
        return tensor

    def source(self) -> str:
        """The Python expression that makes the operand."""
        coords = f"np.array({[list(row) for row in self.coords]}, int)"
        values = f"np.array({list(self.values)}, '{self.dtype}')"
        return f"jsparse.SparseTensor.from_coords({coords}, {values}, {self.shape}, '{self.format}')"


@dataclass(frozen=True)
class DenseOperand:
    """An array; `values` are its elements in C order."""

    values: tuple[complex, ...]
    shape: tuple[int, ...]
    dtype: str

    @cached_property
    def array(self) -> np.ndarray:
        """The elements as exact integers."""
        return np.array(self.values, exact_dtype(self.dtype)).reshape(self.shape)

    def tensor(self) -> np.ndarray:
        """The operand."""
        return self.array.astype(self.dtype)

    def source(self) -> str:
        """The Python expression that makes the operand."""
        return f"np.array({list(self.values)}, '{self.dtype}').reshape({self.shape})"


@dataclass(frozen=True)
class Program:
    """`jsparse.einsum(subscripts, *operands, out_format=out_format)`.

    Attributes:
        seed: the seed of its random choices.
        out_format: a tensor whose pattern the result has, "dense", a format's notation, or None.
        has_new_pattern: whether the result is sparse, but not on a given pattern.
        semiring: the semiring's name or its two operations.
    """

    seed: tuple[int, ...]
    subscripts: str
    operands: tuple[SparseOperand | DenseOperand, ...]
    out_format: SparseOperand | str | None
    has_new_pattern: bool = False
    semiring: str | Semiring = "plus_times"

    @property
    def ring(self) -> Semiring:
        """The semiring."""
        return semiring_named(self.semiring, "")

    @property
    def needs_x64(self) -> bool:
        """Whether JAX must keep 64-bit dtypes."""
        named = [*self.operands, *([self.out_format] if isinstance(self.out_format, SparseOperand) else [])]
        return any(is_wide(operand.dtype) for operand in named)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the result."""
        return promoted(self.operands, self.needs_x64)

    @property
    def terms(self) -> tuple[str, ...]:
        """The indices of each operand."""
        return tuple(self.subscripts.partition("->")[0].split(","))

    @cached_property
    def kept(self) -> str:
        """The indices of the result."""
        before, arrow, after = self.subscripts.partition("->")
        if arrow:
            return after
        letters = before.replace(",", "")
        return "".join(sorted(v for v in set(letters) if letters.count(v) == 1))

    @cached_property
    def expected(self) -> np.ndarray:
        """The result of numpy's einsum in exact integers, converted to the result's dtype. For another semiring, the
        reduction over stored entries."""
        if not self.ring.is_linear:
            stored = [x.stored if isinstance(x, SparseOperand) else np.array(True) for x in self.operands]
            arrays = [x.array for x in self.operands]
            return as_stored(by_semiring(self.ring, self.terms, self.kept, arrays, stored, self.dtype), self.dtype)
        exact = np.asarray(np.einsum(self.subscripts, *(operand.array for operand in self.operands)))
        return as_stored(exact, self.dtype)

    @cached_property
    def reached(self) -> np.ndarray:
        """A mask of the result's elements that have a product of entries. Indices of dense operands alone do not
        restrict it."""
        sizes = {
            v: n for term, x in zip(self.terms, self.operands, strict=True) for v, n in zip(term, x.shape, strict=True)
        }
        named = zip(self.terms, self.operands, strict=True)
        masks = [(term, x.stored) for term, x in named if isinstance(x, SparseOperand)]
        return reached_by(masks, self.kept, sizes)

    @property
    def is_sparse(self) -> bool:
        """Whether the result is sparse by default. It is if a sparse operand has no summed index, or if the result has
        two indices or more, all of them in sparse operands."""
        named = zip(self.terms, self.operands, strict=True)
        kept, stored = set(self.kept), [set(term) for term, x in named if isinstance(x, SparseOperand)]
        carried = len(kept) >= 2 and kept <= set().union(*stored)
        return carried or any(indices <= kept for indices in stored)

    def arguments(self, array=np.asarray) -> tuple[list[object], object]:
        """The operands and `out_format`; `array` makes the dense ones."""
        out = self.out_format.tensor() if isinstance(self.out_format, SparseOperand) else self.out_format
        made = [x.taken(x.tensor()) if isinstance(x, SparseOperand) else array(x.tensor()) for x in self.operands]
        return made, out

    def run(self) -> object:
        """The result of `jsparse.einsum`."""
        with jax.enable_x64(self.needs_x64):
            operands, out = self.arguments()
            return jsparse.einsum(self.subscripts, *operands, out_format=out, semiring=self.semiring)

    def __str__(self) -> str:
        out = self.out_format.source() if isinstance(self.out_format, SparseOperand) else repr(self.out_format)
        lines = ["import jax, jsparse, numpy as np", ""]
        lines += ["jax.config.update('jax_enable_x64', True)"] if self.needs_x64 else []
        lines += [f"{chr(65 + n)} = {operand.source()}" for n, operand in enumerate(self.operands)]
        names = ", ".join(chr(65 + n) for n in range(len(self.operands)))
        options = "out_format=out_format" + ("" if self.ring.is_linear else f", semiring={self.semiring!r}")
        lines += [f"out_format = {out}", f"got = jsparse.einsum('{self.subscripts}', {names}, {options})"]
        if not self.ring.is_linear:
            return "\n".join(["from jsparse.compiler.semiring import Semiring", *lines, "print(got)"])
        exact = "complex" if self.dtype.kind == "c" else "int"
        dense = ", ".join(
            f"np.asarray({chr(65 + n)}{'.todense()' * isinstance(operand, SparseOperand)}).astype({exact})"
            for n, operand in enumerate(self.operands)
        )
        lines.append(f"want = np.asarray(np.einsum('{self.subscripts}', {dense})).astype(got.dtype)")
        lines.append("if isinstance(got, jsparse.SparseTensor):")
        lines += (
            ["    coords, got = got.to_coords()", "    want = want[tuple(coords)]"] if not self.has_new_pattern else []
        )
        lines += ["    got = got.todense()"] if self.has_new_pattern else []
        lines.append("np.testing.assert_array_equal(got, want)")
        return "\n".join(lines)


def reached_by(
    masks: Sequence[tuple[Sequence[str], np.ndarray]], kept: Sequence[str], sizes: Mapping[str, int]
) -> np.ndarray:
    """A mask over the indices `kept` of the elements for which the product of the masks, each with its indices, is not
    empty. Indices that no mask has do not restrict it."""
    number = {v: n for n, v in enumerate(sizes)}
    named = [(mask.astype(np.int64), [number[v] for v in term]) for term, mask in masks]
    named += [(np.ones(sizes[v], np.int64), [number[v]]) for v in kept] or [(np.ones((), np.int64), [])]
    return np.asarray(np.einsum(*(x for pair in named for x in pair), [number[v] for v in kept])) > 0


def by_semiring(
    ring: Semiring,
    terms: Sequence[Sequence[str]],
    kept: Sequence[str],
    arrays: Sequence[np.ndarray],
    stored: Sequence[np.ndarray],
    dtype: np.dtype,
) -> np.ndarray:
    """The result of dense arrays by a semiring, reduced over all points at which all operands are stored."""
    space = [*kept, *dict.fromkeys(v for term in terms for v in term if v not in kept)]
    sizes = {v: n for term, x in zip(terms, arrays, strict=True) for v, n in zip(term, x.shape, strict=True)}
    grid = dict(zip(space, np.ix_(*(np.arange(sizes[v]) for v in space)), strict=True)) if space else {}
    shape = tuple(sizes[v] for v in space)
    product, counts = None, np.ones(shape, bool)
    for term, x, mask in zip(terms, arrays, stored, strict=True):
        at = tuple(grid[v] for v in term)
        product = x[at] if product is None else NUMPY[ring.multiply](product, x[at])
        counts = counts & (mask[at] if mask.ndim else mask)
    zero = ring.zero(dtype.name)
    if ring.is_selective:  # minima and maxima compare products that are rounded to the result's dtype
        product = as_stored(np.asarray(product), dtype)
    wide = np.uint64 if dtype == np.uint64 else np.int64 if dtype.kind in "iub" else np.float64
    product = np.broadcast_to(product, shape).astype(wide)
    axes = tuple(range(len(kept), len(space)))
    return np.asarray(NUMPY[ring.add].reduce(product, axes, initial=zero, where=counts))
