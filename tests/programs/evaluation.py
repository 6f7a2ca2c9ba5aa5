"""A sum of products as a value: one call of `evaluate` with its tensors. It prints as Python source that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters

import jax
import numpy as np
from interpreters.scalars import as_stored
from programs.program import DenseOperand, SparseOperand, is_wide, promoted, reached_by

import jsparse
from jsparse.notation import parse_statement
from jsparse.planning.planned import Planned, plan_statement

__all__ = ["Evaluation", "Leaf", "Product", "Sum", "result_source"]


@dataclass(frozen=True)
class Leaf:
    """`name[indices]`; a scalar is written without brackets. Indices are names, or leaves in an `Indirect`."""

    name: str
    indices: tuple[str | Leaf, ...]


@dataclass(frozen=True)
class Product:
    """A coefficient times factors."""

    coefficient: int
    factors: tuple[Leaf | Sum, ...]

    def expanded(self) -> Iterator[tuple[int, tuple[Leaf, ...]]]:
        """The terms of the expanded product, which have no parentheses."""
        found: list[tuple[int, tuple[Leaf, ...]]] = [(self.coefficient, ())]
        for factor in self.factors:
            choices = [(1, (factor,))] if isinstance(factor, Leaf) else list(factor.expanded())
            found = [(a * b, (*left, *right)) for a, left in found for b, right in choices]
        yield from found


@dataclass(frozen=True)
class Sum:
    """A sum of products."""

    terms: tuple[Product, ...]

    def expanded(self) -> Iterator[tuple[int, tuple[Leaf, ...]]]:
        """The terms of the expanded sum, which have no parentheses."""
        for term in self.terms:
            yield from term.expanded()


@dataclass(frozen=True)
class Evaluation:
    """`jsparse.evaluate(text, out_format=out_format, **tensors)`. The text is that of `target` = `expression`.

    After parentheses are expanded, each product is summed over the indices that the target lacks. A product without an
    index of the target is constant along it.
    """

    seed: tuple[int, ...]
    text: str
    target: Leaf
    expression: Sum
    tensors: tuple[tuple[str, SparseOperand | DenseOperand], ...]
    out_format: SparseOperand | str | None

    @property
    def needs_x64(self) -> bool:
        """Whether JAX must keep 64-bit dtypes."""
        operands = [operand for _, operand in self.tensors]
        operands += [self.out_format] if isinstance(self.out_format, SparseOperand) else []
        return any(is_wide(operand.dtype) for operand in operands)

    @cached_property
    def dtype(self) -> np.dtype:
        """The dtype of the result."""
        terms = parse_statement(self.text).terms
        numbers = [term.coefficient for term in terms if abs(term.coefficient) != 1 or not term.factors]
        return promoted([operand for _, operand in self.tensors], self.needs_x64, numbers)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each index."""
        shapes = {name: operand.shape for name, operand in self.tensors}
        leaves = [leaf for _, product in self.expression.expanded() for leaf in product]
        return {v: n for leaf in leaves for v, n in zip(leaf.indices, shapes[leaf.name], strict=True)}

    @cached_property
    def expected(self) -> np.ndarray:
        """The sum of numpy's einsums of all products, computed in exact integers, and converted to the result's
        dtype."""
        arrays = {name: operand.array for name, operand in self.tensors}
        total = np.zeros([self.sizes[v] for v in self.target.indices], complex if self.dtype.kind == "c" else np.int64)
        for coefficient, product in self.expression.expanded():
            text, ones = self._einsum(product)
            total = total + coefficient * np.einsum(text, *(arrays[leaf.name] for leaf in product), *map(np.ones, ones))
        return as_stored(np.rint(total) if self.dtype.kind == "c" else np.rint(total).astype(np.int64), self.dtype)

    @cached_property
    def reached(self) -> np.ndarray:
        """A mask of the result's elements that some product can make nonzero for some values of entries."""
        masks = {name: operand.stored for name, operand in self.tensors if isinstance(operand, SparseOperand)}
        found = np.zeros([self.sizes[v] for v in self.target.indices], bool)
        for _, product in self.expression.expanded():
            stored = [(leaf.indices, masks[leaf.name]) for leaf in product if leaf.name in masks]
            found = found | reached_by(stored, self.target.indices, self.sizes)
        return found

    @property
    def is_sparse(self) -> bool:
        """Whether the result is sparse by default. It is if each product has a sparse factor without summed indices, or
        if the target has two indices or more and each product has all of them in sparse factors."""
        kept, sparse = set(self.target.indices), {n for n, x in self.tensors if isinstance(x, SparseOperand)}
        for _, product in self.expression.expanded():
            stored = [set(leaf.indices) for leaf in product if leaf.name in sparse]
            carried = len(kept) >= 2 and kept <= set().union(*stored)
            if not carried and not any(indices <= kept for indices in stored):
                return False
        return True

    def _einsum(self, product: Sequence[Leaf]) -> tuple[str, list[int]]:
        """numpy's subscripts of a product, and the lengths of vectors of ones, one for each missing target index."""
        letter = dict(zip(self.sizes, ascii_letters, strict=False))
        missing = [v for v in self.target.indices if not any(v in leaf.indices for leaf in product)]
        terms = [leaf.indices for leaf in product] + [(v,) for v in missing]
        written = ["".join(letter[v] for v in term) for term in (*terms, self.target.indices)]
        return ",".join(written[:-1]) + "->" + written[-1], [self.sizes[v] for v in missing]

    def arguments(self, array=np.asarray) -> tuple[dict[str, object], object]:
        """The tensors by name and `out_format`; `array` makes the dense ones."""
        out = self.out_format.tensor() if isinstance(self.out_format, SparseOperand) else self.out_format
        made = {n: x.tensor() if isinstance(x, SparseOperand) else array(x.tensor()) for n, x in self.tensors}
        return made, out

    @property
    def summed(self) -> np.ndarray:
        """The sum of the terms. It is `expected`, unless the target has previous values."""
        return self.expected

    def planned(self, array) -> tuple[Planned, list[SparseOperand | DenseOperand | None]]:
        """The plan with its operands, and the random operand from which each was made."""
        tensors, out = self.arguments(array)
        drawn = dict(self.tensors)
        statement = parse_statement(self.text)
        return plan_statement(self.text, statement, tensors, out, None), [drawn[name] for name in self.names]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The tensors in the order in which the products name them."""
        factors = [factor for term in parse_statement(self.text).terms for factor in term.factors]
        return tuple(dict.fromkeys(factor.tensor for factor in factors))

    def run(self) -> object:
        """The result of `jsparse.evaluate`."""
        with jax.enable_x64(self.needs_x64):
            tensors, out = self.arguments()
            return jsparse.evaluate(self.text, out_format=out, **tensors)

    def __str__(self) -> str:
        out = self.out_format.source() if isinstance(self.out_format, SparseOperand) else repr(self.out_format)
        lines = ["import jax, jsparse, numpy as np", ""]
        lines += ["jax.config.update('jax_enable_x64', True)"] if self.needs_x64 else []
        lines.append("tensors = {}")
        lines += [f"tensors['{name}'] = {operand.source()}" for name, operand in self.tensors]
        lines.append(f"got = jsparse.evaluate('{self.text}', out_format={out}, **tensors)")
        lines.append(f"want = {self._numpy_source()}")
        return "\n".join([*lines, *result_source(self.out_format)])

    def _numpy_source(self) -> str:
        exact = "complex" if self.dtype.kind == "c" else "int"
        dense = {
            name: f"np.asarray(tensors['{name}']{'.todense()' * isinstance(operand, SparseOperand)}).astype({exact})"
            for name, operand in self.tensors
        }
        products = []
        for coefficient, product in self.expression.expanded():
            text, ones = self._einsum(product)
            arguments = [*(dense[leaf.name] for leaf in product), *(f"np.ones({size}, int)" for size in ones)]
            products.append(f"{coefficient} * np.einsum('{text}', {', '.join(arguments)})")
        return f"np.asarray({' + '.join(products)}).astype({exact}).astype(got.dtype)"


def result_source(out_format: SparseOperand | str | None) -> list[str]:
    """Source lines that compare `got` with `want`."""
    on_pattern = "coords, got = got.to_coords(); want = want[tuple(coords)]"
    dense = on_pattern if isinstance(out_format, SparseOperand) else "got = got.todense()"
    return ["if isinstance(got, jsparse.SparseTensor):", f"    {dense}", "np.testing.assert_array_equal(got, want)"]
