"""Random sums of products with indices that are read from tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from math import prod

import numpy as np
from programs.compositions import with_compositions
from programs.draw import SIZE_WEIGHTS, SIZES
from programs.evaluation import Leaf, Product, Sum
from programs.indirection import Indirect, nested, variables
from programs.program import DenseOperand
from programs.sums import SumDraw

__all__ = ["random_indirect"]

SPACE = 400  # the most points of all indices
WITH_TABLES = 40_000  # the most points with an axis for each access to a table: the reference visits all of them
EXACT = 2**24  # float32 represents all smaller sums exactly
DEPTH = 2  # the deepest nesting of accesses
READ = 0.35  # the share of a factor's indices that are read from tables
DTYPES = ("int32", "int64", "int16", "uint8", "uint32")
DTYPE_WEIGHTS = (0.65, 0.15, 0.05, 0.1, 0.05)
KINDS = ("inside", "padded", "sorted", "distinct")
KIND_WEIGHTS = (0.3, 0.3, 0.15, 0.25)


def random_indirect(*seed: int) -> Indirect:
    """The statement of a seed, which is the same in every process."""
    drawn = (_IndirectDraw((*seed, 11, attempt)).statement() for attempt in count())
    return with_compositions(next(x for x in drawn if x.space <= WITH_TABLES and x.bound < EXACT))


class _IndirectDraw(SumDraw):
    def __init__(self, seed: tuple[int, ...]) -> None:
        super().__init__(seed)
        self.tables: dict[str, DenseOperand] = {}
        self.leads: dict[str, int] = {}

    def statement(self) -> Indirect:
        """A statement with one to three terms and at least one table."""
        for _ in range(int(self.rng.integers(1, 5))):
            self.indices.append(self.name(self.indices, shortest=0.7))
        self.draw_sizes(self.indices, [], SPACE)
        terms = self.choice((1, 2, 3), (0.5, 0.3, 0.2))
        expression = Sum(tuple(self.product(3, 0.2) for _ in range(terms)))
        target, shape = self.target(expression)
        found = Indirect(
            self.seed,
            text="",
            target=target,
            expression=expression,
            tensors=tuple(self.tensors.items()),
            out_format=self.sparse(shape) if shape and self.chance(0.2) else self.assembled(len(shape)),
            operator="+=",
            tables=tuple(self.tables.items()),
            target_shape=shape,
            gives_shape=True,
            before=None,
        )
        found = self.assigned(found)
        text = f"{self.written(target)}{self.spaced(found.operator)}{self.written(expression)}"
        used = {inner.name for leaf in (target, *_leaves(expression)) for inner in _inside(leaf)}
        found = replace(found, text=text, tables=tuple((name, x) for name, x in self.tables.items() if name in used))
        if found.sum_dtype != np.bool_ or not any(coefficient < 0 for coefficient, _ in expression.expanded()):
            return found
        return replace(found, tensors=tuple((name, replace(x, dtype="int8")) for name, x in found.tensors))

    def assigned(self, found: Indirect) -> Indirect:
        """The statement with a random operator, and perhaps with previous values of the target."""
        leads = bool(nested(found.target))
        once = found.written.max(initial=0) == 1 if leads else True
        if once and self.chance(0.6 if leads else 0.8):
            found = replace(found, operator="=")
        before = None
        if (leads or found.operator == "+=") and self.chance(0.2):
            before = self.dense(found.target_shape)
            out = "dense" if self.chance(0.5) or found.out_format is not None or found.is_sparse else None
            found = replace(found, out_format=out)
        return replace(found, before=before, gives_shape=self.chance(0.2) if before or not leads else True)

    def target(self, expression: Sum) -> tuple[Leaf, tuple[int, ...]]:
        """The target and its shape: some indices of the terms, and some that are read from tables."""
        carried = dict.fromkeys(v for leaf in _leaves(expression) for v in variables(leaf))
        share = self.choice((0.0, 0.5, 1.0), (0.3, 0.5, 0.2))
        indices: list[str | Leaf] = [v for v in carried if self.chance(share)][:3]
        reads = self.choice((0, 1, 2), (0.3, 0.5, 0.2))
        has_tables = any(nested(leaf) for leaf in _leaves(expression))
        for _ in range(reads if has_tables else max(reads, 1)):
            again = [index for index in indices if isinstance(index, Leaf)]
            indices.append(self.choice(again) if again and self.chance(0.15) else self.access())
        indices = [indices[n] for n in self.rng.permutation(len(indices))]
        name = self.name([*self.tensors, *self.tables, *self.indices])
        return Leaf(name, tuple(indices)), tuple(self.size(index) for index in indices)

    def product(self, most: int, nested: float) -> Product:
        """A product as in other sums, or only a number."""
        if self.chance(0.05):
            return Product(self.choice((1, -1, 2, -3)), ())
        return super().product(most, nested)

    def shape(self, term) -> tuple[int, ...]:
        """The shape of an operand with these indices. A number instead of an index is a size."""
        return tuple(v if isinstance(v, int) else self.sizes[v] for v in term)

    def leaf(self) -> Leaf:
        """A tensor with indices: a new tensor, or an existing one, perhaps with other indices."""
        if self.leaves and self.chance(0.15):
            return self.again(self.choice(self.leaves))
        if self.tables and self.chance(0.06):
            name = self.choice(list(self.tables))
            table = self.tables[name]
            if table.dtype == "int32" and np.abs(table.array).max(initial=0) < 10:
                self.tensors[name] = table
                return Leaf(name, tuple(self.fitting(size) or self.access() for size in table.shape))
        order = self.choice((0, 1, 2, 3), (0.08, 0.37, 0.4, 0.15))
        drawn = self.rng.permutation(self.indices)[:order].tolist()
        indices: list[str | Leaf] = [self.access() if self.chance(READ) else v for v in drawn]
        if len(indices) > 1 and self.chance(0.08):
            indices[0] = indices[-1]
        name = self.name([*self.tensors, *self.tables])
        shape = tuple(self.size(index) for index in indices)
        self.tensors[name] = self.sparse(shape) if shape and self.chance(0.5) else self.dense(shape)
        self.leaves.append(Leaf(name, tuple(indices)))
        return self.leaves[-1]

    def again(self, known: Leaf) -> Leaf:
        """The tensor of a leaf, with some indices replaced."""
        shape = self.tensors[known.name].shape
        others = [self.fitting(size) if self.chance(0.5) else self.access() for size in shape]
        named = zip(known.indices, others, strict=True)
        return Leaf(known.name, tuple(index if self.chance(0.5) else other or index for index, other in named))

    def fitting(self, size: int) -> str | None:
        """An index of this size, if there is one."""
        found = [v for v in self.indices if self.sizes[v] == size]
        return self.choice(found) if found else None

    def size(self, index: str | Leaf) -> int:
        """The size of a dimension with this index. If it is read, that is nearly always its table's target size."""
        if isinstance(index, str):
            return self.sizes[index]
        return self.choice(SIZES, SIZE_WEIGHTS) if self.chance(0.1) else self.leads[index.name]

    def access(self, depth: int = 1) -> Leaf:
        """A table with indices: an existing one or a new one."""
        if self.tables and self.chance(0.4):
            name = self.choice(list(self.tables))
            found = [self.fitting(size) for size in self.tables[name].shape]
            deeper = [depth < DEPTH and (v is None or self.chance(0.1)) for v in found]
            indices = [self.access(depth + 1) if n else v for v, n in zip(found, deeper, strict=True)]
            if all(indices):
                return Leaf(name, tuple(indices))
        order = self.choice((1, 2), (0.75, 0.25))
        reads = [depth < DEPTH and self.chance(0.15) for _ in range(order)]
        indices = [self.access(depth + 1) if r else self.choice(self.indices) for r in reads]
        name = self.name([*self.tensors, *self.tables])
        self.leads[name] = self.choice((self.sizes[self.choice(self.indices)], self.choice(SIZES, SIZE_WEIGHTS)))
        self.tables[name] = self.table([self.size(index) for index in indices], self.leads[name])
        return Leaf(name, tuple(indices))

    def table(self, shape: list[int], size: int) -> DenseOperand:
        """A table of integers, most of them from 0 to `size` - 1. A few may be out of range."""
        dtype, number = self.choice(DTYPES, DTYPE_WEIGHTS), prod(shape)
        kind = self.choice(KINDS, KIND_WEIGHTS) if size else "padded"
        if kind == "padded":
            values = self.rng.integers(-2, size + 3, number)
            least, most = max(np.iinfo(dtype).min, -(2**31)), min(np.iinfo(dtype).max, 2**32 - 1)
            far = self.choice((-1, least, min(most, 2**31 - 1), most if dtype == "uint32" else -1))
            values = np.where(self.rng.random(number) < 0.1, far, values)
            values = values if least < 0 else np.abs(values)
        elif kind == "distinct":
            values = self.rng.permutation(max(number, size) + (2 if self.chance(0.3) else 0))[:number]
        else:
            values = self.rng.integers(0, size, number)
            values = np.sort(values) if kind == "sorted" else values
        dtype = dtype if values.max(initial=0) <= np.iinfo(dtype).max else "int32"
        return DenseOperand(tuple(np.asarray(values).tolist()), tuple(shape), dtype)


def _leaves(expression: Sum) -> list[Leaf]:
    return [leaf for _, product in expression.expanded() for leaf in product]


def _inside(leaf: Leaf) -> Iterator[Leaf]:
    """The accesses to tables among the indices of a leaf, and the accesses nested in these."""
    for index in nested(leaf):
        yield index
        yield from _inside(index)
